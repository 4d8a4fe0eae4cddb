"""A fleet over PostgreSQL that has nothing to do asks for next to nothing, however many threads sleep."""

import asyncio
from contextlib import AsyncExitStack

import psycopg

from torpor import Agent
from torpor.core.messages import Text
from torpor.models.scripted import ScriptedModel
from torpor.testing.rings_contract import until
from torpor.wiring import Parts, open_parts

WORKERS = 4
SLEEPING = 100_000
SECONDS = 20.0
SETTLING = 15.0

MANY = """
INSERT INTO torpor.threads (thread, {columns})
SELECT 's' || n, {columns} FROM torpor.threads, generate_series(1, {count}) n WHERE thread = %s
"""
RUNG = """
INSERT INTO torpor.rings (thread, agent, owner, tier, ring_at, start_by, not_before, ready, ready_at)
SELECT thread, agent, owner, 0, at, at, at, false, at
FROM (SELECT *, extract(epoch FROM now()) + 3600 + number AS at FROM torpor.threads) s
ON CONFLICT DO NOTHING
"""
COLUMNS = """
SELECT string_agg(attname, ', ') FROM pg_attribute
WHERE attrelid = 'torpor.threads'::regclass AND attnum > 0 AND NOT attisdropped
    AND attname NOT IN ('number', 'thread')
"""
RUN = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


def asleep(url: str, thread: str) -> None:
    """So many threads like one that rests, and a ring for each in an hour."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(COLUMNS).fetchone()
        assert found is not None
        connection.execute(MANY.format(columns=found[0], count=SLEEPING).encode(), (thread,))
        connection.execute(RUNG)
        connection.execute("VACUUM ANALYZE")


def transactions(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(RUN).fetchone()
        assert found is not None
        return int(found[0])


async def test_a_resting_fleet_asks_less_than_five_times_a_second(postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        fleet: list[Parts] = []
        for _ in range(WORKERS):
            agent = Agent("agent", model=ScriptedModel(["Done."]))
            fleet.append(await stack.enter_async_context(open_parts(postgres_url, [agent])))
            await stack.enter_async_context(fleet[-1].working(8))
        thread = (await fleet[0].threads.start("agent", (Text("Hello."),))).row.thread
        await fleet[0].threads.reply(thread, to=None, timeout=30)
        asleep(postgres_url, thread)
        await until(lambda: all(parts.queue._hints.works for parts in fleet))  # type: ignore[attr-defined]
        await asyncio.sleep(SETTLING)
        before = transactions(postgres_url)
        await asyncio.sleep(SECONDS)
        # This test's own looks count as well.
        assert (transactions(postgres_url) - before) / SECONDS < 5.0
