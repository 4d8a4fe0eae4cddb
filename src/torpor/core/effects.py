"""What has been decided and must happen outside: the union of effects.

An effect is committed with the slice that decided it and stays in the outbox until acknowledged. Its id is
derived from the call it serves, so a repeat carries the same id.
"""

from torpor.core.messages import Stored


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


class Cancel(Stored, frozen=True, tag="cancel", tag_field="k"):
    """Tell tool servers, best effort, that a call or a subscription is no longer wanted."""

    id: str
    call: str
    server: str = ""


class Notify(Stored, frozen=True, tag="notify", tag_field="k"):
    """Tell every tool server of the thread, best effort, that it is closed."""

    id: str


Effect = Invoke | Cancel | Notify
