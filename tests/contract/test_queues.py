"""The suite for queues, on every queue."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from torpor.ports import Clock, Queue
from torpor.queues.memory import MemoryQueue
from torpor.queues.sqlite import SqliteQueue
from torpor.stores.sqlite import Database
from torpor.stores.sqlite.database import WriterKind
from torpor.testing.queue_contract import DurableQueueContract, QueueContract


class TestMemory(QueueContract):
    def opened(self, place: Path, clock: Clock, lease: float) -> AbstractAsyncContextManager[Queue]:
        return self._only_one(clock, lease)

    @asynccontextmanager
    async def _only_one(self, clock: Clock, lease: float) -> AsyncIterator[Queue]:
        self._queue: MemoryQueue = getattr(self, "_queue", None) or MemoryQueue(clock, lease=lease)
        yield self._queue
        await self._queue.close()


@asynccontextmanager
async def sqlite(place: Path, clock: Clock, lease: float, writer: WriterKind) -> AsyncIterator[Queue]:
    database = Database.open(place / "store.db", clock=clock, writer=writer)
    queue = SqliteQueue(database, lease=lease)
    try:
        yield queue
    finally:
        await queue.close()
        await database.close()


class TestSqlite(DurableQueueContract):
    def opened(self, place: Path, clock: Clock, lease: float) -> AbstractAsyncContextManager[Queue]:
        return sqlite(place, clock, lease, "thread")


class TestSqliteInline(DurableQueueContract):
    def opened(self, place: Path, clock: Clock, lease: float) -> AbstractAsyncContextManager[Queue]:
        return sqlite(place, clock, lease, "inline")
