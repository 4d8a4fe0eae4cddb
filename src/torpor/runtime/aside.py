"""What becomes of a thread that cannot be read, or that we fail at: it is parked, and its parent is told."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from torpor.core.errors import TorporError
from torpor.core.messages import By, Text
from torpor.core.signals import Compacted, ReportedSignal
from torpor.ports import Ring, Row
from torpor.runtime.state import Kit

log = logging.getLogger("torpor.aside")

BROKEN_MOST = 3_600.0
"""Seconds after which a thread that could not be read is looked at again, at most."""

Rings = Callable[[Sequence[Ring]], Awaitable[None]]


async def set_aside(kit: Kit, thread: str, error: Exception, ring: Rings) -> float:
    """Park a thread. Gives when it is to be looked at again, now and then; 0: the store did not take it."""
    kit.hot.drop(thread)
    again_at = 0.0
    try:
        row = await kit.store.row(thread)
        if row is not None:
            attempt = row.attempt + 1
            again_at = await kit.store.now() + min(BROKEN_MOST, 2.0**attempt)
            await kit.store.postpone(thread, row.version, attempt, again_at, state="parked")
            await _tell_parent(kit, row, error, ring)
    except TorporError:
        log.warning("The thread %s could not be parked now", thread)
    return again_at


async def _tell_parent(kit: Kit, row: Row, error: Exception, ring: Rings) -> None:
    """A child that cannot be read says nothing by itself; whoever waits for it is told, once a time."""
    if not row.parent:
        return
    now, why = await kit.store.now(), f"It cannot be read: {error}"
    id, by = f"{row.thread}/broken/{row.version.counter}", By("thread", row.thread, "store")
    signal: Compacted | ReportedSignal = ReportedSignal(
        row.parent, id, now, by, child=row.thread, what="parked", purpose=row.purpose, parts=(Text(why),)
    )
    if row.purpose == "compaction":
        signal = Compacted(row.parent, id, now, by, child=row.thread, reason=why)
    (posted,) = await kit.store.post([signal])
    if posted.outcome == "new":
        await ring([Ring(row.parent, signal.at, 0.0, posted.tier, posted.owner, posted.agent)])
