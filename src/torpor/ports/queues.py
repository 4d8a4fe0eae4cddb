"""The doorbell, and the right to answer it."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Ring(msgspec.Struct, frozen=True):
    """Word that a thread has work."""

    thread: str
    start_by: float
    not_before: float = 0.0
    tier: str = "realtime"
    owner: str = ""
    agent: str = ""
    cut: bool = False
    """A running completion of the thread shall be cut short."""


class Lease(msgspec.Struct, frozen=True):
    """The time-limited right to run a thread's slices."""

    thread: str
    token: str
    until: float
    ring_at: float = 0.0
    start_by: float = 0.0
    tier: str = "realtime"
    owner: str = ""
    agent: str = ""
    attempt: int = 0
    """How many leases of this thread ran out since its last *done*."""


class Queue(Protocol):
    """A doorbell. It may ring twice or out of order; it must not swallow a ring that came during a lease.

    Calls of one process take effect in order. What is rung or given back may not be durable yet when the call
    returns: the sweep finds what a lost ring was for, and a lease that is left runs out.
    """

    async def ring(self, rings: Sequence[Ring]) -> None:
        """Tell that threads have work. Rings of one thread merge: the earliest of each time, cut if any."""

    async def next(
        self,
        worker: str,
        *,
        wait: float = 0.0,
        agents: Sequence[str] | None = None,
        tiers: Sequence[str] | None = None,
        limit: int = 1,
        owner_cap: int = 0,
    ) -> list[Lease]:
        """Lease up to ``limit`` threads: tier first, inside it the earliest ``start_by``.

        Waits up to ``wait`` seconds for the first one. ``agents``: only threads of these. ``owner_cap``,
        above 0: how many threads of one owner may be leased at once, by all workers together. Those of an
        owner that has as many are passed over until a lease of its ends. Who has no owner is not capped.
        """

    async def extend(self, leases: Sequence[Lease]) -> tuple[list[Lease], set[str]]:
        """Renew leases in one statement: those still held, and the threads rung with ``cut`` since.

        A lease that has more than half of its time left may keep its end. Each ``cut`` is told once.
        """

    async def done(self, lease: Lease, *, again_at: float = 0.0) -> None:
        """Give a lease back; rings since the lease stay. Above 0, ``again_at`` re-arms the thread.

        A lease that somebody else has taken over changes nothing.
        """

    async def retry(self, lease: Lease, at: float) -> None:
        """Give a lease back unfinished; the thread is rung for ``at``."""

    async def size(self) -> int:
        """How many threads are rung or leased, later ones included."""

    async def next_at(self, agents: Sequence[str] | None = None) -> float:
        """The earliest instant at which a rung thread may start, leased ones included; 0: none is rung."""

    async def close(self) -> None:
        """Let go of what is held. Idempotent."""
