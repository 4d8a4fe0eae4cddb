"""What everything in a run has in view: its loop, its lots, its faults, what was seen, and who is there."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection, Coroutine
from random import Random
from typing import Any, Protocol, TypeVar

from torpor.agent import Agent
from torpor.core.moves import HUSKS, MOVED
from torpor.ports import Row
from torpor.public import Runtime
from torpor.queues.memory import MemoryQueue
from torpor.runtime.questions import Question, asked
from torpor.stores.memory import MemoryStore
from torpor.testing.weather.clock import Clock
from torpor.testing.weather.faults import Faults
from torpor.testing.weather.loop import Loop, Place
from torpor.testing.weather.record import Record

T = TypeVar("T")


class Disk:
    """One store and its queue. What was written stays, whatever becomes of processes."""

    def __init__(self, loop: Loop, name: str, lease: float) -> None:
        self.name = name
        self.clock = Clock(loop)
        self.store = MemoryStore(self.clock)
        self.queue = MemoryQueue(self.clock, lease=lease)
        self.waiting: list[asyncio.Future[None]] = []

    def hint(self) -> None:
        """Wake whoever waits for work."""
        waiting, self.waiting = self.waiting, []
        for woken in waiting:
            if not woken.done():
                woken.set_result(None)


class Up(Protocol):
    """A process, as others see it."""

    weather: "Sky"
    name: str
    disk: Disk
    place: Place
    clock: Clock
    runtime: Runtime | None
    """While it takes requests."""

    async def crash(self, where: str, kind: str) -> None:
        """Die here; never returns."""


class Serves(Protocol):
    """A tool server, as processes see it."""

    async def manifest(self) -> bytes:
        """What it offers."""

    async def invoke(self, facts: dict[str, Any]) -> None:
        """Take a call."""

    async def choose(self, url: str, call: str, selected: int) -> None:
        """Hear what a person chose."""

    async def cancel(self, call: str) -> None:
        """Hear that nobody wants a call any more."""

    async def close(self, thread: str) -> None:
        """Hear that a thread is closed."""

    async def status(self, call: str) -> str:
        """Say whether it works on a call."""

    async def migrate(self, session: str, destination: str) -> None:
        """Move all that is kept of a tree."""


class Asks(Protocol):
    """People, as far as others do something for them."""

    async def ask(self, work: Callable[[Runtime], Awaitable[T]], disk: str = "here") -> T:
        """Have a process do something for a person; ``Lost``, ``Away`` or an error of ours if it does not."""

    async def insist(
        self, work: Callable[[Runtime], Awaitable[T]], tries: int = 4, disk: str = "here"
    ) -> T | None:
        """Ask again until it is done, or refused, or a person has had enough; None: nobody knows."""


class Carries(Protocol):
    """The network."""

    async def carry(self, place: Place, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Have work done at a place; gives what came of it, or raises that. ``Lost`` or ``Away`` else."""


class Sky:
    """The world of one seed, as far as its parts need to know it."""

    network: Carries
    people: Asks
    agents: list[Agent]
    servers: dict[str, Serves]

    def __init__(self, seed: int, without: Collection[str] = ()) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.loop = Loop(Random(seed + 1))  # type: ignore[abstract]
        self.faults = Faults(seed, without)
        self.record = Record()
        self.events: list[tuple[Any, ...]] = []
        """What happened, in order: when, where, what."""
        self.cleared = self.loop.create_future()
        self.busy = 0
        """Errands outside that are under way."""
        self.processes: list[Up] = []
        self.claim = self.random.choice((2.0, 10.0, 30.0))
        """Seconds for which effects are claimed."""
        self.awake = self.random.choice((0.0, 0.0, 20.0))
        """Seconds after which threads at rest are packed; 0: never."""
        self.workers = self.random.choice((1, 2, 3))
        self.owner = self.random.choice(("", "somebody"))
        self.disks = [Disk(self.loop, "here", self.random.choice((1.0, 5.0, 15.0)))]
        if self.random.random() < 0.15:
            self.disks.append(Disk(self.loop, "there", 5.0))
        self.keeps_state = self.random.random() < 0.3
        """The first tool server keeps state of sessions, and has to be told when they move."""
        self.shares = self.random.random() < 0.5
        """Live events of one process are seen in others."""
        self.listening: list[tuple[Place, Callable[[str], None]]] = []
        """Who hears live events of other processes."""
        self._numbers = 0

    @property
    def disk(self) -> Disk:
        """The store in which threads are started."""
        return self.disks[0]

    def number(self) -> int:
        """A number that nothing else has."""
        self._numbers += 1
        return self._numbers

    def trace(self, *what: Any) -> None:
        """Note what happens."""
        self.events.append((round(self.loop.time(), 6), *what))

    def later(self, seconds: float, errand: Coroutine[Any, Any, Any]) -> None:
        """Run an errand outside, after a while."""
        self.busy += 1
        self.loop.begin(self.loop.outside, self._errand(seconds, errand))

    async def _errand(self, seconds: float, errand: Coroutine[Any, Any, Any]) -> None:
        try:
            if seconds:
                await asyncio.sleep(seconds)
            await errand
        except Exception as error:  # noqa: BLE001 - the simulator itself is wrong, and says so
            where = traceback.extract_tb(error.__traceback__)[-1]
            told = f"{type(error).__name__}: {error} ({where.name} in {where.filename.rpartition('/')[2]})"
            self.record.wrong.append(f"an errand failed: {told}")
        finally:
            self.busy -= 1

    def clear(self) -> None:
        """The weather clears: nothing strikes any more, and everybody who waited for that goes on."""
        self.faults.calm = True
        self.trace("outside", "the weather clears")
        if not self.cleared.done():
            self.cleared.set_result(None)

    def some_process(self, disk: str) -> Up | None:
        """One that takes requests, over a disk."""
        up = [one for one in self.processes if one.disk.name == disk and one.runtime is not None]
        return self.random.choice(up) if up else None

    def home(self, thread: str) -> str:
        """The store in which a thread lives."""
        for disk in self.disks:
            kept = disk.store._threads.get(thread)
            if kept is not None and kept.row.state not in HUSKS:
                return disk.name
        return self.disk.name

    def rows(self) -> list[Row]:
        """All threads, as they are kept."""
        rows = [kept.row for disk in self.disks for _, kept in sorted(disk.store._threads.items())]
        return [row for row in rows if row.state != MOVED]

    def known(self) -> list[str]:
        """All threads that people may know."""
        return [row.thread for row in self.rows() if row.purpose != "compaction"]

    def questions(self) -> list[Question]:
        """All that people are asked now."""
        return [one for row in self.rows() if row.head for one in asked(row)]
