"""What the sweep forgets: keys, after the retention time, and nothing else."""

import asyncio

from torpor.queues.memory import MemoryQueue
from torpor.runtime.sweep import RETENTION, sweep_always
from torpor.runtime.threads import SAID, STARTS
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock
from torpor.testing.rings_contract import PATIENCE


async def test_old_keys_are_forgotten() -> None:
    clock = FakeClock()
    store, queue = MemoryStore(clock), MemoryQueue(clock)
    for space in (SAID, STARTS, "definitions"):
        await store.put_new(space, "old", b"1")
    clock.advance(RETENTION)
    for space in (SAID, STARTS):
        await store.put_new(space, "new", b"2")
    clock.advance(1.0)
    sweeping = asyncio.create_task(sweep_always(store, store, queue, clock, ["a"]))
    async with asyncio.timeout(PATIENCE):
        while "old" in await store.entries(STARTS):
            await asyncio.sleep(0)
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    assert await store.entries(SAID) == await store.entries(STARTS) == {"new": b"2"}
    assert await store.entries("definitions") == {"old": b"1"}
