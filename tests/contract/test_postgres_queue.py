"""The suite for queues on PostgreSQL, and what that queue asks of the server."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from torpor.ports import Clock, Queue
from torpor.queues.postgres import PostgresQueue
from torpor.stores.postgres.database import Database
from torpor.testing.queue_contract import DurableQueueContract


@asynccontextmanager
async def postgres(url: str, clock: Clock | None, lease: float = 15.0) -> AsyncIterator[PostgresQueue]:
    database = Database.open(url, clock=clock)
    queue = PostgresQueue(database, lease=lease)
    try:
        yield queue
    finally:
        await queue.close()
        await database.close()


class TestPostgres(DurableQueueContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self._url = postgres_url

    def opened(self, place: Path, clock: Clock, lease: float) -> AbstractAsyncContextManager[Queue]:
        return postgres(self._url, clock, lease)
