"""Finds threads that hold work nobody rang for, at any time, and rings them."""

import logging

from torpor.core.errors import Unavailable
from torpor.core.tiers import start_by
from torpor.ports import Clock, Queue, Ring, Store

log = logging.getLogger("torpor.sweep")

EVERY = 10.0


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
    """Sweep now and then, for ever."""
    while True:
        try:
            found = await sweep(store, queue)
            if found:
                log.info("Rang %d threads that held work", found)
        except Unavailable as error:
            log.warning("The sweep found the store away: %s", error)
        await clock.sleep(every)
