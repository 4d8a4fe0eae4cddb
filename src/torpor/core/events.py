"""Events of subscriptions: those for the thread itself, and those that are given to children of their own."""

from torpor.core.calls import ABSORBED
from torpor.core.messages import Happened
from torpor.core.signals import Due, HappenedSignal
from torpor.core.step import Step
from torpor.core.thread import GIVES_UP, OpenCall


def happened(step: Step, signal: HappenedSignal) -> str:
    """Record an event, for this thread or for a child of its own."""
    subscription = step.head.subscriptions.get(signal.call)
    source = subscription or step.open_call(signal.call)
    if source is None or (isinstance(source, OpenCall) and (source.ended or source.given_up in GIVES_UP)):
        return "no such subscription"
    step.add(
        Happened(
            at=step.moment,
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
            gap=max(0, signal.seq - source.seq - 1),
            occurred_at=signal.occurred_at,
            natural_key=signal.natural_key,
            trace=signal.trace or step.trace,
        )
    )
    step.woken_by = f"an event of {source.name}"
    if signal.final and subscription is not None:
        step.unsubscribed(signal.call, subscription, "final")
    if signal.start_by and step.head.active:
        _insist(step, signal)
    return ABSORBED


def _insist(step: Step, signal: HappenedSignal) -> None:
    """News with a deadline of its own stops waiting for pending calls when that passes."""
    id, at = f"{signal.id}/due", step.head.length
    step.timers.append(Due(step.thread, id, step.now, due=signal.start_by, what="withheld", position=at))


def hand_out(step: Step) -> None:
    """Give gathered events to children of their own, as far as there are places and their time has come."""
