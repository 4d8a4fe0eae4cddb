"""Finds threads that hold work nobody rang for, at any time, and rings them."""

import logging

from torpor.core.errors import TorporError
from torpor.core.tiers import start_by
from torpor.ports import Clock, Queue, Ring, Store

log = logging.getLogger("torpor.sweep")

EVERY = 10.0
PRUNE_EVERY = 3_600.0
RETENTION = 7 * 86_400.0
"""Seconds for which the ids of absorbed signals are kept: longer than any tool server retries."""


async def sweep(store: Store, queue: Queue) -> int:
    """Ring every stranded thread once; says how many there were."""
    stranded = await store.stranded()
    rings = [
        Ring(row.thread, start_by(row.tier, since), row.not_before, row.tier, row.owner, row.agent)
        for row, since in stranded
    ]
    if rings:
        await queue.ring(rings)
    return len(rings)


async def sweep_always(store: Store, queue: Queue, clock: Clock, every: float = EVERY) -> None:
    """Sweep now and then, and forget old signal ids once an hour, for ever."""
    pruned = 0.0
    while True:
        try:
            found = await sweep(store, queue)
            if found:
                log.info("Rang %d threads that held work", found)
            if clock.now() - pruned > PRUNE_EVERY:
                pruned = clock.now()
                await store.prune(pruned - RETENTION)
        except TorporError as error:
            log.warning("The sweep found the store away: %s", error)
        await clock.sleep(every)
