"""The suite for stores, on every store."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from torpor.ports import Clock
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.stores.sqlite.database import WriterKind
from torpor.testing.store_contract import DurableStoreContract, FullStore, StoreContract


class TestMemory(StoreContract):
    def opened(self, place: Path, clock: Clock) -> AbstractAsyncContextManager[FullStore]:
        return self._only_one(clock)

    @asynccontextmanager
    async def _only_one(self, clock: Clock) -> AsyncIterator[FullStore]:
        self._store: MemoryStore = getattr(self, "_store", None) or MemoryStore(clock)
        yield self._store


@asynccontextmanager
async def sqlite(place: Path, clock: Clock, writer: WriterKind) -> AsyncIterator[FullStore]:
    store = SqliteStore(Database.open(place / "store.db", clock=clock, writer=writer))
    try:
        yield store
    finally:
        await store.close()


class TestSqlite(DurableStoreContract):
    def opened(self, place: Path, clock: Clock) -> AbstractAsyncContextManager[FullStore]:
        return sqlite(place, clock, "thread")


class TestSqliteInline(DurableStoreContract):
    def opened(self, place: Path, clock: Clock) -> AbstractAsyncContextManager[FullStore]:
        return sqlite(place, clock, "inline")
