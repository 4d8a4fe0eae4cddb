"""Word of which workers run: each has a place, and a place falls free when its worker goes or dies."""

import asyncio

from torpor.ports import Side
from torpor.runtime.presence import EVERY, GOOD_FOR, SPACE, presence, present
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock


async def names(side: Side, clock: FakeClock) -> list[str]:
    return sorted(here.worker for here in await present(side, clock.now()))


async def test_a_worker_is_there_while_it_runs() -> None:
    clock = FakeClock()
    side: Side = MemoryStore(clock)
    async with presence(side, clock, "a", ("x", "y")):
        (here,) = await present(side, clock.now())
        assert (here.worker, here.agents) == ("a", ("x", "y"))
        async with presence(side, clock, "b", ("x",)):
            assert await names(side, clock) == ["a", "b"]
            await asyncio.sleep(0)
            await clock.run(10 * GOOD_FOR)
            assert await names(side, clock) == ["a", "b"]
        assert await names(side, clock) == ["a"]
    assert await names(side, clock) == []
    assert clock.sleepers == 0


async def test_the_place_of_a_dead_worker_is_used_again() -> None:
    clock = FakeClock()
    side: Side = MemoryStore(clock)
    dead = presence(side, clock, "dead", ())
    await dead.__aenter__()
    task = next(task for task in asyncio.all_tasks() if task.get_name() == "torpor-presence")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await names(side, clock) == ["dead"]
    (here,) = await present(side, clock.now())
    assert (here.seen, here.is_overdue(clock.now() + EVERY)) == (clock.now(), False)
    assert here.is_overdue(clock.now() + 2 * EVERY)
    clock.advance(GOOD_FOR + 1)
    assert await names(side, clock) == []
    async with presence(side, clock, "next", ()):
        assert await names(side, clock) == ["next"]
        assert len(await side.entries(SPACE)) == 1


async def test_two_that_took_one_place_part_again() -> None:
    clock = FakeClock()
    side: Side = MemoryStore(clock)
    async with presence(side, clock, "a", ()):
        (place,) = await side.entries(SPACE)
        await side.put(SPACE, place, b"")
        async with presence(side, clock, "b", ()):
            assert await names(side, clock) == ["b"]
            await asyncio.sleep(0)
            await clock.run(EVERY)
            assert await names(side, clock) == ["a", "b"]


async def test_what_cannot_be_read_counts_as_nobody() -> None:
    clock = FakeClock()
    side: Side = MemoryStore(clock)
    await side.put(SPACE, "w0", b"\xff")
    assert await names(side, clock) == []
    async with presence(side, clock, "a", ()):
        assert await names(side, clock) == ["a"]


async def test_a_worker_says_when_it_last_swept_and_what_it_runs() -> None:
    clock = FakeClock()
    side: Side = MemoryStore(clock)
    async with presence(side, clock, "a", (), release="1.2.3") as company:
        (here,) = await present(side, clock.now())
        assert (here.release, here.swept) == ("1.2.3", 0.0)
        company.swept()
        await asyncio.sleep(0)
        await clock.run(EVERY)
        swept = clock.now()
        assert [here.swept for here in await present(side, swept)] == [swept]
        await clock.run(EVERY)
        assert [here.swept for here in await present(side, swept)] == [swept]
