"""What every store must do with effects, and how it finds what nobody woke."""

from torpor.ports import Posted
from torpor.testing.clock import START, FakeClock
from torpor.testing.opening import FullStore, Opening, OpensStores
from torpor.testing.samples import commit_on, ids, invoke, said, thread_row, timer


async def decided(store: FullStore, *names: str, claimed_until: float = 0.0, holder: str = "") -> str:
    """A new thread that has decided effects of these ids."""
    row = thread_row()
    await store.create(row)
    effects = tuple(invoke(name) for name in names)
    snapshot = await store.load(row.thread)
    await store.commit(commit_on(snapshot, effects=effects, claimed_until=claimed_until, holder=holder))
    return row.thread


class EffectsContract(OpensStores):
    """The outbox."""

    async def test_an_effect_stays_until_it_is_acknowledged(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "b", "a")
            left = (await store.load(thread)).outbox
            assert [(one.effect, one.attempt) for one in left] == [(invoke("b"), 0), (invoke("a"), 0)]
            await store.delivered(thread, ["b", "unknown"])
            assert [one.effect.id for one in (await store.load(thread)).outbox] == ["a"]
            await store.delivered(thread, ["a", "b"])
            assert (await store.load(thread)).outbox == ()

    async def test_a_result_is_posted_and_its_effect_acknowledged_together(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", "b", claimed_until=START + 10)
            result = said(thread, id="result")
            assert await store.finish(result, "a") == Posted("new", "adder", "", "realtime")
            assert await store.inbox(thread) == [result]
            assert [one.effect.id for one in await store.outbox(thread)] == ["b"]

    async def test_a_repeated_result_counts_once_and_acknowledges(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", "b")
            result = said(thread, id="result")
            posted = [await store.finish(result, effect) for effect in ("a", "a", "unknown", "b")]
            assert [one.outcome for one in posted] == ["new", "repeat", "repeat", "repeat"]
            assert await store.inbox(thread) == [result]
            assert await store.outbox(thread) == []

    async def test_a_result_of_no_thread_is_unknown(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a")
            assert (await store.finish(said("nowhere"), "a")).outcome == "unknown"
            assert [one.effect.id for one in await store.outbox(thread)] == ["a"]

    async def test_effects_are_claimed_with_the_commit(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10)
            held = await store.load(thread)
            assert (held.outbox, held.next_due) == ((), 0.0)
            clock.advance(10)
            left = await store.load(thread)
            assert [(one.effect.id, one.attempt) for one in left.outbox] == [("a", 1)]
            assert left.next_due == 0.0

    async def test_the_outbox_shows_also_what_is_held(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "b", "a", "c", claimed_until=START + 10, holder="one")
            await store.release(thread, ["a"], START + 5, holder="one")
            await store.delivered(thread, ["c"])
            shown = [
                (one.effect.id, one.attempt, one.not_before, one.claimed_until)
                for one in await store.outbox(thread)
            ]
            assert shown == [("b", 1, 0.0, START + 10), ("a", 1, START + 5, 0.0)]
            await store.delivered(thread, ["a", "b"])
            assert await store.outbox(thread) == []

    async def test_an_effect_is_decided_once(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10)
            await store.commit(commit_on(await store.load(thread), effects=(invoke("a"),)))
            assert (await store.load(thread)).outbox == ()

    async def test_one_claimer_wins(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", "b")
            held = await store.claim(thread, ["a"], START + 10, holder="one")
            assert [(row.effect, row.attempt, row.claimed_until) for row in held] == [
                (invoke("a"), 1, START + 10)
            ]
            both = await store.claim(thread, ["a", "b", "unknown"], START + 10, holder="two")
            assert [row.effect.id for row in both] == ["b"]

    async def test_the_holder_renews(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10, holder="one")
            clock.advance(5)
            (renewed,) = await store.claim(thread, ["a"], START + 20, holder="one")
            assert (renewed.attempt, renewed.claimed_until) == (1, START + 20)
            clock.advance(10)
            assert await store.claim(thread, ["a"], START + 30, holder="two") == []
            assert (await store.load(thread)).outbox == ()

    async def test_a_claim_that_ran_out_is_taken_over(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10, holder="one")
            clock.advance(10)
            (taken,) = await store.claim(thread, ["a"], START + 30, holder="two")
            assert taken.attempt == 2
            assert await store.claim(thread, ["a"], START + 40, holder="one") == []

    async def test_two_handles_are_two_claimers(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            thread = await decided(store, "a", claimed_until=START + 10)
            assert [one.attempt for one in await store.claim(thread, ["a"], START + 20)] == [1]
            if other is not store:
                assert await other.claim(thread, ["a"], START + 20) == []

    async def test_an_effect_given_back_waits_for_its_time(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10, holder="one")
            await store.release(thread, ["a", "unknown"], START + 5, holder="one")
            assert await store.claim(thread, ["a"], START + 20, holder="two") == []
            waiting = await store.load(thread)
            assert (waiting.outbox, waiting.next_due) == ((), START + 5)
            clock.advance(5)
            (taken,) = await store.claim(thread, ["a"], START + 20, holder="two")
            assert taken.attempt == 2

    async def test_what_was_not_begun_is_no_try(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", "b", claimed_until=START + 10, holder="one")
            for _ in range(2):  # the second time there is nothing to give back
                await store.release(thread, ["a"], 0.0, holder="one", begun=False)
                await store.release(thread, ["b"], 0.0, holder="two", begun=False)
            assert [row.attempt for row in await store.outbox(thread)] == [0, 1]
            (taken,) = await store.claim(thread, ["a"], START + 20, holder="two")
            assert taken.attempt == 1
            await store.release(thread, ["a"], 0.0, holder="two")
            assert [row.attempt for row in await store.outbox(thread)] == [1, 1]

    async def test_only_the_holder_gives_back(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10, holder="one")
            await store.release(thread, ["a"], 0.0, holder="two")
            assert (await store.load(thread)).outbox == ()

    async def test_an_effect_that_is_hastened_is_due_now(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", "b", claimed_until=START + 10, holder="one")
            await store.release(thread, ["a", "b"], START + 5, holder="one")
            await store.hasten(thread, ["a", "unknown"])
            assert [row.effect.id for row in (await store.load(thread)).outbox] == ["a"]
            assert [row.thread for row, _ in await store.stranded()] == [thread]
            (taken,) = await store.claim(thread, ["a", "b"], START + 20, holder="two")
            assert (taken.effect.id, taken.attempt) == ("a", 2)

    async def test_what_is_hastened_while_it_is_held_is_due_when_given_back(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10, holder="one")
            await store.hasten(thread, ["a"])
            assert await store.claim(thread, ["a"], START + 10, holder="two") == []
            await store.claim(thread, ["a"], START + 20, holder="one")  # renewed
            await store.release(thread, ["a"], START + 5, holder="one")
            (taken,) = await store.claim(thread, ["a"], START + 20, holder="two")
            assert taken.attempt == 2

    async def test_who_takes_an_effect_uses_up_its_haste(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            thread = await decided(store, "a", claimed_until=START + 10, holder="one")
            await store.hasten(thread, ["a"])
            clock.advance(10)
            assert await store.claim(thread, ["a"], START + 20, holder="two")
            await store.release(thread, ["a"], START + 15, holder="two")
            assert await store.claim(thread, ["a"], START + 20, holder="two") == []

    async def test_nothing_is_forgotten_while_an_effect_may_be_repeated(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        async with opening() as store:
            thread = await decided(store, "a")
            clock.advance(10)
            await store.post([said(thread, id="one")])
            await store.commit(commit_on(await store.load(thread), "text"))
            assert await store.prune(START + 100) == 0
            await store.delivered(thread, ["a"])
            assert await store.prune(START + 100) == 1


class StrandedContract(OpensStores):
    """Finding threads that something should have woken."""

    async def test_a_due_signal(self, opening: Opening, clock: FakeClock) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row)
            assert await store.stranded() == []
            clock.advance(3)
            await store.post([said(row.thread)])
            assert await store.stranded() == [(row, START + 3)]
            await store.commit(commit_on(await store.load(row.thread)))
            assert await store.stranded() == []

    async def test_a_timer_once_it_is_due(self, opening: Opening, clock: FakeClock) -> None:
        row = thread_row()
        async with opening() as store:
            await store.create(row, [timer(row.thread, START + 60)])
            assert await store.stranded() == []
            clock.advance(61)
            assert await store.stranded() == [(row, START + 60)]

    async def test_not_a_signal_to_a_closed_thread(self, opening: Opening) -> None:
        row = thread_row(state="closed")
        async with opening() as store:
            await store.create(row, [said(row.thread)])
            assert await store.stranded() == []

    async def test_an_effect_that_nobody_holds(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            free = await decided(store, "a")
            held = await decided(store, "b", claimed_until=START + 10)
            assert [(row.thread, since) for row, since in await store.stranded()] == [(free, START)]
            await store.delivered(free, ["a"])
            clock.advance(11)
            assert [(row.thread, since) for row, since in await store.stranded()] == [(held, START + 10)]
            await store.release(held, ["b"], START + 20)
            assert await store.stranded() == []

    async def test_an_answer_owed(self, opening: Opening, clock: FakeClock) -> None:
        row = thread_row(owes=True, updated=START - 5)
        async with opening() as store:
            await store.create(row)
            assert await store.stranded() == [(row, START - 5)]
            await store.postpone(row.thread, row.version, 1, START + 30)
            assert await store.stranded() == []
            clock.advance(31)
            ((found, since),) = await store.stranded()
            assert (found.thread, found.attempt, since) == (row.thread, 1, START + 30)
            await store.commit(commit_on(await store.load(row.thread), row={"owes": False}))
            assert await store.stranded() == []

    async def test_each_thread_once_the_longest_waiting_first(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        rows = [thread_row(owes=True, updated=START + place) for place in range(4)]
        async with opening() as store:
            for row in reversed(rows):
                await store.create(row)
            clock.advance(50)
            await store.post([said(row.thread) for row in rows])
            found = await store.stranded(limit=3)
        assert [(row.thread, since) for row, since in found] == [
            (row.thread, row.updated) for row in rows[:3]
        ]

    async def test_what_has_many_reasons_stays_until_the_last_is_gone(self, opening: Opening) -> None:
        async with opening() as store:
            thread = await decided(store, "a")
            await store.post([said(thread)])
            await store.commit(commit_on(await store.load(thread)))
            assert [row.thread for row, _ in await store.stranded()] == [thread]
            await store.delivered(thread, ["a"])
            assert await store.stranded() == []
            assert ids(await store.inbox(thread)) == []
