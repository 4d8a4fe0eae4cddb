"""What a move that was given up has left in the other store is taken away there."""

import logging
from collections.abc import Collection, Sequence

from torpor.core.errors import Conflict
from torpor.core.moves import ARRIVING, MOVED
from torpor.ports import Backend, Row
from torpor.runtime.deletion import Counting, away, erase
from torpor.runtime.moving_copies import continued
from torpor.runtime.moving_plan import mark_of
from torpor.runtime.trees import family

log = logging.getLogger("torpor.moves")


async def take_back(there: Backend, root: str, rows: Sequence[Row], attempts: Collection[str]) -> list[str]:
    """Erase the copies of a tree that were begun by some attempts; gives their ids.

    ``rows``: the tree's, none if it was deleted meanwhile. Another attempt that is under way keeps its own.
    What somebody marked as deleted, and was killed, is erased too.
    """
    gone = await _marked(there, root, attempts)
    for link in continued(rows):
        gone += await _history(there, link.thread, attempts)
    ids = {root, *gone, *(row.thread for row in rows)} & set(await there.deleted(1_000_000))
    await erase(there, sorted(ids - {root}) + sorted(ids & {root}), Counting())
    return gone


async def _marked(there: Backend, root: str, attempts: Collection[str]) -> list[str]:
    """Mark the copies as deleted, all at once; those of an attempt that makes them now are not touched."""
    tree = await family(there, root)
    own = [row for row in tree if row.thread == root]
    copies = [row for row in tree if row.state == ARRIVING]
    if not copies or any(row.state != ARRIVING or mark_of(row) not in attempts for row in own):
        return []
    ids = [row.thread for row in copies]
    try:
        await there.delete(ids, versions=away(copies))
    except Conflict as error:
        log.info("Copies of %s are left: %s", root, error)
        return []
    return ids


async def _history(there: Backend, thread: str, attempts: Collection[str]) -> list[str]:
    """The history that the tree continues, unless others continue it there too."""
    row = await there.row(thread)
    if row is None or row.state != MOVED or row.version.commit_id not in attempts:
        return []
    try:
        await there.delete([thread], versions=away([row]))
    except Conflict:
        return []
    return [thread]
