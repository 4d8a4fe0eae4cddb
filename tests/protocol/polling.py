"""Waiting for a condition that nothing announces, with a deadline."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Return once it holds. TimeoutError if it does not in time."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.001)
