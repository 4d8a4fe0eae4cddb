"""One run of one seed: weather, calm, quiet; then all that must hold is looked at."""

import asyncio
import gc
import hashlib
import logging
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from torpor.core.codec import decode_head
from torpor.testing.weather.check import check
from torpor.testing.weather.laws import is_news
from torpor.testing.weather.loop import Endless
from torpor.testing.weather.people import LASTS
from torpor.testing.weather.process import keep_up
from torpor.testing.weather.squalls import gusts
from torpor.testing.weather.world import Weather

PROCESSES = ("p1", "p2")
LONGEST = 3_000.0
"""Seconds of calm after which everything must have come to its end."""


TIDYING = 4
STUCK = 300.0
"""Seconds of calm after which people tidy up although one of them still insists on something."""


class Violation(AssertionError):
    """A seed in which something did not hold. ``weather`` is the world as it was then."""

    def __init__(self, seed: int, what: str, weather: Weather) -> None:
        super().__init__(f"seed {seed}: {what}")
        self.seed = seed
        self.what = what
        self.weather = weather


class Ended(msgspec.Struct):
    """A run that came to its end with nothing wrong."""

    seed: int
    steps: int
    hash: str
    struck: Counter[str]
    happened: Counter[str]


def run(seed: int, without: Collection[str] = ()) -> Ended:
    """Run a seed to its end. ``Violation`` says what did not hold."""
    with quietly():
        return _ran(Weather(seed, without))


def _ran(weather: Weather) -> Ended:
    try:
        happened = weather.loop.run_until_complete(_whole(weather))
    except Exception as error:
        raise Violation(weather.seed, _words(error), weather) from error
    return Ended(weather.seed, weather.loop.steps, trace_hash(weather), weather.faults.struck, happened)


def _words(error: Exception) -> str:
    told = str(error) or repr(error)
    return told if isinstance(error, AssertionError) else f"{type(error).__name__}: {told}"


def trace_hash(weather: Weather) -> str:
    """The same for the same events in the same order."""
    return hashlib.sha256(repr(weather.events).encode()).hexdigest()


async def _whole(weather: Weather) -> Counter[str]:
    for name in PROCESSES:
        weather.loop.begin(weather.loop.outside, keep_up(weather, name, weather.disk))
    for disk in weather.disks[1:]:
        weather.loop.begin(weather.loop.outside, keep_up(weather, "p3", disk))
    people = weather.people
    weather.loop.begin(weather.loop.outside, people.answer_questions())
    weather.loop.begin(weather.loop.outside, gusts(weather))
    weather.later(0.5, people.live())
    await asyncio.sleep(LASTS * (0.2 + weather.random.random()))
    weather.clear()
    await _calm(weather)
    return await check(weather)


async def _calm(weather: Weather) -> None:
    """Wait until nothing is left to do, and help where only people can."""
    began = weather.loop.time()
    quiet = 0
    while quiet < 2:
        await asyncio.sleep(1.0 if quiet else 3.0)
        left = [] if weather.busy else [*unrest(weather), *lost(weather)]
        quiet = 0 if left or weather.busy else quiet + 1
        if left or weather.loop.time() - began > STUCK:
            await weather.people.tidy_up()
        if left and all(one.endswith(OPEN) for one in left):
            for disk in weather.disks:
                disk.clock.ahead += 600.0  # an hour in which nothing would happen
        if weather.loop.time() - began > LONGEST:
            raise Endless(f"there is no quiet: {weather.busy} errands; {'; '.join(left)}")


def unrest(weather: Weather) -> Iterator[str]:
    """What is left to do, in words."""
    for disk in weather.disks:
        for id, kept in sorted(disk.store._threads.items()):
            row = kept.row
            if kept.outbox:
                yield f"{id} has effects {sorted(kept.outbox)}"
            yield from (f"{id} has {name} in its inbox" for name in _left(kept))
            if row.state == "open" and (row.owes or not row.head):
                yield f"{id} owes an answer"
            if row.state not in ("open", "closed", "moved"):
                yield f"{id} is {row.state}"


OPEN = " is open"


def lost(weather: Weather) -> Iterator[str]:
    """Calls and subscriptions of which something is still to come, if only word that they are lost."""
    for row in weather.rows():
        if row.state != "closed" and row.head:
            head = decode_head(row.head, row.shape)
            calls = {**head.pending, **head.detached}
            open_ = [id for id, call in calls.items() if not (call.passive or call.given_up)]
            yield from (f"{id}{OPEN}" for id in (*open_, *head.subscriptions))


def _left(kept: Any) -> Iterator[str]:
    """News that is still to be read; what reached a thread that had left was refused, or has followed it."""
    if kept.row.state == "moved":
        return
    for signal, _ in kept.inbox.values():
        if is_news(kept.row.state, signal):
            yield f"{type(signal).__name__} {signal.id}"


@contextmanager
def quietly() -> Iterator[None]:
    """Without the log, and without what Python says of tasks that ended in the middle."""
    hook, level, collects = sys.unraisablehook, logging.root.manager.disable, gc.isenabled()
    logging.disable(logging.CRITICAL)
    gc.disable()
    sys.unraisablehook = _unsaid
    try:
        yield
    finally:
        if hook is not _unsaid:
            for _ in range(TIDYING):  # what ends may leave others to be ended
                gc.collect()
        logging.disable(level)
        sys.unraisablehook = hook
        if collects:
            gc.enable()


def _unsaid(_: object) -> None:
    """What the dead say is not heard."""
