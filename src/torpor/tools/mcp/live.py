"""A working session: calls, requests and their limits on one connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    ElicitRequest,
    InputRequiredResult,
    ListRootsResult,
)

from torpor.core.errors import Refused, TorporError
from torpor.core.text import clean
from torpor.tools.bridged import McpServer
from torpor.tools.mcp import content, resources
from torpor.tools.mcp.connection import Connection
from torpor.tools.mcp.faults import Lost, SignInNeeded, TimedOut
from torpor.tools.mcp.flight import Flight
from torpor.tools.mcp.listing import Listing, Offered, own_name
from torpor.tools.mcp.session import Progress, Task

KEY = "torpor/key"
"""Member of ``_meta`` with the key of a call, the same for each time it is sent."""
TASK_SECONDS = 24 * 3600
HEADER_MISMATCH = -32020
WORDS = 500

Asked = Callable[[ElicitRequest | CreateMessageRequest], Awaitable[Any]]
Sending = Callable[[], Awaitable[None]]


class LiveSession:
    """A session on a connection that is up. ``on_sign_in`` gives what is raised where a server wants that."""

    def __init__(self, connection: Connection, on_sign_in: Callable[[SignInNeeded], TorporError]) -> None:
        self._connection = connection
        self._on_sign_in = on_sign_in

    @property
    def server(self) -> McpServer:
        return self._connection.server

    @property
    def modern(self) -> bool:
        return self._connection.modern

    @property
    def exclusive(self) -> bool:
        return self._connection.flights.is_exclusive

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._connection.capabilities

    @property
    def _listing(self) -> Listing:
        assert self._connection.listing is not None
        return self._connection.listing

    def tool(self, shown: str, arguments: Mapping[str, Any] | None = None) -> Offered | None:
        found = self._found(shown)
        if found is None or found.kind != "invoke_tool":
            return found
        named = (arguments or {}).get("tool_name")
        inner = self._found(named) if isinstance(named, str) else None
        return inner if inner is not None and inner.kind == "tool" else None

    def _found(self, shown: str) -> Offered | None:
        """By the name in the manifest, by one prefixed for a clash, or by the server's own."""
        offered = self._listing.offered
        if shown in offered:
            return offered[shown]
        if shown == own_name(self.server, "sign_in"):
            return Offered(shown, "", "sign_in", "safe")
        clashing = (one for one in offered.values() if self.server.prefixed(one.shown) == shown)
        own = (one for one in offered.values() if one.name == shown and self.server.wrapped)
        return next(clashing, None) or next(own, None)

    async def call(
        self,
        shown: str,
        arguments: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        asked: Asked | None = None,
        key: str = "",
        as_task: bool = False,
        responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
        limit: float | None = None,
        sending: Sending | None = None,
    ) -> CallToolResult | InputRequiredResult | Task:
        outer, inner = self._found(shown), self.tool(shown, arguments)
        if outer is None:
            raise Refused(f"The MCP server {self.server.name!r} does not offer the tool {shown[:80]!r} now.")
        if outer.kind == "invoke_tool":
            if inner is None:
                return resources.missing(self._listing, self.server, str(arguments.get("tool_name", "")))
            arguments = _inner(arguments)
        elif outer.kind != "tool":
            if sending is not None:
                await sending()
            return await resources.answer(outer, arguments, self._listing, self.request)
        assert inner is not None
        params: dict[str, Any] = {"name": inner.name, "arguments": dict(arguments)}
        if key:
            params["_meta"] = {KEY: key}
        if as_task:
            params["task"] = {"ttl": TASK_SECONDS * 1000}
        if responses is not None:
            params["inputResponses"] = {name: _plain(value) for name, value in responses.items()}
        if request_state is not None:
            params["requestState"] = request_state
        most = self.server.call_timeout if limit is None else min(limit, self.server.call_timeout)
        async with self._turn(most) as left:
            raw = await self._exchange(
                "tools/call", params, progress=progress, asked=asked, most=left, sending=sending
            )
        return self.outcome(raw)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        asked: Asked | None = None,
        task: str = "",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        most = self.server.call_timeout
        return await self._exchange(
            method, params, progress=progress, asked=asked, most=most, task=task, idle=timeout
        )

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        client = self._connection.client
        if client is not None:
            request: dict[str, Any] = {"method": method, "params": dict(params)}
            options: Any = {}
            client._stamp(request, options)  # noqa: SLF001
            await client._dispatcher.notify(method, request["params"], options)  # noqa: SLF001

    def outcome(self, result: Mapping[str, Any]) -> CallToolResult | InputRequiredResult | Task:
        return content.outcome(result)

    def roots(self) -> ListRootsResult:
        return self._connection.questions.roots()

    @asynccontextmanager
    async def _turn(self, most: float) -> AsyncIterator[float]:
        """Wait for a turn, where calls go one at a time; gives the seconds that are left."""
        flights = self._connection.flights
        if not flights.is_exclusive or self.modern:
            yield most
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + most
        try:
            async with asyncio.timeout_at(end):
                await flights.turn.acquire()
        except TimeoutError:
            raise TimedOut(self._limit_text(most, "has not got to this call")) from None
        try:
            yield max(end - loop.time(), 0.0)
        finally:
            flights.turn.release()

    async def _exchange(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        progress: Progress | None,
        asked: Asked | None,
        most: float,
        task: str = "",
        idle: float | None = None,
        sending: Sending | None = None,
    ) -> dict[str, Any]:
        """One request within its limits, counted as under way."""
        connection, loop = self._connection, asyncio.get_running_loop()
        if not connection.is_usable:
            raise Lost(f"The MCP server {self.server.name!r} has gone.", sent=False)
        idle = self.server.idle_timeout if idle is None else idle
        end = loop.time() + most
        try:
            async with asyncio.timeout_at(min(loop.time() + idle, end)) as clock:
                id = connection.flights.new_id()
                flight = Flight(id, clock, idle=idle, end=end, asked=asked, task=task)
                connection.flights.add(flight)
                try:
                    if sending is not None:
                        await sending()
                    return await self._sent(flight, method, params, progress)
                finally:
                    connection.done(flight)
        except TimeoutError:
            if loop.time() >= end:
                raise TimedOut(self._limit_text(most, "has not answered")) from None
            raise TimedOut(self._limit_text(idle, "has shown no sign of life")) from None

    async def _sent(
        self, flight: Flight, method: str, params: Mapping[str, Any], progress: Progress | None
    ) -> dict[str, Any]:
        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            flight.alive()
            if progress is not None:
                await progress(done, total, clean(message or "")[:WORDS])

        options = {"request_id": flight.id, "on_progress": on_progress}
        try:
            try:
                return await self._connection.raw(method, params, dict(options))
            except MCPError as error:
                if not self.modern or error.error.code != HEADER_MISMATCH:
                    raise
            await self._connection.relist()  # the server's headers follow a schema that we do not know yet
            return await self._connection.raw(method, params, dict(options))
        except MCPError as error:
            fault = await self._connection.fault(error)
            raise (self._on_sign_in(fault) if isinstance(fault, SignInNeeded) else fault) from None

    def _limit_text(self, seconds: float, what: str) -> str:
        return f"The MCP server {self.server.name!r} {what} for {seconds:g} s; the call was given up."


def _inner(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of the tool that a wrapper calls."""
    held = arguments.get("arguments")
    return held if isinstance(held, Mapping) else {}


def _plain(value: Any) -> Any:
    """An answer as JSON, also where it is the SDK's."""
    dump = getattr(value, "model_dump", None)
    return dump(by_alias=True, mode="json", exclude_none=True) if callable(dump) else value
