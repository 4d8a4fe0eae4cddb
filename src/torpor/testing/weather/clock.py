"""Clocks of a run: all follow the loop's time, each with a difference of its own, and may jump."""

import asyncio

from torpor.testing.weather.loop import Loop

BEGIN = 1_000_000_000.0
"""Where the clocks begin, in seconds since the epoch."""


class Clock:
    """The ``Clock`` port at one place."""

    def __init__(self, loop: Loop, ahead: float = 0.0) -> None:
        self._loop = loop
        self.ahead = ahead
        """Seconds by which it differs from the loop's time."""

    def now(self) -> float:
        return BEGIN + self._loop.time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
