"""What the sweep forgets: keys, after the retention time, and nothing else."""

import asyncio

from torpor.runtime.retention import IDS_KEPT, Keep, prune_always
from torpor.runtime.threads import SAID, STARTS
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock
from torpor.testing.rings_contract import PATIENCE


async def test_old_keys_are_forgotten() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    for space in (SAID, STARTS, "definitions"):
        await store.put_new(space, "old", b"1")
    clock.advance(IDS_KEPT)
    for space in (SAID, STARTS):
        await store.put_new(space, "new", b"2")
    clock.advance(1.0)
    pruning = asyncio.create_task(prune_always(store, clock, Keep()))
    async with asyncio.timeout(PATIENCE):
        while "old" in await store.entries(STARTS):
            await asyncio.sleep(0)
    pruning.cancel()
    await asyncio.gather(pruning, return_exceptions=True)
    assert await store.entries(SAID) == await store.entries(STARTS) == {"new": b"2"}
    assert await store.entries("definitions") == {"old": b"1"}
