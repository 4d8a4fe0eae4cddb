"""What stores keep of threads, what slices read of it, and what they write."""

from collections.abc import Mapping
from typing import TypedDict

import msgspec

from torpor.core.effects import Effect
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal

LOADED = 100
"""Messages that are loaded with a thread, at most, where reading them apart costs little."""


class Version(msgspec.Struct, frozen=True):
    """What a commit is guarded by: a counter and the id of the commit that wrote it, both compared."""

    counter: int = 0
    commit_id: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's row: what is asked of many threads at once, beside the encoded head."""

    thread: str
    agent: str
    version: Version = Version()
    owner: str = ""
    user_id: str = ""
    context: str = ""
    """JSON text, given to tools."""
    tier: str = "realtime"
    purpose: str = "root"
    root: str = ""
    parent: str = ""
    lineage: bytes = b""
    source: str = ""
    """Of a fork: the thread that it continues, which stays as long as this one is there."""
    state: str = "open"
    owes: bool = False
    """An answer is owed and nothing blocks it."""
    waits: int = 0
    """How many calls and sleeps are pending."""
    attempt: int = 0
    """Failed tries of the next completion so far."""
    not_before: float = 0.0
    """No slice may ask the model before this instant."""
    created: float = 0.0
    updated: float = 0.0
    title: str = ""
    trace: str = ""
    length: int = 0
    base: int = 0
    """A summary stands for history up to here: slices do not read it."""
    head: bytes = b""
    """The encoded head; empty before the first slice."""
    shape: int = 1

    @property
    def id(self) -> str:
        """The thread's id, as handles on threads call it."""
        return self.thread


class Posted(msgspec.Struct, frozen=True):
    """What became of a signal: ``new``, ``repeat`` (its id was seen before), ``unknown`` (no such thread)."""

    outcome: str
    agent: str = ""
    owner: str = ""
    tier: str = ""


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """One message as kept: its position and encoded bytes."""

    position: int
    body: bytes


class OutboxRow(msgspec.Struct, frozen=True):
    """A committed effect that nobody has acknowledged."""

    effect: Effect
    attempt: int = 0
    """How often it was claimed."""
    not_before: float = 0.0
    claimed_until: float = 0.0


class Snapshot(msgspec.Struct, frozen=True):
    """What one slice reads, as of one instant."""

    row: Row
    now: float
    """The store's clock, the only one that slices compare with."""
    history: tuple[StoredMessage, ...] | None
    """All messages after the row's ``base`` in order; None where the caller knows this version already, or
    where they are more than ``LOADED`` and the store leaves them to ``read``: not every slice asks a model.
    """
    signals: tuple[AnySignal, ...]
    """Due and not absorbed, in order of arrival, at most the asked number."""
    more: bool
    """More due signals are left."""
    outbox: tuple[OutboxRow, ...]
    """Due effects that nobody has claimed, or whose claim ran out."""
    next_due: float
    """When the next signal of this thread, or effect that nobody holds, becomes due; 0: none is waiting."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """All that one slice writes, together or not at all."""

    thread: str
    base: Version
    commit_id: str
    row: Row
    """The row as it shall be; ``version`` in it is ignored."""
    messages: tuple[StoredMessage, ...] = ()
    absorbed: Mapping[str, str] = {}
    """Signal id to outcome: ``absorbed``, or the reason why it was dropped."""
    timers: tuple[AnySignal, ...] = ()
    """Signals to the thread itself, due later. One whose id exists is left alone."""
    cancelled: tuple[str, ...] = ()
    """Ids of timers that no longer matter."""
    effects: tuple[Effect, ...] = ()
    claimed_until: float = 0.0
    """Above 0: the new effects are claimed by the writer until then (attempt 1)."""
    holder: str = ""
    """Who claims them; see ``Store.claim``."""
    record: SliceRecord | None = None


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """All that a store keeps of one thread, as of one instant. Who claims an effect is not part of it."""

    row: Row
    messages: tuple[StoredMessage, ...] = ()
    inbox: tuple[tuple[AnySignal, float], ...] = ()
    """Signals not yet absorbed, in order of arrival, each with when it arrived."""
    absorbed: tuple[tuple[str, float, str], ...] = ()
    """Of signals absorbed and not yet forgotten: id, when, and what became of it."""
    outbox: tuple[tuple[OutboxRow, float], ...] = ()
    """Effects not yet acknowledged, oldest first, each with when it was committed."""
    records: tuple[SliceRecord, ...] = ()
    blobs: Mapping[str, bytes] = {}
    """By hash."""
    views: Mapping[str, bytes] = {}


class Asked(TypedDict, total=False):
    """Which threads are listed. What is left out, or None, asks for nothing.

    But threads that only write a summary (``compaction``) are listed only where their purpose is asked for.
    """

    owner: str | None
    agent: str | None
    state: str | None
    root: str | None
    """The whole tree of this root, itself included."""
    parent: str | None
    """Its children; empty: threads that have no parent."""
    purpose: str | None
