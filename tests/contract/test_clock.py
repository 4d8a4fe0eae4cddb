"""The clocks."""

import asyncio
import time

from torpor.clock import SystemClock
from torpor.testing.clock import START, FakeClock


async def test_the_machines_clock_goes_on() -> None:
    clock = SystemClock()
    before = time.time()
    await clock.sleep(0.002)
    assert before + 0.001 < clock.now() < before + 60


async def test_a_fake_clock_wakes_in_order_and_only_when_moved() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now()))

    tasks = [asyncio.create_task(sleeper(str(s), s)) for s in (5, 1, 3)]
    await asyncio.sleep(0)
    assert (clock.sleepers, clock.next_wake, clock.now()) == (3, START + 1, START)
    clock.advance(3)
    await asyncio.sleep(0)
    assert woken == [("1", START + 3), ("3", START + 3)]
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (clock.sleepers, clock.next_wake) == (0, 0.0)
    clock.advance(9)
    await clock.sleep(0)
    assert len(woken) == 2


async def test_a_fake_clock_runs_from_one_sleeper_to_the_next() -> None:
    clock = FakeClock()
    woken: list[float] = []

    async def ticking() -> None:
        for _ in range(4):
            await clock.sleep(2)
            woken.append(clock.now() - START)

    task = asyncio.create_task(ticking())
    await asyncio.sleep(0)
    await clock.run(7)
    assert (woken, clock.now()) == ([2, 4, 6], START + 7)
    await clock.run(1)
    await task
    assert woken == [2, 4, 6, 8]
