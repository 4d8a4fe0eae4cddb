"""How trees of threads are erased when somebody asks for that.

Threads are marked as deleted first, all of a tree at once: from then on they are gone for everybody. Their
rows are erased after that, some at a time; who is killed meanwhile leaves the rest to the next who deletes
the same tree, or prunes.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Conflict, Refused, TorporError
from torpor.core.moves import ARRIVING, AWAY, MOVED, MOVING
from torpor.core.tiers import start_by
from torpor.ports import Backend, Queue, Ring, Row, Version
from torpor.runtime.moving_plan import is_whole, plan_of
from torpor.runtime.receipts import Contradicts, UnknownThread
from torpor.runtime.trees import family

STEP = 500
"""Rows that are erased at once, so that others who write wait for milliseconds."""
TRIES = 20
"""How often a tree that grows meanwhile is looked at again, before it is given up."""

_WORDS = {"inbox": "signals", "absorbed": "ids of signals", "ids": "ids of signals", "outbox": "effects"}

Told = Callable[[str, int], None]
"""Is told how many more rows of a kind were erased or forgotten."""


class Deleted(msgspec.Struct, frozen=True):
    """What was erased, and the proof of it."""

    thread: str
    threads: int = 0
    """Threads of the tree, and of the trees of its forks."""
    forks: tuple[str, ...] = ()
    """Forks that went with it."""
    rows: Mapping[str, int] = {}
    """Rows by kind; see ``Retention.erase``."""
    left: Mapping[str, int] = {}
    """What a search for all the ids found afterwards, by kind: nothing."""
    named_by: str = ""
    """The thread that it was a fork of: its history goes on naming this one's id."""


class HasForks(Contradicts):
    """Others continue the history of what should be deleted."""


async def delete(
    backend: Backend,
    queue: Queue,
    thread: str,
    *,
    forks: bool = False,
    moving: bool = False,
    told: Told | None = None,
) -> Deleted:
    """Erase the tree of a root thread for good. ``forks``: and the trees of those that continue one of its.

    ``Refused`` if there is no such thread, it has a parent, or is part of a move that is not over: ``moving``
    takes that away too, which is safe where the tree lives in the other store. ``HasForks`` names those that
    need it. Asked again after it was interrupted, it erases what was left.
    """
    count = Counting(told)
    row = await backend.row(thread)
    if row is None and not await family(backend, thread):
        begun = await deleted(backend)
        if thread not in begun:
            raise UnknownThread(f"There is no thread {thread!a:.130}.")
        await erase(backend, [*(id for id in begun if id != thread), thread], count)
        return Deleted(thread, len(begun), (), count.rows, await left_of(backend, begun))
    gone, taken = await _take_away(backend, queue, thread, forks=forks, moving=moving)
    await erase(backend, gone, count)
    left = await left_of(backend, gone)
    if left:  # what names them may be there no more, but not erased yet: whoever did that was killed
        await erase(backend, await deleted(backend), count)
        left = await left_of(backend, gone)
    named_by = row.source if row is not None and row.source not in gone else ""
    return Deleted(thread, len(gone), taken, count.rows, left, named_by)


async def _check_deletable(backend: Backend, row: Row, *, moving: bool) -> None:
    thread = row.thread
    if row.parent:
        raise Refused(
            f"The thread {thread} is part of the tree of {row.root}. Delete {row.root} with all below, "
            f"or close {thread}: it goes once it is old, if the policy says so."
        )
    if row.state == MOVING:
        raise Refused(
            f"The thread {thread} is on its way to another store. Complete that (`torpor migrate {thread} "
            f"DESTINATION`) or give it up (`torpor migrate {thread} --abort`) first."
        )
    if is_whole(row) and not moving:
        raise Refused(
            f"The thread {thread} is on its way from another store. That may have ended it already, and then "
            "this copy is all there is. Complete the move, or give it up, over there. If the thread lives "
            "there, or is to be gone, say so: --moving."
        )
    if row.state == MOVED and not moving:
        plan = await plan_of(backend, thread)
        if plan is not None and not plan.done:
            raise Refused(
                f"The thread {thread} has left for {plan.to}, but has not arrived. Complete that first: "
                f"`torpor migrate {thread} {plan.to}`. If it is to be gone, say so: --moving."
            )


async def _take_away(
    backend: Backend, queue: Queue, root: str, *, forks: bool, moving: bool
) -> tuple[list[str], tuple[str, ...]]:
    """Mark a tree as deleted, with those of its forks; gives all ids, the root last, and the forks."""
    arriving = False
    for _ in range(TRIES):
        rows, taken = await _going(backend, root, forks=forks, moving=moving)
        ids = [row.thread for row in rows]
        if not rows:
            raise UnknownThread(f"There is no thread {root!a:.130}.")
        if arriving and rows[-1].state != ARRIVING:
            raise Refused(f"The thread {root} has arrived meanwhile: it lives here. Nothing was deleted.")
        arriving = arriving or rows[-1].state == ARRIVING
        try:
            await backend.delete(ids, versions=away(rows))
        except Conflict:
            continue  # somebody was born, or moved on, meanwhile
        await _call_off(queue, rows)
        return ids, taken
    raise Conflict(f"The tree of {root} grows faster than it can be deleted. Close it first.")


async def _going(
    backend: Backend, root: str, *, forks: bool, moving: bool
) -> tuple[list[Row], tuple[str, ...]]:
    """All threads of a tree, the root last and before it those of its forks; and what these are called."""
    roots, rows = [root], list[Row]()
    for one in roots:
        tree = await family(backend, one)
        row = next((row for row in tree if row.thread == one), None) or await backend.row(one)
        if row is not None:
            await _check_deletable(backend, row, moving=moving)
        heirs = [heir for heir in sorted(await heirs_of(backend, tree)) if heir not in roots]
        if heirs and not forks:
            raise HasForks(_with_forks(root, heirs))
        roots += heirs
        rows = [*sorted(tree, key=lambda row: row.thread == one), *rows]
    return rows, tuple(roots[1:])


def away(rows: Sequence[Row]) -> dict[str, Version]:
    """The versions of those that have moved, or are about to."""
    return {row.thread: row.version for row in rows if row.state in AWAY}


def _with_forks(thread: str, heirs: Sequence[str]) -> str:
    named = ", ".join(heirs[:5]) + (f" and {len(heirs) - 5} more" if len(heirs) > 5 else "")
    one = len(heirs) == 1
    return (
        f"{'A fork continues' if one else 'Forks continue'} the history of {thread}: {named}. "
        f"Delete {'it' if one else 'them'} first, or all together (--with-forks)."
    )


async def _call_off(queue: Queue, tree: Sequence[Row]) -> None:
    """Cut what runs for deleted threads short; whoever comes later finds nothing to do."""
    await queue.ring([_cut(row) for row in tree if row.state != "closed" and row.state not in AWAY])
    await queue.next_at(())  # calls take effect in order: no ring comes after what is erased next


def _cut(row: Row) -> Ring:
    return Ring(row.thread, start_by(row.tier, row.updated), 0.0, row.tier, row.owner, row.agent, cut=True)


async def heirs_of(backend: Backend, tree: Sequence[Row]) -> dict[str, str]:
    """Forks of a tree's threads that are there, with what each continues.

    Also such as were made before rows named their source.
    """
    ids = [row.thread for row in tree]
    heirs = dict(await backend.heirs(ids))
    for row in tree:
        for heir in _heads_heirs(row) - heirs.keys():
            if await backend.row(heir) is not None:
                heirs[heir] = row.thread
    return heirs


def _heads_heirs(row: Row) -> set[str]:
    try:
        return set(decode_head(row.head, row.shape).heirs)
    except TorporError:
        return set()  # what cannot be read can still be deleted


class Counting:
    """Adds up rows by kind."""

    def __init__(self, told: Told | None = None) -> None:
        self.rows: dict[str, int] = {}
        self._told = told

    def add(self, kind: str, count: int) -> None:
        """So many more."""
        if count:
            self.rows[kind] = self.rows.get(kind, 0) + count
            if self._told is not None:
                self._told(kind, count)


async def erase(backend: Backend, threads: Sequence[str], count: Counting) -> None:
    """Erase all that deleted threads, or ids of none, have left."""
    for thread in threads:
        while erased := await backend.erase(thread, STEP):
            for kind, rows in erased.items():
                count.add(kind, rows)


async def left_of(backend: Backend, threads: Sequence[str]) -> dict[str, int]:
    """What is kept under these ids, by kind."""
    count = Counting()
    for thread in threads:
        for kind, rows in (await backend.footprint(thread)).items():
            count.add(kind, rows)
    return count.rows


async def deleted(backend: Backend) -> list[str]:
    """Threads that are marked, and not erased yet."""
    return await backend.deleted(1_000_000)


def in_words(rows: Mapping[str, int]) -> str:
    """Counts by kind, as people read them."""
    return ", ".join(f"{_WORDS.get(kind, kind)} {count:,}" for kind, count in rows.items()) or "nothing"
