"""What is forgotten with time, and how trees of threads are erased when somebody asks for that.

Both mark threads as deleted first, all of a tree at once: from then on they are gone for everybody. Their
rows are erased after that, some at a time; who is killed meanwhile leaves the rest to the next who prunes.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Conflict, Refused, TorporError
from torpor.core.messages import Link
from torpor.core.moves import ARRIVING, MOVING
from torpor.core.tiers import start_by
from torpor.ports import AUTHORIZATIONS, FORWARDS, MCP_CALLS, WEBHOOKS, Backend, Clock, Queue, Ring, Row
from torpor.runtime.receipts import Contradicts, UnknownThread
from torpor.runtime.threads import SAID, STARTS

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
STEP = 500
"""Rows that are erased at once, so that others who write wait for milliseconds."""
TRIES = 20
"""How often a tree that grows meanwhile is looked at again, before it is given up."""

_WORDS = {"inbox": "signals", "absorbed": "ids of signals", "ids": "ids of signals", "outbox": "effects"}

Told = Callable[[str, int], None]
"""Is told how many more rows of a kind were erased or forgotten."""

_links = msgspec.msgpack.Decoder(tuple[Link, ...])


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
    backend: Backend, queue: Queue, thread: str, *, forks: bool = False, told: Told | None = None
) -> Deleted:
    """Erase the tree of a root thread for good. ``forks``: and the trees of those that continue one of its.

    ``Refused`` if there is no such thread, or it has a parent; ``HasForks`` names those that need it. What an
    earlier deletion left is erased too.
    """
    count = Counting(told)
    row = await backend.row(thread)
    if row is None:
        begun = await _deleted(backend)
        if thread not in begun:
            raise UnknownThread(f"There is no thread {thread!a:.130}.")
        await erase(backend, begun, count)
        return Deleted(thread, len(begun), (), count.rows, await _left(backend, begun))
    _check_deletable(row)
    gone, taken = await _take_away(backend, queue, row, forks=forks)
    await erase(backend, gone, count)
    named_by = row.source if row.source and row.source not in gone else ""
    return Deleted(thread, len(gone), taken, count.rows, await _left(backend, gone), named_by)


def _check_deletable(row: Row) -> None:
    if row.parent:
        raise Refused(
            f"The thread {row.thread} is part of the tree of {row.root}. Delete {row.root} with all below, "
            f"or close {row.thread}: it goes once it is old, if the policy says so."
        )
    if row.state in (MOVING, ARRIVING):
        raise Refused(f"The thread {row.thread} is on its way to or from another store. Try again later.")


async def _take_away(
    backend: Backend, queue: Queue, root: Row, *, forks: bool
) -> tuple[list[str], tuple[str, ...]]:
    """Mark a tree as deleted; gives its threads with those of its forks, the root last, and the forks."""
    gone: list[str] = []
    taken: list[str] = []
    for _ in range(TRIES):
        tree = await family(backend, root.thread)
        ids = [row.thread for row in tree]
        heirs = await _heirs(backend, tree)
        if heirs and not forks:
            raise HasForks(_with_forks(root.thread, sorted(heirs)))
        for heir in sorted(heirs):
            row = await backend.row(heir)
            if row is not None:
                below, others = await _take_away(backend, queue, row, forks=True)
                gone += below
                taken += [heir, *others]
        try:
            await backend.delete(ids)
        except Conflict:
            continue  # somebody was born meanwhile
        await _call_off(queue, tree)
        return [*gone, *(id for id in ids if id != root.thread), root.thread], tuple(taken)
    raise Conflict(f"The tree of {root.thread} grows faster than it can be deleted. Close it first.")


def _with_forks(thread: str, heirs: Sequence[str]) -> str:
    named = ", ".join(heirs[:5]) + (f" and {len(heirs) - 5} more" if len(heirs) > 5 else "")
    one = len(heirs) == 1
    return (
        f"{'A fork continues' if one else 'Forks continue'} the history of {thread}: {named}. "
        f"Delete {'it' if one else 'them'} first, or all together (--with-forks)."
    )


async def _call_off(queue: Queue, tree: Sequence[Row]) -> None:
    """Cut what runs for deleted threads short; whoever comes later finds nothing to do."""
    await queue.ring([_cut(row) for row in tree if row.state != "closed"])
    await queue.next_at(())  # calls take effect in order: no ring comes after what is erased next


def _cut(row: Row) -> Ring:
    return Ring(row.thread, start_by(row.tier, row.updated), 0.0, row.tier, row.owner, row.agent, cut=True)


async def family(backend: Backend, root: str) -> list[Row]:
    """All threads of a root's tree, those that only write summaries too."""
    return [*await _listed(backend, root, None), *await _listed(backend, root, "compaction")]


async def _listed(backend: Backend, root: str, purpose: str | None) -> list[Row]:
    rows: list[Row] = []
    while page := await backend.threads(
        root=root, purpose=purpose, after=rows[-1].thread if rows else "", limit=STEP
    ):
        rows += page
    return rows


async def _heirs(backend: Backend, tree: Sequence[Row]) -> dict[str, str]:
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


async def _left(backend: Backend, threads: Sequence[str]) -> dict[str, int]:
    count = Counting()
    for thread in threads:
        for kind, rows in (await backend.footprint(thread)).items():
            count.add(kind, rows)
    return count.rows


async def _deleted(backend: Backend) -> list[str]:
    return await backend.deleted(1_000_000)


async def prune(backend: Backend, keep: Keep, *, dry_run: bool = False, told: Told | None = None) -> Pruned:
    """Forget what is older than it is to be kept, in short steps between which others can write.

    Acknowledged effects are not kept at all. A dry run looks for closed threads and for what is nobody's.
    """
    now, count = await backend.now(), Counting(told)
    if not dry_run:
        await erase(backend, await _deleted(backend), count)
    threads = await _prune_closed(backend, now - keep.closed, count, dry_run) if keep.closed else []
    orphans = await backend.orphans(now - ORPHAN_AGE)
    if dry_run:
        return Pruned(tuple(threads), tuple(orphans), await _left(backend, [*threads, *orphans]))
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
    after = ""
    while roots := await backend.closed(before, after=after):
        after = roots[-1]
        for root in roots:
            going = await removable(backend, root, before)
            if going and (dry_run or await _deleted_now(backend, going, before)):
                gone += going
                if not dry_run:
                    await erase(backend, going, count)
    return gone


async def _deleted_now(backend: Backend, threads: Sequence[str], before: float) -> bool:
    try:
        return bool(await backend.delete(threads, closed_before=before))
    except Conflict as error:
        log.info("A tree of closed threads is left for later: %s", error)
        return False


async def removable(backend: Backend, root: str, before: float) -> list[str]:
    """Threads of a tree that are closed and old, and of which nobody who stays comes."""
    tree = await family(backend, root)
    forked = set((await _heirs(backend, [row for row in tree if _is_old(row, before)])).values())
    comes_of = {row.thread: {row.parent, *_lineage(row)} for row in tree}
    staying = [row.thread for row in tree if not _is_old(row, before) or row.thread in forked]
    kept = set(staying)
    while staying:
        needed = comes_of.get(staying.pop(), set()) - kept
        kept |= needed
        staying += needed
    return [row.thread for row in tree if row.thread not in kept]


def _is_old(row: Row, before: float) -> bool:
    return row.state == "closed" and row.updated < before


def _lineage(row: Row) -> set[str]:
    return {link.thread for link in _links.decode(row.lineage)} if row.lineage else set()


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
        await clock.sleep(PRUNE_EVERY)


async def _is_time(backend: Backend) -> bool:
    now, last = await backend.now(), await backend.get(PRUNED, "at")
    if last is not None and float(last) > now - PRUNE_EVERY / 2:
        return False
    await backend.put(PRUNED, "at", str(now).encode())
    return True


def in_words(rows: Mapping[str, int]) -> str:
    """Counts by kind, as people read them."""
    return ", ".join(f"{_WORDS.get(kind, kind)} {count:,}" for kind, count in rows.items()) or "nothing"
