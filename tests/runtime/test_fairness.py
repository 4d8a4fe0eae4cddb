"""Shares of a worker's slots: some are for realtime work, and no owner gets all."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from torpor import Agent, Runtime
from torpor.core.chunks import AnyChunk
from torpor.core.request import Attempt, Request
from torpor.models.scripted import ScriptedModel, say, stall
from torpor.ports import Ring
from torpor.queues.memory import MemoryQueue
from torpor.runtime.presence import EACH, SPACE, Here, presence, present
from torpor.runtime.sweep import EVERY, sweep_always
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import START, FakeClock
from torpor.testing.rings_contract import until


class Asked(ScriptedModel):
    """Answers nobody until the end, and knows who asks."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        super().__init__([[*stall("Well,", until=self.end), say("done.")]])
        self.threads: list[str] = []

    def stream(self, request: Request, attempt: Attempt) -> AsyncGenerator[AnyChunk, None]:
        self.threads.append(attempt.thread)
        return super().stream(request, attempt)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Runtime, Asked]]:
    """A runtime whose slices last."""
    model = Asked()
    async with Runtime("memory:", agents=[Agent("agent", model=model)], listen=None, **options) as runtime:
        try:
            yield runtime, model
        finally:
            model.end.set()


async def started(runtime: Runtime, count: int, owner: str = "", tier: str = "realtime") -> set[str]:
    found = [await runtime.start("agent", "Go.", owner=owner, tier=tier) for _ in range(count)]
    return {thread.id for thread in found}


async def settled(model: Asked, count: int) -> None:
    """So many are under way, and no more will be."""
    await until(lambda: len(model.threads) >= count)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(model.threads) == count


@pytest.mark.parametrize(("reserved", "busy"), [(1, 3), (3, 1), (9, 1), (0, 4)])
async def test_reserved_slots_do_realtime_work_only(reserved: int, busy: int) -> None:
    async with running(workers=4, reserved=reserved) as (runtime, model):
        rings = [
            Ring(thread, 0.0, 0.0, "batch", "", "agent") for thread in await started(runtime, 6, tier="batch")
        ]
        await runtime.parts.queue.ring(rings)
        await settled(model, busy)
        (urgent,) = await started(runtime, 1)
        if reserved:
            await until(lambda: urgent in model.threads)


async def test_an_owner_has_half_of_the_slots() -> None:
    async with running(workers=4) as (runtime, model):
        flood = await started(runtime, 6, owner="flood")
        await settled(model, 2)
        others = await started(runtime, 1, owner="ann") | await started(runtime, 1, owner="bob")
        await settled(model, 4)
        assert others <= set(model.threads)
        assert len(flood & set(model.threads)) == 2


async def test_the_cap_may_be_given() -> None:
    async with running(workers=4, owner_cap=3) as (runtime, model):
        await started(runtime, 6, owner="flood")
        await settled(model, 3)


async def test_company_tells_how_many_slots_there_are() -> None:
    clock = FakeClock()
    side = MemoryStore(clock)
    async with presence(side, clock, "a", ("x", "y"), slots=8) as first:
        assert (first.workers, first.slots, first.peers(("x",))) == (1, 8, 1)
        async with presence(side, clock, "b", ("x",), slots=4) as second:
            assert (second.workers, second.slots) == (2, 12)
            assert (second.peers(("x",)), second.peers(("z",))) == (2, 1)
            await asyncio.sleep(0)
            await clock.run(10.0)
            assert (first.slots, first.peers(("x",)), first.peers(("x", "y"))) == (12, 2, 1)


async def test_the_more_workers_the_less_each_says() -> None:
    clock = FakeClock()
    side = MemoryStore(clock)
    for number in range(19):
        await side.put(SPACE, f"w{number}", msgspec.msgpack.encode(Here(str(number), (), START + 30)))
    async with presence(side, clock, "last", ()):
        here = next(here for here in await present(side, START) if here.worker == "last")
    assert (here.every, here.until, here.seen) == (20 * EACH, START + 60 * EACH, START)
    assert not here.is_overdue(START + 20 * EACH + 10)


@pytest.mark.parametrize(
    ("peers", "jitter", "later"),
    [(1, 0.9, EVERY), (4, 0.5, EVERY), (16, 0.5, 4 * EVERY), (16, 0.0, 2 * EVERY)],
)
async def test_many_sweep_no_more_often_than_a_few(peers: int, jitter: float, later: float) -> None:
    clock = FakeClock()
    sweeping = asyncio.create_task(
        sweep_always(
            MemoryStore(clock), MemoryQueue(clock), clock, ["a"], peers=lambda: peers, jitter=lambda: jitter
        )
    )
    await until(lambda: clock.sleepers == 1)
    assert clock.next_wake == START + later
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
