"""What every store must do with threads at rest that are made small."""

from torpor.ports import Row
from torpor.testing.clock import FakeClock
from torpor.testing.opening import FullStore, Opening, OpensStores
from torpor.testing.retention_contract import OLD
from torpor.testing.samples import commit_on, fresh, said, slice_record, thread_row


class PackingContract(OpensStores):
    """Threads at rest made small."""

    async def test_whoever_reads_a_packed_thread_finds_what_was_there(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        async with opening() as store, opening() as other:
            row = await _long(store, 5)
            before = await _all(store, row.thread)
            clock.advance(100)
            assert await other.pack(await store.now() - 200) == 0
            await other.pack(await store.now() - 50)
            assert await other.pack(await store.now() - 50) == 0
            for reader in (store, other):
                assert await _all(reader, row.thread) == before
            assert len((await other.load(row.thread)).history or ()) == 10

    async def test_what_comes_after_packing_is_read_behind_it(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        async with opening() as store:
            row = await _long(store, 3)
            for _ in range(3):
                clock.advance(100)
                await store.pack(await store.now() - 50)
                await _slices(store, row.thread, 2)
            bodies = [one.body for one in await store.read(row.thread)]
            assert [one.position for one in await store.read(row.thread)] == list(range(1, 19))
            assert [one.body for one in await store.read(row.thread, after=5, limit=9)] == bodies[5:14]
            assert [one.body for one in await store.read(row.thread, after=17)] == bodies[17:]
            records = await store.records(row.thread)
            assert len(records) == 9
            assert await store.records(row.thread, after=1, limit=7) == records[1:8]
            assert await store.last_record(row.thread) == records[-1]
            clock.advance(100)
            await store.pack(await store.now() - 50)
            assert await store.last_record(row.thread) == records[-1]
            assert (await store.export(row.thread)).records == tuple(records)

    async def test_a_packed_thread_is_pruned_exported_and_erased_as_any(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        async with opening() as store:
            row, kept = await _long(store, 4), await _long(store, 2)
            clock.advance(100)
            await store.pack(await store.now() - 50)
            last = await store.last_record(row.thread)
            assert await store.forget_records(OLD * 2) >= 4
            assert await store.records(row.thread) == [last]
            assert await store.forget_records(OLD * 2) == 0
            await _slices(store, row.thread, 1)
            assert await store.prune(await store.now() + 1) >= 7
            exported = await store.export(row.thread)
            await store.delete([row.thread])
            while await store.erase(row.thread):
                pass
            assert await store.footprint(row.thread) == {}
            assert len(await store.read(kept.thread)) == 4
            assert await store.take_in(exported)
            assert await store.export(row.thread) == exported


async def _long(store: FullStore, slices: int) -> Row:
    """A thread of some slices, each with two messages."""
    row = thread_row()
    await store.create(row)
    await _slices(store, row.thread, slices)
    return row


async def _slices(store: FullStore, thread: str, count: int) -> None:
    for _ in range(count):
        await store.post([said(thread)])
        snapshot = await store.load(thread)
        now = await store.now()
        record = slice_record(thread, snapshot.row.version.counter, committed_at=now)
        await store.commit(commit_on(snapshot, fresh(), "more", record=record, row={"updated": now}))


async def _all(store: FullStore, thread: str) -> tuple[object, ...]:
    pages = [await store.read(thread, after, 3) for after in range(12)]
    records = await store.records(thread)
    return (await store.export(thread), pages, records, (await store.load(thread)).history)
