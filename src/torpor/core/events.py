"""Events of subscriptions: those for the thread itself, and those that are given to children of their own."""

from torpor.core.calls import ABSORBED, insist
from torpor.core.head import Gathered, OpenCall, Subscription
from torpor.core.messages import Happened
from torpor.core.signals import Due, HappenedSignal
from torpor.core.spawning import allowance, child_id, lineage, share, spawn
from torpor.core.step import Step
from torpor.core.thread import GIVES_UP

PART = 64
MOST = 8
"""The part of the threads that are left which may live below a child that works on events, and how many at
most: one that is set aside keeps its places."""


def happened(step: Step, signal: HappenedSignal) -> str:
    """Record an event, for this thread or for a child of its own."""
    subscription = step.head.subscriptions.get(signal.call)
    source = subscription or step.open_call(signal.call)
    if source is None or (isinstance(source, OpenCall) and (source.ended or source.given_up in GIVES_UP)):
        return "no such subscription"
    if not _is_trusted(step, signal):
        return "unverified source"
    threaded = not signal.associative and may_thread(step)
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
            threaded=threaded,
        )
    )
    if signal.final and subscription is not None:
        step.unsubscribed(signal.call, subscription, "final")
    if threaded:
        _gather(step, signal.call)
    else:
        step.woken_by = f"an event of {source.name}"
        insist(step, signal)
    return ABSORBED


def _is_trusted(step: Step, signal: HappenedSignal) -> bool:
    asked = step.definition.events.verified
    return not asked or signal.by.verified == asked or signal.by.kind == "runtime"


def may_thread(step: Step) -> bool:
    """Whether this thread may have children for events at all, if perhaps not just now."""
    head, limits = step.head, step.definition.limits
    most = head.quota if head.parent else limits.threads
    return bool(limits.events) and len(head.ancestors) < limits.depth and most > 0


def _gather(step: Step, call: str) -> None:
    """The first of the events that a child will be given begins the time in which others may join it."""
    gathered, window = step.head.gathered[call], step.definition.events.window
    if window and gathered.first == step.head.length:
        due = gathered.since + window
        step.timers.append(
            Due(step.thread, gathered.timer(call), step.now, due=due, call=call, what="events")
        )


def hand_out(step: Step) -> None:
    """Give gathered events to children of their own, as far as there are places and their time has come."""
    if not step.head.gathered or step.head.state != "open":
        return
    for call in list(step.head.gathered):
        while _is_time(step, call) and _has_place(step):
            _give(step, call, step.head.gathered[call])


def _is_time(step: Step, call: str) -> bool:
    gathered, events = step.head.gathered.get(call), step.definition.events
    source = step.open_call(call)
    if gathered is None or (source is not None and not source.given_up):
        return False  # all given, or not known yet whether the call opens a subscription
    if call not in step.head.subscriptions or len(gathered.positions) >= events.most:
        return True
    return step.now >= gathered.since + events.window


def _has_place(step: Step) -> bool:
    children = step.head.children.values()
    works = sum(child.purpose == "event" and child.state == "open" for child in children)
    return works < step.definition.limits.events and allowance(step) > 0


def _give(step: Step, call: str, gathered: Gathered) -> None:
    """A child is born that works on the first of the events."""
    given = gathered.positions[: step.definition.events.most]
    source = step.head.subscriptions.get(call, Subscription("", "{}", "", 0))
    spawn(
        step,
        child_id(step.thread, "event", given[0]),
        call=call,
        name=source.name,
        arguments=source.arguments,
        purpose="event",
        lineage=lineage(step.thread, step.head, step.head.turned),
        quota=min(MOST, share(step, PART)),
        events=given,
    )
    if call not in step.head.gathered:
        step.drop_timer(gathered.timer(call))
