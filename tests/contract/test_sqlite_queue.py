"""What the SQLite queue leaves alone: the lock of the file, while there is nothing for those who wait."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from torpor.core.errors import Unavailable
from torpor.queues.sqlite import SqliteQueue
from torpor.stores.sqlite import Database
from torpor.stores.sqlite.database import WriterKind
from torpor.testing.rings_contract import ring, threads, until

T = TypeVar("T")


class Counted:
    """A database that counts what is written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.clock = database.clock
        self.statements = database.statements
        self.settled = database.settled
        self.writes = 0
        self.reads = 0

    def read(self, reading: Callable[[sqlite3.Connection], T]) -> T:
        self.reads += 1
        return self._database.read(reading)

    def leave(self, operation: Callable[[sqlite3.Connection], T], then: Callable[[T], None]) -> None:
        self.writes += 1
        self._database.leave(operation, then)

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


@pytest.mark.parametrize("kind", ["thread", "inline"])
async def test_what_nobody_waited_for_is_written_before_the_queue_closes(
    tmp_path: Path, kind: WriterKind
) -> None:
    database = Database.open(tmp_path / "s.db", writer=kind)
    queue = SqliteQueue(database)
    await queue.ring([ring("first"), ring("second")])
    (lease,) = await queue.next("w")
    await queue.done(lease)
    await queue.ring([ring("third")])
    await queue.close()
    with sqlite3.connect(tmp_path / "s.db") as other:
        found = other.execute("SELECT thread, token FROM rings ORDER BY thread").fetchall()
    other.close()
    await database.close()
    assert found == [("second", ""), ("third", "")]


@pytest.mark.parametrize("kind", ["thread", "inline"])
async def test_a_ring_that_cannot_be_written_is_for_the_sweep(
    tmp_path: Path, kind: WriterKind, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "s.db"
    database = Database.open(file, writer=kind)
    queue = SqliteQueue(database)
    away = file.rename(tmp_path / "away.db")
    await queue.ring([ring("lost")])
    with suppress(Unavailable):
        await database.settled()
    assert "is gone" in caplog.text
    away.rename(file)
    await queue.ring([ring("kept")])
    assert threads(await queue.next("w", limit=9)) == ["kept"]
    await queue.close()
    await database.close()


async def test_work_of_others_makes_no_writer_of_those_who_wait(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (_, counted, waiter, there):
        for number in range(3):
            await there.ring([ring(f"other-{number}", agent="unknown")])
            looked = counted.reads
            await until(lambda: counted.reads >= looked + 4)  # noqa: B023 -- of this round
        assert counted.writes == 1
        await there.ring([ring("mine", agent="adder")])
        assert threads(await asyncio.wait_for(waiter, 60)) == ["mine"]
        assert counted.writes == 2


async def test_later_work_of_others_does_not_wake_for_nothing(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (_, counted, waiter, there):
        at = time.time()
        await there.ring([ring("other", not_before=at + 0.1, agent="unknown")])
        await there.ring([ring("mine", not_before=at + 0.5, agent="adder")])
        assert threads(await asyncio.wait_for(waiter, 60)) == ["mine"]
        assert counted.writes == 2
        assert time.time() >= at + 0.5


def test_every_claim_is_a_search_in_an_index(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    sql = Database.open(file).statements("torpor.queues", "sqlite.sql")
    given = {"mark": "|", "agents": "|adder|", "tiers": 7, "limit": 8, "owner": "ann", "now": 1.0}
    used = {
        "promote": "rings_later",
        "ready": "rings_ready",
        "in_flight": "rings_in_flight",
        "owners": "rings_by_owner",
        "ready_of_owner": "rings_by_owner",
        "next_change": "rings_later",
    }
    connection = sqlite3.connect(file)
    for name, index in used.items():
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql[name]}", given).fetchall()
        plan = [row[3] for row in rows if " rings" in row[3]]
        assert plan
        assert all(f"INDEX {index}" in line for line in plan), (name, plan)
        assert not any("TEMP B-TREE" in row[3] for row in rows), (name, rows)
    connection.close()
