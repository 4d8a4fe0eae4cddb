"""How children come into being: their ids, what they continue, and the share of threads they are given."""

from hashlib import sha256
from typing import Any

from torpor.core.calls import note
from torpor.core.effects import Spawn
from torpor.core.head import Head
from torpor.core.messages import By, Link, Part, Spawned
from torpor.core.signals import BornSignal
from torpor.core.step import Step

SPAWN = "spawn_thread"
"""The tool by which models make children."""

ID = 20
"""Characters of a thread's id."""


def child_id(*seeds: object) -> str:
    """The id of a child, from the call that made it, or from its parent, its purpose and a position."""
    return sha256("/".join(map(str, seeds)).encode()).hexdigest()[:ID]


def lineage(thread: str, head: Head, upto: int) -> tuple[Link, ...]:
    """The histories of a child that sees this thread's up to a position."""
    if head.summary:
        return (Link(thread, upto, head.summary, head.base, head.folded),)
    return (*head.lineage, Link(thread, upto, folded=head.folded))


def allowance(step: Step) -> int:
    """How many more threads may live below this one."""
    head = step.head
    return (head.quota if head.parent else step.definition.limits.threads) - head.used


def share(step: Step, part: int) -> int:
    """How many threads may live below the next child: a part of what is left.

    A root keeps enough for all the children that it may have itself, or for many.
    """
    left, limits = allowance(step) - 1, step.definition.limits
    if step.head.parent:
        return left // part
    return min(left // part, max(0, left - min(limits.children, limits.threads // 4)))


def spawn(
    step: Step,
    child: str,
    *,
    call: str,
    name: str,
    arguments: str = "{}",
    purpose: str = "child",
    parts: tuple[Part, ...] = (),
    lineage: tuple[Link, ...] = (),
    quota: int = 0,
    title: str = "",
    events: tuple[int, ...] = (),
) -> None:
    """Decide that a child is born.

    ``call`` is the spawn call or, for events, the subscription's. ``events``: their positions in this thread.
    """
    source = call if purpose == "event" else ""
    note(step, Spawned(child, call, purpose, title, quota, events, source))
    bear(
        step,
        child,
        events,
        purpose=purpose,
        call=call,
        name=name,
        arguments=arguments,
        lineage=lineage,
        quota=quota,
        title=title,
        parts=parts,
    )


def bear(step: Step, child: str, events: tuple[int, ...] = (), **born: Any) -> None:
    """Have a thread created below this one. ``born``: what else its first signal says of it."""
    head = step.head
    signal = BornSignal(
        child,
        f"{child}/born",
        step.now,
        By("thread", step.thread, "store"),
        trace=step.trace,
        parent=step.thread,
        ancestors=(*head.ancestors, step.thread),
        toolsets=head.toolsets,
        **born,
    )
    step.effects.append(Spawn(f"{child}/born", signal, events))
