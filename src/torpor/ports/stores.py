"""Where threads are kept, and the small things beside them."""

from collections.abc import Sequence
from typing import Protocol, Unpack

from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal
from torpor.ports.rows import (
    Asked,
    Commit,
    Exported,
    OutboxRow,
    Posted,
    Row,
    Snapshot,
    StoredMessage,
    Version,
)


class Store(Protocol):
    """Where threads are rows. Every write is about one thread."""

    async def create(self, row: Row, signals: Sequence[AnySignal] = (), *, effect: str = "") -> bool:
        """Add a thread with its first signals; False (and nothing written) if the id exists.

        Nor is one added whose ``source`` is not there or, where ``effect`` names one, while that is not in
        the outbox of its parent: nobody is born twice, or of who is gone.
        """

    async def post(self, signals: Sequence[AnySignal]) -> list[Posted]:
        """Put each signal into its thread's inbox, once per id; durable when this returns."""

    async def finish(self, signal: AnySignal, effect: str) -> Posted:
        """Post what came of an effect of the signal's thread, and acknowledge the effect, together.

        Durable when this returns. The effect leaves the outbox for a repeated signal too; an unknown one is
        ignored.
        """

    async def load(self, thread: str, *, known: Version | None = None, limit: int = 100) -> Snapshot:
        """What a slice needs, as of one instant. ``Refused`` if there is no such thread.

        History is left out if the thread is still at version ``known``, and may be where it is long. Signals
        and free effects that are not due yet make up ``next_due``; a claim that runs out unrenewed is found
        by ``stranded``.
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

    async def hold(self, thread: str, holder: str, until: float) -> float:
        """Take or renew the right to work on a thread by steps until an instant; 0 gives it back.

        Gives 0, or until when somebody else has it. A courtesy: commits do not ask for it.
        """

    async def delivered(self, thread: str, ids: Sequence[str]) -> None:
        """Acknowledge effects: they leave the outbox. Unknown ids are ignored."""

    async def release(
        self, thread: str, ids: Sequence[str], not_before: float, *, holder: str = "", begun: bool = True
    ) -> None:
        """Give claimed effects back, to be taken from ``not_before`` on. Others' claims are left alone.

        One that was hastened since it was taken may be taken at once. ``begun`` False: nothing was done about
        them, so that the last ``attempt`` does not count.
        """

    async def hasten(self, thread: str, ids: Sequence[str]) -> None:
        """Make effects due now; one that somebody holds, as soon as it is given back. Ignores unknown ids."""

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
        births and reports, whose senders are to be told; of one that is ``AWAY``, nothing.
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

        Its version and the ids of its absorbed signals come along, its effects are free to be claimed. One
        in a state of ``HUSKS`` (see ``core.moves``), whose version is no newer, is replaced.
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

FORWARDS = "forwards"
"""Space of where callbacks of threads that have left are taken now, by thread and call."""


MCP_CALLS = "mcp-calls"
"""Space of what is kept of calls to MCP servers, by thread and call; touched daily while a call lasts."""


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
