"""What every store must do, as one suite: subclass ``StoreContract`` and say how to open one."""

from torpor.testing.effects_contract import EffectsContract, StrandedContract
from torpor.testing.families_contract import FamiliesContract
from torpor.testing.history_contract import HistoryContract
from torpor.testing.moves_contract import MovesContract
from torpor.testing.opening import FullStore, Opening, OpensStores
from torpor.testing.packing_contract import PackingContract
from torpor.testing.races_contract import RacesContract
from torpor.testing.retention_contract import RetentionContract
from torpor.testing.samples import commit_on, ids, invoke, said, texts, thread_row, timer
from torpor.testing.side_contract import SideContract
from torpor.testing.threads_contract import CommitsContract, SignalsContract, ThreadsContract

__all__ = ["DurableStoreContract", "FullStore", "Opening", "OpensStores", "StoreContract"]


class StoreContract(
    ThreadsContract,
    FamiliesContract,
    SignalsContract,
    CommitsContract,
    HistoryContract,
    MovesContract,
    EffectsContract,
    StrandedContract,
    SideContract,
    RacesContract,
    RetentionContract,
    PackingContract,
):
    """All that a store promises while it is open."""

    async def test_tells_its_time(self, opening: Opening) -> None:
        async with opening() as store:
            first = await store.now()
            assert first == (await store.load(await _created(store))).now

    async def test_closes_twice(self, opening: Opening) -> None:
        async with opening() as store:
            await store.close()
            await store.close()


class DurableStoreContract(StoreContract):
    """A store whose rows outlive it."""

    async def test_what_was_acknowledged_is_there_after_reopening(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await _created(store)
            await store.post([said(thread, id="one")])
            snapshot = await store.load(thread)
            later = timer(thread, snapshot.now + 60, id="timer")
            await store.commit(commit_on(snapshot, "a", timers=(later,), effects=(invoke("e"),)))
            await store.post([said(thread, id="two")])
            await store.put("keys", "k", b"v")
            await store.put_blob(thread, "h", b"blob")
        async with opening() as store:
            after = await store.load(thread)
            assert (after.row.version.counter, texts(after.history)) == (1, ["a"])
            assert (ids(after.signals), after.next_due) == (["two"], later.due)
            assert [row.effect for row in after.outbox] == [invoke("e")]
            assert [one.outcome for one in await store.post([said(thread, id="one")])] == ["repeat"]
            assert await store.get("keys", "k") == b"v"
            assert await store.get_blob(thread, "h") == b"blob"

    async def test_one_handle_sees_what_another_wrote(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            thread = await _created(store)
            version = await other.commit(commit_on(await other.load(thread), "a"))
            assert (await store.load(thread)).row.version == version
            await store.post([said(thread, id="one")])
            assert ids((await other.load(thread)).signals) == ["one"]


async def _created(store: FullStore) -> str:
    row = thread_row()
    assert await store.create(row)
    return row.thread
