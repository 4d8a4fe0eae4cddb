"""Words between threads, as they come: a birth, a parent's message, what becomes of a child."""

import msgspec

from torpor.core.calls import ABSORBED, insist, note
from torpor.core.effects import Post
from torpor.core.family import WITH_PARENT, close_child, me, post, tell_parent
from torpor.core.messages import Adopted, Born, Happened, Part, Reported, Resumed, Spawned, Text
from torpor.core.signals import AnySignal, BornSignal, ReportedSignal, Told
from torpor.core.step import Step

STRANGER = "no such thread in its family"


def born(step: Step, signal: BornSignal) -> str:
    """The first signal of a child, or of a fork, which is asked nothing yet."""
    if step.head.length:
        return "born already"
    name, arguments = signal.name, signal.arguments
    if signal.events and not name:
        name, arguments = signal.events[0].name, signal.events[0].arguments
    note(
        step,
        Born(
            agent=step.definition.agent,
            purpose=signal.purpose,
            parent=signal.parent,
            ancestors=signal.ancestors,
            call=signal.call,
            name=name,
            lineage=signal.lineage,
            quota=signal.quota,
            toolsets=signal.toolsets,
            title=signal.title,
        ),
    )
    if signal.purpose == "root":
        return ABSORBED
    seed = (signal.purpose, signal.call, name, arguments)
    _word(step, signal, signal.parent, "born", seed, signal.parts, owes=True)
    for event in signal.events:
        step.add(_own(event))
    return ABSORBED


def _own(event: Happened) -> Happened:
    """An event of the parent's as this child's own news."""
    return msgspec.structs.replace(event, threaded=False, associative=True)


def reported(step: Step, signal: ReportedSignal) -> str:
    """A child speaks, or something became of it."""
    if signal.what == "adopted":
        return _adopt(step, signal)
    if signal.child not in step.head.children:
        return STRANGER
    told = (signal.purpose, signal.call, signal.name, "{}")
    _word(step, signal, signal.child, signal.what, told, signal.parts, owes=signal.owes)
    if signal.owes:
        step.woken_by = f"word of the child thread {signal.child}"
    return ABSORBED


def _adopt(step: Step, signal: ReportedSignal) -> str:
    """A child that closes hands over one of its own."""
    if signal.by.id not in step.head.children:
        return STRANGER
    note(step, Spawned(signal.child, signal.call, signal.purpose, signal.title, signal.quota))
    told = (signal.purpose, signal.call, signal.name, "{}")
    _word(step, signal, signal.child, "adopted", told, signal.parts, owes=False)
    ancestors = (*step.head.ancestors, step.thread)
    id, to = f"{step.thread}/adopts/{signal.child}", signal.child
    word = Told(to, id, step.now, me(step), trace=step.trace, sender=step.thread, what="adopted")
    post(step, msgspec.structs.replace(word, ancestors=ancestors))
    return ABSORBED


def told(step: Step, signal: Told) -> str:
    """The parent speaks, or something could not be delivered."""
    head = step.head
    made = (head.purpose, head.birth, head.birth_name, "{}")
    if signal.what == "undelivered":
        _word(step, signal, signal.sender, "undelivered", made, signal.parts, owes=False)
        return ABSORBED
    if signal.what == "adopted" and signal.by.id in head.ancestors:
        note(step, Adopted(signal.sender, signal.ancestors))
        _word(step, signal, signal.sender, "adopted", made, signal.parts, owes=False)
        _introduce(step, signal)
        return ABSORBED
    if signal.by.id != head.parent or signal.what != "told":
        return STRANGER
    if head.state == "parked" or head.reason == WITH_PARENT:
        note(step, Resumed("told"))
    if step.head.state == "stopped":  # by a person, who alone lets it go on
        tell_parent(step, "stopped", f"{step.thread}/{signal.id}", owes=False)
    _word(step, signal, signal.sender, "told", made, signal.parts, owes=True)
    step.woken_by = "a message of the parent thread"
    return ABSORBED


def _introduce(step: Step, signal: Told) -> None:
    """A new parent takes this thread for one that works; one that has ended says so by itself."""
    head = step.head
    if head.state != "open":
        parts = (Text(head.reason),) if head.state == "parked" else ()
        owes = head.state == "parked" and not head.heard
        tell_parent(step, head.state, f"{step.thread}/{signal.id}", parts, owes=owes)


def _word(
    step: Step,
    signal: BornSignal | ReportedSignal | Told,
    thread: str,
    what: str,
    made: tuple[str, str, str, str],
    parts: tuple[Part, ...],
    *,
    owes: bool,
) -> None:
    """Record another thread's word. ``made``: a child's purpose, and the call it was made by."""
    purpose, call, name, arguments = made
    step.add(
        Reported(
            at=step.moment,
            thread=thread,
            what=what,
            call=call,
            name=name,
            arguments=arguments,
            parts=parts,
            purpose=purpose,
            owes=owes,
            signal=signal.id,
            by=signal.by,
            trace=signal.trace or step.trace,
        )
    )
    if owes:
        insist(step, signal)


def undelivered(step: Step, signal: ReportedSignal | Told) -> None:
    """What came for this closed thread: its heir gets it, or who sent it is told."""
    head = step.head
    if isinstance(signal, ReportedSignal):
        if step.definition.orphans == "adopt" and head.parent:
            on = msgspec.structs.replace(signal, thread=head.parent)
            step.effects.append(Post(f"{signal.id}/on", on))
        elif signal.what == "adopted":
            close_child(step, signal.child)
        elif signal.what == "report":
            _return(step, signal, signal.child)
    elif signal.what == "told":
        _return(step, signal, signal.sender)


def _return(step: Step, signal: AnySignal, sender: str) -> None:
    text = Text(f"The thread {step.thread} is closed.")
    id = f"{signal.id}/undelivered"
    told = Told(
        sender, id, step.moment, trace=step.trace, sender=step.thread, what="undelivered", parts=(text,)
    )
    post(step, told)
