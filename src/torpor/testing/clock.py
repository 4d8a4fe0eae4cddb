"""A clock that moves only when told to."""

import asyncio
import heapq
import itertools

START = 1_000_000_000.0
"""Where a fake clock begins, in seconds since the epoch: 9 September 2001."""


class FakeClock:
    """The ``Clock`` port for tests: time stands still until ``advance`` moves it."""

    def __init__(self, start: float = START) -> None:
        self._now = start
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced that far; not at all for 0 or less."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    @property
    def sleepers(self) -> int:
        """How many wait for this clock."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    @property
    def next_wake(self) -> float:
        """When the first of them is due; 0: nobody waits."""
        return min((at for at, _, woken in self._sleepers if not woken.done()), default=0.0)

    def advance(self, seconds: float) -> None:
        """Move time on and wake whoever is due, in order. They run when the caller next waits."""
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)

    async def run(self, seconds: float) -> None:
        """Move time on from one sleeper to the next, letting each run before time goes on."""
        end = self._now + seconds
        while 0 < self.next_wake <= end:
            self.advance(self.next_wake - self._now)
            for _ in range(10):
                await asyncio.sleep(0)
        self.advance(end - self._now)
