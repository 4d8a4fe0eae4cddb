"""How long a tool's function may work."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Limit:
    """Ends when a function has worked for its time, or when the deadline of its call is there.

    While it waits for a person only the deadline counts.
    """

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self._left = 0.0
        self._since = 0.0
        self._waits = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, seconds: float, deadline: float | None) -> None:
        """Begin with so many seconds of work; the deadline is in so many seconds, if there is one."""
        loop = asyncio.get_running_loop()
        self._left = seconds
        if deadline is not None:
            self._timers["deadline"] = loop.call_later(max(deadline, 0.0), self.over.set)
        self._go_on()

    def stop(self) -> None:
        """Count no more."""
        for timer in self._timers.values():
            timer.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time in the block."""
        if self._waits == 0 and "work" in self._timers:
            self._timers.pop("work").cancel()
            self._left -= asyncio.get_running_loop().time() - self._since
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if self._waits == 0:
                self._go_on()

    def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._timers["work"] = loop.call_later(max(self._left, 0.0), self.over.set)
