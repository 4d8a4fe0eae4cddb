"""Tickets: single-use passes to one event stream, for browsers that cannot send a bearer token there."""

import secrets
import time
from collections.abc import Callable

SECONDS = 60.0
KEPT = 1_000
"""Tickets that may be out at once; the oldest make room."""


class Tickets:
    """Tickets of this process. They live in memory: one that is lost is asked for again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._out: dict[str, tuple[str, float]] = {}

    def issue(self, path: str) -> str:
        """A ticket for one GET of this path, good for ``SECONDS``."""
        while len(self._out) >= KEPT:
            del self._out[next(iter(self._out))]
        ticket = secrets.token_urlsafe(24)
        self._out[ticket] = (path, self._clock() + SECONDS)
        return ticket

    def take(self, ticket: str, path: str) -> bool:
        """Use a ticket up; says whether it was good for this path."""
        issued, until = self._out.pop(ticket, ("", 0.0))
        return issued == path and self._clock() < until
