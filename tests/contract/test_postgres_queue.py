"""The suite for queues on PostgreSQL, and what that queue asks of the server."""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres import Cluster
from torpor.ports import Clock, Queue
from torpor.queues.postgres import PostgresQueue
from torpor.stores.postgres.database import Database
from torpor.testing.queue_contract import DurableQueueContract
from torpor.testing.rings_contract import PATIENCE, ring, threads, until

SLEEPING = 100_000
SLEEPERS = """
INSERT INTO torpor.rings (thread, agent, owner, tier, ring_at, start_by, not_before, ready, ready_at)
SELECT 's' || n, 'adder', 'owner-' || n %% 1000, 0, at, at, at, false, at
FROM (SELECT n, extract(epoch FROM now()) + 3600 + n AS at FROM generate_series(1, %s) n) s
"""
FLOOD = """
INSERT INTO torpor.rings (thread, agent, owner, tier, ring_at, start_by, not_before, ready, ready_at)
SELECT 'f' || n, 'adder', 'flood', 0, n, n, 0, true, n FROM generate_series(1, %s) n
"""


@asynccontextmanager
async def postgres(url: str, clock: Clock | None = None, lease: float = 15.0) -> AsyncIterator[PostgresQueue]:
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


async def listening(*queues: PostgresQueue) -> list["asyncio.Task[list[Any]]"]:
    """One waits on each queue, and each hears what the others tell."""
    waiting = [asyncio.create_task(queue.next("w", wait=60)) for queue in queues]
    await until(lambda: all(queue._hints.works for queue in queues))
    return waiting


async def first(waiting: "list[asyncio.Task[list[Any]]]") -> list[str]:
    """What the first of some gets; the others stop waiting."""
    done, rest = await asyncio.wait(waiting, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    return [name for task in done for name in threads(task.result())]


def explained(url: str, *statements: tuple[str, tuple[Any, ...]]) -> str:
    """The plans of all statements inside the queue's functions, as they were run."""
    plans: list[str] = []
    with psycopg.connect(url, autocommit=True, options="-c plan_cache_mode=force_generic_plan") as connection:
        connection.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
        connection.execute("LOAD 'auto_explain'")
        for setting, value in {
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_nested_statements": "on",
            "auto_explain.log_analyze": "on",
            "auto_explain.log_level": "notice",
            "client_min_messages": "notice",
        }.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        plans.clear()
        for text, values in statements:
            connection.execute(text.encode(), values)
    return "\n".join(plans)


CLAIM = "SELECT * FROM torpor.rings_claim_2(NULL, 'w/1', 15, %s::text[], 7, %s, 8)"


def claims(agents: list[str] | None, cap: int) -> tuple[str, tuple[Any, ...]]:
    return CLAIM, (agents, cap)


def filled(url: str, *texts: tuple[str, int]) -> None:
    """Make the tables, and rows in them."""
    Database.open(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for text, count in texts:
            connection.execute(text.encode(), (count,))
        connection.execute("VACUUM ANALYZE torpor.rings")


@pytest.mark.parametrize("cap", [0, 4])
def test_a_claim_is_an_index_scan_however_many_threads_sleep(postgres_url: str, cap: int) -> None:
    filled(postgres_url, (SLEEPERS, SLEEPING))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE torpor.rings SET ready = true WHERE thread IN ('s1', 's2', 's3')")
    plans = explained(postgres_url, claims(None, cap), claims(["adder"], cap))
    assert "Index Scan using rings_ready" in plans
    assert "Index Scan using rings_later" in plans
    assert "Seq Scan on rings" not in plans
    assert "Bitmap" not in plans
    assert most_rows(plans) <= 1_000


def test_a_flood_is_not_read_through(postgres_url: str) -> None:
    filled(postgres_url, (SLEEPERS, 1_000), (FLOOD, SLEEPING))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE torpor.rings SET ready = true WHERE thread LIKE 's__'")
        assert len(connection.execute(CLAIM.encode(), (None, 4)).fetchall()) == 8
        plans = explained(postgres_url, claims(None, 4))
        found = connection.execute("SELECT owner FROM torpor.rings WHERE token <> ''").fetchall()
    assert Counter(owner == "flood" for (owner,) in found) == {True: 4, False: 12}
    assert "Index Scan using rings_by_owner" in plans or "Index Only Scan using rings_by_owner" in plans
    assert "Seq Scan on rings" not in plans
    assert most_rows(plans) <= 1_000


def most_rows(plans: str) -> int:
    """The most rows that one node of a plan gave or threw away."""
    given = [
        int(rows) * int(loops) for rows, loops in re.findall(r"actual time=\S+ rows=(\d+) loops=(\d+)", plans)
    ]
    removed = [int(rows) for rows in re.findall(r"Rows Removed by \w+(?: \w+)*: (\d+)", plans)]
    assert given
    return max(given + removed)


async def test_a_ring_elsewhere_is_heard_at_once(postgres_url: str) -> None:
    async with postgres(postgres_url) as here, postgres(postgres_url) as there:
        waiting = await listening(here)
        begun = time.monotonic()
        await there.ring([ring("t")])
        assert await first(waiting) == ["t"]
        assert time.monotonic() - begun < 1.0


async def test_the_session_that_listens_may_die(postgres_url: str, postgres_cluster: Cluster) -> None:
    async with postgres(postgres_url) as here, postgres(postgres_url) as there:
        waiting = await listening(here)
        postgres_cluster.terminate(postgres_url)
        await until(lambda: not here._hints.works)
        await there.ring([ring("t")])
        assert await first(waiting) == ["t"]
        waiting = await listening(here)
        await there.ring([ring("u")])
        assert await first(waiting) == ["u"]


@pytest.mark.parametrize("listen", ["LISTEN somewhere_else", "SELECT 1 / 0"])
async def test_where_nothing_can_be_heard_the_queue_looks(
    postgres_url: str, listen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in transaction mode takes LISTEN without effect, or refuses it."""
    monkeypatch.setattr("torpor.queues.hints.HEARS_WITHIN", 0.2)
    async with postgres(postgres_url) as here, postgres(postgres_url) as there:
        here._hints._listen = listen
        waiting = asyncio.create_task(here.next("w", wait=60))
        await asyncio.sleep(0.5)
        assert not here._hints.works
        await there.ring([ring("t")])
        assert await first([waiting]) == ["t"]


async def test_clocks_of_workers_do_not_matter(postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        early, late = [await stack.enter_async_context(postgres(postgres_url, lease=1.0)) for _ in range(2)]
        early._bell.now = lambda: time.time() - 3_600.0
        late._bell.now = lambda: time.time() + 3_600.0
        await early.ring([ring("t", time.time() + 5)])
        (lease,) = await early.next("early")
        assert abs(lease.ring_at - time.time()) < 5
        assert await late.next("late", wait=0.1) == []
        held, _ = await early.extend([lease])
        assert threads(held) == ["t"]
        (taken,) = await late.next("late", wait=PATIENCE)
        assert (taken.attempt, await early.extend([lease])) == (1, ([], set()))
        await late.done(taken, again_at=time.time() + 0.5)
        assert await late.size() == 1
        assert threads(await early.next("early", wait=PATIENCE)) == ["t"]


async def test_rings_outlive_the_death_of_all_connections(
    postgres_url: str, postgres_cluster: Cluster
) -> None:
    async with postgres(postgres_url) as queue:
        await queue.ring([ring("a")])
        assert await queue.size() == 1
        postgres_cluster.terminate(postgres_url)
        await queue.ring([ring("b", owner="bob")])
        assert sorted(threads(await queue.next("w", limit=9, owner_cap=1))) == ["a", "b"]


async def test_nobody_waits_for_the_disk(postgres_url: str) -> None:
    """Each function of the queue turns waiting off for its own transaction, and for no other."""
    async with postgres(postgres_url) as queue:
        await queue.ring([ring("t")])
        assert await queue.size() == 1
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for text, values in [
            claims(None, 0),
            ("SELECT * FROM torpor.rings_extend_2(1e12, 15, ARRAY['t'], ARRAY['w/1'])", ()),
        ]:
            with connection.transaction():
                assert connection.execute(text.encode(), values).fetchall()
                assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


async def test_many_at_once_keep_all_promises(postgres_url: str) -> None:
    """Rings, claims, renewals and returns of four processes: no deadlock, no double lease, no cap passed."""
    chance, running, owners = random.Random(7), set[str](), Counter[str]()

    async def work(queue: PostgresQueue) -> int:
        count = 0
        for _ in range(120):
            names = chance.sample(range(60), 8)
            await queue.ring([ring(f"t{n}", owner=f"o{n % 5}", cut=chance.random() < 0.2) for n in names])
            leases = await queue.next("w", limit=3, owner_cap=2)
            for lease in leases:
                assert lease.thread not in running
                running.add(lease.thread)
                owners[lease.owner] += 1
                assert owners[lease.owner] <= 2
            count += len(leases)
            held, _ = await queue.extend(leases)
            assert len(held) == len(leases)
            for lease in leases:
                running.remove(lease.thread)
                owners[lease.owner] -= 1
                await queue.done(lease, again_at=chance.choice([0.0, time.time()]))
        return count

    async with AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(postgres(postgres_url)) for _ in range(4)]
        counts = await asyncio.gather(*(work(queue) for queue in queues))
    assert min(counts) > 20
