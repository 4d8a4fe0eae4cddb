"""What comes over processes and clocks from outside: pauses and jumps of time."""

import asyncio

from torpor.testing.weather.sky import Sky, Up


async def gusts(weather: Sky) -> None:
    """Now and then, while the weather lasts."""
    while not weather.faults.calm:
        await asyncio.sleep(weather.random.expovariate(1 / 6.0))
        gust(weather)


def gust(weather: Sky) -> None:
    """One of them, or none."""
    faults, random = weather.faults, weather.random
    process = random.choice(weather.processes) if weather.processes else None
    clocks = [disk.clock for disk in weather.disks] + ([process.clock] if process else [])
    if process is not None and not process.place.paused and faults.strike("paused"):
        _pause(weather, process)
    if faults.strike("clock jumps forward"):
        random.choice(clocks).ahead += random.random() * random.choice((5.0, 60.0, 700.0))
        weather.disk.hint()
        weather.trace("outside", "a clock jumps forward")
    if faults.strike("clock jumps backward"):
        random.choice(clocks).ahead -= random.random() * random.choice((1.0, 30.0))
        weather.trace("outside", "a clock jumps backward")


def _pause(weather: Sky, process: Up) -> None:
    """It takes no step for a while, whatever its leases and claims do meanwhile."""
    process.place.paused = True
    weather.trace(process.name, "is paused")
    weather.later(weather.random.expovariate(1 / 12.0), _go_on(weather, process))


async def _go_on(weather: Sky, process: Up) -> None:
    process.place.paused = False
    weather.trace(process.name, "goes on")
