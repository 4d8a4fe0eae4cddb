"""Showing how far a call has come, without sending more than anybody can look at."""

import asyncio
import logging
import math
import sqlite3
from collections.abc import Callable
from typing import Any

from torpor.tools.server.outbox import Outbox

log = logging.getLogger("torpor.tools.server")

VIEW = "x-progress"
EVERY = 0.2
"""Seconds between two updates that are sent."""
LONGEST_MESSAGE = 300


class Progress:
    """The progress of the call `seq`. Of what comes shortly after an update only the last is sent."""

    def __init__(self, seq: int, outbox: Outbox, ring: Callable[[], None]) -> None:
        self._seq = seq
        self._outbox = outbox
        self._ring = ring
        self._next: dict[str, Any] | None = None
        self._showing: asyncio.Task[None] | None = None

    def update(self, ident: str, fraction: float | None, message: str) -> None:
        """Show a fraction, from 0 to 1 or unknown, and words. ValueError for what is no number."""
        content: dict[str, Any] = {"tool_call_id": ident, "done": False}
        if fraction is not None:
            if not math.isfinite(fraction):
                raise ValueError("progress is a fraction from 0 to 1, or None")
            content["fraction"] = min(max(float(fraction), 0.0), 1.0)
        if message:
            content["message"] = message[:LONGEST_MESSAGE]
        self._next = content
        if self._showing is None or self._showing.done():
            self._showing = asyncio.create_task(self._run())

    async def clear(self) -> None:
        """Show no progress any more, if there was any."""
        if self._showing is None:
            return
        self._showing.cancel()
        await asyncio.wait({self._showing})
        self._showing = None
        await self._send({})

    async def _run(self) -> None:
        while self._next is not None:
            content, self._next = self._next, None
            await self._send(content)
            await asyncio.sleep(EVERY)

    async def _send(self, content: dict[str, Any]) -> None:
        try:
            # Without a number: other servers show theirs in the same view, and would not continue ours.
            await self._outbox.view(self._seq, VIEW, content, numbered=False)
            self._ring()
        except sqlite3.Error as error:
            log.warning("progress could not be kept: %s", error)
