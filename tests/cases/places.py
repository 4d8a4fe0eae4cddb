"""Where cases run: a store and a queue on a fake clock."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.inline_postgres import Bench
from torpor.queues.memory import MemoryQueue
from torpor.queues.sqlite import SqliteQueue
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import FakeClock

Backends = Callable[[FakeClock], tuple[Any, Any]]
"""Makes new ones each time."""


def memory(clock: FakeClock) -> tuple[Any, Any]:
    return MemoryStore(clock), MemoryQueue(clock)


def sqlite(folder: Path) -> Backends:
    numbers = itertools.count()

    def make(clock: FakeClock) -> tuple[Any, Any]:
        path = folder / f"{next(numbers)}.db"
        database = Database.open(path, clock=clock, writer="inline", synchronous="NORMAL")
        return SqliteStore(database), SqliteQueue(database)

    return make


def postgres(bench: Bench) -> Backends:
    def make(clock: FakeClock) -> tuple[Any, Any]:
        from torpor.queues.postgres import PostgresQueue
        from torpor.stores.postgres import PostgresStore

        database = bench.lend(clock)
        return PostgresStore(database), PostgresQueue(database)

    return make
