"""Finds threads that hold work nobody rang for, at any time, and rings them."""

import logging
from collections.abc import Callable, Sequence

from torpor.core.errors import TorporError
from torpor.core.tiers import start_by
from torpor.ports import Clock, Queue, Ring, Store

log = logging.getLogger("torpor.sweep")

EVERY = 10.0
TOGETHER = 4
"""Workers that sweep as often as one alone would; more of them share that out. Some of those that are counted
may be dead: what they held is to be found soon all the same."""
PAGE = 1_000


async def sweep(store: Store, queue: Queue, agents: Sequence[str] | None = None) -> int:
    """Ring every stranded thread once, those of ``agents`` only; says how many there were."""
    found = 0
    while True:
        stranded = await store.stranded(PAGE, agents=agents, skip=found)
        rings = [
            Ring(row.thread, start_by(row.tier, since), 0.0, row.tier, row.owner, row.agent)
            for row, since in stranded
        ]
        if rings:
            await queue.ring(rings)
        found += len(rings)
        if len(rings) < PAGE:
            return found


async def sweep_always(
    store: Store,
    queue: Queue,
    clock: Clock,
    agents: Sequence[str],
    every: float = EVERY,
    *,
    peers: Callable[[], int] = lambda: 1,
    jitter: Callable[[], float] = lambda: 0.5,
    swept: Callable[[], None] = lambda: None,
) -> None:
    """Sweep now and then, for ever.

    ``peers``: how many workers sweep for these agents, this one included. Beyond ``TOGETHER`` each sweeps so
    much less, at instants that ``jitter`` (0 to 1) draws, so that together they never sweep more often.
    """
    while True:
        try:
            found = await sweep(store, queue, agents)
            swept()
            if found:
                log.info("Rang %d %s that held work", found, "thread" if found == 1 else "threads")
        except TorporError as error:
            log.warning("The sweep found the store away: %s", error)
        except Exception:
            log.exception("The sweep failed in a way it should not")
        many = peers()
        await clock.sleep(every if many == 1 else every * max(1.0, many / TOGETHER) * (0.5 + jitter()))
