"""One thread in memory, with all its rows."""

from collections.abc import Iterable, Iterator

import msgspec

from torpor.core.codec import decode_record, encode
from torpor.core.moves import AWAY
from torpor.core.signals import AnySignal, is_urgent, kind_of
from torpor.ports import Exported, Row, StoredMessage
from torpor.stores.memory_outbox import Waiting


class MemoryThread:
    """All rows of one thread. Message n is at n - 1; ``seen`` tells when a signal was absorbed."""

    __slots__ = ("bodies", "dropped", "held", "inbox", "outbox", "records", "row", "seen")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.bodies: list[bytes] = []
        self.inbox: dict[str, tuple[AnySignal, float]] = {}
        self.outbox: dict[str, Waiting] = {}
        self.records: list[bytes] = []
        self.seen: dict[str, float] = {}
        self.dropped: dict[str, str] | None = None
        self.held = ("", 0.0)

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


def taken_in(exported: Exported) -> MemoryThread:
    """A thread with all that was kept of it in another store."""
    thread = MemoryThread(exported.row)
    thread.bodies = [message.body for message in exported.messages]
    thread.inbox = {signal.id: (signal, arrived) for signal, arrived in exported.inbox}
    thread.seen = {id: at for id, at, _ in exported.absorbed}
    thread.dropped = {id: outcome for id, _, outcome in exported.absorbed if outcome != "absorbed"} or None
    for row, created in exported.outbox:
        waiting = thread.outbox[row.effect.id] = Waiting(row.effect, 0.0, "", created)
        waiting.attempt, waiting.not_before = row.attempt, row.not_before
    thread.records = [encode(record) for record in exported.records]
    return thread
