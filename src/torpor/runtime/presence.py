"""Which workers run on a store: each says so now and then, so that people can be told if nobody listens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from torpor.core.errors import TorporError
from torpor.ports import Clock, Side

SPACE = "workers"
EVERY = 10.0
GOOD_FOR = 30.0
"""Seconds after which a worker that said nothing is taken to be gone."""


class Here(msgspec.Struct, frozen=True):
    """A worker, the agents it knows, and until when its word counts."""

    worker: str
    agents: tuple[str, ...]
    until: float

    @property
    def seen(self) -> float:
        """When it last said so."""
        return self.until - GOOD_FOR

    def is_overdue(self, now: float) -> bool:
        """It should have said so again: it may have been killed."""
        return now - self.seen > 1.5 * EVERY


async def present(side: Side, now: float) -> list[Here]:
    """The workers that are there."""
    found = [_read(value) for value in (await side.entries(SPACE)).values()]
    return [here for here in found if here is not None and here.until > now]


@contextlib.asynccontextmanager
async def presence(side: Side, clock: Clock, worker: str, agents: Sequence[str]) -> AsyncIterator[None]:
    """Say that a worker is there while the block runs."""
    place = await _place(side, clock.now(), worker)
    await _say(side, clock, place, worker, agents)
    saying = asyncio.create_task(_keep_saying(side, clock, place, worker, agents), name="torpor-presence")
    try:
        yield
    finally:
        saying.cancel()
        await asyncio.gather(saying, return_exceptions=True)
        with contextlib.suppress(TorporError):
            await side.put(SPACE, place, b"")


async def _place(side: Side, now: float, worker: str) -> str:
    """A place that nobody holds now: those of workers long gone are used again."""
    taken = {
        place: here
        for place, value in (await side.entries(SPACE)).items()
        if (here := _read(value)) and here.until > now and here.worker != worker
    }
    return next(place for number in range(len(taken) + 1) if (place := f"w{number}") not in taken)


async def _keep_saying(side: Side, clock: Clock, place: str, worker: str, agents: Sequence[str]) -> None:
    while True:
        await clock.sleep(EVERY)
        with contextlib.suppress(TorporError):
            held = _read(await side.get(SPACE, place) or b"")
            if held is not None and held.worker != worker:
                place = await _place(side, clock.now(), worker)
            await _say(side, clock, place, worker, agents)


async def _say(side: Side, clock: Clock, place: str, worker: str, agents: Sequence[str]) -> None:
    here = Here(worker, tuple(agents), clock.now() + GOOD_FOR)
    await side.put(SPACE, place, msgspec.msgpack.encode(here))


def _read(value: bytes) -> Here | None:
    try:
        return msgspec.msgpack.decode(value, type=Here) if value else None
    except msgspec.DecodeError:
        return None
