"""Running slices in this process: a worker, its sweep, and word that it is there."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from torpor.core.errors import Refused
from torpor.runtime.presence import presence
from torpor.runtime.sweep import sweep_always
from torpor.runtime.worker import Worker

if TYPE_CHECKING:
    from torpor.wiring import Parts

GRACE = 5.0
"""Seconds that slices and functions are given when the process is asked to end."""


@contextlib.asynccontextmanager
async def working(parts: "Parts", slots: int) -> AsyncIterator[Worker]:
    """Run slices of the parts' agents while the block runs."""
    worker = parts.worker(slots)
    sweeping = asyncio.create_task(sweep_always(parts.store, parts.queue, parts.clock), name="torpor-sweep")
    async with presence(parts.side, parts.clock, parts.kit.worker, parts.roster.names):
        worker.start()
        try:
            yield worker
        finally:
            await worker.stop(GRACE)
            await parts.dispatcher.drain(GRACE)
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)


async def until_signalled() -> None:
    """Wait for SIGINT or SIGTERM; a second one ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)


def need_agents(parts: "Parts") -> None:
    """Raise ``Refused`` where no agents are known."""
    if not parts.roster.names:
        raise Refused(
            "No agents are known. Name them, `torpor worker package.module:name`, or list them "
            "in torpor.toml: "
            'agents = ["package.module:name"].'
        )


def log_to_stderr(level: str) -> None:
    """Send the log of ours to standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.Formatter.converter = time.gmtime
    logging.getLogger("torpor").setLevel(level.upper())
