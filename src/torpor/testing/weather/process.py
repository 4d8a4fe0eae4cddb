"""A process: a runtime over the shared disk, which may be killed at any step, and is started again."""

import asyncio
from random import Random

from torpor.core.errors import TorporError, Unavailable
from torpor.public import Runtime
from torpor.runtime.ids import Ids
from torpor.runtime.retention import Keep
from torpor.runtime.sharing import SharedLive
from torpor.testing.weather.airwaves import Airwaves
from torpor.testing.weather.clock import Clock
from torpor.testing.weather.disk import QueueWay, StoreWay
from torpor.testing.weather.loop import Place
from torpor.testing.weather.network import Away, Lost, Wire
from torpor.testing.weather.servers import receive
from torpor.testing.weather.sky import Disk, Sky
from torpor.tools.callbacks import Outcome

STEPS = 600.0
"""How many steps a process takes on average before it is killed, if it is."""


class Process:
    """One life of a process. ``number`` tells them apart."""

    def __init__(self, weather: Sky, name: str, disk: Disk, workers: int) -> None:
        self.weather = weather
        self.name = name
        self.disk = disk
        self.workers = workers
        self.place = Place(name)
        self.place.killed = self._killed
        self.place.weather = weather  # type: ignore[attr-defined]
        self.place.process = self  # type: ignore[attr-defined]
        self.clock = Clock(weather.loop)
        self.runtime: Runtime | None = None
        """While it takes requests."""
        self.over = weather.loop.create_future()
        """Set once this life has ended."""
        self._stopping = asyncio.Event()
        self._set_fate()

    def _set_fate(self) -> None:
        faults, random = self.weather.faults, self.weather.random
        if faults.strikes("crash at an await"):
            self.place.steps_left = 1 + int(random.expovariate(1 / STEPS))
        elif faults.strikes("crash during a start"):
            self.place.steps_left = 1 + int(random.random() * 30)
        if faults.strike("clocks differ"):
            self.clock.ahead = random.uniform(-20.0, 20.0)

    def start(self) -> None:
        """Begin."""
        loop = self.weather.loop
        loop.places.append(self.place)
        self.weather.processes.append(self)
        self.weather.trace(self.name, "starts")
        loop.begin(self.place, self._live())

    async def _live(self) -> None:
        try:
            async with self._runtime() as runtime:
                runtime.parts.callbacks._forward = self._forward
                self.runtime = runtime
                await self._stopping.wait()
                self.runtime = None
                self.weather.trace(self.name, "ends")
        except TorporError as error:
            self.weather.trace(self.name, "could not go on", str(error))
        finally:
            self.runtime = None
            self._end()

    def _runtime(self) -> Runtime:
        weather, random = self.weather, self.weather.random
        return Runtime(
            "memory:",
            agents=weather.agents,
            listen=None,
            workers=self.workers,
            public_url=f"http://{self.disk.name}",
            backends=(StoreWay(self, self.disk), QueueWay(self, self.disk)),
            clock=self.clock,
            ids=Ids(Random(random.getrandbits(32))),
            transport=Wire(self),
            claim=weather.claim,
            worker=self.name,
            live=SharedLive(Airwaves(self), self.name) if weather.shares else None,
            token="token",
            keep=Keep(awake=weather.awake),
            reserved=0,
        )

    async def _forward(self, url: str, body: bytes, headers: object) -> Outcome:
        """Hand a callback on to where its thread lives now."""
        weather = self.weather
        there = weather.some_process(url.split("/")[2])
        if there is None:
            return Outcome(503)
        try:
            work = lambda: receive(there, url.rsplit("/", 1)[1], body)  # noqa: E731 - one request
            return Outcome(await weather.network.carry(there.place, work, 5.0))
        except (Lost, Away, Unavailable):
            return Outcome(503)

    def stop(self) -> None:
        """Ask it to end in an orderly way."""
        self._stopping.set()

    def _killed(self) -> None:
        """Its last step has come."""
        if not self.weather.faults.calm:
            self._die("at an await", "crash at an await")

    async def crash(self, where: str, kind: str) -> None:
        """Die here; never returns."""
        self._die(where, kind)
        await self.weather.loop.create_future()

    def _die(self, where: str, kind: str) -> None:
        if self.runtime is None and kind == "crash at an await":
            kind = "crash during a start"
        self.weather.faults.count(kind)
        self.weather.trace(self.name, "killed", where)
        self.runtime = None
        self.weather.loop.kill(self.place)
        self._end()

    def _end(self) -> None:
        if self in self.weather.processes:
            self.weather.processes.remove(self)
        if not self.place.dead:
            self.weather.loop.kill(self.place)
        if not self.over.done():
            self.over.set_result(None)


async def keep_up(weather: Sky, name: str, disk: Disk) -> None:
    """Start a process again whenever it has ended."""
    life = 0
    while True:
        life += 1
        process = Process(weather, f"{name}.{life}", disk, weather.workers)
        process.start()
        if life > 1 and weather.faults.strike("stopped in an orderly way"):
            weather.loop.call_later(weather.random.random() * 20.0, process.stop)
        await process.over
        await asyncio.sleep(weather.random.random() * (0.1 if weather.faults.calm else 8.0))
