"""The simulated loop: virtual time, seeded order, processes that end in the middle."""

import asyncio
from random import Random

import pytest

from torpor.testing.weather.loop import HERE, Endless, Loop, Place


def loop_of(seed: int = 0) -> Loop:
    return Loop(Random(seed))  # type: ignore[abstract]


def test_time_jumps_to_the_next_timer() -> None:
    loop = loop_of()

    async def slept() -> float:
        await asyncio.sleep(86_400.0)
        return loop.time()

    assert loop.run_until_complete(slept()) == 86_400.0


def order_of(seed: int) -> list[str]:
    loop, order = loop_of(seed), []

    async def work(name: str) -> None:
        for number in range(5):
            order.append(f"{name}{number}")
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        for name in "abc":
            place = Place(name)
            loop.places.append(place)
            loop.begin(place, work(name))
        await asyncio.sleep(1.0)

    loop.run_until_complete(all_of_them())
    return order


def test_who_goes_on_is_drawn_and_each_process_keeps_its_order() -> None:
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(10)}) > 5
    assert [step for step in order_of(1) if step[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]


def test_a_process_ends_at_any_step_and_does_nothing_more() -> None:
    loop, done = loop_of(), []

    async def work() -> None:
        try:
            for number in range(10):
                done.append((HERE.get().name, number))
                await asyncio.sleep(1.0)
        finally:
            done.append(("last words", 0))

    async def world() -> None:
        place = Place("p")
        place.steps_left, place.killed = 3, lambda: loop.kill(place)
        loop.places.append(place)
        loop.begin(place, work())
        await asyncio.sleep(60.0)

    loop.run_until_complete(world())
    assert done == [("p", 0), ("p", 1), ("p", 2)][: len(done)]
    assert 0 < len(done) < 10


def test_a_process_that_is_paused_goes_on_later() -> None:
    loop, at = loop_of(), []

    async def work() -> None:
        await asyncio.sleep(1.0)
        at.append(loop.time())

    async def world() -> None:
        place = Place("p")
        place.paused = True
        loop.places.append(place)
        loop.begin(place, work())
        await asyncio.sleep(30.0)
        place.paused = False
        await asyncio.sleep(30.0)

    loop.run_until_complete(world())
    assert at == [31.0]


def test_what_waits_for_ever_is_said_to() -> None:
    loop = loop_of()

    async def waits() -> None:
        await loop.create_future()

    with pytest.raises(Endless):
        loop.run_until_complete(waits())
