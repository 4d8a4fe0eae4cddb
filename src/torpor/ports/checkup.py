"""What can be told of a store by looking, without changing it: findings for people, and how much waits."""

from typing import Literal

import msgspec

Level = Literal["fine", "note", "wrong"]
"""``note``: worth a word, and nothing that must be done now."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at, and what is to be done about it if something is."""

    level: Level
    about: str
    found: str


class Due(msgspec.Struct, frozen=True):
    """Threads of one agent and tier whose work is due."""

    agent: str
    tier: str
    waiting: int
    """Threads that nobody works on."""
    since: float
    """Since when the first of those waits; 0: there are none."""
    held: int
    """Threads that somebody works on."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """How much waits in a store, by its clock."""

    now: float
    ahead: float = 0.0
    """Seconds by which the store's clock is ahead of this machine's."""
    newest: float
    """The latest change of the threads that were made last."""
    parked: int
    agents: tuple[str, ...]
    """Agents that have threads which are not closed."""
    due: tuple[Due, ...]
    leased: int
    """Threads that workers hold."""
    ready: int
    """Threads that are rung, and that nobody holds."""
    ready_since: float
    """When the first of those was to be taken."""
    effects: int
    """Effects that are not acknowledged."""
    left: int
    """Effects whose claims ran out: who performed them is gone."""
    left_since: float
    per_process: int = 0
    """Connections that one process opens at most; 0: they are not counted."""
    connections: int = 0
    """Connections that the server lets in; 0: they are not counted."""


class Checkup(msgspec.Struct, frozen=True):
    """What was found; without a survey where the store cannot be used as it is."""

    findings: tuple[Finding, ...]
    survey: Survey | None = None
