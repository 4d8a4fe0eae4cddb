"""Threads in this process's memory: nothing survives it, everything else is as in any store."""

import heapq
import secrets
import time
from collections.abc import Sequence
from typing import Unpack

import msgspec

from torpor.core.codec import decode_record, encode
from torpor.core.errors import Conflict, Refused
from torpor.core.moves import HUSKS
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal
from torpor.core.views import views_space
from torpor.ports import (
    LOADED,
    Asked,
    Clock,
    Commit,
    Exported,
    OutboxRow,
    Posted,
    Row,
    Snapshot,
    StoredMessage,
    Version,
)
from torpor.stores.memory_outbox import Waiting
from torpor.stores.memory_retention import MemoryRetention
from torpor.stores.memory_thread import MemoryThread, messages_of, taken_in

UNKNOWN = Posted("unknown")


class MemoryStore(MemoryRetention):
    """``Store``, ``Side`` and ``Retention``, in memory. ``clock``: the machine's where none is given."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock.now if clock else time.time)
        self._holder = secrets.token_urlsafe(9)

    async def create(self, row: Row, signals: Sequence[AnySignal] = (), *, effect: str = "") -> bool:
        if any(signal.thread != row.thread for signal in signals):
            raise Refused(f"A thread is created with signals to itself only; {row.thread} got others.")
        if row.thread in self._threads or row.thread in self._deleted or not self._may_be(row, effect):
            return False
        thread = self._threads[row.thread] = MemoryThread(row, self._awake)
        now = self._now()
        for signal in signals:
            thread.take(signal, now)
        self._stir(thread)
        return True

    def _may_be(self, row: Row, effect: str) -> bool:
        """Whether those are there that a new thread comes of."""
        if row.source and row.source not in self._threads:
            return False
        parent = self._threads.get(row.parent)
        return not effect or (parent is not None and effect in parent.outbox)

    async def post(self, signals: Sequence[AnySignal]) -> list[Posted]:
        now = self._now()
        return [self._post(signal, now) for signal in signals]

    async def finish(self, signal: AnySignal, effect: str) -> Posted:
        posted = self._post(signal, self._now())
        if posted is not UNKNOWN:
            await self.delivered(signal.thread, [effect])
        return posted

    def _post(self, signal: AnySignal, now: float) -> Posted:
        thread = self._threads.get(signal.thread)
        if thread is None:
            return UNKNOWN
        outcome = "repeat"
        if thread.take(signal, now):
            outcome = "new"
            self._stirring[signal.thread] = thread
        row = thread.row
        return Posted(outcome, row.agent, row.owner, row.tier)

    async def load(self, thread: str, *, known: Version | None = None, limit: int = 100) -> Snapshot:
        rows, now = self._thread(thread), self._now()
        row = rows.row
        history = None
        if known != row.version and row.length - row.base <= LOADED:
            history = tuple(messages_of(rows.bodies, row.base, len(rows.bodies)))
        due: list[AnySignal] = []
        next_due = 0.0
        for signal, _ in rows.inbox.values():
            if signal.due <= now:
                due.append(signal)
            else:
                next_due = min(next_due or signal.due, signal.due)
        outbox: list[OutboxRow] = []
        for waiting in rows.outbox.values():
            if waiting.due <= now:
                outbox.append(waiting.row())
            elif waiting.claimed_until <= now:
                next_due = min(next_due or waiting.due, waiting.due)
        more = len(due) > limit
        signals = tuple(due[:limit] if more else due)
        return Snapshot(row, now, history, signals, more, tuple(outbox), next_due)

    async def commit(self, commit: Commit) -> Version:
        thread = self._thread(commit.thread)
        at = thread.row.version
        if at != commit.base:
            if at.commit_id == commit.commit_id:
                return at
            raise Conflict(f"Thread {commit.thread} has moved on to version {at.counter}.")
        _check_positions(commit, len(thread.bodies))
        now = self._now()
        version = Version(at.counter + 1, commit.commit_id)
        # An encoder's bytes hold room to grow; a copy does not.
        thread.row = msgspec.structs.replace(
            commit.row, version=version, head=bytes(memoryview(commit.row.head))
        )
        for message in commit.messages:
            thread.bodies.append(bytes(memoryview(message.body)))
        self._settle(thread, commit, now)
        if commit.record is not None:
            thread.records.append(bytes(memoryview(encode(commit.record))))
        self._stir(thread)
        return version

    def _settle(self, thread: MemoryThread, commit: Commit, now: float) -> None:
        thread.absorb(commit.absorbed.items(), now)
        for id in commit.cancelled:
            thread.inbox.pop(id, None)
        for timer in commit.timers:
            thread.take(timer, now)
        holder = commit.holder or self._holder
        for effect in commit.effects:
            if effect.id not in thread.outbox:
                thread.outbox[effect.id] = Waiting(effect, commit.claimed_until, holder, now)

    async def postpone(
        self, thread: str, base: Version, attempt: int, not_before: float, *, state: str = ""
    ) -> None:
        rows = self._threads.get(thread)
        if rows is not None and rows.row.version == base:
            kept = state or rows.row.state
            rows.row = msgspec.structs.replace(rows.row, attempt=attempt, not_before=not_before, state=kept)

    async def claim(
        self, thread: str, ids: Sequence[str], until: float, *, holder: str = ""
    ) -> list[OutboxRow]:
        outbox, now, by = self._thread(thread).outbox, self._now(), holder or self._holder
        held = []
        for id in ids:
            waiting = outbox.get(id)
            if waiting is not None and waiting.take(until, by, now):
                held.append(waiting.row())
        return held

    async def hold(self, thread: str, holder: str, until: float) -> float:
        rows, now = self._thread(thread), self._now()
        by, to = rows.held
        if by != holder and to > now:
            return to
        rows.held = (holder, until)
        return 0.0

    async def delivered(self, thread: str, ids: Sequence[str]) -> None:
        rows = self._thread(thread)
        for id in ids:
            rows.outbox.pop(id, None)
        self._stir(rows)

    async def release(
        self, thread: str, ids: Sequence[str], not_before: float, *, holder: str = "", begun: bool = True
    ) -> None:
        outbox, now, by = self._thread(thread).outbox, self._now(), holder or self._holder
        for id in ids:
            waiting = outbox.get(id)
            if waiting is not None:
                waiting.give_back(not_before, by, now, begun=begun)

    async def hasten(self, thread: str, ids: Sequence[str]) -> None:
        outbox = self._thread(thread).outbox
        for id in ids:
            if id in outbox:
                outbox[id].hasten()

    async def read(self, thread: str, after: int = 0, limit: int = 1000) -> list[StoredMessage]:
        bodies = self._thread(thread).bodies
        return messages_of(bodies, after, min(after + limit, len(bodies)))

    async def row(self, thread: str) -> Row | None:
        rows = self._threads.get(thread)
        return None if rows is None else rows.row

    async def inbox(self, thread: str) -> list[AnySignal]:
        return [signal for signal, _ in self._thread(thread).inbox.values()]

    async def outbox(self, thread: str) -> list[OutboxRow]:
        return [waiting.row() for waiting in self._thread(thread).outbox.values()]

    async def threads(self, *, after: str = "", limit: int = 100, **asked: Unpack[Asked]) -> list[Row]:
        rows = (thread.row for id, thread in self._threads.items() if id > after)
        wanted = (row for row in rows if _is_asked(row, asked))
        return heapq.nsmallest(limit, wanted, key=lambda row: row.thread)

    async def stranded(
        self, limit: int = 1000, *, ahead: float = 0.0, agents: Sequence[str] | None = None, skip: int = 0
    ) -> list[tuple[Row, float]]:
        now = self._now()
        found = []
        for thread in self._stirring.values():
            since = thread.stranded_since(now, ahead)
            if since is not None and (agents is None or thread.row.agent in agents):
                found.append((thread.row, since))
        return heapq.nsmallest(skip + limit, found, key=lambda one: one[1])[skip:]

    async def note(self, record: SliceRecord) -> None:
        self._thread(record.thread).records.append(bytes(memoryview(encode(record))))

    async def records(self, thread: str, after: int = 0, limit: int = 1000) -> list[SliceRecord]:
        return [decode_record(body) for body in self._thread(thread).records[after : after + limit]]

    async def last_record(self, thread: str) -> SliceRecord | None:
        records = self._thread(thread).records
        return decode_record(records[-1]) if records else None

    async def seen(self, thread: str, signal: str) -> bool:
        return await self.outcome(thread, signal) is not None

    async def outcome(self, thread: str, signal: str) -> str | None:
        rows = self._threads.get(thread)
        if rows is None:
            return None
        if signal in rows.seen:
            return (rows.dropped or {}).get(signal, "absorbed")
        return "" if signal in rows.inbox else None

    async def prune(self, before: float) -> int:
        created = [waiting.created for rows in self._threads.values() for waiting in rows.outbox.values()]
        before = min([before, *created])
        return sum(rows.forget(before) for rows in self._threads.values())

    async def export(self, thread: str) -> Exported:
        blobs = {hash: body for (of, hash), body in self._blobs.items() if of == thread}
        return self._thread(thread).exported(blobs, await self.entries(views_space(thread)))

    async def take_in(self, exported: Exported) -> bool:
        id = exported.row.thread
        copy = self._threads.get(id)
        if id in self._deleted or (copy is not None and not _is_newer(exported.row, copy.row)):
            return False
        self._blobs = (
            {key: body for key, body in self._blobs.items() if key[0] != id} if copy else self._blobs
        )
        self._spaces.pop(views_space(id), None)
        thread = self._threads[id] = taken_in(exported, self._awake)
        for hash, body in exported.blobs.items():
            self._blobs.setdefault((id, hash), body)
        views = {key: (value, self._now()) for key, value in exported.views.items()}
        self._spaces.setdefault(views_space(id), {}).update(views)
        self._stir(thread)
        return True

    async def now(self) -> float:
        return self._now()

    async def close(self) -> None:
        """Nothing is held but rows."""

    def _thread(self, thread: str) -> MemoryThread:
        try:
            return self._threads[thread]
        except KeyError:
            raise Refused(f"There is no thread {thread!r} in this store.") from None

    def _stir(self, thread: MemoryThread) -> None:
        if thread.inbox or thread.outbox or thread.row.owes:
            self._stirring[thread.row.thread] = thread
        else:
            self._stirring.pop(thread.row.thread, None)


def _is_newer(row: Row, copy: Row) -> bool:
    """Whether a thread that is exported again stands for a copy of it that has not lived."""
    return copy.state in HUSKS and row.version.counter >= copy.version.counter


def _is_asked(row: Row, asked: Asked) -> bool:
    if row.purpose == "compaction" and asked.get("purpose") is None:
        return False
    return all(wanted in (None, getattr(row, name)) for name, wanted in asked.items())


def _check_positions(commit: Commit, length: int) -> None:
    for message in commit.messages:
        if message.position <= length:
            raise Conflict(f"Thread {commit.thread} already has a message at {message.position}.")
        if message.position != length + 1:
            raise Refused(f"Messages of thread {commit.thread} must follow {length}, not begin elsewhere.")
        length += 1
