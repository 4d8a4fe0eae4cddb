"""What every queue must do so that owners share it: a cap on the threads of one owner leased at once."""

import asyncio
from collections import Counter

from torpor.ports import Queue
from torpor.testing.clock import START, FakeClock
from torpor.testing.rings_contract import LEASE, PATIENCE, Opening, OpensQueues, ring, threads, until


class SharesContract(OpensQueues):
    """Owners at their cap are passed over, and come back as soon as a lease of theirs ends."""

    async def test_an_owner_at_its_cap_is_passed_over(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring(f"a{n}", START + n) for n in range(5)])
            await queue.ring([ring("b", START + 9, owner="bob")])
            first, second, last = await queue.next("w", limit=9, owner_cap=2)
            assert threads([first, second, last]) == ["a0", "a1", "b"]
            assert await queue.next("v", limit=9, owner_cap=2) == []
            await queue.done(first)
            assert threads(await queue.next("v", limit=9, owner_cap=2)) == ["a2"]
            await queue.retry(second, START)
            assert threads(await queue.next("v", limit=9, owner_cap=2)) == ["a1"]
            assert await queue.size() == 5

    async def test_below_the_cap_the_order_is_that_of_urgency(self, opening: Opening) -> None:
        rings = [
            ring("a1", START + 1),
            ring("a2", START + 2),
            ring("a3", START + 4),
            ring("b1", START + 3, owner="bob"),
            ring("b2", START - 9, owner="bob", tier="async"),
        ]
        async with opening() as queue:
            await queue.ring(rings)
            assert threads(await queue.next("w", owner_cap=3, limit=2)) == ["a1", "a2"]
            assert threads(await queue.next("w", owner_cap=3, limit=9)) == ["b1", "a3", "b2"]

    async def test_who_has_no_owner_is_not_capped(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring(f"t{n}", owner="") for n in range(5)])
            assert len(await queue.next("w", limit=4, owner_cap=1)) == 4
            assert len(await queue.next("w", limit=4, owner_cap=1)) == 1

    async def test_without_a_cap_an_owner_may_have_all(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring(f"t{n}", START + n) for n in range(5)])
            assert len(await queue.next("w", limit=9, owner_cap=2)) == 2
            assert threads(await queue.next("w", limit=9)) == ["t2", "t3", "t4"]

    async def test_leases_of_every_tier_and_agent_count(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring("x", agent="x", tier="batch"), ring("y", agent="y"), ring("z", agent="z")])
            assert threads(await queue.next("w", tiers=["batch"], owner_cap=2)) == ["x"]
            assert threads(await queue.next("w", agents=["y"], owner_cap=2)) == ["y"]
            assert await queue.next("w", agents=["z"], owner_cap=2) == []
            assert threads(await queue.next("w", agents=["z"], owner_cap=3)) == ["z"]

    async def test_a_lease_that_ran_out_counts_no_more(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("lost", START + 1), ring("t", START)])
            await queue.next("w", agents=["other"], owner_cap=1)
            (lease,) = await queue.next("w", owner_cap=1)
            clock.advance(LEASE / 2)
            assert await queue.next("v", owner_cap=1) == []
            clock.advance(LEASE / 2)
            (again,) = await queue.next("v", owner_cap=1)
            assert (lease.thread, again.thread, again.attempt) == ("t", "t", 1)
            assert await queue.next("v", owner_cap=1) == []

    async def test_a_freed_place_wakes_who_waits(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("a"), ring("b")])
            (lease,) = await queue.next("w", owner_cap=1)
            waiting = asyncio.create_task(queue.next("v", wait=60, owner_cap=1))
            await until(lambda: clock.sleepers > 0)
            await asyncio.sleep(0.02)
            assert not waiting.done()
            await queue.done(lease)
            async with asyncio.timeout(PATIENCE):
                assert len(await waiting) == 1

    async def test_behind_a_flood_others_are_found(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring(f"a{n}", START + n) for n in range(2_000)])
            await queue.ring([ring(f"b{n}", START + 5_000 + n, owner=f"bob-{n}") for n in range(3)])
            taken = await queue.next("w", limit=6, owner_cap=4)
            assert threads(taken) == ["a0", "a1", "a2", "a3", "b0", "b1"]
            await queue.done(taken[0])
            assert threads(await queue.next("w", limit=6, owner_cap=4)) == ["a4", "b2"]

    async def test_takers_at_once_keep_the_cap(self, opening: Opening) -> None:
        owners = ("ann", "bob", "")
        async with opening() as queue, opening() as other:
            await queue.ring([ring(f"t{n:02d}", owner=owners[n % 3]) for n in range(30)])
            await asyncio.gather(queue.size(), other.size())
            taken = await asyncio.gather(*(_take(one) for one in [queue, other] * 8))
            counts = Counter(owner for owners in taken for owner in owners)
            assert counts == {"ann": 3, "bob": 3, "": 10}


async def _take(queue: Queue) -> list[str]:
    """Owners of the leases that one who takes again and again, until there is nothing more, gets."""
    owners: list[str] = []
    while leases := await queue.next("w", limit=2, owner_cap=3):
        owners += [lease.owner for lease in leases]
    return owners
