"""Requests under way on one connection, and which of them a server's question belongs to."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequest, ElicitRequest

RELATED = "io.modelcontextprotocol/related-task"
FIRST_ID = 1_000_000
"""Ids from here on are ours to give; those below are the SDK's."""


class Flight:
    """One request under way: its limits of time, and who answers what the server asks about it."""

    def __init__(
        self,
        id: int,
        clock: asyncio.Timeout,
        *,
        idle: float,
        end: float,
        asked: "Callable[[ElicitRequest | CreateMessageRequest], Awaitable[Any]] | None",
        task: str = "",
    ) -> None:
        self.id = id
        self.task = task
        self.asked = asked
        self._clock = clock
        self._idle = idle
        self._end = end
        self._questions = 0
        self._since = 0.0

    def alive(self) -> None:
        """The server has shown a sign of life: the idle limit begins anew."""
        if not self._questions:
            self._set(min(asyncio.get_running_loop().time() + self._idle, self._end))

    async def ask(self, request: "ElicitRequest | CreateMessageRequest") -> Any:
        """Have a question answered; that time counts for no limit."""
        assert self.asked is not None
        if not self._questions:
            self._since = asyncio.get_running_loop().time()
        self._questions += 1
        self._set(None)
        try:
            return await self.asked(request)
        finally:
            self._questions -= 1
            if not self._questions:
                self._end += asyncio.get_running_loop().time() - self._since
            self.alive()

    def _set(self, when: float | None) -> None:
        with suppress(RuntimeError):  # it has run out, or the request is done
            self._clock.reschedule(when)


class Flights:
    """All requests under way on one connection."""

    def __init__(self) -> None:
        self.is_exclusive = False
        """Only one call at a time: the server asks, and it could not be told about which."""
        self.turn = asyncio.Lock()
        self._flights: dict[int, Flight] = {}
        self._next = FIRST_ID
        self._left = False

    @property
    def is_empty(self) -> bool:
        """Nothing is under way, or nobody cares any more."""
        return self._left or not self._flights

    def new_id(self) -> int:
        """An id for a request."""
        self._next += 1
        return self._next

    def add(self, flight: Flight) -> None:
        """A request goes out."""
        self._flights[flight.id] = flight

    def remove(self, flight: Flight) -> None:
        """A request is done."""
        self._flights.pop(flight.id, None)

    def alive(self) -> None:
        """The server is in the midst of a long answer, and it cannot be told yet to which."""
        for flight in self._flights.values():
            flight.alive()

    def leave_all(self) -> None:
        """Do not wait for those under way."""
        self._left = True

    def asking(self, related: int | str | None, meta: Mapping[str, Any]) -> Flight | None:
        """The request that a question is about: the one on whose stream it came, or the one of the task
        that it names; else the only one there is. With several, calls go one at a time from now on.
        """
        willing = [flight for flight in self._flights.values() if flight.asked is not None]
        if related is not None:
            return next((flight for flight in willing if flight.id == related), None)
        named = meta.get(RELATED)
        task = named.get("taskId") if isinstance(named, dict) else None
        if task is not None:
            found = next((flight for flight in willing if flight.task == task), None)
            if found is not None:
                return found
        if len(self._flights) > 1:
            self.is_exclusive = True
            return None
        return willing[0] if willing else None
