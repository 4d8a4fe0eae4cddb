"""What every store must do when threads are taken away, and when what is old is forgotten."""

import msgspec
import pytest

from torpor.core.errors import Conflict, Refused
from torpor.core.signals import BornSignal, ReportedSignal
from torpor.core.views import PROGRESS_SPACE, views_space
from torpor.ports import Row, Version
from torpor.testing.clock import START, FakeClock
from torpor.testing.opening import FullStore, Opening, OpensStores
from torpor.testing.samples import commit_on, fresh, ids, invoke, said, slice_record, thread_row

OLD = START + 1_000
"""An instant after all that these tests' threads do at first."""


class DeletionContract(OpensStores):
    """Threads taken away for good."""

    async def test_a_deleted_thread_is_nowhere(self, opening: Opening) -> None:
        async with opening() as store:
            row = await _lived(store)
            thread = row.thread
            assert await store.delete([thread, fresh()]) == 1
            assert (await store.row(thread), await store.outcome(thread, "told")) == (None, None)
            assert thread not in [one.thread for one in await store.threads()]
            assert thread not in [one.thread for one in await store.threads(state="deleted")]
            assert await store.stranded(ahead=1_000) == []
            assert [one.outcome for one in await store.post([said(thread)])] == ["unknown"]
            assert (await store.finish(said(thread), "e")).outcome == "unknown"
            record = slice_record(thread)
            for refused in (
                store.load(thread), store.read(thread), store.inbox(thread), store.outbox(thread),
                store.records(thread), store.note(record), store.claim(thread, ["e"], OLD),
                store.delivered(thread, ["e"]), store.hold(thread, "me", OLD), store.export(thread),
            ):  # fmt: skip
                with pytest.raises(Refused, match="no thread"):
                    await refused
            assert await store.delete([thread]) == 0

    async def test_a_slice_under_way_cannot_write_to_a_deleted_thread(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            row = await _lived(store)
            snapshot = await store.load(row.thread)
            await store.load(row.thread, known=snapshot.row.version)
            assert await other.delete([row.thread]) == 1
            await store.postpone(row.thread, snapshot.row.version, 3, OLD)
            for _ in range(2):
                with pytest.raises((Refused, Conflict)):
                    await store.commit(commit_on(snapshot, "late"))
                with pytest.raises(Refused, match="no thread"):
                    await store.load(row.thread, known=snapshot.row.version)
                await _erased(other, row.thread)
            assert await store.footprint(row.thread) == {}

    async def test_the_id_of_a_deleted_thread_is_free_once_it_is_erased(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            row = await _lived(store)
            given, known = await store.export(row.thread), (await store.load(row.thread)).row
            await other.delete([row.thread])
            assert not await store.create(row)
            assert not await store.take_in(given)
            await _erased(other, row.thread)
            new = msgspec.structs.replace(row, version=Version(0, "another"))
            assert await store.create(new, [said(row.thread, id="told")])
            snapshot = await store.load(row.thread, known=known.version)
            assert (snapshot.row.version, snapshot.history, ids(snapshot.signals)) == (
                new.version,
                (),
                ["told"],
            )

    async def test_what_follows_an_erased_thread_is_not_taken_for_it(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            row = thread_row()
            await store.create(row, [said(row.thread, id="mine")])
            snapshot = await store.load(row.thread)
            await other.delete([row.thread])
            await _erased(other, row.thread)
            next_row = thread_row()
            await other.create(next_row, [said(next_row.thread, id="other's")])
            with pytest.raises(Refused, match="no thread"):
                await store.load(row.thread, known=snapshot.row.version)
            with pytest.raises((Refused, Conflict)):
                await store.commit(commit_on(snapshot, "late"))
            assert ids((await other.load(next_row.thread)).signals) == ["other's"]

    async def test_erases_bit_by_bit_and_says_what(self, opening: Opening) -> None:
        async with opening() as store:
            row, other = await _lived(store), await _lived(store)
            held = await store.footprint(row.thread)
            assert held == {
                "messages": 2, "inbox": 1, "absorbed": 1, "outbox": 1, "records": 1, "blobs": 1, "small": 6,
                "threads": 1,
            }  # fmt: skip
            with pytest.raises(Refused, match="is there"):
                await store.erase(row.thread)
            await store.delete([row.thread])
            assert await store.deleted() == [row.thread]
            erased = await _erased(store, row.thread, limit=3)
            assert erased == held
            assert (await store.footprint(row.thread), await store.deleted()) == ({}, [])
            assert await store.footprint(other.thread) == held
            assert await store.get("starts", row.thread) is None
            assert await store.entries(views_space(row.thread)) == {}

    async def test_an_id_that_only_begins_alike_is_another(self, opening: Opening) -> None:
        async with opening() as store:
            row = thread_row()
            longer = row.thread + "%"
            for space, key in (("said", f"{longer}/k"), ("progress", longer), (views_space(longer), "k")):
                await store.put(space, key, b"v")
            await store.put_blob(longer, "h", b"")
            await store.create(row)
            await store.delete([row.thread])
            assert await _erased(store, row.thread) == {"threads": 1}
            assert await store.footprint(longer) == {"small": 3, "blobs": 1}

    async def test_who_stays_keeps_what_it_comes_of(self, opening: Opening) -> None:
        async with opening() as store:
            root, child, fork = (fresh() for _ in range(3))
            await store.create(thread_row(root, root=root))
            await store.create(thread_row(child, root=root, parent=root))
            assert await store.create(thread_row(fork, root=fork, source=child))
            row = await store.row(fork)
            assert row is not None
            assert row.source == child
            with pytest.raises(Conflict, match=child):
                await store.delete([root])
            with pytest.raises(Conflict, match=fork):
                await store.delete([root, child])
            assert (await store.heirs([root, child]), await store.heirs([fork])) == ({fork: child}, {})
            assert await store.heirs([root, child, fork]) == {}
            assert len(await store.threads()) == 3
            assert await store.delete([fork]) == 1
            assert await store.heirs([root, child]) == {}
            assert await store.delete([root, child]) == 2
            assert (await store.footprint(root))["named"] == 1
            assert sorted(await store.deleted()) == sorted([root, child, fork])

    async def test_nobody_is_born_of_who_is_gone(self, opening: Opening) -> None:
        async with opening() as store:
            row = thread_row()
            await store.create(row)
            snapshot = await store.load(row.thread)
            await store.commit(commit_on(snapshot, effects=(invoke("birth"), invoke("other"))))
            child, fork = thread_row(parent=row.thread), thread_row(source=row.thread)
            assert not await store.create(child, effect="unheard of")
            assert await store.create(child, effect="birth")
            await store.delivered(row.thread, ["birth"])
            assert not await store.create(thread_row(parent=row.thread), effect="birth")
            await store.delete([child.thread, row.thread])
            assert not await store.create(thread_row(parent=row.thread), effect="other")
            assert not await store.create(fork)
            await _erased(store, row.thread)
            assert not await store.create(fork)
            assert await store.footprint(fork.thread) == {}

    async def test_closed_threads_are_found_once_they_are_old(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        async with opening() as store:
            roots = sorted(fresh() for _ in range(3))
            for root in roots:
                await store.create(thread_row(root, root=root, state="closed", updated=START))
            child = fresh()
            await store.create(thread_row(child, root=roots[0], parent=roots[0], state="closed"))
            open_ = thread_row(updated=START)
            await store.create(open_)
            assert await store.closed(START) == roots[:1]
            assert await store.closed(OLD) == roots
            assert await store.closed(OLD, limit=2) == roots[:2]
            assert await store.closed(OLD, after=roots[1]) == roots[2:]
            clock.advance(10)
            assert await store.delete([roots[1]], closed_before=OLD) == 1
            assert await store.closed(OLD) == [roots[0], roots[2]]

    async def test_only_what_is_over_goes_by_age(self, opening: Opening) -> None:
        async with opening() as store:
            for state, updated, kind in (
                ("open", START, said),
                ("closed", OLD, said),
                ("closed", START, _born),
                ("closed", START, _reported),
            ):
                row = thread_row(state=state, updated=updated)
                await store.create(row, [kind(row.thread)])
                with pytest.raises(Conflict, match=row.thread):
                    await store.delete([row.thread], closed_before=OLD)
                assert await store.row(row.thread) == row
            busy = thread_row(state="closed")
            await store.create(busy)
            commit = commit_on(await store.load(busy.thread), effects=(invoke("e"),))
            await store.commit(commit)
            idle = thread_row(state="closed")
            await store.create(idle, [said(idle.thread)])
            with pytest.raises(Conflict, match=busy.thread):
                await store.delete([idle.thread, busy.thread], closed_before=OLD)
            assert await store.row(idle.thread) == idle
            assert await store.delete([idle.thread], closed_before=OLD) == 1

    async def test_what_is_left_of_the_moved_goes_by_age(self, opening: Opening) -> None:
        async with opening() as store:
            moved, back = thread_row(state="moved"), thread_row(state="arriving")
            for row in (moved, back):
                await store.create(msgspec.structs.replace(row, root=row.thread), [_reported(row.thread)])
            assert await store.closed(OLD) == [moved.thread]
            known = {row.thread: row.version for row in (moved, back)}
            with pytest.raises(Conflict, match=back.thread):
                await store.delete([moved.thread, back.thread], closed_before=OLD, versions=known)
            assert await store.delete([moved.thread], closed_before=OLD, versions=known) == 1
            for state in ("moving", "arriving", "moved"):
                row = thread_row(state=state)
                await store.create(row)
                with pytest.raises(Conflict, match=row.thread):
                    await store.delete([row.thread])
                assert await store.delete([row.thread], versions={row.thread: row.version}) == 1

    async def test_what_has_moved_on_is_not_deleted(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            rows = [await _lived(store), thread_row(), thread_row()]
            await store.create(rows[1])
            ids = [row.thread for row in rows]
            known = {row.thread: row.version for row in rows}
            await other.commit(commit_on(await other.load(ids[0]), "c"))
            for versions in (
                known,
                {ids[1]: Version(0, "another")},
                {ids[1]: Version(7, rows[1].version.commit_id)},
            ):
                with pytest.raises(Conflict, match="has moved on"):
                    await store.delete(ids, versions=versions)
            assert len(await store.threads()) == 2
            row = await store.row(ids[0])
            assert row is not None
            assert await store.delete(ids, versions=known | {ids[0]: row.version}) == 2

    async def test_nothing_is_asked_of_no_threads(self, opening: Opening) -> None:
        async with opening() as store:
            assert (await store.delete([]), await store.heirs([])) == (0, {})
            assert await store.erase(fresh()) == {}


class ForgettingContract(OpensStores):
    """What belongs to nobody, and what is old."""

    async def test_what_is_kept_for_nobody_is_found_once_it_is_old(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        async with opening() as store:
            row = await _lived(store)
            gone = sorted(fresh() for _ in range(3))
            await store.put_blob(gone[0], "h", b"result")
            await store.put("said", f"{gone[1]}/key", b"v")
            await store.put(views_space(gone[2]), "list", b"v")
            await store.put("keys", "k1", b"v")
            before = await store.now() + 1
            clock.advance(10)
            await store.put_blob(fresh(), "h", b"just now")
            assert await store.orphans(await store.now() - 60) == []
            assert await store.orphans(before) == gone
            assert await store.orphans(before, limit=2) == gone[:2]
            for id in gone:
                assert sum((await _erased(store, id)).values()) == 1
            assert await store.orphans(before) == []
            assert (await store.get("keys", "k1"), (await store.footprint(row.thread))["small"]) == (b"v", 6)

    async def test_records_are_forgotten_but_the_last(self, opening: Opening) -> None:
        async with opening() as store:
            row, quiet = thread_row(), thread_row()
            await store.create(row)
            await store.create(quiet)
            for version in range(5):
                await store.note(slice_record(row.thread, version, committed_at=START + version))
            await store.note(slice_record(quiet.thread, 0, committed_at=START))
            assert await store.forget_records(START + 2) == 2
            assert [one.version for one in await store.records(row.thread)] == [2, 3, 4]
            assert await store.forget_records(OLD) == 2
            assert [one.version for one in await store.records(row.thread)] == [4]
            assert len(await store.records(quiet.thread)) == 1
            assert await store.forget_records(OLD) == 0

    async def test_old_ids_are_forgotten_in_any_number(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            rows = [thread_row(), thread_row()]
            for row in rows:
                await store.create(row, [said(row.thread) for _ in range(700)])
                snapshot = await store.load(row.thread, limit=1_000)
                await store.commit(commit_on(snapshot))
            clock.advance(10)
            assert await store.prune(await store.now() - 60) == 0
            assert await store.prune(await store.now() - 5) == 1_400

    async def test_scrubbing_loses_nothing(self, opening: Opening) -> None:
        async with opening() as store:
            row, gone = await _lived(store), await _lived(store)
            before = await store.export(row.thread)
            await store.delete([gone.thread])
            await _erased(store, gone.thread)
            await store.scrub()
            assert await store.export(row.thread) == before


class HoldContract(OpensStores):
    """The right to work on a thread by steps."""

    async def test_one_holds_a_thread_at_a_time(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store, opening() as other:
            row = await _lived(store)
            until = await store.now() + 10
            assert await store.hold(row.thread, "one", until) == 0
            assert await other.hold(row.thread, "two", until + 5) == until
            assert await store.hold(row.thread, "one", until + 1) == 0
            assert await other.hold(row.thread, "two", until + 5) == until + 1
            assert await other.hold(row.thread, "two", 0.0) == until + 1
            assert await store.hold(row.thread, "one", 0.0) == 0
            assert await other.hold(row.thread, "two", until + 5) == 0
            clock.advance(60)
            assert await store.hold(row.thread, "one", until + 100) == 0

    async def test_who_holds_a_thread_hinders_no_commit(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            row = await _lived(store)
            until = await store.now() + 10
            await store.hold(row.thread, "one", until)
            await other.commit(commit_on(await other.load(row.thread), "c"))
            assert await other.hold(row.thread, "two", until) == until

    async def test_nobody_holds_what_is_not_there(self, opening: Opening) -> None:
        async with opening() as store:
            with pytest.raises(Refused, match="no thread"):
                await store.hold(fresh(), "me", OLD)


class RetentionContract(DeletionContract, ForgettingContract, HoldContract):
    """The ``Retention`` port, and what ``Store`` has to do with it."""


async def _lived(store: FullStore) -> Row:
    """A thread with some of everything."""
    row = thread_row()
    thread = row.thread
    await store.create(row, [said(thread, id="told")])
    await store.commit(commit_on(await store.load(thread), "a", "b", record=slice_record(thread)))
    second = commit_on(await store.load(thread), effects=(invoke("e"),))
    await store.commit(second)
    await store.post([said(thread, id="waits")])
    await store.put_blob(thread, "h", b"blob")
    await store.put("said", f"{thread}/key", b"v")
    await store.put("webhooks", f"{thread}/call/id", b"v")
    await store.put("authorizations", f"{thread}/url", b"v")
    await store.put(PROGRESS_SPACE, thread, b"v")
    await store.put(views_space(thread), "list", b"v")
    await store.put("starts", thread, msgspec.msgpack.encode((thread, "trace", "body")))
    found = await store.row(thread)
    assert found is not None
    return found


async def _erased(store: FullStore, thread: str, limit: int = 1000) -> dict[str, int]:
    """Erase what is left of a thread, and add up what was."""
    erased: dict[str, int] = {}
    while found := await store.erase(thread, limit):
        assert 0 < sum(found.values()) <= limit
        for kind, count in found.items():
            erased[kind] = erased.get(kind, 0) + count
    return erased


def _born(thread: str) -> BornSignal:
    return BornSignal(thread, "born", START)


def _reported(thread: str) -> ReportedSignal:
    return ReportedSignal(thread, "reported", START)
