"""The runtime's tests on PostgreSQL: whatever store they ask for, they get one there.

``TORPOR_TEST_STORE=postgres`` asks for that. A path, or the URL of a SQLite file, stands for one database as
long as a test runs; each store in memory is a database of its own.
"""

import gc
import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.inline_postgres import Bench, InlineDatabase
from tests.postgres import Cluster
from tests.runtime import harm_on_postgres
from torpor.clock import SystemClock
from torpor.ports import Clock
from torpor.queues.postgres import PostgresQueue
from torpor.settings import check_store, is_postgres
from torpor.stores import sqlite
from torpor.stores.postgres import Database, PostgresStore

sqlite.SqliteStore = PostgresStore  # type: ignore[misc,assignment]  # for tests that make one of their own of it

ENOUGH = 6
"""Databases in use at once, above which some are perhaps only not yet collected."""


class Databases:
    """Those of one test, by what it calls them."""

    def __init__(self, benches: "list[Bench]", cluster: Cluster, stack: ExitStack) -> None:
        self._cluster = cluster
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._numbers = itertools.count()
        self._benches = benches
        self._named: dict[str, InlineDatabase] = {}
        self._alone: InlineDatabase | None = None
        """Of a store in memory, until a queue joins it."""

    def url(self, name: str = "") -> str:
        """The database of a name, or a new one for none."""
        name = name or f"{next(self._numbers)}"
        if name not in self._urls:
            self._urls[name] = self._stack.enter_context(self._cluster.database())
        return self._urls[name]

    def open_store(
        self, url: str, clock: Clock, lease: float, synchronous: str
    ) -> tuple[PostgresStore, PostgresQueue]:
        """In the place of what ``wiring`` does with a URL."""
        check_store(url)
        given = None if isinstance(clock, SystemClock) else clock
        if url == "memory:":
            database: Database = self._lent(given)
        else:
            database = Database.open(url if is_postgres(url) else self.url(_path(url)), clock=given)
        return PostgresStore(database), PostgresQueue(database, lease=lease)

    def open(self, path: Any, *, clock: Clock | None = None, **options: Any) -> Database:
        """In the place of opening a SQLite file."""
        name = _path(os.fspath(path))
        if options.get("writer") != "inline":
            return Database.open(self.url(name), clock=clock)
        known = self._named.get(name)
        if known is None:
            known = self._named[name] = self._lent(clock)
        return InlineDatabase(known.place, clock, known._connection)

    def store(self, clock: Clock | None = None) -> PostgresStore:
        """In the place of a store in memory."""
        self._alone = self._lent(clock)
        return PostgresStore(self._alone)

    def queue(self, clock: Clock | None = None, *, lease: float = 15.0) -> PostgresQueue:
        """In the place of a queue in memory."""
        database, self._alone = self._alone, None
        if database is None or database.clock is not clock:
            database = self._lent(clock)
        return PostgresQueue(database, lease=lease)

    def _lent(self, clock: Clock | None) -> InlineDatabase:
        """A database without rows, perhaps one that nobody has in hand any more."""
        for attempt in range(2):
            for bench in self._benches:
                if bench.is_free:
                    return bench.lend(clock)
            if attempt or len(self._benches) < ENOUGH:
                break
            gc.collect()
        self._benches.append(Bench(self._cluster))
        return self._benches[-1].lend(clock)


def _path(url: str) -> str:
    return str(Path(url.removeprefix("sqlite:///")).resolve())


@pytest.fixture(scope="session")
def benches(postgres_cluster: Cluster) -> Iterator[list[Bench]]:
    found: list[Bench] = []
    yield found
    for bench in found:
        bench.close()


@pytest.fixture(autouse=True)
def on_postgres(
    postgres_cluster: Cluster, benches: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    with ExitStack() as stack:
        databases = Databases(benches, postgres_cluster, stack)
        stands_in = {
            "MemoryStore": databases.store,
            "MemoryQueue": databases.queue,
            "SqliteStore": PostgresStore,
            "SqliteQueue": PostgresQueue,
            "Database": databases,
            "shared_store": lambda folder: databases.url(str(folder)),
            "alter": harm_on_postgres.alter,
            "spoil": harm_on_postgres.spoil,
            "Disk": harm_on_postgres.Disk,
        }
        monkeypatch.setattr("torpor.wiring._open_store", databases.open_store)
        for name, module in list(sys.modules.items()):
            if name.startswith("tests.runtime.") and not name.endswith("on_postgres"):
                for each, other in stands_in.items():
                    if hasattr(module, each):
                        monkeypatch.setattr(module, each, other)
        yield
        for bench in benches:
            bench.take_back()
