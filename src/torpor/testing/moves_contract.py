"""What every store must do with a thread as a whole: give it all, and take all of it in."""

import msgspec
import pytest

from torpor.core.errors import Refused
from torpor.core.moves import ARRIVING, AWAY, MOVED
from torpor.core.views import views_space
from torpor.ports import Exported, Version
from torpor.testing.opening import FullStore, Opening, OpensStores
from torpor.testing.samples import commit_on, fresh, ids, invoke, said, slice_record, texts, thread_row, timer


class MovesContract(OpensStores):
    """Export, and taking in. The copy gets another id, so that one store can hold both."""

    async def test_a_thread_taken_in_is_what_was_exported(self, opening: Opening) -> None:
        async with opening() as store:
            given = await _lived(store)
            assert [len(given.messages), len(given.inbox), len(given.absorbed)] == [3, 2, 2]
            assert [len(given.outbox), len(given.records)] == [2, 1]
            assert (given.blobs, given.views) == ({"h": b"blob"}, {"list": b"[]"})
            copy = _renamed(given)
            assert await store.take_in(copy)
            assert await store.export(copy.row.thread) == copy
            assert await store.export(given.row.thread) == given

    async def test_a_thread_taken_in_goes_on_from_its_version(self, opening: Opening) -> None:
        async with opening() as store:
            copy = _renamed(await _lived(store))
            await store.take_in(copy)
            thread = copy.row.thread
            snapshot = await store.load(thread)
            assert (snapshot.row.version.commit_id, texts(snapshot.history)) == ("second", ["a", "b", "c"])
            assert ids(snapshot.signals) == ["waits"]
            version = await store.commit(commit_on(snapshot, "d"))
            assert (version.counter, len(await store.read(thread))) == (3, 4)

    async def test_what_a_thread_had_absorbed_is_a_repeat_where_it_is_taken_in(
        self, opening: Opening
    ) -> None:
        async with opening() as store:
            copy = _renamed(await _lived(store))
            await store.take_in(copy)
            thread = copy.row.thread
            again = [said(thread, id=id) for id in ("told", "dropped", "waits", "new")]
            assert [each.outcome for each in await store.post(again)] == ["repeat"] * 3 + ["new"]
            assert await store.outcome(thread, "dropped") == "no such wait"

    async def test_effects_taken_in_are_nobodys_and_keep_their_attempts(self, opening: Opening) -> None:
        async with opening() as store:
            copy = _renamed(await _lived(store))
            await store.take_in(copy)
            until = await store.now() + 60
            held = await store.claim(copy.row.thread, ["e", "f"], until, holder="other")
            assert [(row.effect.id, row.attempt) for row in held] == [("e", 2), ("f", 2)]

    async def test_a_thread_taken_in_is_swept_if_it_has_work(self, opening: Opening) -> None:
        async with opening() as store:
            copy = _renamed(await _lived(store))
            await store.take_in(copy)
            assert copy.row.thread in [row.thread for row, _ in await store.stranded()]

    async def test_a_thread_that_exists_is_not_taken_in(self, opening: Opening) -> None:
        async with opening() as store:
            given = await _lived(store)
            changed = msgspec.structs.replace(given, blobs={"other": b"x"}, views={"list": b"{}"}, inbox=())
            assert not await store.take_in(changed)
            assert await store.export(given.row.thread) == given

    async def test_a_copy_that_has_not_lived_is_replaced_whole(self, opening: Opening) -> None:
        async with opening() as store:
            copy = _renamed(await _lived(store))
            arriving = msgspec.structs.replace(copy, row=msgspec.structs.replace(copy.row, state=ARRIVING))
            assert await store.take_in(arriving)
            older = msgspec.structs.replace(copy.row, version=Version(1, "first"), state=ARRIVING)
            assert not await store.take_in(msgspec.structs.replace(copy, row=older))
            assert await store.export(copy.row.thread) == arriving
            changes = {"version": Version(7, "seventh"), "title": "new", "owner": "other", "length": 1}
            row = msgspec.structs.replace(copy.row, **changes)
            newer = Exported(row=row, messages=copy.messages[:1], blobs={"other": b"x"}, views={})
            assert await store.take_in(newer)
            assert await store.export(row.thread) == newer
            assert not await store.take_in(newer)
            left = await store.load(row.thread)
            version = await store.commit(commit_on(left, row={"state": MOVED}))
            back = msgspec.structs.replace(newer, row=msgspec.structs.replace(row, version=version))
            assert await store.take_in(back)
            snapshot = await store.load(row.thread)
            assert (await store.commit(commit_on(snapshot, "b"))).counter == 9

    async def test_what_is_under_way_between_stores_is_not_swept(self, opening: Opening) -> None:
        async with opening() as store:
            copy = _renamed(await _lived(store))
            for state in AWAY:
                thread = fresh()
                row = msgspec.structs.replace(copy.row, thread=thread, state=state, owes=True)
                inbox = tuple((msgspec.structs.replace(one, thread=thread), at) for one, at in copy.inbox)
                await store.take_in(msgspec.structs.replace(copy, row=row, inbox=inbox))
                assert thread not in [row.thread for row, _ in await store.stranded(ahead=1_000)]

    async def test_what_does_not_exist_is_not_exported(self, opening: Opening) -> None:
        async with opening() as store:
            with pytest.raises(Refused, match="no thread"):
                await store.export(fresh())


async def _lived(store: FullStore) -> Exported:
    """A thread of two slices with some of everything; its effects are claimed."""
    row = thread_row()
    thread = row.thread
    await store.create(row, [said(thread, id="told"), said(thread, id="dropped")])
    first = await store.load(thread)
    until = first.now + 60
    absorbed = {"told": "absorbed", "dropped": "no such wait"}
    await store.commit(commit_on(first, "a", "b", absorbed=absorbed, record=slice_record(thread)))
    effects = (invoke("e"), invoke("f"))
    second = commit_on(
        await store.load(thread), "c", commit_id="second", effects=effects, claimed_until=until
    )
    await store.commit(second)
    await store.post([said(thread, id="waits"), timer(thread, until, id="later")])
    await store.put_blob(thread, "h", b"blob")
    await store.put_blob(fresh(), "h", b"another's")
    await store.put(views_space(thread), "list", b"[]")
    return await store.export(thread)


def _renamed(exported: Exported) -> Exported:
    thread = fresh()
    replace = msgspec.structs.replace
    inbox = tuple((replace(signal, thread=thread), arrived) for signal, arrived in exported.inbox)
    return replace(exported, row=replace(exported.row, thread=thread), inbox=inbox)
