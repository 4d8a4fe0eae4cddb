"""The server's clock, as told from its answers and from what this machine has counted since."""

import asyncio
import time


class ServerTime:
    """The ``Clock`` port: one time for all who use one server, however their own clocks are set."""

    def __init__(self, told: float, asked_at: float, heard_at: float) -> None:
        self._ahead = 0.0
        self._set(told, asked_at, heard_at)

    def now(self) -> float:
        return time.monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def hear(self, told: float, asked_at: float, heard_at: float) -> None:
        """The server told its time between two instants of ``time.monotonic``: keep to that."""
        if not told - heard_at <= self._ahead <= told - asked_at:
            self._set(told, asked_at, heard_at)

    def _set(self, told: float, asked_at: float, heard_at: float) -> None:
        self._ahead = told - (asked_at + heard_at) / 2
