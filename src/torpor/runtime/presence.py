"""Which workers run on a store: each says so now and then, so that people can be told if nobody listens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from torpor.core.errors import TorporError
from torpor.ports import Clock, Side

SPACE = "workers"
EVERY = 10.0
EACH = 2.0
"""Seconds between two words of a worker, at least, and for each worker that there is: however many there are,
together they ask the store about once a second."""
BEATS = 3
"""A worker that has not spoken for so many times its interval is taken to be gone."""
GOOD_FOR = EVERY * BEATS
"""Seconds after which one of a few workers is."""


class Here(msgspec.Struct, frozen=True):
    """A worker, the agents it knows, and until when its word counts."""

    worker: str
    agents: tuple[str, ...]
    until: float
    slots: int = 0
    """Slices that it runs side by side; 0: it does not say."""
    every: float = EVERY
    swept: float = 0.0
    """When it last had looked for threads that nobody rang for; 0: not yet, or it does not say."""
    release: str = ""
    """The release that it runs, if it says."""

    @property
    def seen(self) -> float:
        """When it last said so."""
        return self.until - BEATS * self.every

    def is_overdue(self, now: float) -> bool:
        """It should have said so again: it may have been killed."""
        return now - self.seen > 1.5 * self.every


class Company:
    """The workers that were there when this one last spoke, itself included."""

    def __init__(self, slots: int) -> None:
        self._own = slots
        self._others: list[Here] = []
        self._has_swept = False

    def swept(self) -> None:
        """This worker has looked for threads that nobody rang for."""
        self._has_swept = True

    def has_swept(self) -> bool:
        """Whether it has, since this was last asked."""
        swept, self._has_swept = self._has_swept, False
        return swept

    def meet(self, others: list[Here]) -> None:
        """These are the others now."""
        self._others = others

    @property
    def workers(self) -> int:
        """How many there are."""
        return 1 + len(self._others)

    @property
    def slots(self) -> int:
        """Slices that may run at once in all of them."""
        return self._own + sum(here.slots for here in self._others)

    def peers(self, agents: Sequence[str]) -> int:
        """How many know all of these agents."""
        return 1 + sum(set(agents) <= set(here.agents) for here in self._others)


async def present(side: Side, now: float) -> list[Here]:
    """The workers that are there."""
    found = [_read(value) for value in (await side.entries(SPACE)).values()]
    return [here for here in found if here is not None and here.until > now]


class _Presence:
    """What one worker says of itself, and where."""

    def __init__(self, side: Side, now: Callable[[], Awaitable[float]], here: Here) -> None:
        self._side = side
        self._now = now
        self._here = here
        self._place = ""
        self.company = Company(here.slots)

    async def say(self) -> float:
        """Say that the worker is there; gives the seconds after which it should say so again."""
        now = await self._now()
        entries = {
            place: here
            for place, value in (await self._side.entries(SPACE)).items()
            if (here := _read(value))
        }
        taken = {
            place: here
            for place, here in entries.items()
            if here.until > now and here.worker != self._here.worker
        }
        self.company.meet(list(taken.values()))
        if not self._place or self._place in taken:
            # Those of workers long gone are used again.
            self._place = next(
                place for number in range(len(taken) + 1) if (place := f"w{number}") not in taken
            )
        every = max(EVERY, EACH * self.company.workers)
        if self.company.has_swept():
            self._here = msgspec.structs.replace(self._here, swept=now)
        here = msgspec.structs.replace(self._here, until=now + BEATS * every, every=every)
        await self._side.put(SPACE, self._place, msgspec.msgpack.encode(here))
        return every

    async def keep_saying(self, clock: Clock, every: float) -> None:
        """Say so now and then, for ever."""
        while True:
            await clock.sleep(every)
            with contextlib.suppress(TorporError):
                every = await self.say()

    async def leave(self) -> None:
        """Give the place back."""
        with contextlib.suppress(TorporError):
            await self._side.put(SPACE, self._place, b"")


@contextlib.asynccontextmanager
async def presence(
    side: Side,
    clock: Clock,
    worker: str,
    agents: Sequence[str],
    *,
    slots: int = 0,
    release: str = "",
    now: Callable[[], Awaitable[float]] | None = None,
) -> AsyncIterator[Company]:
    """Say that a worker is there while the block runs; gives what it knows of others.

    ``now``: the store's time, which is the same for all; without it ``clock``'s.
    """
    spoken = _Presence(side, now or _now_of(clock), Here(worker, tuple(agents), 0.0, slots, release=release))
    every = await spoken.say()
    saying = asyncio.create_task(spoken.keep_saying(clock, every), name="torpor-presence")
    try:
        yield spoken.company
    finally:
        saying.cancel()
        await asyncio.gather(saying, return_exceptions=True)
        await spoken.leave()


def _now_of(clock: Clock) -> Callable[[], Awaitable[float]]:
    async def now() -> float:
        return clock.now()

    return now


def _read(value: bytes) -> Here | None:
    try:
        return msgspec.msgpack.decode(value, type=Here) if value else None
    except msgspec.DecodeError:
        return None
