"""Makes small what threads keep that have been at rest for a while."""

import logging

from torpor.core.errors import TorporError
from torpor.ports import Clock, Retention

log = logging.getLogger("torpor.resting")

EVERY = 5.0
TOGETHER = 500
"""Threads that are packed before others are looked for."""


async def pack(store: Retention, before: float) -> int:
    """Pack all threads at rest since before an instant; says how many there were."""
    packed = 0
    while True:
        some = await store.pack(before, TOGETHER)
        packed += some
        if some < TOGETHER:
            return packed


async def pack_always(store: Retention, clock: Clock, awake: float, every: float = EVERY) -> None:
    """Pack threads that have been at rest for ``awake`` seconds, for ever; 0: none."""
    while awake:
        try:
            await pack(store, clock.now() - awake)
        except TorporError as error:
            log.warning("Nothing could be packed now: %s", error)
        except Exception:
            log.exception("Packing failed in a way it should not")
        await clock.sleep(every)
