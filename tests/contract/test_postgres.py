"""The suite for stores, on PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from torpor.ports import Clock
from torpor.stores.postgres import Database, PostgresStore
from torpor.testing.store_contract import DurableStoreContract, FullStore


@asynccontextmanager
async def opened(url: str, clock: Clock | None = None) -> AsyncIterator[FullStore]:
    store = PostgresStore(Database.open(url, clock=clock))
    try:
        yield store
    finally:
        await store.close()


class TestPostgres(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.url = postgres_url

    def opened(self, place: Path, clock: Clock) -> AbstractAsyncContextManager[FullStore]:
        return opened(self.url, clock)
