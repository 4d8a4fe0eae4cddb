"""What has been decided and must happen outside: the union of effects.

An effect is committed with the slice that decided it and stays in the outbox until acknowledged. Its id is
derived from the call it serves, so a repeat carries the same id.
"""

from torpor.core.parts import Stored
from torpor.core.signals import AnySignal, BornSignal

BRIDGED = "mcp:"
"""Begins the address of a server whose calls stay in the outbox until their results: whoever performs them
looks after them, and there is nothing to ask about."""


class Invoke(Stored, frozen=True, tag="invoke", tag_field="k"):
    """Run a tool for a call. ``server`` is a tool server's base URL, or empty for a function of ours."""

    id: str
    call: str
    name: str
    arguments: str
    server: str = ""
    repeat: str = "unsafe"
    at: float = 0.0
    trace: str = ""
    digest: str = ""
    """What a person has approved, where the tool needs that: checked again before it runs."""


class Cancel(Stored, frozen=True, tag="cancel", tag_field="k"):
    """Tell tool servers, best effort, that a call or a subscription is no longer wanted."""

    id: str
    call: str
    server: str = ""


class Notify(Stored, frozen=True, tag="notify", tag_field="k"):
    """Tell every tool server of the thread, best effort, that it is closed."""

    id: str


class Spawn(Stored, frozen=True, tag="spawn", tag_field="k"):
    """Create a child thread, with its first signal. ``id`` names the child, so a repeat changes nothing."""

    id: str
    born: BornSignal
    """``born.thread`` is the child."""
    events: tuple[int, ...] = ()
    """Positions of this thread's own events, which are read and put into ``born`` when it is performed."""


class Post(Stored, frozen=True, tag="post", tag_field="k"):
    """Post a signal to another thread. The posts and births of a thread are performed in order."""

    id: str
    signal: AnySignal
    back: bool = False
    """If it cannot be delivered, the sender is told."""


class Choose(Stored, frozen=True, tag="choose", tag_field="k"):
    """Tell a tool server what a person has chosen. If that fails, the call is settled with an error."""

    id: str
    call: str
    server: str
    url: str
    selected: int
    value: str = ""
    """What was said where that is no place among choices: a form's answer as JSON text, ``decline``,
    ``dismiss`` or ``done``."""


class Check(Stored, frozen=True, tag="check", tag_field="k"):
    """Ask a tool server whether it still works on a call, or holds its subscription."""

    id: str
    call: str
    server: str
    subscription: bool = False


Effect = Invoke | Cancel | Notify | Spawn | Post | Choose | Check
