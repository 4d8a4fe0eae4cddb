"""What a fleet asks of its server while nothing happens and very many threads sleep."""

import asyncio
from contextlib import AsyncExitStack

import msgspec
import psycopg
from fleet_chain import begun, crew, spent
from fleet_process import AnyLine, Done, opened

SETTLING = 20.0
PATIENCE = 60.0

_COLUMNS = """
SELECT string_agg(attname, ', ') FROM pg_attribute
WHERE attrelid = 'torpor.threads'::regclass AND attnum > 0 AND NOT attisdropped
    AND attname NOT IN ('number', 'thread')
"""
_MANY = """
INSERT INTO torpor.threads (thread, {columns})
SELECT 's' || n, {columns} FROM torpor.threads, generate_series(1, {count}) n WHERE thread = 'agent-0'
"""
_RUNG = """
INSERT INTO torpor.rings (thread, agent, owner, tier, ring_at, start_by, not_before, ready, ready_at)
SELECT thread, agent, owner, 0, at, at, at, false, at
FROM (SELECT *, extract(epoch FROM now()) + 3600 + number AS at FROM torpor.threads) s
ON CONFLICT DO NOTHING
"""


class Rest(msgspec.Struct, frozen=True):
    """What was seen."""

    workers: int
    sleeping: int
    seconds: float
    queries_per_s: float
    """Of all workers together."""


async def rest(store: str, workers: int, slots: int, sleeping: int, seconds: float) -> Rest:
    """Count what workers ask while so many threads wait for an instant in an hour."""
    done = asyncio.Event()

    def hear(line: AnyLine) -> None:
        if isinstance(line, Done):
            done.set()

    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(opened(store, "chain", 1))
        running = await stack.enter_async_context(crew(hear, store, "chain", workers, slots, 1))
        running.go()
        await begun(parts, 1)
        await asyncio.wait_for(done.wait(), PATIENCE)
        await asyncio.to_thread(_put_to_sleep, store, sleeping)
        await asyncio.sleep(SETTLING)
        before = spent(store)
        await asyncio.sleep(seconds)
        after = spent(store)
    return Rest(workers, sleeping, seconds, round((after.transactions - before.transactions) / seconds, 2))


def _put_to_sleep(store: str, count: int) -> None:
    with psycopg.connect(store, autocommit=True) as connection:
        found = connection.execute(_COLUMNS.encode()).fetchone()
        assert found is not None
        connection.execute(_MANY.format(columns=found[0], count=count).encode())
        connection.execute(_RUNG.encode())
        connection.execute("VACUUM ANALYZE")
