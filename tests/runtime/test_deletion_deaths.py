"""A process dies before or after every durable action of a deletion: asked again, it leaves nothing."""

import asyncio
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.runtime.world import Crash, Fate, Mortal
from torpor.core.errors import Refused
from torpor.queues.memory import MemoryQueue
from torpor.runtime.deletion import delete
from torpor.runtime.retention import DAY, Keep, prune
from torpor.runtime.trees import family
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import START, FakeClock
from torpor.testing.samples import commit_on, invoke, said, slice_record, thread_row

TREE = {"root": "", "kid": "root", "leaf": "kid"}
FORKS = {"fork": "leaf", "fork of fork": "fork", "other": "root"}
ALL = {*TREE, *FORKS, "stays"}
Fresh = Callable[[int], tuple[Any, Any, FakeClock]]


def memory(_: int) -> tuple[Any, Any, FakeClock]:
    clock = FakeClock()
    return MemoryStore(clock), MemoryQueue(clock), clock


def sqlite(path: Path) -> Fresh:
    def fresh(number: int) -> tuple[Any, Any, FakeClock]:
        clock = FakeClock()
        database = Database.open(path / f"{number}.db", clock=clock, writer="inline", synchronous="NORMAL")
        return SqliteStore(database), MemoryQueue(clock), clock

    return fresh


async def family_of_forks(store: Any, state: str = "open") -> None:
    """A tree, forks of it, a fork of one of these, and a thread that has nothing to do with them."""
    for thread, parent in TREE.items():
        await lived(store, thread, root="root", parent=parent, state=state)
    for thread, source in FORKS.items():
        await lived(store, thread, root=thread, source=source, state=state)
    await lived(store, "stays", root="stays", state=state)


async def lived(store: Any, thread: str, **fields: Any) -> None:
    await store.create(thread_row(thread, updated=START, **fields), [said(thread, id="told")])
    record = slice_record(thread)
    effects = () if fields["state"] == "closed" else (invoke("e"),)
    await store.commit(commit_on(await store.load(thread), "a", "b", record=record, effects=effects))
    await store.post([said(thread, id="waits")])
    await store.put_blob(thread, "h", b"blob")
    await store.put("said", f"{thread}/key", b"v")


async def whole(store: Any, threads: set[str]) -> dict[str, Any]:
    return {thread: await store.export(thread) for thread in sorted(threads)}


async def nothing_of(store: Any, threads: set[str]) -> None:
    """The store's own proof, and what every other verb finds."""
    for thread in threads:
        assert await store.footprint(thread) == {}
        assert await store.row(thread) is None
    assert await store.deleted() == []
    assert {row.thread for row in await store.threads()} == ALL - threads


def mortal(store: Any, queue: Any, fate: Fate) -> tuple[Any, Any]:
    world = cast(Any, SimpleNamespace())
    return Mortal(store, fate, world), Mortal(queue, fate, world)


async def one_death(store: Any, queue: Any, fate: Fate) -> None:
    await family_of_forks(store)
    before = await whole(store, ALL)
    with pytest.raises(Crash):
        await delete(*mortal(store, queue, fate), "root", forks=True)
    left = {row.thread for row in await store.threads()}
    assert left in ({"stays"}, ALL), fate.where  # all at once, or none
    assert await whole(store, left) == {thread: before[thread] for thread in left}
    if left == ALL:
        with pytest.raises(Refused, match="Forks continue"):
            await delete(store, queue, "root")
    if left == ALL or "root" in await store.deleted():
        assert (await delete(store, queue, "root", forks=True)).left == {}
    await nothing_of(store, ALL - {"stays"})
    assert await store.export("stays") == before["stays"]
    await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_death_of_a_deletion_ends_with_nothing_left(kind: str, tmp_path: Path) -> None:
    fresh = memory if kind == "memory" else sqlite(tmp_path)

    async def every_death() -> int:
        store, queue, _ = fresh(0)
        await family_of_forks(store)
        counted = Fate()
        done = await delete(*mortal(store, queue, counted), "root", forks=True)
        assert (done.threads, set(done.forks), done.left) == (6, set(FORKS), {})
        await store.close()
        fates = list(product(range(counted.count), (False, True)))
        for number, (at, after) in enumerate(fates, 1):
            store, queue, _ = fresh(number)
            await one_death(store, queue, Fate(at, after=after))
        return len(fates)

    assert asyncio.run(every_death()) >= 16


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_death_while_old_threads_are_pruned_leaves_nothing_broken(kind: str, tmp_path: Path) -> None:
    fresh = memory if kind == "memory" else sqlite(tmp_path)
    keep = Keep(closed=DAY, ids=0.0)

    async def every_death() -> int:
        store, queue, clock = fresh(0)
        await family_of_forks(store, "closed")
        clock.advance(2 * DAY)
        counted = Fate()
        assert set(await rounds(mortal(store, queue, counted)[0], keep)) == ALL
        await store.close()
        fates = list(product(range(counted.count), (False, True)))
        for number, (at, after) in enumerate(fates, 1):
            store, queue, clock = fresh(number)
            await family_of_forks(store, "closed")
            clock.advance(2 * DAY)
            fate = Fate(at, after=after)
            with pytest.raises(Crash):
                await rounds(mortal(store, queue, fate)[0], keep)
            for row in await store.threads():
                assert not row.parent or await store.row(row.parent), fate.where
                assert not row.source or await store.row(row.source), fate.where
            await rounds(store, keep)
            await nothing_of(store, ALL)
            await store.close()
        return len(fates)

    assert asyncio.run(every_death()) >= 16


async def rounds(store: Any, keep: Keep) -> list[str]:
    """As an hourly prune does: forks go first, what they continue at a later time."""
    gone: list[str] = []
    while some := (await prune(store, keep)).threads:
        gone += some
    return gone


async def test_a_fork_that_is_moving_keeps_what_it_continues() -> None:
    store, queue, _ = memory(0)
    await family_of_forks(store)
    row = await store.row("fork")
    await store.postpone("fork", row.version, 0, 0.0, state="moving")
    with pytest.raises(Refused, match="fork is on its way"):
        await delete(store, queue, "root", forks=True)
    assert len(await family(store, "root")) == 3


async def test_a_fork_that_was_marked_before_and_not_erased_is_erased_too() -> None:
    store, queue, _ = memory(0)
    await family_of_forks(store)
    await store.delete(["fork of fork"])
    done = await delete(store, queue, "root", forks=True)
    assert (set(done.forks), done.left) == ({"fork", "other"}, {})
    await nothing_of(store, ALL - {"stays"})
