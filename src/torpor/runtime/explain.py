"""What a thread waits for and since when, in data and in words."""

from collections.abc import Mapping, Sequence

import msgspec

from torpor.core.compaction import TRIES
from torpor.core.effects import BRIDGED, Invoke
from torpor.core.moves import AWAY
from torpor.core.plan import owes_now
from torpor.core.record import SliceRecord
from torpor.core.request import instant
from torpor.core.signals import AnySignal, Due, is_urgent
from torpor.core.thread import Head, OpenCall, OpenWait
from torpor.core.tiers import not_before, start_by
from torpor.core.views import Progress
from torpor.ports import OutboxRow, Row

WHY_SHOWN = 300
"""Characters of a model's failure that are shown."""


class Waiting(msgspec.Struct, frozen=True):
    """One thing that a thread waits for. ``until`` 0: nobody knows when it ends."""

    id: str
    kind: str
    """``call``, ``sleep``, ``detached``, ``subscription``, ``child``, ``events``, ``choice``, ``form``,
    ``authorization``, ``approval``, ``summary``, ``manifest``, ``retry``, ``slice`` or ``agent``."""
    name: str
    since: float
    until: float = 0.0
    blocks: bool = True
    """The model is not asked before it ends."""
    note: str = ""
    """What more is known: why the model failed, or that no tool server has accepted the call yet."""


class Explanation(msgspec.Struct, frozen=True):
    """Why a thread is not running now."""

    thread: str
    agent: str
    state: str
    reason: str
    owes: bool
    received: int
    """Signals that have come and are not yet absorbed."""
    waits: tuple[Waiting, ...]
    text: str


class Known(msgspec.Struct, frozen=True):
    """All that a thread is explained from, as of one instant."""

    row: Row
    head: Head
    inbox: Sequence[AnySignal]
    outbox: Sequence[OutboxRow]
    now: float
    last: SliceRecord | None = None
    """The record of its latest slice."""
    agents: Sequence[str] = ()
    """The agents that are known here; none: nobody is asked."""
    servers: Sequence[str] = ()
    """Base URLs of its agent's tool servers, where they are known."""
    progress: Mapping[str, Progress] = {}
    """How far calls have come, as their tool servers say."""

    @property
    def received(self) -> int:
        """How many signals have come and are not absorbed."""
        return sum(1 for signal in self.inbox if signal.due <= self.now)

    def due(self, *kinds: str) -> dict[str, float]:
        """When timers of some kinds end, by what they are for."""
        return {one.call: one.due for one in self.inbox if isinstance(one, Due) and one.what in kinds}


def explain(known: Known) -> Explanation:
    """Explain a thread."""
    row, head = known.row, known.head
    waits = (
        *_calls(known),
        *_people(head),
        *_subscriptions(head),
        *_gathered(known),
        *_children(head),
        *_summary(head),
        *_slices(known),
    )
    text = _words(row, head, waits, known.now) + _unsummed(head)
    return Explanation(
        row.thread, row.agent, row.state, head.reason, owes_now(head), known.received, waits, text
    )


def _calls(known: Known) -> list[Waiting]:
    due = known.due("sleep", "deadline")
    notes = _notes(known)
    pending = [
        Waiting(id, kind, call.name, call.at, due.get(id, 0.0), note=notes[id])
        for id, call in known.head.pending.items()
        if (kind := "sleep" if call.passive else "call")
    ]
    detached = [
        Waiting(id, "detached", call.name, call.at, due.get(id, 0.0), False, notes[id])
        for id, call in known.head.detached.items()
        if not call.given_up
    ]
    return pending + detached


def _notes(known: Known) -> dict[str, str]:
    """What more is known of each open call: how far it is on its way, or how far its tool has come."""
    unsent = {row.effect.call: row for row in known.outbox if isinstance(row.effect, Invoke)}
    done = known.progress
    return {
        id: _sending(call, id, unsent, known.now) or (_come(done[id], known.now) if id in done else "")
        for id, call in {**known.head.pending, **known.head.detached}.items()
    }


def _come(progress: Progress, now: float) -> str:
    """How far a call has come, and how long ago that was said: its server may be gone since."""
    since = f", said {max(0.0, now - progress.at):.0f} s ago" if progress.at else ""
    return f"{progress.words}{since}" if progress.words else ""


def _sending(call: OpenCall, id: str, unsent: Mapping[str, OutboxRow], now: float) -> str:
    """How far a call has come on its way to what does it; empty: all the way."""
    if call.approval:
        return "not begun: no person has approved it yet"
    if call.held:
        return "not begun: the calls before it fill the parallel limit"
    left = unsent.get(id)
    if left is None:
        return ""
    if call.server.startswith(BRIDGED):
        again = f"looked at again at {instant(left.not_before)}"
        return again if left.not_before > now and left.claimed_until <= now else ""
    if left.claimed_until > now:
        tried = call.server and left.attempt > 1
        return f"not accepted by its tool server yet, try {left.attempt} is under way" if tried else ""
    when = f"next at {instant(left.not_before)}" if left.not_before > now else "next when a worker looks"
    if call.server:
        tries = f"{left.attempt} {'try' if left.attempt == 1 else 'tries'}"
        return f"not accepted by its tool server yet, {tries}, {when}"
    if left.claimed_until:
        return f"its process is gone, {when}"
    return f"{'given back' if left.attempt else 'not begun yet'}, {when}"


def _subscriptions(head: Head) -> list[Waiting]:
    return [
        Waiting(id, "subscription", open_.name, open_.at, blocks=False)
        for id, open_ in head.subscriptions.items()
    ]


def _people(head: Head) -> list[Waiting]:
    return [
        Waiting(id, wait.kind, wait.name, wait.at, wait.deadline, wait.call in head.pending, _asked(wait))
        for id, wait in head.waits.items()
    ]


def _asked(wait: OpenWait) -> str:
    if wait.kind == "approval":
        return f"its arguments are {_cut(wait.arguments)}"
    choices = f" ({' | '.join(map(_cut, wait.choices))})" if wait.choices else ""
    return f'asked is: "{_cut(wait.prompt)}"{choices}' if wait.prompt else ""


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= WHY_SHOWN else f"{words[: WHY_SHOWN - 1]}…"


def _children(head: Head) -> list[Waiting]:
    """Living children that have not come to rest: their reports may come."""
    return [
        Waiting(id, "child", f"{id} ({child.title})" if child.title else id, child.at, blocks=False)
        for id, child in head.children.items()
        if child.state == "open"
    ]


def _gathered(known: Known) -> list[Waiting]:
    """Events that no child has been given yet: their time has not come, or there is no place."""
    head = known.head
    working = sum(child.purpose == "event" for child in head.children.values())
    places = f", {_count(working, 'child')} at work on earlier ones" if working else ""
    due = known.due("events")
    return [
        Waiting(
            f"{id}/events",
            "events",
            source.name if (source := head.subscriptions.get(id) or head.detached.get(id)) else id,
            held.since,
            due.get(id, 0.0) if id in head.subscriptions else 0.0,
            False,
            f"{_count(len(held.positions), 'event')} gathered{places}",
        )
        for id, held in head.gathered.items()
    ]


def _count(number: int, what: str) -> str:
    plural = "children" if what == "child" else f"{what}s"
    return f"{number} {what if number == 1 else plural}"


def _summary(head: Head) -> list[Waiting]:
    begun = head.compaction
    return [Waiting(begun.child, "summary", begun.child, begun.at, blocks=begun.blocking)] if begun else []


def _slices(known: Known) -> list[Waiting]:
    row, owes = known.row, owes_now(known.head)
    if owes and known.last is not None and known.last.yielded == "equipping":
        missing = [url for url in known.servers if url not in known.head.toolsets] or ["its tool servers"]
        since = known.head.exchange.since or row.updated
        return [Waiting(f"{row.thread}/manifest", "manifest", url, since) for url in missing]
    if row.not_before > known.now:
        return [
            Waiting(f"{row.thread}/retry", "retry", row.agent, row.updated, row.not_before, note=_why(known))
        ]
    if not (known.received or owes) or row.state == "closed" or row.state in AWAY:
        return []
    rung = _rung(known)
    if known.agents and row.agent not in known.agents:
        name = f"{row.agent} (known here: {', '.join(known.agents)})"
        return [Waiting(f"{row.thread}/slice", "agent", name, min(rung, known.now))]
    if rung > known.now:
        came = min((signal.at for signal in known.inbox if signal.due <= known.now), default=row.updated)
        return [Waiting(f"{row.thread}/slice", "slice", row.agent, came, rung, note=_why(known))]
    return [Waiting(f"{row.thread}/slice", "slice", row.agent, rung, note=_why(known))]


def _rung(known: Known) -> float:
    """The instant from which on a worker may run the next slice."""
    row, signals = known.row, [signal for signal in known.inbox if signal.due <= known.now]
    rings = [max(row.not_before, _rings_at(signal, row.tier)) for signal in signals]
    if owes_now(known.head):
        rings.append(max(row.not_before, row.updated))
    return min(rings, default=max(row.not_before, row.updated))


def _rings_at(signal: AnySignal, tier: str) -> float:
    """When a signal has its thread looked at: news gathers company for as long as its tier lets it."""
    if signal.due:
        return signal.due
    chosen = "realtime" if is_urgent(signal) else getattr(signal, "tier", "") or tier
    return not_before(chosen, start_by(chosen, signal.at))


def _why(known: Known) -> str:
    """Why the model failed last; empty if it did not."""
    last, attempt = known.last, known.row.attempt
    if not attempt:
        return ""
    error = last.error if last is not None and last.yielded == "failed" else ""
    shown = _cut(error.rstrip(". \n"))
    count = "once" if attempt == 1 else f"{attempt} times"
    return f"failed {count}: {shown}" if shown else f"failed {count}"


def _words(row: Row, head: Head, waits: Sequence[Waiting], now: float) -> str:
    if row.state != "open":
        return f"The thread is {row.state}{': ' + head.reason if head.reason else '.'}"
    if not waits:
        return "The thread is idle: nothing is owed and nothing is pending."
    return "The thread waits for " + "; ".join(_phrase(wait, now) for wait in waits) + "."


def _unsummed(head: Head) -> str:
    """What became of summaries of its history, if nothing did."""
    if not head.uncompacted or head.state == "closed":
        return ""
    if head.uncompacted < TRIES:
        return f" The last try to sum up its history brought nothing: {head.uncompacted_why}"
    return f" Its history is not summed up by itself any more: {head.uncompacted_why}"


def _phrase(wait: Waiting, now: float) -> str:
    until = f", until {instant(wait.until)}" if wait.until else ""
    note = f", {wait.note}" if wait.note else ""
    since = f"for {now - wait.since:.0f} s"
    match wait.kind:
        case "retry" if wait.note:
            return f"its model, which {wait.note}; it is asked again at {instant(wait.until)}"
        case "retry":
            return f"its model, whose provider wants no request before {instant(wait.until)}"
        case "slice":
            return _next_slice(wait, since)
        case "manifest":
            return f"the manifest of {wait.name} ({since})"
        case "agent":
            return f"a worker that knows the agent {wait.name}"
        case "subscription":
            return f"events of {wait.name} ({since})"
        case "child":
            return f"word of its child {wait.name} ({since})"
        case "events":
            return f"a child for events of {wait.name} ({since}{until}{note})"
        case "summary":
            return f"the summary of its history that {wait.name} writes ({since})"
        case "choice" | "form" | "authorization" | "approval":
            return f"a person's {wait.kind} for {wait.name} ({since}{until}{note})"
        case "detached":
            return f"the late result of {wait.name} ({since}{until}{note})"
        case _:
            return f"{wait.name} ({since}{until}{note})"


def _next_slice(wait: Waiting, since: str) -> str:
    if wait.until:
        return f"more news until {instant(wait.until)}, when its next slice is due ({since})"
    again = f"; its model {wait.note}" if wait.note else ""
    return f"a worker to run its next slice ({since}){again}"
