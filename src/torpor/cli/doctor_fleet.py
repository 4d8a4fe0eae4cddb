"""What is said of a store's workers and of the work that waits for them.

Work that is merely under way is fine, however much of it there is. Something is wrong only if nothing will
cure it but a person.
"""

from collections.abc import Iterator, Sequence

from torpor.cli.screen import duration
from torpor.core.tiers import start_by
from torpor.ports.checkup import Due, Finding, Level, Survey
from torpor.runtime.presence import GOOD_FOR, Here

SKEW = 2.0
"""Seconds by which this machine's clock may differ from the store's before that is worth a word."""
DRIFT = 60.0
YEAR_2024 = 1_704_067_200.0

BEHIND = 30.0
"""Seconds after the instant at which work had to begin that are nothing special: a worker was killed, and
what it held became free."""
STUCK = 120.0
"""Seconds after which nobody works on it, if nobody works on anything."""
UNSWEPT = 60.0


def fleet(survey: Survey, workers: Sequence[Here], named: Sequence[str]) -> Iterator[Finding]:
    """All of it. ``named``: the agents of the settings."""
    yield _workers(survey, workers)
    yield from _versions(workers)
    yield from _unknown(survey, workers, named)
    yield from _budget(survey, workers)
    yield from _sweep(survey, workers)
    yield from _threads(survey, workers)
    yield from _effects(survey)
    if survey.parked:
        told = f"{_threads_are(survey.parked)} parked: `torpor threads --state parked` says why"
        yield Finding("note", "parked", told)


def clock(survey: Survey) -> Finding:
    """Whether clocks agree with what is stored."""
    ahead = survey.newest - survey.now
    if survey.now < YEAR_2024:
        return Finding("wrong", "clock", f"it is before 2024 here ({survey.now:.0f}); set the clock")
    if ahead > DRIFT:
        told = f"threads were written {ahead:.0f} s in the future: the clock was set back"
        return Finding("wrong", "clock", told)
    if abs(survey.ahead) > SKEW:
        told = f"the server's is {survey.ahead:+.1f} s from this machine's; the server's counts, for all"
        return Finding("note", "clock", told)
    return Finding("fine", "clock", "agrees with what is stored")


def _workers(survey: Survey, workers: Sequence[Here]) -> Finding:
    if not workers:
        return Finding("note", "workers", "none runs now")
    told = "; ".join(
        f"{here.worker} runs {', '.join(here.agents)} (last seen {ago:.0f} s ago)"
        for here in workers
        for ago in [max(0.0, survey.now - here.seen)]
    )
    if not any(here.is_overdue(survey.now) for here in workers):
        return Finding("fine", "workers", told)
    return Finding("note", "workers", f"{told}. One that was killed counts as there for {GOOD_FOR:.0f} s")


def _versions(workers: Sequence[Here]) -> Iterator[Finding]:
    releases = sorted({here.release for here in workers if here.release})
    if len(releases) > 1:
        told = f"of several releases run: {', '.join(releases)}. Finish the restart of the older ones"
        yield Finding("note", "workers", told)


def _unknown(survey: Survey, workers: Sequence[Here], named: Sequence[str]) -> Iterator[Finding]:
    running = _agents(workers)
    for agent in sorted({*survey.agents, *named} - running) if workers else ():
        told = "has threads that will wait" if agent in survey.agents else "is in the settings"
        yield Finding("note", "agents", f"no worker runs {agent!r}, which {told}")


def _budget(survey: Survey, workers: Sequence[Here]) -> Iterator[Finding]:
    most = survey.per_process * len(workers)
    if most > survey.connections:
        told = (
            f"{len(workers)} workers may open {most} connections, and the server lets {survey.connections} "
            "in: raise max_connections, or lower ?pool="
        )
        yield Finding("note", "postgres", told)


def _sweep(survey: Survey, workers: Sequence[Here]) -> Iterator[Finding]:
    last = max((here.swept for here in workers), default=0.0)
    if not last:
        return
    ago, every = survey.now - last, max(here.every for here in workers)
    if ago > UNSWEPT + 2 * every:
        told = f"none has come through for {duration(ago)}: look for torpor.sweep in the logs of the workers"
        yield Finding("wrong", "sweep", told)
    else:
        yield Finding("fine", "sweep", f"the last one at most {duration(ago)} ago")


def _threads(survey: Survey, workers: Sequence[Here]) -> Iterator[Finding]:
    held = sum(due.held for due in survey.due)
    under_way = f"; {held} under way" if held else ""
    waiting = [due for due in survey.due if due.waiting]
    if not waiting:
        yield Finding("fine", "threads", f"none waits for a worker{under_way}")
    fresh = [here for here in workers if not here.is_overdue(survey.now)]
    for due in waiting:
        level, cure = _judged(due, survey, _agents(fresh), _agents(workers))
        since = duration(survey.now - due.since)
        told = f"{_threads_of(due)} work that is due, since {since}"
        yield Finding(level, "threads", f"{told}: {cure}{under_way}")


def _judged(due: Due, survey: Survey, fresh: set[str], running: set[str]) -> tuple[Level, str]:
    """How bad it is that these wait, and what to do."""
    late = survey.now - start_by(due.tier, due.since)
    if due.agent not in running:
        return ("wrong" if late >= 0 else "note"), f"start a worker for {due.agent}"
    if due.agent not in fresh:
        return "note", "the workers that run it have not spoken for a while; if they were killed, start one"
    if late <= BEHIND:
        return "fine", "workers take them up"
    if late > STUCK and not survey.leased:
        return "wrong", "workers run, and none takes them up: look at their logs, then restart them"
    busy = f"{survey.leased} are under way" if survey.leased else "none is under way"
    return "note", f"{duration(late)} late, while {busy}: start more workers, raise `workers`, or owner_cap"


def _effects(survey: Survey) -> Iterator[Finding]:
    if not survey.left:
        yield Finding("fine", "effects", f"{survey.effects} on their way" if survey.effects else "none waits")
        return
    ago = survey.now - survey.left_since
    told = f"{survey.left} were left by who performed them, the first {duration(ago)} ago"
    if ago <= BEHIND:
        yield Finding("fine", "effects", f"{told}: workers take them up")
    elif ago > STUCK and not survey.leased:
        yield Finding("wrong", "effects", f"{told}, and nobody takes them up: start workers for their agents")
    else:
        yield Finding("note", "effects", f"{told}: workers that run their agents take them up")


def _agents(workers: Sequence[Here]) -> set[str]:
    return {agent for here in workers for agent in here.agents}


def _threads_of(due: Due) -> str:
    words = "thread of {} ({}) has" if due.waiting == 1 else "threads of {} ({}) have"
    return f"{due.waiting} {words.format(due.agent, due.tier)}"


def _threads_are(count: int) -> str:
    return f"{count} thread{' is' if count == 1 else 's are'}"
