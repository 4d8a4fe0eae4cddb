"""Running slices in this process: a worker, its sweep, and word that it is there."""

import asyncio
import logging
import signal
import time
from typing import TYPE_CHECKING

from torpor.core.errors import Refused

if TYPE_CHECKING:
    from torpor.wiring import Parts


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
