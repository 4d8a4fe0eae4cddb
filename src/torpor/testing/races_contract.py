"""What every store must hold when many write at once, nobody minding leases."""

import asyncio
import random

import pytest

from torpor.core.errors import Conflict
from torpor.ports import Version
from torpor.testing.clock import START
from torpor.testing.effects_contract import decided
from torpor.testing.opening import FullStore, Opening, OpensStores
from torpor.testing.samples import commit_on, ids, said, slice_record, texts, thread_row

INTERLEAVINGS = 100


class RacesContract(OpensStores):
    """Several writers, one thread."""

    async def test_of_commits_on_one_version_exactly_one_wins(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store, opening() as other:
            await store.create(row, [said(row.thread)])
            for turn in range(20):
                snapshot = await store.load(row.thread)
                commits = [commit_on(snapshot, f"{turn}/{writer}") for writer in range(8)]
                results = await asyncio.gather(
                    *(handle.commit(one) for handle, one in zip([store, other] * 4, commits, strict=True)),
                    return_exceptions=True,
                )
                won = [result for result in results if isinstance(result, Version)]
                assert won == [Version(turn + 1, commits[results.index(won[0])].commit_id)]
                assert sum(isinstance(result, Conflict) for result in results) == 7
            assert len(texts(await store.read(row.thread))) == 20

    async def test_a_conflict_fails_nobody_else(self, opening: Opening) -> None:
        rows = [thread_row() for _ in range(10)]
        async with opening() as store:
            for row in rows:
                await store.create(row)
            snapshots = [await store.load(row.thread) for row in rows]
            for snapshot in snapshots[::2]:
                await store.commit(commit_on(snapshot, "first"))
            results = await asyncio.gather(
                *(store.commit(commit_on(snapshot, "second")) for snapshot in snapshots),
                return_exceptions=True,
            )
            assert [isinstance(result, Conflict) for result in results] == [True, False] * 5
            kept = [texts(await store.read(row.thread)) for row in rows]
        assert kept == [["first"], ["second"]] * 5

    async def test_a_signal_posted_by_many_counts_once(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store, opening() as other:
            await store.create(row)
            results = await asyncio.gather(
                *(handle.post([said(row.thread, id="one")]) for handle in [store, other] * 20)
            )
            outcomes = [posted.outcome for result in results for posted in result]
            assert sorted(outcomes) == ["new", *["repeat"] * 39]
            assert ids((await store.load(row.thread)).signals) == ["one"]

    async def test_an_effect_claimed_by_many_is_held_by_one(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            thread = await decided(store, "a")
            results = await asyncio.gather(
                *(
                    handle.claim(thread, ["a"], START + 9, holder=f"holder{place}")
                    for place, handle in enumerate([store, other] * 10)
                )
            )
        assert sum(len(held) for held in results) == 1

    async def test_a_cancelled_caller_leaves_whole_commits(self, opening: Opening) -> None:
        rows = [thread_row() for _ in range(30)]
        async with opening() as store:
            for row in rows:
                await store.create(row, [said(row.thread)])
            snapshots = [await store.load(row.thread) for row in rows]
            tasks = [asyncio.create_task(store.commit(commit_on(one, "a", "b"))) for one in snapshots]
            for place, task in enumerate(tasks):
                if place % 3 == 0:
                    await asyncio.sleep(0)
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for row, task in zip(rows, tasks, strict=True):
                after = await store.load(row.thread)
                counted = (after.row.version.counter, texts(after.history), len(after.signals))
                assert counted in ((0, [], 1), (1, ["a", "b"], 0))
                assert task.cancelled() or counted[0] == 1

    @pytest.mark.slow
    async def test_interleaved_slices_lose_and_double_nothing(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            for seed in range(INTERLEAVINGS):
                await _interleave([store, other], random.Random(seed))  # noqa: S311 - any seed will do


async def _interleave(handles: list[FullStore], chance: random.Random) -> None:
    """Posters and slices on one thread, as ``chance`` orders them; each signal becomes one message."""
    row = thread_row()
    await handles[0].create(row)
    sent = [f"signal{place}" for place in range(6)]
    posters = [_post(chance, handles, row.thread, sent[place::2]) for place in range(2)]
    slicers = [_slices(chance, handles[place % 2], row.thread, set(sent)) for place in range(3)]
    await asyncio.gather(*posters, *slicers)
    after = await handles[1].load(row.thread)
    assert sorted(texts(after.history)) == sent
    assert after.signals == ()
    records = await handles[0].records(row.thread, limit=100)
    assert [record.version for record in records] == list(range(after.row.version.counter))


async def _pause(chance: random.Random) -> None:
    for _ in range(chance.randrange(4)):
        await asyncio.sleep(0)


async def _post(chance: random.Random, handles: list[FullStore], thread: str, names: list[str]) -> None:
    for name in names:
        await _pause(chance)
        for _ in range(chance.randrange(1, 3)):
            await chance.choice(handles).post([said(thread, name, id=name)])


async def _slices(chance: random.Random, store: FullStore, thread: str, wanted: set[str]) -> None:
    while wanted - set(texts((await store.load(thread)).history)):
        await _pause(chance)
        snapshot = await store.load(thread, limit=chance.randrange(1, 4))
        await _pause(chance)
        if snapshot.signals:
            record = slice_record(thread, snapshot.row.version.counter)
            try:
                await store.commit(commit_on(snapshot, *ids(snapshot.signals), record=record))
            except Conflict:
                continue
