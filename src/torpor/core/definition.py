"""What a slice knows of an agent: limits, tools, and how it wakes. Looked up by name at each wake."""

from collections.abc import Callable
from typing import Any

import msgspec

from torpor.core.request import Tool


class Limits(msgspec.Struct, frozen=True):
    """Bounds of an agent, counted per exchange. Passing one parks the thread with a text that says so."""

    parallel: int = 8
    """Calls of one turn that run side by side; the others go out in call order as places free."""
    completions: int = 100
    loopbacks: int = 20
    """Completions owed only because calls were refused or decided here."""
    tokens: int = 5_000_000
    seconds: float = 3_600.0
    """Seconds spent in the model."""
    tries: int = 12
    """Tries of one completion before the thread is parked."""
    depth: int = 8
    """Threads below each other, the root not counted; 0: no child threads."""
    children: int = 100
    """Living children of one thread, those for events not counted."""
    threads: int = 10_000
    """Living threads below one root."""
    events: int = 8
    """Living children of one thread that work on events; further events wait for a place."""


class Approvals(msgspec.Struct, frozen=True):
    """Which calls wait for a person's approval before they are sent, and what counts if nobody answers."""

    policy: str = "destructive"
    """``never``; ``destructive``: tools marked so, or ``needs_approval``; ``always``: all sent out."""
    seconds: float = 0.0
    """Until ``default`` counts as the answer; 0: for ever."""
    default: str = "deny"
    """``deny`` or ``approve``."""


class Events(msgspec.Struct, frozen=True):
    """How events that are not associative become child threads, and which are accepted."""

    window: float = 0.0
    """Seconds for which events of one subscription are gathered for one child."""
    most: int = 20
    """Events that one child is given at most."""
    verified: str = ""
    """Accepted are: all (empty, each comes with a callback's token), or only signed ones (``signature``)."""


class ToolSpec(msgspec.Struct, frozen=True, eq=False):
    """A tool as a slice needs it. ``check`` gives what is wrong with decoded arguments, in words."""

    name: str
    description: str
    schema: dict[str, Any]
    check: Callable[[object], list[str]]
    server: str = ""
    """Base URL of its tool server; empty for a function of the process."""
    repeat: str = "unsafe"
    inline: bool = False
    """Run within the slice; only for functions that are safe to run again."""
    timeout: float = 0.0
    """Seconds that a call may take; 0: no bound."""
    builtin: bool = False
    """Decided by the core itself."""
    destructive: bool = False
    """It may destroy something, as its author says."""
    needs_approval: bool = False
    """A person approves each call, unless the agent's policy is ``never``."""

    def shown(self) -> Tool:
        """The tool as a model is told of it."""
        return Tool(self.name, self.description, self.schema)


class Definition(msgspec.Struct, frozen=True, eq=False):
    """An agent as of one slice, its tools assembled."""

    agent: str
    model: str = ""
    instructions: str = ""
    settings: dict[str, Any] = {}
    limits: Limits = Limits()
    wake: str = "all"
    tier: str = "realtime"
    tools: dict[str, ToolSpec] = {}
    approvals: Approvals = Approvals()
    events: Events = Events()
    orphans: str = "close"
    """What becomes of the children of a thread that closes: ``close``, or ``adopt`` by its own parent."""
    window: int = 0
    """Tokens that the model takes in all; 0: not known, and nothing is compacted."""
