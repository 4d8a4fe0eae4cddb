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
