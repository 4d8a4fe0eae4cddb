"""Running slices in this process: a worker, its sweep, and word that it is there."""

import asyncio
import logging
import signal
import time
from typing import TYPE_CHECKING

from torpor.cli.visible import visible
from torpor.core.errors import Refused

if TYPE_CHECKING:
    from torpor.wiring import Parts


class Harmless(logging.Formatter):
    """Lines for a terminal: what others wrote neither steers it nor begins a line of its own."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the name is logging's
        return super().formatMessage(record).replace("\r", "\u240d").replace("\n", "\u240a")

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


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
    there = logging.StreamHandler()
    there.setFormatter(Harmless("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[there])
    logging.getLogger("torpor").setLevel(level.upper())
