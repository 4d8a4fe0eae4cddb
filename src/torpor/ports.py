"""What the runtime needs of the outside, as protocols. Each has at least two real implementations.

Times are seconds since the epoch, UTC. All methods raise ``Unavailable`` when the outside is busy or away
and ``Broken`` when what it holds cannot be read.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, TypedDict, Unpack

import msgspec

from torpor.core.chunks import AnyChunk
from torpor.core.effects import Effect
from torpor.core.record import SliceRecord
from torpor.core.request import Attempt, Request
from torpor.core.signals import AnySignal


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
    """All messages after the row's ``base`` in order, or None where the caller knows this version already."""
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


class Store(Protocol):
    """Where threads are rows. Every write is about one thread."""

    async def create(self, row: Row, signals: Sequence[AnySignal] = ()) -> bool:
        """Add a thread with its first signals; False (and nothing written) if the id exists."""

    async def post(self, signals: Sequence[AnySignal]) -> list[Posted]:
        """Put each signal into its thread's inbox, once per id; durable when this returns."""

    async def finish(self, signal: AnySignal, effect: str) -> Posted:
        """Post what came of an effect of the signal's thread, and acknowledge the effect, together.

        Durable when this returns. The effect leaves the outbox for a repeated signal too; an unknown one is
        ignored.
        """

    async def load(self, thread: str, *, known: Version | None = None, limit: int = 100) -> Snapshot:
        """What a slice needs, as of one instant. ``Refused`` if there is no such thread.

        History is left out if the thread is still at version ``known``. Signals and free effects that are
        not due yet make up ``next_due``; a claim that runs out unrenewed is found by ``stranded``.
        """

    async def commit(self, commit: Commit) -> Version:
        """Write a slice. ``Conflict`` if the thread has moved on from ``base``; then nothing was written.

        A commit whose ``commit_id`` is already the thread's is a repeat and succeeds.
        """

    async def postpone(
        self, thread: str, base: Version, attempt: int, not_before: float, *, state: str = ""
    ) -> None:
        """Record a failed try on the row alone, or a state. A thread that has moved on is left alone."""

    async def claim(
        self, thread: str, ids: Sequence[str], until: float, *, holder: str = ""
    ) -> list[OutboxRow]:
        """Take or renew effects until ``until``; gives those that this caller now holds.

        An effect that somebody else holds, or that is not due, is not given. Renewal is by the same call and
        leaves ``attempt`` alone; taking one that is free, or whose claim ran out, adds 1 to it. ``holder``
        tells claimers apart; without one, all users of this store object are one claimer.
        """

    async def delivered(self, thread: str, ids: Sequence[str]) -> None:
        """Acknowledge effects: they leave the outbox. Unknown ids are ignored."""

    async def release(self, thread: str, ids: Sequence[str], not_before: float, *, holder: str = "") -> None:
        """Give claimed effects back, to be taken from ``not_before`` on. Others' claims are left alone."""

    async def read(self, thread: str, after: int = 0, limit: int = 1000) -> list[StoredMessage]:
        """Messages after a position, in order."""

    async def row(self, thread: str) -> Row | None:
        """A thread's row, or None."""

    async def inbox(self, thread: str) -> list[AnySignal]:
        """All signals not yet absorbed, timers included, in order of arrival."""

    async def outbox(self, thread: str) -> list[OutboxRow]:
        """All effects not yet acknowledged, those that somebody holds included, oldest first."""

    async def threads(self, *, after: str = "", limit: int = 100, **asked: Unpack[Asked]) -> list[Row]:
        """Rows by thread id, from the one after ``after`` on."""

    async def stranded(
        self, limit: int = 1000, *, ahead: float = 0.0, agents: Sequence[str] | None = None, skip: int = 0
    ) -> list[tuple[Row, float]]:
        """Threads with a due signal, a due effect, or an answer owed and unblocked, each with since when.

        ``ahead``: effects that become due, or whose claim runs out, within so many seconds count too.
        ``agents``: only threads of these; ``skip``: leave out the first ones, those that wait longest. Of a
        thread that rests before its ``not_before`` only urgent signals and effects count; of a closed one,
        births and reports, whose senders are to be told.
        """

    async def note(self, record: SliceRecord) -> None:
        """Append the record of a slice that failed or conflicted."""

    async def records(self, thread: str, after: int = 0, limit: int = 1000) -> list[SliceRecord]:
        """The records of a thread's slices, oldest first, without the first ``after``."""

    async def last_record(self, thread: str) -> SliceRecord | None:
        """The record of a thread's latest slice, or None."""

    async def outcome(self, thread: str, signal: str) -> str | None:
        """What became of a signal: ``absorbed``, why it was dropped, "" while it waits. None: never seen."""

    async def prune(self, before: float) -> int:
        """Forget the ids of signals absorbed before an instant, and give how many.

        None younger than the oldest effect that is still in an outbox is forgotten: it may be performed
        again, and what comes of it must still be recognised.
        """

    async def export(self, thread: str) -> Exported:
        """All that is kept of a thread, for another store. ``Refused`` if there is no such thread."""

    async def take_in(self, exported: Exported) -> bool:
        """Add a thread with all that was kept of it; False (and nothing written) if the id exists.

        Its version and the ids of its absorbed signals come along, its effects are free to be claimed.
        """

    async def now(self) -> float:
        """The store's clock."""

    async def close(self) -> None:
        """Let go of files and connections. Idempotent."""


WEBHOOKS = "webhooks"
"""Space of the ids of signed messages that were taken, so that a captured one has no second effect."""

AUTHORIZATIONS = "authorizations"
"""Space of the URLs at which people authorize tools: by thread and what the wait names as its URL. They stay
out of histories, and are forgotten with their call."""


class Side(Protocol):
    """Small things beside threads: blobs, keys, addresses, gates, definitions. SQL stores implement both."""

    async def put_blob(self, thread: str, hash: str, body: bytes) -> None:
        """Keep bytes under (thread, hash). Repeats are ignored."""

    async def get_blob(self, thread: str, hash: str, start: int = 0, size: int = -1) -> bytes | None:
        """Bytes from ``start`` on, at most ``size``; None if there is no such blob."""

    async def put(self, space: str, key: str, value: bytes) -> None:
        """Keep a small value under a name; the last one wins."""

    async def put_new(self, space: str, key: str, value: bytes) -> bytes:
        """Keep a value unless there is one; gives the one that is kept now."""

    async def get(self, space: str, key: str) -> bytes | None:
        """A small value, or None."""

    async def entries(self, space: str) -> dict[str, bytes]:
        """All small values of a space."""

    async def forget(self, space: str, before: float) -> int:
        """Drop a space's values that were put before an instant of the store's clock; says how many."""

    async def seen(self, thread: str, signal: str) -> bool:
        """Whether a signal of this id was ever posted to the thread (within the retention time)."""


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
    ) -> list[Lease]:
        """Lease up to ``limit`` threads: tier first, inside it the earliest ``start_by``.

        Waits up to ``wait`` seconds for the first one. ``agents``: only threads of these.
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


class Model(Protocol):
    """What produces turns. One object may serve many agents and threads at once.

    It may have a ``window``: how many tokens it takes. Without one, or with 0, that is not known, and history
    is summed up only once a request has been refused for its length, or when a person asks for that.
    """

    name: str
    """``provider:name``, as recorded."""

    def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        """Ask once, without retries. Raises ``Unavailable`` for what may pass, ``Refused`` for what will not.

        Closing the iterator cuts the completion.
        """


class Transport(Protocol):
    """The way to tool servers. ``context`` holds ``group_id``, ``user_id``, ``callback_url`` and the like."""

    async def discover(self, server: str) -> bytes:
        """The manifest's bytes, bounded. ``Refused`` if it is none; ``Unavailable`` if the server is away."""

    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        """Hand over one invocation, once. ``Refused`` on 4xx, ``Unavailable`` on 5xx and no connection."""

    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None:
        """Best effort, once; never raises for what the server does."""

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None:
        """Best effort, once; never raises for what the server does."""

    async def choose(
        self, server: str, url: str, call: str, selected: int, key: str, trace: str = ""
    ) -> None:
        """Tell a server once what a person chose, at a URL of its own choice. Raises as ``invoke`` does."""

    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        """What a server says when it is asked whether it still works on a call, or holds its subscription.

        ``alive`` or ``dead`` in so many words; ``invalid``: it answered something else, or refused;
        ``missing``: it has nothing that could answer; ``unknown``: it failed. ``Unavailable`` if it cannot be
        reached or does not answer.
        """

    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        """Have a server move all that it keeps of a session (a root thread's id) to another base URL.

        Returns once it says that this is done, which may take minutes; else ``Refused`` or ``Unavailable``
        with its reason.
        """

    async def close(self) -> None:
        """Let go of connections. Idempotent."""


class LiveEvent(msgspec.Struct, frozen=True, gc=False):
    """Something to watch now.

    ``kind``: ``text``, ``reasoning``, ``call``, ``started``, ``dropped``, ``committed``, ``received`` or
    ``view``.
    """

    kind: str
    text: str = ""
    position: int = 0
    name: str = ""
    """Of a ``view``: its type; ``text`` is then its content as JSON text."""


class Live(Protocol):
    """What watchers are told meanwhile. Lossy by design: the truth is in the store."""

    def publish(self, thread: str, event: LiveEvent) -> None:
        """Tell whoever watches; never waits, never fails."""

    def watched(self, thread: str) -> bool:
        """Whether anybody watches the thread here."""

    def follow(self, thread: str) -> AsyncIterator[LiveEvent]:
        """What is published from now on. The buffer is bounded; the oldest are dropped."""


class Clock(Protocol):
    """Time. Everything that waits, waits through it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
