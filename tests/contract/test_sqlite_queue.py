"""What the SQLite queue leaves alone: the lock of the file, while there is nothing for those who wait."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from torpor.queues.sqlite import SqliteQueue
from torpor.stores.sqlite import Database
from torpor.testing.rings_contract import ring, threads, until

T = TypeVar("T")


class Counted:
    """A database that counts what is written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.clock = database.clock
        self.statements = database.statements
        self.writes = 0
        self.reads = 0

    def read(self, reading: Callable[[sqlite3.Connection], T]) -> T:
        self.reads += 1
        return self._database.read(reading)

    def write(self, operation: Callable[[sqlite3.Connection], T]) -> Coroutine[Any, Any, T]:
        self.writes += 1
        return self._database.write(operation)


@asynccontextmanager
async def waiting(place: Path) -> AsyncIterator[tuple[SqliteQueue, Counted, asyncio.Task[Any], SqliteQueue]]:
    """A queue on which somebody waits for the agent ``adder``, and one of another process."""
    ours, others = Database.open(str(place / "s.db")), Database.open(str(place / "s.db"))
    counted = Counted(ours)
    here, there = SqliteQueue(counted), SqliteQueue(others)
    waiter = asyncio.create_task(here.next("w", wait=30.0, agents=["adder"]))
    await until(lambda: counted.reads > 1)
    try:
        yield here, counted, waiter, there
    finally:
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        await here.close()
        await there.close()
        await ours.close()
        await others.close()


async def test_work_of_others_makes_no_writer_of_those_who_wait(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (_, counted, waiter, there):
        for number in range(3):
            await there.ring([ring(f"other-{number}", agent="unknown")])
            looked = counted.reads
            await until(lambda: counted.reads >= looked + 4)  # noqa: B023 -- of this round
        assert counted.writes == 1
        await there.ring([ring("mine", agent="adder")])
        assert threads(await asyncio.wait_for(waiter, 10)) == ["mine"]
        assert counted.writes == 2


async def test_later_work_of_others_does_not_wake_for_nothing(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (_, counted, waiter, there):
        at = time.time()
        await there.ring([ring("other", not_before=at + 0.1, agent="unknown")])
        await there.ring([ring("mine", not_before=at + 0.5, agent="adder")])
        assert threads(await asyncio.wait_for(waiter, 10)) == ["mine"]
        assert counted.writes == 2
        assert time.time() >= at + 0.5
