"""Signals into messages and effects: one function per kind. Everything due is absorbed, always.

Nothing is held back in the inbox. What must wait for a pending call is recorded now, and ``plan`` and
``prompt`` decide when the model sees it. Each function gives the outcome kept with the signal's id.
"""

from collections.abc import Iterable

from torpor.core.calls import (
    ABSORBED,
    SETTLED,
    detach_active,
    give_up_all,
    note,
    release,
    wake,
    wake_if_free,
    watch,
)
from torpor.core.compaction import asked_for, compacted, overdue
from torpor.core.effects import Cancel, Check
from torpor.core.events import hand_out, happened
from torpor.core.family import WITH_PARENT, close, is_parent, rest, stop_below, stopped
from torpor.core.messages import By, Forked, Late, Part, Queued, Result, Resumed, Said, Stopped, Unsubscribed
from torpor.core.signals import (
    AnsweredSignal,
    AnySignal,
    BornSignal,
    ClosedSignal,
    Compacted,
    CompactSignal,
    Due,
    Finished,
    ForkedSignal,
    HappenedSignal,
    Nudged,
    ReportedSignal,
    RequestedSignal,
    SaidSignal,
    StoppedSignal,
    Told,
)
from torpor.core.sleeps import slept
from torpor.core.step import Step
from torpor.core.thread import GIVES_UP, OpenCall, Subscription
from torpor.core.waits import answered, expired, requested
from torpor.core.words import born, reported, told, undelivered

_RANKS: dict[type[object], int] = {
    BornSignal: 0,
    StoppedSignal: 1,
    ClosedSignal: 1,
    Finished: 2,
    AnsweredSignal: 3,
    Due: 4,
    SaidSignal: 5,
    Told: 6,
    RequestedSignal: 6,
    HappenedSignal: 6,
    ReportedSignal: 6,
    Compacted: 7,
    CompactSignal: 7,
    ForkedSignal: 7,
    Nudged: 8,
}


def absorb(step: Step, signals: Iterable[AnySignal]) -> None:
    """Fold signals into the step: stop and close, results, timers, text, news; then order of arrival."""
    batch = _ordered(signals)
    step.arrived = frozenset([signal.call for signal in batch if isinstance(signal, Finished)])
    for signal in batch:
        step.moment = min(step.now, max(signal.at, signal.due))
        closed = step.head.state == "closed"
        step.outcomes[signal.id] = _refused(step, signal) if closed else _absorb(step, signal)
    if step.definition.wake == "each" and any(wait.kind == "call" for wait in step.settled):
        detach_active(step, "each")
    release(step)
    hand_out(step)
    wake_if_free(step)
    rest(step)


def _ordered(signals: Iterable[AnySignal]) -> list[AnySignal]:
    """By kind, then as they came; numbered events of one source stand in their order."""
    batch = sorted(signals, key=_rank)
    numbered: dict[str, list[tuple[int, HappenedSignal]]] = {}
    for place, signal in enumerate(batch):
        if isinstance(signal, HappenedSignal) and signal.seq:
            numbered.setdefault(signal.call, []).append((place, signal))
    for came in numbered.values():
        events = sorted((event for _, event in came), key=lambda event: event.seq)
        for (place, _), event in zip(came, events, strict=True):
            batch[place] = event
    return batch


def _rank(signal: AnySignal) -> int:
    return _RANKS[type(signal)]


def _absorb(step: Step, signal: AnySignal) -> str:
    match signal:
        case Finished():
            return _finished(step, signal)
        case SaidSignal():
            return _said(step, signal)
        case HappenedSignal():
            return happened(step, signal)
        case Due():
            return _due(step, signal)
        case StoppedSignal():
            return _stopped(step, signal)
        case ClosedSignal():
            return _closed(step, signal)
        case Nudged():
            return _nudged(step)
        case RequestedSignal():
            return requested(step, signal)
        case AnsweredSignal():
            return answered(step, signal)
        case Compacted():
            return compacted(step, signal)
        case CompactSignal():
            return asked_for(step)
        case _:
            return _kin(step, signal)


def _kin(step: Step, signal: BornSignal | ReportedSignal | Told | ForkedSignal) -> str:
    match signal:
        case BornSignal():
            return born(step, signal)
        case ReportedSignal():
            return reported(step, signal)
        case Told():
            return told(step, signal)
        case _:
            note(step, Forked(signal.heir, signal.position))
            return ABSORBED


def _refused(step: Step, signal: AnySignal) -> str:
    """Nothing is added to a closed thread; who speaks to it is told so."""
    if isinstance(signal, ReportedSignal | Told):
        undelivered(step, signal)
    return "closed"


def _finished(step: Step, signal: Finished) -> str:
    call = step.open_call(signal.call)
    if signal.cause and (call is None or call.given_up):
        return SETTLED
    if call is None or call.given_up in GIVES_UP:
        return _late(step, signal, call)
    early = signal.call in step.head.gathered
    step.settle(
        Result(
            at=step.moment,
            call=signal.call,
            parts=signal.parts,
            is_error=signal.is_error,
            cause=signal.cause,
            handle=signal.handle,
            size=signal.size,
            display=signal.display,
            subscription=signal.subscription,
            signal=signal.id,
            by=signal.by,
            event_id=signal.event_id,
            occurred_at=signal.occurred_at,
            trace=signal.trace or step.trace,
        )
    )
    if early and signal.call not in step.head.gathered:
        note(step, Unsubscribed(signal.call, "it opened no subscription"))
    step.woken_by = f"the result of {call.name}"
    if signal.call in step.head.subscriptions:
        watch(step, signal.call, step.moment, call.server, held=True)
    return ABSORBED


def _late(step: Step, signal: Finished, call: OpenCall | None) -> str:
    late = Late(signal.call, signal.parts, signal.is_error, signal.handle, signal.size, signal.id)
    note(step, late)
    if signal.subscription and call is not None:
        step.effects.append(Cancel(f"{signal.id}/cancel/late", signal.call, call.server))
    return "late"


def _said(step: Step, signal: SaidSignal) -> str:
    resumed = step.head.state != "open"
    if resumed:
        note(step, Resumed("text"))
    if signal.mode == "queue" and step.head.busy and not resumed:
        note(step, Queued(signal.parts, signal.id, signal.by))
        return "queued"
    if signal.mode == "interrupt":
        give_up_all(step, "interrupted", "Interrupted: the person asked for something else.")
    else:
        detach_active(step, "text")
    say(step, signal.parts, signal.id, signal.by, signal.mode)
    return ABSORBED


def say(step: Step, parts: tuple[Part, ...], signal: str, by: By, mode: str, sent_at: float = 0.0) -> None:
    """Add a person's words to the history; they end passive waits."""
    wake(step, "a person's words", every=True)
    step.add(Said(step.moment, parts, signal, by, mode, sent_at, step.trace))


def say_queued(step: Step) -> None:
    """Say all text that waited for the end of the exchange."""
    for text in step.head.queued:
        say(step, text.parts, text.signal, text.by, "queue", text.at)


def _due(step: Step, signal: Due) -> str:
    match signal.what:
        case "withheld":
            return _overdue(step, signal)
        case "wait":
            return expired(step, signal)
        case "events":
            return ABSORBED  # whatever was gathered is handed out at the end of the batch
        case "status":
            return _checked(step, signal)
        case "compaction":
            return overdue(step, signal)
    call = step.open_call(signal.call)
    if call is None or call.given_up:
        return SETTLED
    if signal.what == "deadline":
        step.give_up(signal.call, call)
        step.settle_here(signal.call, "timeout", "Error: no result came within the time the call was given.")
        step.woken_by = f"the end of the time given to {call.name}"
        return ABSORBED
    step.settle_here(signal.call, "slept", slept(call, signal.due), is_error=False)
    detach_active(step, "sleep")
    step.woken_by, step.wakes_all = "the end of another sleep", True
    return ABSORBED


def _checked(step: Step, signal: Due) -> str:
    """A call is old: its tool server is asked whether it still works on it, now and ever more rarely."""
    call = step.head.subscriptions.get(signal.call) or step.open_call(signal.call)
    if call is None or (isinstance(call, OpenCall) and call.given_up):
        return SETTLED
    held = isinstance(call, Subscription)
    step.effects.append(Check(f"{signal.call}/check/{signal.due:.0f}", signal.call, call.server, held))
    watch(step, signal.call, call.at, call.server, held=held)
    return ABSORBED


def _overdue(step: Step, signal: Due) -> str:
    """Withheld news has waited long enough, unless the model has seen it by now."""
    if step.head.answered >= signal.position or not step.head.withholds:
        return SETTLED
    detach_active(step, "news")
    step.woken_by, step.wakes_all = "news that could not wait", True
    return ABSORBED


def _stopped(step: Step, signal: StoppedSignal) -> str:
    if step.head.state == "stopped":
        stop_below(step, signal)
        return "stopped already"
    give_up_all(step, "stopped", "Stopped: a person stopped the thread.", spared=step.arrived)
    note(step, Stopped(WITH_PARENT if is_parent(step, signal.by) else ""))
    stopped(step, signal)
    return ABSORBED


def _closed(step: Step, signal: ClosedSignal) -> str:
    close(step, signal.by)
    return ABSORBED


def _nudged(step: Step) -> str:
    if step.head.state == "open":
        return "open already"
    note(step, Resumed("nudge"))
    return ABSORBED
