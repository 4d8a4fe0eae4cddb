"""What every queue must do with rings that nobody waits for, and how the suites for queues open one."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from torpor.core.errors import Refused
from torpor.ports import Clock, Lease, Queue, Ring
from torpor.testing.clock import START, FakeClock
from torpor.testing.samples import fresh

LEASE = 15.0
"""Seconds that a lease lasts in these tests."""

PATIENCE = 10.0
"""Real seconds after which something that should have happened has not."""

Opening = Callable[[], AbstractAsyncContextManager[Queue]]


def ring(thread: str = "", start_by: float = START, **fields: float | str | bool) -> Ring:
    """A ring for a thread of the agent ``adder``."""
    whole = {"thread": thread or fresh(), "start_by": start_by, "agent": "adder", "owner": "ann", **fields}
    return Ring(**whole)  # type: ignore[arg-type]


def threads(leases: list[Lease]) -> list[str]:
    """The threads of leases."""
    return [lease.thread for lease in leases]


async def until(condition: Callable[[], bool]) -> None:
    """Wait, for real, until something has come about."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - nobody else could set an event
            await asyncio.sleep(0.001)


class OpensQueues(ABC):
    """The part that a subclass gives. Its tests need a plugin that runs async tests."""

    @abstractmethod
    def opened(self, place: Path, clock: Clock, lease: float) -> AbstractAsyncContextManager[Queue]:
        """A queue over the rings kept for ``place`` (an empty folder at first), released on exit.

        Opened again, also meanwhile, it has the same rings. Its time is ``clock``'s.
        """

    @pytest.fixture
    def clock(self) -> FakeClock:
        """The queue's clock."""
        return FakeClock()

    @pytest.fixture
    def opening(self, tmp_path: Path, clock: FakeClock) -> Opening:
        """Opens a queue; each use is one more handle on the same rings."""
        return lambda: self.opened(tmp_path, clock, LEASE)


class RingsContract(OpensQueues):
    """Ringing and taking, nobody waiting."""

    async def test_a_ring_becomes_a_lease(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            assert await queue.next("w") == []
            await queue.ring([ring("t", START + 5, tier="async")])
            clock.advance(2)
            (lease,) = await queue.next("w")
            until = START + 2 + LEASE
            assert lease == Lease("t", lease.token, until, START, START + 5, "async", "ann", "adder", 0)
            assert await queue.next("w") == []
            await queue.done(lease)
            assert (await queue.next("w"), await queue.size()) == ([], 0)

    async def test_rings_of_a_thread_merge(self, opening: Opening) -> None:
        async with opening() as queue:
            one = ring(start_by=START + 50, tier="batch")
            await queue.ring([one, ring(one.thread, START + 20), ring(one.thread, START + 80, tier="async")])
            (lease,) = await queue.next("w", limit=5)
            assert (lease.thread, lease.start_by, lease.tier) == (one.thread, START + 20, "realtime")
            await queue.done(lease)
            assert await queue.size() == 0

    async def test_the_most_urgent_first(self, opening: Opening) -> None:
        rings = [
            ring("batch", START - 99, tier="batch"),
            ring("third", START + 3),
            ring("first", START + 1),
            ring("async", START - 50, tier="async"),
            ring("second", START + 2),
        ]
        async with opening() as queue:
            await queue.ring(rings)
            assert threads(await queue.next("w", limit=2)) == ["first", "second"]
            assert threads(await queue.next("w", limit=9)) == ["third", "async", "batch"]

    async def test_only_what_is_asked_for(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring("a", agent="a"), ring("b", agent="b"), ring("c", agent="c", tier="async")])
            assert await queue.next("w", agents=[]) == []
            assert await queue.next("w", agents=["a"], tiers=["batch"]) == []
            assert threads(await queue.next("w", agents=["c", "b", "x"], limit=9)) == ["b", "c"]
            assert threads(await queue.next("w", tiers=["realtime"], limit=9)) == ["a"]

    async def test_a_ring_for_later_waits(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", START + 60, not_before=START + 50)])
            clock.advance(49)
            assert await queue.next("w") == []
            clock.advance(1)
            (lease,) = await queue.next("w")
            assert (lease.start_by, lease.ring_at) == (START + 60, START + 50)

    async def test_sooner_news_pulls_forward(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", START + 60, not_before=START + 55, tier="async")])
            await queue.ring([ring("t", START + 40, not_before=START + 30, tier="async")])
            clock.advance(30)
            assert threads(await queue.next("w")) == ["t"]

    async def test_later_news_delays_nothing(self, opening: Opening) -> None:
        async with opening() as queue:
            await queue.ring([ring("t", START + 5)])
            await queue.ring([ring("t", START + 60, not_before=START + 55)])
            (lease,) = await queue.next("w")
            assert lease.start_by == START + 5

    async def test_an_unknown_tier_is_refused(self, opening: Opening) -> None:
        async with opening() as queue:
            with pytest.raises(Refused):
                await queue.ring([ring("a"), ring("b", tier="soon")])
            assert await queue.size() == 0

    async def test_counts_and_says_when(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as queue:
            assert (await queue.size(), await queue.next_at()) == (0, 0.0)
            await queue.ring([ring("a", not_before=START + 50), ring("b", not_before=START + 40, agent="b")])
            assert (await queue.size(), await queue.next_at()) == (2, START + 40)
            assert await queue.next_at(agents=["adder"]) == START + 50
            assert await queue.next_at(agents=["x"]) == 0.0
            clock.advance(45)
            await queue.next("w")
            assert (await queue.size(), await queue.next_at(agents=["b"])) == (2, START + 45 + LEASE)

    async def test_ten_thousand_rung_threads_are_rows_alone(self, opening: Opening) -> None:
        async with opening() as queue:
            before = asyncio.all_tasks()
            await queue.ring([ring(f"t{n}", not_before=START + 1 + n) for n in range(10_000)])
            assert (await queue.size(), await queue.next("w")) == (10_000, [])
            assert len(asyncio.all_tasks() - before) < 20
