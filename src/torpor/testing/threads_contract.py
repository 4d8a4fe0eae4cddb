"""What every store must do with threads, their signals and their history."""

import msgspec
import pytest

from torpor.core.errors import Conflict, Refused
from torpor.core.messages import Usage
from torpor.ports import Posted, Snapshot, Version
from torpor.testing.clock import START, FakeClock
from torpor.testing.opening import Opening, OpensStores
from torpor.testing.samples import (
    commit_on,
    fresh,
    ids,
    message,
    said,
    slice_record,
    texts,
    thread_row,
    timer,
)


class ThreadsContract(OpensStores):
    """Creating, listing and finding threads."""

    async def test_a_new_thread_is_kept_as_given(self, opening: Opening) -> None:
        row = thread_row(
            owner="ann",
            user_id="u1",
            context='{"a": 1}',
            tier="async",
            purpose="event",
            root=fresh(),
            parent=fresh(),
            lineage=b"\x00lineage",
            owes=True,
            waits=2,
            attempt=3,
            not_before=4.25,
            title="T\x00itle",
            trace="00-ab",
            head=b"\x80",
            shape=1,
            base=7,
        )
        async with opening() as store:
            assert await store.create(row)
            assert await store.row(row.thread) == row
            assert (await store.load(row.thread)).row == row

    async def test_a_thread_is_created_once(self, opening: Opening) -> None:
        row = thread_row(title="first")
        async with opening() as store:
            assert await store.create(row, [said(row.thread, id="one")])
            second = msgspec.structs.replace(row, title="second")
            assert not await store.create(second, [said(row.thread, id="two")])
            snapshot = await store.load(row.thread)
        assert snapshot.row.title == "first"
        assert ids(snapshot.signals) == ["one"]

    async def test_a_thread_is_not_created_with_signals_for_another(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            with pytest.raises(Refused):
                await store.create(row, [said(fresh())])
            assert await store.row(row.thread) is None

    async def test_what_does_not_exist_is_refused(self, opening: Opening) -> None:
        nobody = fresh()
        async with opening() as store:
            assert await store.row(nobody) is None
            for asking in (
                store.load(nobody),
                store.read(nobody),
                store.inbox(nobody),
                store.records(nobody),
                store.last_record(nobody),
                store.outbox(nobody),
                store.note(slice_record(nobody)),
                store.claim(nobody, ["a"], START + 9),
                store.delivered(nobody, ["a"]),
                store.release(nobody, ["a"], 0.0),
                store.hasten(nobody, ["a"]),
                store.commit(commit_on(_empty(nobody), "text")),
            ):
                with pytest.raises(Refused):
                    await asking

    async def test_lists_by_thread_in_pages(self, opening: Opening) -> None:
        names = sorted(fresh() for _ in range(7))
        async with opening() as store:
            for name in reversed(names):
                await store.create(thread_row(name))
            pages, after = [], ""
            while page := await store.threads(after=after, limit=3):
                pages.append([row.thread for row in page])
                after = page[-1].thread
        assert pages == [names[:3], names[3:6], names[6:]]

    @pytest.mark.parametrize("owner", [None, "ann"])
    @pytest.mark.parametrize("agent", [None, "adder"])
    @pytest.mark.parametrize("state", [None, "open", "parked"])
    async def test_lists_what_is_asked_for(
        self, opening: Opening, owner: str | None, agent: str | None, state: str | None
    ) -> None:
        rows = [
            thread_row(owner=has_owner, agent=has_agent, state=has_state)
            for has_owner in ("ann", "bob")
            for has_agent in ("adder", "other")
            for has_state in ("open", "parked", "closed")
        ]
        async with opening() as store:
            for row in rows:
                await store.create(row)
            found = await store.threads(owner=owner, agent=agent, state=state)
        assert [row.thread for row in found] == [
            row.thread
            for row in rows
            if owner in (None, row.owner) and agent in (None, row.agent) and state in (None, row.state)
        ]

    async def test_lists_by_what_a_commit_changed(self, opening: Opening) -> None:
        row = thread_row(owner="ann")
        async with opening() as store:
            await store.create(row)
            changes = {"state": "parked", "owner": "bob", "agent": "other", "tier": "batch"}
            await store.commit(commit_on(await store.load(row.thread), row=changes))
            assert await store.threads(owner="ann") == []
            assert await store.threads(agent="adder") == []
            assert await store.threads(state="open") == []
            (found,) = await store.threads(owner="bob", agent="other", state="parked")
            (posted,) = await store.post([said(row.thread)])
        assert found.tier == "batch"
        assert posted == Posted("new", "other", "bob", "batch")


class SignalsContract(OpensStores):
    """Posting and loading signals."""

    async def test_a_signal_counts_once(self, opening: Opening) -> None:
        row = thread_row(owner="ann", tier="async")
        signal = said(row.thread, "first", id="one")
        async with opening() as store:
            await store.create(row)
            again = said(row.thread, "second", id="one")
            assert await store.post([signal]) == [Posted("new", "adder", "ann", "async")]
            assert await store.post([again, again]) == [Posted("repeat", "adder", "ann", "async")] * 2
            assert (await store.load(row.thread)).signals == (signal,)

    async def test_an_absorbed_signal_is_still_known(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row, [said(row.thread, id="one"), said(row.thread, id="two")])
            outcomes = {"one": "absorbed", "two": "closed"}
            await store.commit(commit_on(await store.load(row.thread), "text", absorbed=outcomes))
            assert [one.outcome for one in await store.post([said(row.thread, id="one")])] == ["repeat"]
            assert (await store.load(row.thread)).signals == ()
            assert await store.seen(row.thread, "one")
            assert not await store.seen(row.thread, "three")
            found = [await store.outcome(row.thread, id) for id in ("one", "two", "three")]
            assert found == ["absorbed", "closed", None]
            assert await store.outcome(fresh(), "one") is None

    async def test_signals_for_many_threads_at_once(self, opening: Opening) -> None:
        rows = [thread_row() for _ in range(3)]
        nobody = fresh()
        async with opening() as store:
            for row in rows:
                await store.create(row)
            signals = [said(row.thread) for row in rows]
            posted = await store.post([signals[0], said(nobody), signals[1], signals[0], signals[2]])
            assert [one.outcome for one in posted] == ["new", "unknown", "new", "repeat", "new"]
            assert [(await store.load(row.thread)).signals for row in rows] == [(one,) for one in signals]
            assert await store.row(nobody) is None

    async def test_ids_are_the_threads_own(self, opening: Opening) -> None:
        first, second = thread_row(), thread_row()
        async with opening() as store:
            await store.create(first, [said(first.thread, id="one")])
            await store.create(second)
            assert [one.outcome for one in await store.post([said(second.thread, id="one")])] == ["new"]

    async def test_a_closed_thread_takes_signals(self, opening: Opening) -> None:
        row = thread_row(state="closed")
        async with opening() as store:
            await store.create(row)
            assert [one.outcome for one in await store.post([said(row.thread, id="one")])] == ["new"]
            assert ids((await store.load(row.thread)).signals) == ["one"]
            assert await store.outcome(row.thread, "one") == ""

    async def test_loads_in_order_of_arrival_up_to_a_limit(self, opening: Opening) -> None:
        row = thread_row()
        names = [f"signal{place}" for place in (5, 3, 8, 1, 9)]
        async with opening() as store:
            await store.create(row)
            for name in names:
                await store.post([said(row.thread, id=name)])
            await store.post([timer(row.thread, START + 60), timer(row.thread, START + 30)])
            part = await store.load(row.thread, limit=3)
            assert (ids(part.signals), part.more, part.next_due) == (names[:3], True, START + 30)
            whole = await store.load(row.thread, limit=5)
            assert (ids(whole.signals), whole.more) == (names, False)
            await store.commit(commit_on(part))
            rest = await store.load(row.thread, limit=3)
            assert (ids(rest.signals), rest.more, rest.next_due) == (names[3:], False, START + 30)

    async def test_a_signal_that_is_not_due_does_not_exist_yet(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        row = thread_row()
        due = START + 60
        async with opening() as store:
            await store.create(row)
            await store.post([said(row.thread, id="later", due=due), said(row.thread, id="now")])
            early = await store.load(row.thread)
            assert (ids(early.signals), early.next_due, early.more) == (["now"], due, False)
            assert ids(await store.inbox(row.thread)) == ["later", "now"]
            clock.advance(60)
            late = await store.load(row.thread)
        assert (ids(late.signals), late.next_due) == (["later", "now"], 0.0)
        assert (early.now, late.now) == (START, due)

    async def test_next_due_is_the_earliest(self, opening: Opening, clock: FakeClock) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row)
            for after in (90, 30, 60):
                await store.post([timer(row.thread, START + after)])
            assert (await store.load(row.thread)).next_due == START + 30
            clock.advance(30)
            snapshot = await store.load(row.thread)
            assert (len(snapshot.signals), snapshot.next_due) == (1, START + 60)

    async def test_prunes_what_is_old(self, opening: Opening, clock: FakeClock) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row, [said(row.thread, id="old"), timer(row.thread, START + 500, id="waits")])
            await store.commit(commit_on(await store.load(row.thread), "old", absorbed={"old": "closed"}))
            clock.advance(100)
            await store.post([said(row.thread, id="young")])
            await store.commit(commit_on(await store.load(row.thread), "young"))
            assert await store.prune(START + 50) == 1
            known = [await store.outcome(row.thread, id) for id in ("old", "young", "waits")]
            assert known == [None, "absorbed", ""]
            assert texts(await store.read(row.thread)) == ["old", "young"]


class CommitsContract(OpensStores):
    """Writing slices."""

    async def test_a_commit_is_seen_whole(self, opening: Opening) -> None:
        row = thread_row()
        record = slice_record(row.thread, woken_by=("one",), usage=Usage(input=3, output=4))
        async with opening() as store:
            await store.create(row, [said(row.thread, id="one")])
            before = await store.load(row.thread)
            changes = {"owes": True, "waits": 1, "title": "T", "head": b"head", "updated": 9.5}
            version = await store.commit(
                commit_on(before, "a", "b", commit_id="c1", row=changes, record=record)
            )
            after = await store.load(row.thread)
            assert version == Version(1, "c1")
            whole = msgspec.structs.replace(row, version=version, length=2, **changes)
            assert after.row == whole == await store.row(row.thread)
            assert after.signals == ()
            assert [stored.position for stored in after.history or ()] == [1, 2]
            assert texts(after.history) == ["a", "b"]
            assert await store.records(row.thread) == [record]

    async def test_a_stale_commit_writes_nothing(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row, [said(row.thread, id="one")])
            stale = await store.load(row.thread)
            await store.post([said(row.thread, id="two")])
            won = await store.commit(commit_on(stale, "won"))
            lost = commit_on(
                await store.load(row.thread),
                "lost",
                base=stale.row.version,
                timers=(timer(row.thread, START + 9),),
                record=slice_record(row.thread),
            )
            with pytest.raises(Conflict):
                await store.commit(lost)
            after = await store.load(row.thread)
            assert after.row.version == won
            assert texts(after.history) == ["won"]
            assert ids(await store.inbox(row.thread)) == ["two"]
            assert await store.records(row.thread) == []
            assert await store.last_record(row.thread) is None

    @pytest.mark.parametrize("base", [Version(1, "other"), Version(0, "c1"), Version(2, "c1"), Version()])
    async def test_counter_and_commit_id_guard_together(self, opening: Opening, base: Version) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row)
            await store.commit(commit_on(await store.load(row.thread), "a", commit_id="c1"))
            wrong = commit_on(await store.load(row.thread), "b", base=base, commit_id="c2")
            with pytest.raises(Conflict):
                await store.commit(wrong)
            assert texts(await store.read(row.thread)) == ["a"]

    async def test_a_repeated_commit_counts_once(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row, [said(row.thread)])
            commit = commit_on(await store.load(row.thread), "a", record=slice_record(row.thread))
            first = await store.commit(commit)
            assert await store.commit(commit) == first
            assert texts(await store.read(row.thread)) == ["a"]
            assert len(await store.records(row.thread)) == 1
            await store.commit(commit_on(await store.load(row.thread), "b"))
            with pytest.raises(Conflict):
                await store.commit(commit)

    async def test_a_taken_position_is_a_conflict(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row, [said(row.thread, id="one")])
            await store.commit(commit_on(await store.load(row.thread), "a", absorbed={}))
            twice = commit_on(await store.load(row.thread), messages=(message(2, "b"), message(2, "c")))
            for clash in (twice, msgspec.structs.replace(twice, messages=(message(1, "b"),))):
                with pytest.raises(Conflict):
                    await store.commit(clash)
            after = await store.load(row.thread)
            assert (after.row.version.counter, texts(after.history)) == (1, ["a"])
            assert ids(after.signals) == ["one"]

    async def test_timers(self, opening: Opening, clock: FakeClock) -> None:
        row = thread_row()
        keep, drop = timer(row.thread, START + 10, id="keep"), timer(row.thread, START + 5, id="drop")
        async with opening() as store:
            await store.create(row)
            await store.commit(commit_on(await store.load(row.thread), timers=(keep, drop)))
            again = timer(row.thread, START + 99, id="keep")
            snapshot = await store.load(row.thread)
            assert (snapshot.signals, snapshot.next_due) == ((), START + 5)
            await store.commit(commit_on(snapshot, timers=(again,), cancelled=("drop", "never")))
            assert (await store.load(row.thread)).next_due == START + 10
            clock.advance(10)
            due = await store.load(row.thread)
            assert due.signals == (keep,)
            await store.commit(commit_on(due))
            await store.commit(commit_on(await store.load(row.thread), timers=(again,)))
            assert await store.inbox(row.thread) == []

    async def test_postpone_changes_the_row_alone(self, opening: Opening) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row, [said(row.thread)])
            before = await store.load(row.thread)
            await store.postpone(row.thread, before.row.version, 2, START + 30)
            after = await store.load(row.thread)
            assert after.row == msgspec.structs.replace(before.row, attempt=2, not_before=START + 30)
            assert after.signals == before.signals
            await store.commit(commit_on(after, row={"attempt": 0, "not_before": 0.0}))
            await store.postpone(row.thread, before.row.version, 3, START + 60)
            found = await store.row(row.thread)
            assert found is not None
            assert (found.attempt, found.not_before) == (0, 0.0)

    async def test_notes_what_committed_nothing(self, opening: Opening) -> None:
        row = thread_row()
        failed = slice_record(row.thread, yielded="failed", usage=Usage(input=5))
        done = slice_record(row.thread, yielded="idle")
        async with opening() as store:
            await store.create(row)
            await store.note(failed)
            await store.commit(commit_on(await store.load(row.thread), record=done))
            assert await store.records(row.thread) == [failed, done]
            assert await store.last_record(row.thread) == done
            assert await store.records(row.thread, limit=1) == [failed]
            assert [await store.records(row.thread, after) for after in (1, 2)] == [[done], []]


def _empty(thread: str) -> Snapshot:
    return Snapshot(thread_row(thread), 0.0, (), (), False, (), 0.0)
