"""Signals into messages and effects: one function per kind. Everything due is absorbed, always.

Nothing is held back in the inbox. What must wait for a pending call is recorded now, and ``plan`` and
``prompt`` decide when the model sees it. Each function gives the outcome kept with the signal's id.
"""

from collections.abc import Iterable

from torpor.core.builtins import slept, woken
from torpor.core.effects import Cancel, Invoke, Notify
from torpor.core.messages import (
    By,
    Closed,
    Detached,
    Happened,
    Late,
    Noted,
    Part,
    Queued,
    Result,
    Resumed,
    Said,
    Sent,
    Stopped,
)
from torpor.core.signals import (
    AnySignal,
    ClosedSignal,
    Due,
    Finished,
    HappenedSignal,
    Nudged,
    SaidSignal,
    StoppedSignal,
)
from torpor.core.step import Step
from torpor.core.thread import GIVES_UP, OpenCall

ABSORBED = "absorbed"

_RANKS: dict[type[object], int] = {
    StoppedSignal: 0,
    ClosedSignal: 0,
    Finished: 1,
    Due: 2,
    SaidSignal: 3,
    HappenedSignal: 4,
    Nudged: 5,
}


def absorb(step: Step, signals: Iterable[AnySignal]) -> None:
    """Fold signals into the step: stop and close, results, timers, text, news; then order of arrival."""
    unsettled = step.head.active
    for signal in sorted(signals, key=_rank):
        step.outcomes[signal.id] = "closed" if step.head.state == "closed" else _absorb(step, signal)
    if unsettled and step.definition.wake == "each":
        _detach_rest(step)
    _release(step)
    if step.woken_by and not step.head.active:
        _wake(step)


def _rank(signal: AnySignal) -> tuple[int, str, int]:
    seq = signal.seq if isinstance(signal, HappenedSignal) else 0
    source = signal.call if seq and isinstance(signal, HappenedSignal) else ""
    return (_RANKS[type(signal)], source, seq)


def _absorb(step: Step, signal: AnySignal) -> str:
    match signal:
        case Finished():
            return _finished(step, signal)
        case SaidSignal():
            return _said(step, signal)
        case HappenedSignal():
            return _happened(step, signal)
        case Due():
            return _due(step, signal)
        case StoppedSignal():
            return _stopped(step)
        case ClosedSignal():
            return _closed(step)
        case Nudged():
            return _nudged(step)


def _finished(step: Step, signal: Finished) -> str:
    call = step.open_call(signal.call)
    if signal.cause and (call is None or call.given_up):
        return "settled already"
    if call is None or call.given_up in GIVES_UP:
        return _late(step, signal, call)
    step.settle(
        Result(
            at=step.now,
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
    step.woken_by = f"the result of {call.name}"
    return ABSORBED


def _late(step: Step, signal: Finished, call: OpenCall | None) -> str:
    note = Late(signal.call, signal.parts, signal.is_error, signal.handle, signal.size, signal.id)
    _note(step, note)
    if signal.subscription:
        server = call.server if call else ""
        step.effects.append(Cancel(f"{signal.call}/cancel/late", signal.call, server))
    return "late"


def _happened(step: Step, signal: HappenedSignal) -> str:
    subscription = step.head.subscriptions.get(signal.call)
    source = subscription or step.open_call(signal.call)
    if source is None or (isinstance(source, OpenCall) and source.given_up in GIVES_UP):
        return "no such subscription"
    seen = subscription.seq if subscription else 0
    step.add(
        Happened(
            at=step.now,
            call=signal.call,
            name=source.name,
            arguments=source.arguments,
            parts=signal.parts,
            handle=signal.handle,
            size=signal.size,
            final=signal.final,
            associative=signal.associative,
            signal=signal.id,
            by=signal.by,
            event_id=signal.event_id,
            seq=signal.seq,
            gap=max(0, signal.seq - seen - 1) if signal.seq else 0,
            occurred_at=signal.occurred_at,
            natural_key=signal.natural_key,
            trace=signal.trace or step.trace,
        )
    )
    step.woken_by = f"an event of {source.name}"
    if signal.start_by:
        _insist(step, signal)
    return ABSORBED


def _insist(step: Step, signal: HappenedSignal) -> None:
    """News with a deadline of its own stops waiting for pending calls when that passes."""
    if step.head.active:
        due = Due(step.thread, f"{signal.id}/due", step.now, due=signal.start_by, what="withheld")
        step.timers.append(due)


def _said(step: Step, signal: SaidSignal) -> str:
    if step.head.state in ("parked", "stopped"):
        _note(step, Resumed("text"))
    if signal.mode == "queue" and step.head.exchange.open:
        _note(step, Queued(signal.parts, signal.id, signal.by))
        return "queued"
    if signal.mode == "interrupt":
        give_up_all(step, "interrupted", "Interrupted: the person asked for something else.")
    elif step.head.active:
        _detach(step, _active(step), "text")
    say(step, signal.parts, signal.id, signal.by, signal.mode)
    return ABSORBED


def say(step: Step, parts: tuple[Part, ...], signal: str, by: By, mode: str, sent_at: float = 0.0) -> None:
    """Add a person's words to the history; they end passive waits."""
    _wake(step, "a person's words")
    step.add(Said(step.now, parts, signal, by, mode, sent_at, step.trace))


def say_queued(step: Step) -> None:
    """Say all text that waited for the end of the exchange."""
    for text in step.head.queued:
        say(step, text.parts, text.signal, text.by, "queue", text.at)


def _due(step: Step, signal: Due) -> str:
    if signal.what == "withheld":
        return _overdue(step)
    call = step.open_call(signal.call)
    if call is None or call.given_up:
        return "settled already"
    if signal.what == "deadline":
        step.settle_here(signal.call, "timeout", "Error: no result came within the time the call was given.")
        step.give_up(signal.call, call)
        step.woken_by = f"the end of the time given to {call.name}"
        return ABSORBED
    step.settle_here(signal.call, "slept", slept(call, step.now), is_error=False)
    if step.head.active:
        _detach(step, _active(step), "sleep")
    step.woken_by = "the end of another sleep"
    return ABSORBED


def _overdue(step: Step) -> str:
    if not step.head.active:
        return "settled already"
    _detach(step, _active(step), "news")
    step.woken_by = "news that could not wait"
    return ABSORBED


def _stopped(step: Step) -> str:
    if step.head.state == "stopped":
        return "stopped already"
    give_up_all(step, "stopped", "Stopped: a person stopped the thread.")
    _note(step, Stopped())
    return ABSORBED


def _closed(step: Step) -> str:
    give_up_all(step, "stopped", "Stopped: the thread was closed.")
    for id, subscription in step.head.subscriptions.items():
        step.effects.append(Cancel(f"{id}/cancel", id, subscription.server))
    _note(step, Closed())
    step.effects.append(Notify(f"{step.thread}/closed"))
    return ABSORBED


def _nudged(step: Step) -> str:
    if step.head.state != "open":
        _note(step, Resumed("nudge"))
    return ABSORBED


def give_up_all(step: Step, cause: str, text: str) -> None:
    """Settle every call that may still get a result, and tell whoever works on it."""
    for id, call in _in_order(step.head.pending) + _in_order(step.head.detached):
        if call.given_up:
            continue
        step.give_up(id, call)
        step.settle_here(id, cause, text)


def _active(step: Step) -> tuple[str, ...]:
    return tuple(id for id, call in _in_order(step.head.pending) if not call.passive)


def _detach(step: Step, calls: tuple[str, ...], why: str) -> None:
    _note(step, Detached(calls, why))


def _detach_rest(step: Step) -> None:
    rest = _active(step)
    if rest and step.woken_by:
        _detach(step, rest, "each")


def _wake(step: Step, by: str = "") -> None:
    """Settle the sleeps that news has ended."""
    for id, call in _in_order(step.head.pending):
        if call.passive:
            step.settle_here(id, "woken", woken(call, step.now, by or step.woken_by), is_error=False)


def _release(step: Step) -> None:
    """Send calls over the parallel limit, in call order, as places are free in their turn."""
    places: dict[int, int] = {}
    released: list[tuple[str, OpenCall]] = []
    waiting: list[tuple[str, OpenCall]] = []
    for id, call in _in_order({**step.head.pending, **step.head.detached}):
        if call.held:
            waiting.append((id, call))
        elif not (call.passive or call.given_up):
            places[call.turn] = places.get(call.turn, 0) + 1
    for id, call in waiting:
        if places.get(call.turn, 0) < step.definition.limits.parallel:
            places[call.turn] = places.get(call.turn, 0) + 1
            released.append((id, call))
    if released:
        _note(step, Sent(tuple(id for id, _ in released)))
        for id, call in released:
            send(step, id, call.name, call.arguments, call.server, call.repeat)


def send(step: Step, id: str, name: str, arguments: str, server: str, repeat: str) -> None:
    """Decide that a call goes out now; its deadline, if it has one, begins."""
    step.effects.append(
        Invoke(f"{id}/invoke", id, name, arguments, server, repeat, at=step.now, trace=step.trace)
    )
    spec = step.definition.tools.get(name)
    if server and spec is not None and spec.timeout:
        due = step.now + spec.timeout
        step.timers.append(Due(step.thread, f"{id}/deadline", step.now, due=due, call=id, what="deadline"))


def _in_order(calls: dict[str, OpenCall]) -> list[tuple[str, OpenCall]]:
    return sorted(calls.items(), key=lambda entry: (entry[1].turn, entry[1].index))


def _note(step: Step, note: Late | Queued | Resumed | Sent | Detached | Stopped | Closed) -> None:
    step.add(Noted(step.now, note, step.trace))
