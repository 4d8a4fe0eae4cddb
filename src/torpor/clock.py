"""The clock of the machine."""

import asyncio
import time


class SystemClock:
    """The ``Clock`` port over the machine's own time."""

    now = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
