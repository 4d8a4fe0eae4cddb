"""Following one thread: live events of this process, and looks for what other processes write."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from itertools import accumulate
from typing import Self

from torpor.core.codec import decode_message
from torpor.ports import Clock, Live, LiveEvent, Store, StoredMessage
from torpor.runtime.replies import Entry

POLL = 0.2
"""Seconds between looks at the store for what another process may have written."""
FIRST_PAGE, PAGE = 32, 500
"""Messages that are read at once, at first and at most."""
HEAVY = 1024 * 1024
"""Bytes of them that are kept for one who does not take them; one message is kept in any case."""
GATHERED = 64 * 1024
"""Characters of events after which no more are taken at once."""


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
        size = 0
        while done and size < GATHERED:
            events.append(done.pop().result())
            size += len(events[-1].text)
            self._next = None
            done, _ = await asyncio.wait([self._arm()], timeout=0)
        return events


async def committed(
    store: Store, live: Live, clock: Clock, thread: str, after: int
) -> AsyncGenerator[Entry | LiveEvent]:
    """Messages after a position, then what comes, with live events between; for ever.

    Whoever is slow in taking them holds little: what was told is let go of before the next is asked for.
    """
    async with Follower(live, clock, thread) as news:
        page = FIRST_PAGE
        while True:
            found = await store.read(thread, after, page)
            kept = _light(found)
            is_all = len(kept) == len(found) < page
            page = min(PAGE, max(1, 2 * len(kept)))
            del found
            while kept:
                one = kept.popleft()
                after = one.position
                yield Entry(after, decode_message(one.body))
            if is_all:
                for event in await news.events():
                    yield event


def _light(found: Sequence[StoredMessage]) -> deque[StoredMessage]:
    """The first messages, as many as are not heavy together; one at least."""
    sizes = accumulate(len(one.body) for one in found)
    return deque(one for one, size in zip(found, sizes, strict=True) if size <= HEAVY or one is found[0])
