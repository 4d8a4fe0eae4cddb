"""Threads and their children: told, stopped and closed together, resting and parked. All by signals."""

from torpor.core import compaction
from torpor.core.calls import give_up_all, note
from torpor.core.effects import Cancel, Notify, Post
from torpor.core.head import Child, Head
from torpor.core.messages import (
    By,
    Closed,
    Informed,
    Noted,
    Parked,
    Part,
    Text,
    Turn,
    Uncompacted,
    text_of,
)
from torpor.core.signals import AnySignal, ClosedSignal, ReportedSignal, StoppedSignal
from torpor.core.spawning import SPAWN
from torpor.core.step import Step

WITH_PARENT = "Its parent was stopped."

LISTED = 20
"""Calls and children that word of an end names."""


def me(step: Step) -> By:
    """This thread, as the sender of a signal."""
    return By("thread", step.thread, "store")


def post(step: Step, signal: AnySignal, *, back: bool = False) -> None:
    """Decide that a signal goes to another thread."""
    step.effects.append(Post(f"{signal.id}/post", signal, back))


def tell_parent(
    step: Step, what: str, id: str, parts: tuple[Part, ...] = (), *, owes: bool = True, back: bool = False
) -> None:
    """Say something to the parent; see ``Reported``."""
    head = step.head
    signal = ReportedSignal(
        head.parent,
        id,
        step.now,
        me(step),
        trace=step.trace,
        child=step.thread,
        what=what,
        call=head.birth,
        name=head.birth_name,
        purpose=head.purpose,
        parts=parts,
        owes=owes,
    )
    post(step, signal, back=back)


def stop_below(step: Step, signal: StoppedSignal) -> None:
    """Stop all that lives below, whatever else is stopped already."""
    for child in step.head.children:
        post(step, StoppedSignal(child, f"{signal.id}/{child}", step.now, me(step), trace=step.trace))
    if step.head.compaction is not None:
        child = step.head.compaction.child
        compaction.give_up(step)
        note(step, Uncompacted(child, "The thread was stopped."))


def stopped(step: Step, signal: StoppedSignal) -> None:
    """Stop what lives below, and tell the parent, if it was not the parent that stopped this thread."""
    stop_below(step, signal)
    if step.head.purpose == "compaction":
        compaction.report(step, "", "It was stopped.")
        close(step, signal.by)
    elif step.head.parent and not is_parent(step, signal.by):
        tell_parent(step, "stopped", f"{step.thread}/{signal.id}", owes=False)


def is_parent(step: Step, by: By) -> bool:
    """Whether the parent itself sent something, which need not be told what came of it."""
    return by.kind == "thread" and by.id == step.head.parent


def close(step: Step, by: By, report: str = "") -> None:
    """End the thread for good, with all that it holds. ``report``: its own last words."""
    cancelled = _open_work(step.head)
    give_up_all(step, "stopped", "Stopped: the thread was closed.")
    for id, subscription in step.head.subscriptions.items():
        step.effects.append(Cancel(f"{id}/cancel/subscription", id, subscription.server))
        step.unsubscribed(id, subscription, "closed")
    compaction.give_up(step)
    told = _leave_children(step)
    if step.head.parent and not is_parent(step, by):
        _tell_end(step, by, report, (*cancelled, *told))
    note(step, Closed())
    step.effects.append(Notify(f"{step.thread}/closed"))


def _open_work(head: Head) -> list[str]:
    calls = [
        f"call {id} of {call.name}, cancelled"
        for id, call in (head.pending | head.detached).items()
        if not (call.given_up or call.passive)
    ]
    return calls + [
        f"subscription {id} of {open_.name}, cancelled" for id, open_ in head.subscriptions.items()
    ]


def _leave_children(step: Step) -> list[str]:
    """Close the children, or hand them to this thread's own parent. Gives what became of them, in words."""
    head = step.head
    if step.definition.orphans == "adopt" and head.parent:
        for id, child in head.children.items():
            _hand_over(step, id, child)
        return [f"child thread {id}, handed over" for id in head.children]
    for id in head.children:
        close_child(step, id)
    return [f"child thread {id}, closed" for id in head.children]


def close_child(step: Step, id: str) -> None:
    """A child ends with this thread."""
    post(step, ClosedSignal(id, f"{step.thread}/closes/{id}", step.now, me(step), trace=step.trace))


def _hand_over(step: Step, id: str, child: Child) -> None:
    """The parent of this thread is told of a child, which it adopts."""
    head = step.head
    name = SPAWN if child.purpose == "child" else ""
    post(
        step,
        ReportedSignal(
            head.parent,
            f"{step.thread}/leaves/{id}",
            step.now,
            me(step),
            trace=step.trace,
            child=id,
            what="adopted",
            call=child.call,
            name=name,
            purpose=child.purpose,
            quota=child.quota,
            title=child.title,
        ),
    )


def _tell_end(step: Step, by: By, report: str, ended: tuple[str, ...]) -> None:
    """Tell the parent that this thread is closed. Nobody waits for a temporary one with nothing to say."""
    head = step.head
    if head.purpose == "compaction":
        compaction.report(step, report, "It was closed.")
        return
    parts = [Text(report)] if report.strip() else []
    if head.purpose == "child":
        if by.kind == "person":
            parts.append(Text("[A person closed it.]"))
        if ended:
            parts.append(Text(f"[Ended with it: {'; '.join(ended[:LISTED])}.]"))
    waited = head.purpose == "child" and not head.heard
    owes = bool(report.strip()) or waited
    tell_parent(step, "closed", f"{step.thread}/closed", tuple(parts), owes=owes)


def park(step: Step, reason: str, kind: str, *, aside: bool = False) -> None:
    """Set the thread aside; its parent is told."""
    step.add(Noted(step.now, Parked(reason, kind, aside), step.trace))
    if step.head.purpose == "compaction":
        compaction.report(step, "", reason)
        close(step, By("runtime"))
    elif step.head.parent:
        id = f"{step.thread}/parked/{step.head.length}"
        tell_parent(step, "parked", id, (Text(reason),), owes=not step.head.heard)


def rest(step: Step) -> None:
    """A child whose exchange is over, with nothing open, says so to its parent, once; a temporary one closes.

    Unless it has reported, its last words stand for a report.
    """
    head = step.head
    if head.rested or not head.parent or not _is_over(head):
        return
    words = _last_words(step)
    if head.purpose == "compaction":
        compaction.report(step, words, "It wrote nothing.")
        close(step, By("runtime"))
    elif head.purpose == "event":
        close(step, By("runtime"))
    else:
        what, parts = ("rested", ()) if head.heard else ("ended", (Text(words),) if words else ())
        tell_parent(step, what, f"{step.thread}/{what}/{head.length}", parts, owes=not head.heard)
        note(step, Informed(what))


def _is_over(head: Head) -> bool:
    """Nothing goes on in it, and nothing of its own can wake it."""
    if head.state != "open" or head.exchange.open or head.owes:
        return False
    works = any(child.state == "open" for child in head.children.values())
    runs = any(not call.given_up for call in head.detached.values())
    return not (works or runs or head.pending or head.subscriptions or head.gathered or head.queued)


def _last_words(step: Step) -> str:
    """Of its last turn, whole if that is in this slice."""
    turns = [message for message in step.messages if isinstance(message, Turn)]
    return (text_of(turns[-1].parts).strip() if turns else "") or step.head.last_words
