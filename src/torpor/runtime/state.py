"""What one slice works with and what it knows while it runs."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from torpor.core.definition import Definition
from torpor.core.prompt import Projection
from torpor.core.signals import AnySignal, ClosedSignal, SaidSignal, StoppedSignal
from torpor.core.step import Mark, Step
from torpor.core.thread import Head
from torpor.core.turn import Gathering
from torpor.ports import Clock, Lease, OutboxRow, Row, Side, Snapshot, Store
from torpor.runtime.definitions import Definitions
from torpor.runtime.equip import Equipment
from torpor.runtime.gates import Gates
from torpor.runtime.hot import Hot, Warm
from torpor.runtime.ids import Ids
from torpor.runtime.lineages import Lineages
from torpor.runtime.live import LocalLive
from torpor.runtime.roster import Member, Roster


class Dispatch(Protocol):
    """Performs effects after the commit."""

    def start(self, row: Row, effects: list[OutboxRow]) -> None:
        """Begin to perform effects that this process has claimed."""

    async def resume(self, row: Row, leftovers: tuple[OutboxRow, ...], wanted: Mapping[str, Any]) -> None:
        """Take up effects that nobody holds."""


class Kit(msgspec.Struct, frozen=True, eq=False):
    """What slices work with in one process."""

    store: Store
    side: Side
    clock: Clock
    roster: Roster
    live: LocalLive
    equipment: Equipment
    gates: Gates
    definitions: Definitions
    hot: Hot
    lineages: Lineages
    ids: Ids
    dispatch: Dispatch
    worker: str = "worker"
    claim: float = 30.0
    """Seconds for which new effects are claimed for this process."""


def calls_off(signal: AnySignal) -> bool:
    """A person wants what runs to end now."""
    return isinstance(signal, StoppedSignal | ClosedSignal) or (
        isinstance(signal, SaidSignal) and signal.mode == "interrupt"
    )


class Running(msgspec.Struct, eq=False):
    """A slice under way, as its worker sees it."""

    lease: Lease
    asking: bool = False
    """A completion is being streamed: it may be cut."""
    cut: bool = False
    overdue: bool = False
    lost: bool = False
    """Somebody else has the lease now."""
    since: float = 0.0
    loaded: float = 0.0
    """When the thread was loaded, by this process' clock."""
    taken: tuple[AnySignal, ...] = ()
    """The signals that it loaded."""


class Outcome(msgspec.Struct, frozen=True):
    """How a slice ended. ``again_at`` above 0: when the thread should be looked at next."""

    yielded: str
    again_at: float = 0.0
    error: str = ""


class Completion(msgspec.Struct, frozen=True, eq=False):
    """What a completion brought: a gathering that stopped, or one that a person cut."""

    gathering: Gathering
    cut: bool = False


NOBODY = Definition("")
"""What a slice begins with, until it has looked its agent up."""


START = Mark(Head(), 0.0, (), ())


class Slice:
    """The state of one slice while it runs."""

    __slots__ = (
        "held",
        "kit",
        "mark",
        "member",
        "projection",
        "record",
        "running",
        "snapshot",
        "step",
        "waits_before",
        "warm",
    )

    def __init__(self, kit: Kit, running: Running, snapshot: Snapshot, warm: Warm, member: Member) -> None:
        self.kit = kit
        self.running = running
        self.snapshot = snapshot
        self.warm = warm
        self.member = member
        row, lease = snapshot.row, running.lease
        self.step = Step(row.thread, warm.head, snapshot.now, NOBODY)
        self.waits_before = 0
        self.held = 0.0
        """The model is not asked before this instant."""
        self.mark = START
        """Where its completion began."""
        self.projection: Projection | None = None
        self.record: dict[str, Any] = {
            "thread": row.thread,
            "version": row.version.counter,
            "worker": kit.worker,
            "ring_at": lease.ring_at,
            "leased_at": running.since,
            "loaded_at": snapshot.now,
            "attempt": row.attempt,
        }

    def now(self) -> float:
        """The store's clock, as far as this process can tell without asking."""
        return self.snapshot.now + max(0.0, self.kit.clock.now() - self.running.loaded)
