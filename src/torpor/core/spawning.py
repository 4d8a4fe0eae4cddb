"""How children come into being: their ids, what they continue, and the share of threads they are given."""

from hashlib import sha256

from torpor.core.calls import note
from torpor.core.effects import Spawn
from torpor.core.messages import By, Link, Part, Spawned
from torpor.core.signals import BornSignal
from torpor.core.step import Step

ID = 20
"""Characters of a thread's id."""


def child_id(*seeds: object) -> str:
    """The id of a child, from the call that made it or from its parent, its purpose and a position."""
    return sha256("/".join(map(str, seeds)).encode()).hexdigest()[:ID]


def lineage(step: Step, upto: int) -> tuple[Link, ...]:
    """What a child continues that sees this thread's history up to a position."""
    head = step.head
    if head.summary:
        return (Link(step.thread, upto, head.summary, head.base),)
    return (*head.lineage, Link(step.thread, upto))


def spawn(
    step: Step,
    child: str,
    *,
    purpose: str = "child",
    call: str = "",
    name: str = "",
    arguments: str = "{}",
    parts: tuple[Part, ...] = (),
    lineage: tuple[Link, ...] = (),
    quota: int = 0,
    title: str = "",
    events: tuple[int, ...] = (),
) -> None:
    """Decide that a child is born. For compaction, the caller notes it by itself: such a child counts nowhere.

    ``call`` is the spawn call or, for events, the subscription's. ``events`` are positions of this thread's.
    """
    head = step.head
    if purpose != "compaction":
        source = call if purpose == "event" else ""
        note(step, Spawned(child, call, purpose, title, quota, events, source))
    born = BornSignal(
        child,
        f"{child}/born",
        step.now,
        By("thread", step.thread, "store"),
        trace=step.trace,
        purpose=purpose,
        parent=step.thread,
        ancestors=(*head.ancestors, step.thread),
        call=call,
        name=name,
        arguments=arguments,
        lineage=lineage,
        quota=quota,
        toolsets=head.toolsets,
        title=title,
        parts=parts,
    )
    step.effects.append(Spawn(f"{child}/born", born, events))
