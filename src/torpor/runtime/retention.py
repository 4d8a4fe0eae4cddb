"""What is forgotten with time: threads that are over, orphans, ids and records.

Threads are taken away as they are when somebody asks for that; see ``deletion``.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from torpor.core.errors import Conflict, TorporError
from torpor.core.moves import MOVED
from torpor.ports import AUTHORIZATIONS, FORWARDS, MCP_CALLS, WEBHOOKS, Backend, Clock, Row
from torpor.runtime.deletion import (
    Counting,
    Told,
    away,
    deleted,
    erase,
    heirs_of,
    in_words,
    left_of,
)
from torpor.runtime.moving_plan import plan_of
from torpor.runtime.threads import SAID, STARTS
from torpor.runtime.trees import family, links_of

log = logging.getLogger("torpor.retention")

DAY = 86_400.0
IDS_KEPT = 7 * DAY
"""Seconds for which the ids of absorbed signals are kept: longer than any tool server retries."""
CALLS_KEPT = 60 * DAY
"""Seconds after which a call that nobody has touched is none any more."""
LONGEST_WAIT = 366 * DAY
"""Seconds after which nobody is expected any more to authorize what a tool asked for."""
PRUNE_EVERY = 3_600.0
"""Seconds between two times that what is old is forgotten, by whichever worker comes first."""
PRUNED = "retention"
"""Space of when that was last done."""
ORPHAN_AGE = DAY
"""Seconds for which something may be kept for a thread that is not there yet."""


class Keep(msgspec.Struct, frozen=True):
    """For how long things are kept, in seconds; 0: for ever."""

    closed: float = 0.0
    """Threads after they were closed and as long as nothing of theirs is needed."""
    records: float = 0.0
    """The records of slices, but the last one of each thread."""
    ids: float = IDS_KEPT
    """Ids of absorbed signals, of signed messages, and keys of what was said and started."""
    awake: float = 60.0
    """What threads hold after their last slice, as it was written; then it is packed."""


def keep_of(settings: Any) -> Keep:
    """For how long things are kept, by settings, which name days."""
    days = (settings.keep_closed_days, settings.keep_records_days, settings.keep_ids_days)
    closed, records, ids = (each * DAY for each in days)
    return Keep(closed, records, ids, settings.pack_after)


class Pruned(msgspec.Struct, frozen=True):
    """What was forgotten; of a dry run, what would be."""

    threads: tuple[str, ...] = ()
    """Closed threads."""
    orphans: tuple[str, ...] = ()
    """Ids of no thread under which something had been kept."""
    rows: Mapping[str, int] = {}
    """Rows of those by kind (see ``Retention.erase``), ``ids``, ``keys`` and ``records`` of others."""


async def prune(backend: Backend, keep: Keep, *, dry_run: bool = False, told: Told | None = None) -> Pruned:
    """Forget what is older than it is to be kept, in short steps between which others can write.

    Acknowledged effects are not kept at all. A dry run looks for closed threads and for what is nobody's.
    """
    now, count = await backend.now(), Counting(told)
    if not dry_run:
        await erase(backend, await deleted(backend), count)
    threads = await _prune_closed(backend, now - keep.closed, count, dry_run) if keep.closed else []
    orphans = await backend.orphans(now - ORPHAN_AGE)
    if dry_run:
        return Pruned(tuple(threads), tuple(orphans), await left_of(backend, [*threads, *orphans]))
    await erase(backend, orphans, count)
    await _forget(backend, now, keep, count)
    return Pruned(tuple(threads), tuple(orphans), count.rows)


async def _forget(backend: Backend, now: float, keep: Keep, count: Counting) -> None:
    if keep.ids:
        count.add("ids", await backend.prune(now - keep.ids))
        for space in (SAID, STARTS, WEBHOOKS):
            count.add("keys", await backend.forget(space, now - keep.ids))
    for space in (AUTHORIZATIONS, FORWARDS):
        count.add("keys", await backend.forget(space, now - LONGEST_WAIT))
    count.add("keys", await backend.forget(MCP_CALLS, now - CALLS_KEPT))
    if keep.records:
        count.add("records", await backend.forget_records(now - keep.records))


async def _prune_closed(backend: Backend, before: float, count: Counting, dry_run: bool) -> list[str]:
    gone: list[str] = []
    after, needed = "", await _handed_on(backend)
    while roots := await backend.closed(before, after=after):
        after = roots[-1]
        for root in roots:
            rows = await removable(backend, root, before, needed)
            going = [row.thread for row in rows]
            if going and (dry_run or await _deleted_now(backend, rows, before)):
                gone += going
                if not dry_run:
                    await erase(backend, going, count)
    return gone


async def _deleted_now(backend: Backend, rows: Sequence[Row], before: float) -> bool:
    try:
        ids = [row.thread for row in rows]
        return bool(await backend.delete(ids, closed_before=before, versions=away(rows)))
    except Conflict as error:
        log.info("A tree of closed threads is left for later: %s", error)
        return False


async def _handed_on(backend: Backend) -> set[str]:
    """Threads that have left, and whose callbacks may still come here."""
    return {key.partition("/")[0] for key in await backend.entries(FORWARDS)}


async def removable(backend: Backend, root: str, before: float, needed: Collection[str] = ()) -> list[Row]:
    """Threads of a tree that are closed or moved, and old, and of which nobody who stays comes.

    Of those that have moved, none while the move is not complete, and none of ``needed``.
    """
    tree = await family(backend, root)
    plan = await plan_of(backend, root)
    arrived = plan is None or plan.done
    old = [row for row in tree if _is_old(row, before, moved=arrived and row.thread not in needed)]
    forked = set((await heirs_of(backend, old)).values())
    comes_of = {row.thread: {row.parent, *(link.thread for link in links_of(row))} for row in tree}
    going = {row.thread for row in old if row.thread not in forked}
    staying = [row.thread for row in tree if row.thread not in going]
    kept = set(staying)
    while staying:
        others = comes_of.get(staying.pop(), set()) - kept
        kept |= others
        staying += others
    return [row for row in tree if row.thread not in kept]


def _is_old(row: Row, before: float, *, moved: bool) -> bool:
    return (row.state == "closed" or (moved and row.state == MOVED)) and row.updated < before


async def prune_always(backend: Backend, clock: Clock, keep: Keep) -> None:
    """Prune once an hour, for ever, unless another worker has done so meanwhile."""
    while True:
        try:
            if await _is_time(backend):
                pruned = await prune(backend, keep)
                if pruned.rows:
                    log.info("Forgot what is old: %s", in_words(pruned.rows))
        except TorporError as error:
            log.warning("Nothing could be pruned now: %s", error)
        except Exception:
            log.exception("Pruning failed in a way it should not")
        me = asyncio.current_task()
        if me is not None and me.cancelling():  # a statement that was cut said so in its own words
            raise asyncio.CancelledError
        await clock.sleep(PRUNE_EVERY)


async def _is_time(backend: Backend) -> bool:
    now, last = await backend.now(), await backend.get(PRUNED, "at")
    if last is not None and float(last) > now - PRUNE_EVERY / 2:
        return False
    await backend.put(PRUNED, "at", str(now).encode())
    return True
