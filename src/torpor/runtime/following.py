"""Following one thread: live events of this process, and looks for what other processes write."""

import asyncio
from typing import Self

from torpor.ports import Clock, Live, LiveEvent

POLL = 0.2
"""Seconds between looks at the store for what another process may have written."""


class Follower:
    """Wakes on live events of this process, and now and then for what other processes write."""

    def __init__(self, live: Live, clock: Clock, thread: str) -> None:
        self._clock = clock
        self._stream = live.follow(thread)
        self._next: asyncio.Task[LiveEvent] | None = None

    async def __aenter__(self) -> Self:
        _ = self._arm()
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()

    def _arm(self) -> asyncio.Task[LiveEvent]:
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._stream))
        return self._next

    async def wait(self, deadline: float | None) -> None:
        """Wait for a commit, or a while."""
        end = self._clock.now() + POLL
        until = end if deadline is None else min(end, deadline)
        while (left := until - self._clock.now()) > 0:
            events = await self._gather(left)
            if not events or any(event.kind in ("committed", "dropped") for event in events):
                return

    async def events(self) -> list[LiveEvent]:
        """The events that came, waiting a while for the first."""
        return await self._gather(POLL)

    async def _gather(self, seconds: float) -> list[LiveEvent]:
        done, _ = await asyncio.wait([self._arm()], timeout=seconds)
        events: list[LiveEvent] = []
        while done:
            events.append(done.pop().result())
            self._next = None
            done, _ = await asyncio.wait([self._arm()], timeout=0)
        return events
