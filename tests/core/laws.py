"""What must hold of a played thread at every moment, whatever happened to it."""

from tests.core.playing import Played
from torpor.core.effects import Invoke
from torpor.core.head import OpenCall
from torpor.core.messages import (
    Call,
    Happened,
    Late,
    Noted,
    Parked,
    Queued,
    Reported,
    Result,
    Said,
    Turn,
    text_of,
)
from torpor.core.request import item_text
from torpor.core.signals import AnySignal, Due, Finished, HappenedSignal, ReportedSignal, SaidSignal
from torpor.core.thread import LEAVES_OPEN

NEWS = SaidSignal | Finished | HappenedSignal | ReportedSignal
"""Signals with words in them."""

REASONS = {
    "closed",
    "late",
    "no such subscription",
    "no such thread in its family",
    "open already",
    "queued",
    "settled already",
    "stopped already",
}


def check_laws(played: Played, absorbed: list[AnySignal]) -> None:
    """All of them."""
    check_calls(played)
    check_effects(played)
    check_asleep(played)
    check_signals(played, absorbed)
    check_words(played, absorbed)


def check_calls(played: Played) -> None:
    """No call is lost: each is open, or settled once, and once more only where the runtime gave it up."""
    head = played.head
    results: dict[str, list[Result]] = {}
    for result in played.all(Result):
        results.setdefault(result.call, []).append(result)
    made = [part for turn in played.all(Turn) for part in turn.parts if isinstance(part, Call)]
    assert len({call.id for call in made}) == len(made)
    for call in made:
        got = results.pop(call.id, [])
        open_ = head.pending.get(call.id) or head.detached.get(call.id)
        assert not (call.id in head.pending and call.id in head.detached)
        if open_ is not None and not open_.given_up:
            assert got == []
            continue
        assert len(got) in {1, 2}
        if len(got) == 2:
            assert got[0].cause in LEAVES_OPEN
            assert got[1].cause not in LEAVES_OPEN
    assert results == {}


def check_effects(played: Played) -> None:
    """Every call is sent at most once, no id stands for two effects, and timers belong to open calls."""
    ids = [effect.id for effect in played.effects]
    assert len(set(ids)) == len(ids)
    sent = set(played.invoked)
    for effect in played.effects:
        if not isinstance(effect, Invoke) and effect.id.endswith("/cancel"):
            assert effect.id.removesuffix("/cancel") in sent
    for timer in played.timers.values():
        assert isinstance(timer, Due)
        if timer.what in ("sleep", "deadline", "status") and timer.due > played.now:
            held = timer.id.startswith(f"{timer.call}/held")
            open_ = played.head.pending.get(timer.call) or played.head.detached.get(timer.call)
            assert timer.call in played.head.subscriptions if held else open_ is not None, timer
            assert held or (open_ is not None and not open_.given_up), timer


def check_asleep(played: Played) -> None:
    """A thread that sleeps can be woken by something, and by all news if it only sleeps."""
    head = played.head
    if head.state != "open":
        return
    assert head.pending or not head.queued or head.owes
    assert not (head.queued and not head.busy)
    for id, call in head.pending.items():
        assert _can_end(played, id, call), f"nothing ends {id}"
    for id, call in head.detached.items():
        assert call.given_up or _can_end(played, id, call), f"nothing ends {id}"
    if head.pending and not head.active:
        assert not any(call.is_over for call in head.pending.values())
        unseen = played.messages[head.answered :]
        assert not any(isinstance(message, Said) for message in unseen)
        if not head.withholds:
            assert not any(isinstance(message, Happened) and not message.threaded for message in unseen)
            assert not any(isinstance(message, Reported) and message.owes for message in unseen)
            assert not any(isinstance(message, Result) and message.signal for message in unseen)


def _can_end(played: Played, id: str, call: OpenCall) -> bool:
    if call.passive:
        head = played.head
        known = head.children.keys() | head.subscriptions.keys() | head.detached.keys()
        news = call.name == "sleep_until_event_or_input" or known & set(call.awaits)
        return bool(news) or f"{id}/sleep" in played.timers
    if not call.held:
        return id in played.invoked
    calls = {**played.head.pending, **played.head.detached}.values()
    beside = [c for c in calls if c.turn == call.turn and not (c.held or c.passive or c.given_up)]
    return len(beside) >= played.definition.limits.parallel


def check_signals(played: Played, absorbed: list[AnySignal]) -> None:
    """Each signal is a message exactly once, or has a recorded reason."""
    traces: dict[str, int] = {}
    for message in played.messages:
        source = message.note if isinstance(message, Noted) else message
        if isinstance(source, Said | Result | Happened | Late | Reported):
            traces[source.signal] = traces.get(source.signal, 0) + 1
    queued = {text.signal for text in played.all(Queued)}
    for signal in absorbed:
        outcome = played.outcomes[signal.id]
        if isinstance(signal, NEWS) and outcome in {"absorbed", "late"}:
            assert traces.get(signal.id) == 1, signal
        elif outcome == "queued":
            waits = any(text.signal == signal.id for text in played.head.queued)
            assert signal.id in queued
            assert traces.get(signal.id, 0) == (0 if waits else 1) or played.head.state == "closed"
        else:
            assert outcome in REASONS | {"absorbed"}, outcome


def _is_silent(signal: AnySignal) -> bool:
    return isinstance(signal, ReportedSignal) and signal.what == "rested"


def check_words(played: Played, absorbed: list[AnySignal]) -> None:
    """What came is shown to the model, unless it was set aside, still waits, or has a recorded reason."""
    projection = played.projection.fork()
    projection.show()
    shown = "\n".join(item_text(item) for item in projection.items)
    aside = any(note.aside for note in played.all(Parked))
    waiting = "\n".join(text_of(text.parts) for text in played.head.queued)
    threaded = {event.signal for event in played.all(Happened) if event.threaded}
    for signal in absorbed:
        if isinstance(signal, NEWS) and signal.id not in threaded and not _is_silent(signal):
            words = text_of(signal.parts).strip()
            reasoned = played.outcomes[signal.id] not in {"absorbed", "queued"}
            lost = played.head.state == "closed" and played.outcomes[signal.id] == "queued"
            assert words in shown or words in waiting or aside or reasoned or lost, signal
