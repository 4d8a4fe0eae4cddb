"""What every store must do with the messages of a thread."""

from torpor.ports import Version
from torpor.testing.opening import Opening, OpensStores
from torpor.testing.samples import commit_on, texts, thread_row


class HistoryContract(OpensStores):
    """Reading history: all of it, a part, or what no summary stands for."""

    async def test_history_only_grows(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row)
            for place in range(5):
                await store.commit(commit_on(await store.load(row.thread), f"{place}a", f"{place}b"))
            whole = await store.load(row.thread)
            assert whole.row.version.counter == 5
            assert texts(whole.history) == [f"{place}{part}" for place in range(5) for part in "ab"]
            assert texts(await store.read(row.thread, after=3, limit=2)) == ["1b", "2a"]
            assert await store.read(row.thread, after=10) == []

    async def test_history_is_left_out_where_it_is_known(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row)
            first = await store.commit(commit_on(await store.load(row.thread), "a"))
            assert (await store.load(row.thread, known=first)).history is None
            second = await store.commit(commit_on(await store.load(row.thread), "b"))
            assert texts((await store.load(row.thread, known=first)).history) == ["a", "b"]
            half = Version(second.counter, "another")
            assert texts((await store.load(row.thread, known=half)).history) == ["a", "b"]

    async def test_history_that_a_summary_stands_for_is_not_loaded(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row)
            await store.commit(commit_on(await store.load(row.thread), "a", "b", "c"))
            await store.commit(commit_on(await store.load(row.thread), "sum", row={"base": 2}))
            loaded = await store.load(row.thread)
            assert loaded.row.base == 2
            assert [stored.position for stored in loaded.history or ()] == [3, 4]
            assert texts(loaded.history) == ["c", "sum"]
            assert texts(await store.read(row.thread)) == ["a", "b", "c", "sum"]
            await store.commit(commit_on(loaded, "d"))
            assert texts((await store.load(row.thread)).history) == ["c", "sum", "d"]
            assert [found.base for found in await store.threads() if found.thread == row.thread] == [2]
