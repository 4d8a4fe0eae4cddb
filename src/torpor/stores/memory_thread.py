"""One thread in memory, with all its rows."""

from collections.abc import Iterable, Iterator

import msgspec

from torpor.core.codec import decode_record, encode
from torpor.core.moves import AWAY
from torpor.core.signals import AnySignal, is_urgent, kind_of
from torpor.ports import Exported, Row, StoredMessage
from torpor.stores.memory_outbox import Waiting
from torpor.stores.packing import pack, unpack

_Kept = tuple[list[bytes], list[bytes], dict[str, float]]


class MemoryThread:
    """All rows of one thread. Message n is at n - 1; ``seen`` tells when a signal was absorbed.

    At rest, its messages, its records and what it has seen are packed. Whoever touches them unpacks them, and
    the thread is among ``awake`` again.
    """

    __slots__ = ("_awake", "_kept", "_packed", "_since", "dropped", "held", "inbox", "outbox", "row")

    def __init__(self, row: Row, awake: "dict[str, MemoryThread]") -> None:
        self.row = row
        self.inbox: dict[str, tuple[AnySignal, float]] = {}
        self.outbox: dict[str, Waiting] = {}
        self.dropped: dict[str, str] | None = None
        self.held = ("", 0.0)
        self._kept: _Kept | None = ([], [], {})
        self._packed = b""
        self._since = 0.0
        self._awake = awake
        awake[row.thread] = self

    @property
    def bodies(self) -> list[bytes]:
        """Its messages."""
        return (self._kept or self._unpacked())[0]

    @property
    def records(self) -> list[bytes]:
        """The records of its slices."""
        return (self._kept or self._unpacked())[1]

    @property
    def seen(self) -> dict[str, float]:
        """When signals were absorbed, by id."""
        return (self._kept or self._unpacked())[2]

    def pack(self) -> None:
        """Make it small."""
        kept = self._kept
        if kept is not None:
            self._packed, self._kept = pack(kept), None
            ended = [decode_record(body).committed_at for body in kept[1][:-1][:1]]
            self._since = min([*kept[2].values(), *ended], default=0.0)
            self.inbox, self.outbox = dict(self.inbox), dict(self.outbox)  # without room to grow
        self._awake.pop(self.row.thread, None)

    def is_older(self, before: float) -> bool:
        """Whether something it has seen or recorded may be from before an instant."""
        return self._kept is not None or self._since < before

    def _unpacked(self) -> _Kept:
        kept: _Kept = unpack(self._packed, _Kept)
        self._kept, self._packed = kept, b""
        self._awake[self.row.thread] = self
        return kept

    def take(self, signal: AnySignal, now: float) -> bool:
        """Put a signal into the inbox, unless its id was there before."""
        if signal.id in self.inbox or signal.id in self.seen:
            return False
        self.inbox[signal.id] = (signal, now)
        return True

    def messages(self, after: int = 0) -> list[StoredMessage]:
        """Those after a position."""
        return messages_of(self.bodies, after, len(self.bodies))

    def absorb(self, absorbed: Iterable[tuple[str, str]], now: float) -> None:
        """Take signals out of the inbox, each with what became of it."""
        for id, outcome in absorbed:
            if self.inbox.pop(id, None) is None:
                continue
            self.seen[id] = now
            if outcome != "absorbed":
                self.dropped = {**(self.dropped or {}), id: outcome}

    def forget(self, before: float) -> int:
        """Forget ids of signals absorbed before an instant, and give how many."""
        if not self.is_older(before):
            return 0
        old = [id for id, at in self.seen.items() if at < before]
        for id in old:
            del self.seen[id]
            if self.dropped:
                self.dropped.pop(id, None)
        return len(old)

    def exported(self, blobs: dict[str, bytes], views: dict[str, bytes]) -> Exported:
        """All of it, for another store."""
        dropped = self.dropped or {}
        free = msgspec.structs.replace
        return Exported(
            row=self.row,
            messages=tuple(self.messages()),
            inbox=tuple(self.inbox.values()),
            absorbed=tuple((id, at, dropped.get(id, "absorbed")) for id, at in sorted(self.seen.items())),
            outbox=tuple((free(one.row(), claimed_until=0.0), one.created) for one in self.outbox.values()),
            records=tuple(decode_record(body) for body in self.records),
            blobs=blobs,
            views=views,
        )

    def stranded_since(self, now: float, ahead: float) -> float | None:
        """Since when something should have woken it; None: nothing should."""
        if self.row.state in AWAY:
            return None
        return min(self._overdue(now, ahead), default=None)

    def _overdue(self, now: float, ahead: float) -> Iterator[float]:
        if self.row.owes and self.row.not_before <= now:
            yield max(self.row.not_before, self.row.updated)
        for waiting in self.outbox.values():
            if waiting.due <= now + ahead:
                yield max(waiting.due, waiting.created)
        closed = self.row.state == "closed"
        for signal, arrived in self.inbox.values():
            told = kind_of(signal) in ("born", "reported") or not closed
            if told and signal.due <= now and (self.row.not_before <= now or is_urgent(signal)):
                yield max(signal.due, arrived)


def messages_of(bodies: list[bytes], after: int, upto: int) -> list[StoredMessage]:
    """Messages after a position, up to another one."""
    return [StoredMessage(position + 1, bodies[position]) for position in range(after, upto)]


def taken_in(exported: Exported, awake: dict[str, MemoryThread]) -> MemoryThread:
    """A thread with all that was kept of it in another store."""
    thread = MemoryThread(exported.row, awake)
    thread.bodies.extend([message.body for message in exported.messages])
    thread.inbox = {signal.id: (signal, arrived) for signal, arrived in exported.inbox}
    thread.seen.update({id: at for id, at, _ in exported.absorbed})
    thread.dropped = {id: outcome for id, _, outcome in exported.absorbed if outcome != "absorbed"} or None
    for row, created in exported.outbox:
        waiting = thread.outbox[row.effect.id] = Waiting(row.effect, 0.0, "", created)
        waiting.attempt, waiting.not_before = row.attempt, row.not_before
    thread.records.extend([encode(record) for record in exported.records])
    return thread
