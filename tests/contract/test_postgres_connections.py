"""The connections of one process: few, each lent to one at a time, whole again after whatever went wrong."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
import pytest

from tests.contract.postgres_wire import wired
from tests.postgres import Cluster
from torpor.core.errors import Refused, Unavailable
from torpor.stores.postgres import Database, database

ASLEEP = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND query LIKE '%%pg_sleep(60)%%' "
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'torpor'"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    made = await asyncio.to_thread(Database.open, url)
    try:
        yield made
    finally:
        await made.close()


class Looking:
    """What the server says of a database's sessions."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self._admin = cluster.url("postgres")
        self._name = url.rpartition("/")[2].partition("?")[0]

    def count(self, statement: str = SESSIONS) -> int:
        with closing(psycopg.connect(self._admin, autocommit=True)) as other:
            found = other.execute(statement.encode(), (self._name,)).fetchone()
        assert found is not None
        return int(found[0])

    async def until(self, right: Callable[[int], bool], statement: str = SESSIONS) -> None:
        async with asyncio.timeout(30):
            while not right(await asyncio.to_thread(self.count, statement)):
                await asyncio.sleep(0.02)


@pytest.fixture
def looking(postgres_cluster: Cluster, postgres_url: str) -> Looking:
    return Looking(postgres_cluster, postgres_url)


async def test_a_hundred_at_once_share_a_few(postgres_url: str, looking: Looking) -> None:
    async with opened(f"{postgres_url}?pool=3") as made:
        found = await asyncio.gather(*(made.ask("SELECT %(n)s::int", {"n": n}) for n in range(100)))
        assert found == [[(n,)] for n in range(100)]
        assert 1 <= looking.count() <= 3
    await looking.until(lambda sessions: sessions == 0)


async def test_who_waits_too_long_is_told_and_takes_no_place(
    postgres_url: str, looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(f"{postgres_url}?pool=1") as made:
        await made.ask("SELECT 1")
        monkeypatch.setattr(database, "PATIENCE", 0.1)
        sleeping = asyncio.create_task(made.ask("SELECT pg_sleep(60)"))
        await looking.until(bool, ASLEEP)
        with pytest.raises(Unavailable, match="No connection"):
            await made.ask("SELECT 1")
        monkeypatch.setattr(database, "PATIENCE", 20.0)
        sleeping.cancel()
        await asyncio.gather(sleeping, return_exceptions=True)
        assert await made.ask("SELECT 1") == [(1,)]


async def test_what_is_cancelled_leaves_nothing_behind(postgres_url: str, looking: Looking) -> None:
    """Amid a statement, amid a transaction, and while it waits for a connection."""
    async with opened(f"{postgres_url}?pool=2") as made:
        many: list[asyncio.Task[Any]] = []
        for _ in range(2):
            many.append(asyncio.create_task(made.ask("SELECT pg_sleep(60)")))
            many.append(asyncio.create_task(made.together([("SELECT 1", {}), ("SELECT pg_sleep(60)", {})])))
        await looking.until(lambda asleep: asleep == 2, ASLEEP)
        for task in many:
            task.cancel()
        ends = await asyncio.gather(*many, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        found = await asyncio.gather(*(made.ask("SELECT %(n)s::int", {"n": n}) for n in range(20)))
        assert found == [[(n,)] for n in range(20)]
        assert await made.together([("SELECT 1", {}), ("SELECT 2", {})]) == [[(1,)], [(2,)]]
        assert (
            looking.count("SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND xact_start < now()")
            == 0
        )


async def test_a_transaction_that_was_left_open_is_undone(postgres_url: str) -> None:
    async with opened(f"{postgres_url}?pool=1") as made:
        async with made.connection() as connection:
            await connection.execute("BEGIN")
            await connection.execute("CREATE TABLE torpor.half_done ()")
        found = await made.ask(
            "SELECT to_regclass('torpor.half_done')::text, pg_current_xact_id_if_assigned()"
        )
        assert found == [(None, None)]


async def test_one_that_the_server_ended_is_replaced(postgres_cluster: Cluster, postgres_url: str) -> None:
    async with opened(f"{postgres_url}?pool=2") as made:
        for _ in range(5):
            await asyncio.gather(*(made.ask("SELECT 1") for _ in range(4)))
            assert postgres_cluster.terminate(postgres_url) > 0
        assert await made.ask("SELECT 1") == [(1,)]


async def test_one_that_is_old_is_replaced(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LIFE", 0.2)
    async with opened(f"{postgres_url}?pool=1") as made:
        sessions: set[int] = set()
        async with asyncio.timeout(30):
            while len(sessions) < 3:
                sessions.add((await made.ask("SELECT pg_backend_pid()"))[0][0])


async def test_those_that_are_too_many_go_back_to_the_pool(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(f"{postgres_url}?pool=4") as made:
        await asyncio.gather(*(made.ask("SELECT pg_sleep(0.2)") for _ in range(4)))
        assert len(made._spare) == 4
        monkeypatch.setattr(database, "STALE", 0.3)
        async with asyncio.timeout(30):
            while len(made._spare) > 1:
                await asyncio.sleep(0.05)
                await made.ask("SELECT 1")


async def test_closing_while_statements_are_under_way(postgres_url: str, looking: Looking) -> None:
    async with opened(f"{postgres_url}?pool=2") as made:
        under_way = [asyncio.create_task(made.ask("SELECT pg_sleep(0.5)")) for _ in range(4)]
        await looking.until(lambda sessions: sessions == 2)
        await made.close()
        await asyncio.gather(*under_way, return_exceptions=True)
        with pytest.raises(Refused, match="was closed"):
            await made.ask("SELECT 1")
        await looking.until(lambda sessions: sessions == 0)


async def test_a_server_that_accepts_and_never_answers_holds_nobody(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other end takes all that it is sent, so that no timeout of the network strikes."""
    monkeypatch.setattr(database, "SILENCE", 0.5)
    async with wired(postgres_url) as (wire, url), opened(f"{url}&pool=2") as made:
        await asyncio.gather(*(made.ask("SELECT 1") for _ in range(4)))
        wire.mute()
        began = time.monotonic()
        async with asyncio.timeout(30):
            assert await made.ask("SELECT 2") == [(2,)]
            assert await made.together([("SELECT 1", {}), ("SELECT 2", {})]) == [[(1,)], [(2,)]]
        assert time.monotonic() - began > 0.5, "nobody was silent"
