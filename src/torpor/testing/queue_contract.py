"""What every queue must do, as one suite: subclass ``QueueContract`` and say how to open one."""

import asyncio

import pytest

from torpor.ports import Lease
from torpor.testing.clock import START, FakeClock
from torpor.testing.rings_contract import (
    LEASE,
    PATIENCE,
    Opening,
    OpensQueues,
    RingsContract,
    ring,
    threads,
    until,
)
from torpor.testing.shares_contract import SharesContract


class LeasesContract(OpensQueues):
    """Holding, renewing, losing and giving back."""

    async def test_a_ring_during_a_lease_outlives_it(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", START - 9)])
            (lease,) = await queue.next("w")
            await queue.ring([ring("t", START + 7), ring("t", START + 8, tier="async")])
            assert await queue.next("w") == []
            await queue.done(lease)
            (again,) = await queue.next("w")
            assert (again.start_by, again.tier, again.attempt) == (START + 7, "realtime", 0)
            assert again.token != lease.token
            await queue.done(again)
            assert await queue.size() == 0

    async def test_a_ring_for_later_during_a_lease(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            (lease,) = await queue.next("w")
            await queue.ring([ring("t", START + 40, not_before=START + 40)])
            await queue.done(lease)
            assert (await queue.next("w"), await queue.next_at()) == ([], START + 40)
            clock.advance(40)
            assert threads(await queue.next("w")) == ["t"]

    async def test_done_rearms(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", tier="async")])
            (lease,) = await queue.next("w")
            await queue.done(lease, again_at=START + 20)
            assert (await queue.size(), await queue.next("w"), await queue.next_at()) == (1, [], START + 20)
            clock.advance(20)
            (again,) = await queue.next("w")
            assert (again.tier, again.owner, again.agent) == ("async", "ann", "adder")
            await queue.done(again, again_at=START)
            assert threads(await queue.next("w")) == ["t"]

    @pytest.mark.parametrize(("rung", "again"), [(30, 20), (20, 30)])
    async def test_done_rearms_for_the_sooner(
        self, opening: Opening, clock: FakeClock, rung: int, again: int
    ) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            (lease,) = await queue.next("w")
            await queue.ring([ring("t", not_before=START + rung)])
            await queue.done(lease, again_at=START + again)
            assert await queue.next_at() == START + 20
            clock.advance(20)
            assert threads(await queue.next("w")) == ["t"]

    async def test_a_lease_that_ran_out_is_taken_over(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", START + 3)])
            (first,) = await queue.next("w")
            clock.advance(LEASE)
            (second,) = await queue.next("v")
            assert (second.attempt, second.start_by) == (1, START + 3)
            await queue.ring([ring("t")])
            clock.advance(LEASE)
            (third,) = await queue.next("w")
            assert third.attempt == 2
            assert len({first.token, second.token, third.token}) == 3
            await queue.done(third, again_at=START)
            (fourth,) = await queue.next("w")
            assert fourth.attempt == 0

    async def test_a_stale_lease_changes_nothing(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            (stale,) = await queue.next("w")
            clock.advance(LEASE)
            (lease,) = await queue.next("v")
            await queue.done(stale, again_at=START)
            await queue.retry(stale, START)
            assert await queue.extend([stale]) == ([], set())
            assert await queue.next("w") == []
            assert threads((await queue.extend([stale, lease]))[0]) == ["t"]
            await queue.done(lease)
            await queue.done(lease, again_at=START)
            await queue.done(stale, again_at=START)
            assert await queue.size() == 0

    async def test_a_late_holder_may_still_give_back(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            (lease,) = await queue.next("w")
            clock.advance(LEASE + 5)
            assert await queue.next("w", agents=["other"]) == []
            await queue.done(lease)
            assert (await queue.size(), await queue.next("w")) == (0, [])

    async def test_a_renewed_lease_lasts(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            leases = await queue.next("w")
            for _ in range(20):
                clock.advance(LEASE / 2)
                leases, _ = await queue.extend(leases)
                assert leases[0].until > clock.now() + LEASE / 2
                assert await queue.next("v") == []
            clock.advance(LEASE)
            (taken,) = await queue.next("v")
            assert taken.attempt == 1

    async def test_a_late_renewal_holds(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            leases = await queue.next("w")
            clock.advance(LEASE + 1)
            assert await queue.next("v", agents=["other"]) == []
            leases, _ = await queue.extend(leases)
            assert threads(leases) == ["t"]
            assert await queue.next("v") == []

    async def test_retry_keeps_count(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", START + 2)])
            await queue.next("w")
            clock.advance(LEASE)
            (lease,) = await queue.next("w")
            await queue.retry(lease, clock.now() + 10)
            assert await queue.next("w") == []
            clock.advance(10)
            (again,) = await queue.next("w")
            assert (again.attempt, again.start_by) == (1, START + 2)
            await queue.retry(again, clock.now())
            assert threads(await queue.next("w")) == ["t"]

    async def test_a_cut_is_told_once_to_the_holder(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring("a"), ring("b")])
            leases = await queue.next("w", limit=2)
            await queue.ring([ring("a"), ring("b", cut=True), ring("b")])
            held, cut = await queue.extend(leases)
            assert (sorted(threads(held)), cut) == (["a", "b"], {"b"})
            assert (await queue.extend(held))[1] == set()

    async def test_a_cut_concerns_only_what_runs(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", cut=True)])
            (lease,) = await queue.next("w")
            assert (await queue.extend([lease]))[1] == set()
            await queue.ring([ring("t", cut=True)])
            await queue.done(lease)
            (again,) = await queue.next("w")
            assert (await queue.extend([again]))[1] == set()

    async def test_of_many_takers_each_thread_has_one(self, opening: Opening) -> None:
        names = [f"t{place:02d}" for place in range(40)]
        async with opening() as queue, opening() as other:
            await queue.ring([ring(name) for name in names])
            assert await queue.size() == len(names)
            taken = await asyncio.gather(*(one.next("w", limit=3) for one in [queue, other] * 10))
        assert sorted(name for leases in taken for name in threads(leases)) == names


class WaitingContract(OpensQueues):
    """Waiting for work."""

    async def test_a_ring_wakes_who_waits(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            waiting = asyncio.create_task(queue.next("w", wait=60))
            await until(lambda: clock.sleepers > 0)
            await queue.ring([ring("t")])
            assert threads(await _soon(waiting)) == ["t"]

    async def test_waiting_ends_in_time(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            waiting = asyncio.create_task(queue.next("w", wait=60))
            await until(lambda: clock.sleepers > 0)
            clock.advance(60)
            assert await _soon(waiting) == []

    async def test_what_comes_due_wakes(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", not_before=START + 30)])
            waiting = asyncio.create_task(queue.next("w", wait=60))
            await until(lambda: clock.next_wake == START + 30)
            await queue.ring([ring("u", not_before=START + 20)])
            await until(lambda: clock.next_wake == START + 20)
            clock.advance(20)
            assert threads(await _soon(waiting)) == ["u"]

    async def test_a_lease_that_runs_out_wakes(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            await queue.next("w")
            waiting = asyncio.create_task(queue.next("v", wait=60))
            await until(lambda: clock.next_wake == START + LEASE)
            clock.advance(LEASE)
            (lease,) = await _soon(waiting)
            assert lease.attempt == 1

    async def test_giving_back_wakes(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t")])
            (lease,) = await queue.next("w")
            waiting = asyncio.create_task(queue.next("v", wait=60))
            await until(lambda: clock.sleepers > 0)
            await queue.ring([ring("t")])
            await queue.done(lease)
            assert threads(await _soon(waiting)) == ["t"]

    async def test_a_ring_wakes_whom_it_concerns(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            waiting = {
                name: asyncio.create_task(queue.next("w", wait=60, agents=[name])) for name in ("a", "b", "c")
            }
            await until(lambda: clock.sleepers > 0)
            await asyncio.sleep(0.01)
            await queue.ring([ring("t", agent="b")])
            assert threads(await _soon(waiting["b"])) == ["t"]
            clock.advance(60)
            assert await _soon(waiting["a"]) == await _soon(waiting["c"]) == []

    async def test_each_of_many_gets_one(self, opening: Opening, clock: FakeClock) -> None:
        names = [f"t{place}" for place in range(8)]
        async with opening() as queue:
            waiting = [asyncio.create_task(queue.next("w", wait=60)) for _ in names]
            await until(lambda: clock.sleepers > 0)
            for name in names:
                await queue.ring([ring(name)])
            taken = [threads(await _soon(task)) for task in waiting]
        assert sorted(taken) == [[name] for name in names]

    async def test_who_gives_up_takes_nothing_along(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            for turns in range(12):
                waiting = [asyncio.create_task(queue.next("w", wait=60)) for _ in range(2)]
                await until(lambda: clock.sleepers > 0)
                ringing = asyncio.create_task(queue.ring([ring("t")]))
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting[0].cancel()
                first, *_ = await asyncio.gather(waiting[0], ringing, return_exceptions=True)
                if isinstance(first, list):
                    waiting[1].cancel()
                    leases = first
                else:
                    leases = await _soon(waiting[1])
                assert threads(leases) == ["t"]
                await queue.done(leases[0])
                await asyncio.gather(*waiting, return_exceptions=True)

    async def test_closes_twice(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.close()
            await queue.close()


class QueueContract(RingsContract, LeasesContract, WaitingContract, SharesContract):
    """All that a queue promises."""


class DurableQueueContract(QueueContract):
    """A queue whose rings outlive it and that several processes use."""

    async def test_rings_and_leases_are_there_after_reopening(
        self, opening: Opening, clock: FakeClock
    ) -> None:
        async with opening() as queue:
            await queue.ring([ring("a", START - 1), ring("b"), ring("c", not_before=START + 60)])
            (lease,) = await queue.next("w")
        async with opening() as queue:
            assert (await queue.size(), threads(await queue.next("w", limit=9))) == (3, ["b"])
            await queue.done(lease)
            clock.advance(60)
            assert sorted(threads(await queue.next("w", limit=9))) == ["b", "c"]

    async def test_a_ring_elsewhere_wakes_who_waits(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue, opening() as other:
            waiting = asyncio.create_task(queue.next("w", wait=60))
            await until(lambda: clock.sleepers > 0)
            await other.ring([ring("later", not_before=START + 20)])
            await until(lambda: clock.next_wake == START + 20)
            await other.ring([ring("t")])
            assert threads(await _soon(waiting)) == ["t"]


async def _soon(task: "asyncio.Task[list[Lease]]") -> list[Lease]:
    async with asyncio.timeout(PATIENCE):
        return await task
