"""What becomes of open calls: sent out, detached, woken, given up."""

from torpor.core import consent
from torpor.core.checks import check_id, next_check
from torpor.core.effects import BRIDGED, Invoke
from torpor.core.messages import Call, Detached, Note, Noted, Sent
from torpor.core.signals import AnySignal, Due
from torpor.core.sleeps import woken
from torpor.core.step import Step
from torpor.core.thread import OpenCall

ABSORBED = "absorbed"
SETTLED = "settled already"


def note(step: Step, fact: Note) -> None:
    """Append a fact of the thread's life."""
    step.add(Noted(step.moment, fact, step.trace))


def in_order(calls: dict[str, OpenCall]) -> list[tuple[str, OpenCall]]:
    """Calls by turn, then in call order."""
    if len(calls) < 2:
        return list(calls.items())
    return sorted(calls.items(), key=lambda entry: (entry[1].turn, entry[1].index))


def send(step: Step, id: str, call: Call | OpenCall, opened: float) -> None:
    """Decide that a call, opened at ``opened``, goes out now; its deadline, if it has one, begins."""
    step.effects.append(
        Invoke(
            f"{id}/invoke",
            id,
            call.name,
            call.arguments,
            call.server,
            call.repeat,
            at=step.now,
            trace=step.trace,
            digest=call.digest if isinstance(call, OpenCall) else "",
        )
    )
    watch(step, id, opened, call.server)
    spec = step.definition.tools.get(call.name)
    if call.server and spec is not None and spec.timeout:
        due = step.now + spec.timeout
        step.timers.append(Due(step.thread, f"{id}/deadline", step.now, due=due, call=id, what="deadline"))


def watch(step: Step, call: str, at: float, server: str, *, held: bool = False) -> None:
    """Write the timer of the next question about a call, or a subscription (``held``), opened at ``at``."""
    if server and not server.startswith(BRIDGED):
        number, due = next_check(at, step.now)
        id = check_id(call, number, held=held)
        step.timers.append(Due(step.thread, id, step.now, due=due, call=call, what="status"))


def release(step: Step) -> None:
    """Send calls over the parallel limit, in call order, as places are free in their turn."""
    if not (step.head.pending or step.head.detached):
        return
    calls = in_order(step.head.pending) + in_order(step.head.detached)
    places: dict[int, int] = {}
    for _, call in calls:
        if not (call.held or call.passive or call.given_up):
            places[call.turn] = places.get(call.turn, 0) + 1
    released: list[tuple[str, OpenCall]] = []
    for id, call in calls:
        if not call.held or call.approval or _is_stale(step, id, call):
            continue
        taken = places.get(call.turn, 0)
        if taken < step.definition.limits.parallel:
            places[call.turn] = taken + 1
            released.append((id, call))
    if released:
        note(step, Sent(tuple(id for id, _ in released)))
    for id, call in released:
        send(step, id, call, call.at)


def _is_stale(step: Step, id: str, call: OpenCall) -> bool:
    """Settle a held call that is no longer what was approved, or that needs approval by now."""
    why = consent.objection(step.definition, call.name, call.arguments, call.digest)
    if why:
        step.settle_here(id, "stale", consent.told(call.name, why))
        step.woken_by = f"the end of {call.name}"
    return bool(why)


def insist(step: Step, signal: AnySignal) -> None:
    """News with a deadline of its own stops waiting for pending calls when that passes."""
    if signal.start_by and step.head.withholds:
        id, at = f"{signal.id}/due", step.head.length
        step.timers.append(Due(step.thread, id, step.now, due=signal.start_by, what="withheld", position=at))


def detach_active(step: Step, why: str) -> None:
    """Let pending calls go on without holding the thread back."""
    active = tuple(id for id, call in in_order(step.head.pending) if not call.passive)
    if active:
        asked = {wait.call for wait in step.head.waits.values()}
        note(step, Detached(active, why, tuple(id for id in active if id in asked)))


def wake(step: Step, by: str, *, every: bool = False) -> None:
    """Settle the sleeps that news has ended, and the waits whose news is there, or all (``every``)."""
    for id, call in in_order(step.head.pending):
        if call.passive and (every or not call.needs):
            step.settle_here(id, "woken", woken(call, step.moment, by), is_error=False)


def wake_if_free(step: Step) -> None:
    """News ends passive waits, unless work in progress holds it back."""
    over = any(call.is_over for call in step.head.pending.values())
    if (step.woken_by or over) and not step.head.active:
        wake(step, step.woken_by, every=step.wakes_all)


def give_up_all(step: Step, cause: str, text: str, spared: frozenset[str] = frozenset()) -> None:
    """Settle every call that may still get a result, and tell whoever works on it."""
    for id, call in in_order(step.head.pending) + in_order(step.head.detached):
        if call.given_up or id in spared:
            continue
        step.give_up(id, call)
        step.settle_here(id, cause, text)
