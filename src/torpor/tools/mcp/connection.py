"""A connection to an MCP server, supervised by one task from its start to its end."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import anyio
from mcp.client._probe import negotiate_auto
from mcp.client.session import ClientSession
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    Implementation,
    ListToolsResult,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.faults import Declined, Lost, SignInNeeded, TooLarge
from torpor.tools.mcp.flight import Flight, Flights
from torpor.tools.mcp.http import HttpTransport
from torpor.tools.mcp.listing import MOST_LISTED, MOST_LISTED_BYTES, Listing, make_listing, weight
from torpor.tools.mcp.questions import Questions
from torpor.tools.mcp.stdio import StdioTransport

logger = logging.getLogger(__name__)

_SESSION = ClientSession.__init__.__code__.co_filename


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether to show a record: the SDK warns of each message that breaks the rules, with a traceback."""
    return record.levelno > logging.WARNING or record.pathname != _SESSION


logging.getLogger("client").addFilter(_is_ours)  # the name that the SDK's session logs by

PATIENCE = 10
"""How many times its ``start_timeout`` a server may take until its start is given up: until then it goes on,
though nobody is held up by it (a first start may have to install the server)."""
PAGES = 100
AGAIN = 1.0
"""Seconds between two readings of a list that keeps changing."""
LISTEN_AGAIN = 5.0
LONGEST_AGAIN = 300.0
LAST_WORDS = 1.0
"""Seconds in which the end of a process explains the end of its output."""
TASKS = "io.modelcontextprotocol/tasks"
METHOD_NOT_FOUND = -32601


class Connection:
    """One connection. ``begin`` starts it; ``ready`` tells when it can be used.

    ``plain``: begin with the old handshake, for servers that do not survive a newer question.
    ``on_listing`` is called with what the server offers, at first and when that changes; ``on_end`` once.
    """

    def __init__(
        self,
        server: McpServer,
        *,
        auth: Any = None,
        plain: bool = False,
        on_listing: Callable[[Listing], None],
        on_end: Callable[["Connection"], None],
    ) -> None:
        self.server = server
        self.plain = plain
        self.listing: Listing | None = None
        self.capabilities: dict[str, Any] = {}
        self.modern = False
        self.is_ready = False
        self.failure: TorporError | None = None
        self.flights = Flights()
        self._on_listing = on_listing
        self._on_end = on_end
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._is_closing = False
        self._changed = asyncio.Event()
        self.transport: StdioTransport | HttpTransport
        if server.url is None:
            self.transport = StdioTransport(server, self._wake.set, self.flights.alive)
        else:
            self.transport = HttpTransport(server, self.retire, self.flights.alive, auth)
        self.is_signed = auth is not None
        self.questions = Questions(server, self.flights, self.transport)
        self.client: ClientSession | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        """It is up, and takes new calls."""
        return self.is_ready and not self._is_closing and not self.transport.has_ended

    @property
    def has_ended(self) -> bool:
        """Its task is done: no process and no connection is left."""
        return self._task is not None and self._task.done()

    @property
    def noise(self) -> str:
        """What the server wrote where only messages may stand; empty if nothing."""
        return self.server.hide(str(self.transport.noise))

    def begin(self) -> None:
        """Start the server, or connect to it, in the background."""
        self._task = asyncio.create_task(self._run(), name=f"MCP server {self.server.name}")

    async def ready(self, seconds: float) -> bool:
        """Whether it is up, or comes up within some seconds. Raises what it failed of."""
        try:
            await asyncio.wait_for(self._settled.wait(), seconds)
        except TimeoutError:
            return False
        if self.failure is not None:
            raise self.failure
        return True

    def retire(self) -> None:
        """Take no new calls, and end when those under way are done."""
        self._is_closing = True
        self._wake.set()

    def done(self, flight: Flight) -> None:
        """A request is over; if it was the last one that a retired connection waited for, so is that."""
        self.flights.remove(flight)
        self._wake.set()

    async def close(self) -> None:
        """End it now: calls under way are lost."""
        self.flights.leave_all()
        self.retire()
        if self._task is not None:
            if not self.is_ready:
                self._task.cancel()
            await asyncio.wait((self._task,))

    async def fault(self, error: MCPError, *, sent: bool = True) -> TorporError:
        """What an error of a request means to those who wait for it."""
        held = error.error.data
        name = f"The MCP server {self.server.name!r}"
        match held:
            case Lost():
                if held.retry_after is None:
                    self.retire()
                return Lost(f"{name} is lost: {held}.", sent=held.sent, retry_after=held.retry_after)
            case TooLarge():
                return TooLarge(f"{name} has answered, but {held}.")
            case SignInNeeded():
                return held
            case Refused():
                return Refused(f"{name} cannot be used: {held}.")
            case TorporError():
                return held
        if self.transport.has_ended or self._is_closing or _is_closed(error):
            self.retire()
            await self.transport.has_exited(LAST_WORDS)
            account = self.transport.account() or "the connection ended"
            return Lost(f"{name} ended before it had answered: {account}.", sent=sent)
        words = self.server.hide(" ".join(str(error.error.message).split()))[:2_000]
        return Declined(f"{name} answers with an error: {words}", code=error.error.code, detail=held)

    # -------------------------------------------------------------- its life

    async def _run(self) -> None:
        try:
            async with (
                self.transport.streams() as (incoming, outgoing),
                self._session(incoming, outgoing) as client,
            ):
                await self._used(client)
        except Exception as error:  # noqa: BLE001 - whatever ends a connection is told to those who want it
            self.failure = self.failure or await self._judged(_peeled(error))
        finally:
            if self.failure is not None:
                logger.info("MCP server %s: %s", self.server.name, self.failure)
            if not self.is_ready and self.failure is None:
                self.failure = Unavailable(f"The MCP server {self.server.name!r} was stopped.")
            self._settled.set()
            self._on_end(self)

    async def _used(self, client: ClientSession) -> None:
        self.client = client
        try:
            async with asyncio.timeout(PATIENCE * self.server.start_timeout):
                await self._introduce(client)
                self._tell(await self._list())
            self.is_ready = True
            self._settled.set()
            await self._live(client)
        except Exception as error:  # noqa: BLE001 - likewise, as long as the process tells why it ended
            self.failure = await self._judged(_peeled(error))
        finally:
            self.client = None

    async def _judged(self, error: BaseException) -> TorporError:
        name = f"The MCP server {self.server.name!r}"
        if isinstance(error, MCPError):
            return await self.fault(error)
        if isinstance(error, TorporError):
            return error
        account = self.transport.account()
        told = f" ({account})" if account else ""
        if isinstance(error, TimeoutError):
            seconds = PATIENCE * self.server.start_timeout
            return Unavailable(f"{name} has not introduced itself within {seconds:g} s{told}.")
        return Unavailable(f"{name} cannot be spoken to: {type(error).__name__}: {str(error)[:300]}{told}.")

    def _session(self, incoming: Any, outgoing: Any) -> ClientSession:
        server = self.server
        return ClientSession(
            incoming,
            outgoing,
            sampling_callback=self.questions.asked_to_sample if server.sampling else None,
            elicitation_callback=self.questions.asked_user if server.elicitation else None,
            list_roots_callback=self.questions.asked_for_roots if server.roots else None,
            message_handler=self._heard,
            client_info=Implementation(name="torpor", version=_version()),
            extensions={TASKS: {}},
        )

    async def _introduce(self, client: ClientSession) -> None:
        if self.plain:
            await client.initialize()
        else:
            await negotiate_auto(client)
        told = client.server_capabilities
        self.capabilities = (
            {} if told is None else told.model_dump(by_alias=True, exclude_none=True, mode="json")
        )
        self.modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def _live(self, client: ClientSession) -> None:
        lister = asyncio.create_task(self._keep_listing())
        listener = asyncio.create_task(self._listen(client))
        try:
            while not self.transport.has_ended and not (self._is_closing and self.flights.is_empty):
                await self._wake.wait()
                self._wake.clear()
        finally:
            self._is_closing = True
            for task in (lister, listener):
                task.cancel()
            await asyncio.gather(lister, listener, return_exceptions=True)

    # -------------------------------------------------------------- what it offers

    async def relist(self) -> None:
        """Read anew what the server offers."""
        self._tell(await self._list())

    async def _keep_listing(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                async with asyncio.timeout(self.server.start_timeout):
                    self._tell(await self._list())
            except (MCPError, TimeoutError, TorporError) as error:
                logger.info("MCP server %s: its tools cannot be listed: %s", self.server.name, error)
            await asyncio.sleep(AGAIN)

    def _tell(self, listing: Listing) -> None:
        self.listing = listing
        self._on_listing(listing)

    async def _list(self) -> Listing:
        problems: list[str] = []
        tools = await self._pages("tools/list", "tools", problems) if self._may("tools") else []
        tasks = self.capabilities.get("tasks")
        return make_listing(
            self.server,
            self._absorbed(tools, problems),
            resources="resources" in self.capabilities,
            prompts="prompts" in self.capabilities,
            tasks=isinstance(tasks, dict) and "tools" in (tasks.get("requests") or {}),
            problems=problems,
        )

    def _may(self, what: str) -> bool:
        """Whether the server has these; one that says nothing at all may have tools."""
        return what in self.capabilities or not self.capabilities

    async def _pages(self, method: str, member: str, problems: list[str]) -> list[object]:
        found: list[object] = []
        cursor: Any = ""
        size = 0
        seen = set[str]()
        for _ in range(PAGES):
            try:
                page = await self.raw(method, {"cursor": cursor} if cursor else {}, {})
            except MCPError as error:
                if error.error.code == METHOD_NOT_FOUND and not found:
                    return []
                raise
            listed = page.get(member)
            size += weight(listed)
            if size > MOST_LISTED_BYTES:
                problems.append(
                    f"Its {member} have more than {MOST_LISTED_BYTES:,} bytes in all; the rest is left out."
                )
                return found
            found += listed if isinstance(listed, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or len(found) > MOST_LISTED:
                return found
            if cursor in seen:
                problems.append(f"Its {member} are listed in circles; what was listed until then counts.")
                return found
            seen.add(cursor)
        problems.append(f"Its {member} have more than {PAGES} pages; the rest is left out.")
        return found

    def _absorbed(self, tools: list[object], problems: list[str]) -> list[object]:
        """Tools as they were listed, without those that the newer protocol forbids to use.

        The SDK learns from the listing which arguments go into headers.
        """
        if not self.modern or self.client is None:
            return tools
        valid = []
        for tool in tools:
            try:
                valid.append(Tool.model_validate(tool, by_name=False))
            except ValidationError:
                continue
        named = {tool.name for tool in valid}
        whole = ListToolsResult(tools=valid)
        kept = {tool.name for tool in self.client._absorb_tool_listing(whole, complete=True).tools}  # noqa: SLF001
        wrong = named - kept
        problems += [
            f"Tool {name[:80]!r} is left out: its x-mcp-header marks are not valid." for name in wrong
        ]
        return [tool for tool in tools if not isinstance(tool, dict) or tool.get("name") not in wrong]

    async def _heard(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _listen(self, client: ClientSession) -> None:
        """With the newer protocol, changes are told to those who ask for it."""
        told = self.capabilities.get("tools")
        if not self.modern or not isinstance(told, dict) or not told.get("listChanged"):
            return
        wait = LISTEN_AGAIN
        while True:
            try:
                async with listen(client, tools_list_changed=True) as events:
                    async for _ in events:
                        self._changed.set()
            except (ListenNotSupportedError, MCPError):
                return
            except (SubscriptionLost, TimeoutError):
                pass
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_AGAIN)
            self._changed.set()

    # -------------------------------------------------------------- requests

    async def raw(self, method: str, params: Mapping[str, Any], options: Any) -> dict[str, Any]:
        """A request, and its result as it came. The SDK's own way insists on one shape of result."""
        client = self.client
        if client is None:
            raise MCPError(code=0, message="closed", data=Lost("the connection has ended", sent=False))
        request = {"method": method, "params": dict(params)}
        client._stamp(request, options)  # noqa: SLF001
        sent: Mapping[str, Any] = request["params"]  # type: ignore[assignment]
        return await client._dispatcher.send_raw_request(method, sent, options)  # noqa: SLF001


def _peeled(error: BaseException) -> BaseException:
    """The first error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, anyio.BrokenResourceError | anyio.ClosedResourceError):
        return Unavailable("the connection ended")
    return error


def _is_closed(error: MCPError) -> bool:
    """Whether it is the SDK's own word for a connection that has ended, and not a server's."""
    return (error.error.code, error.error.message) == (CONNECTION_CLOSED, "Connection closed")


def _version() -> str:
    try:
        return version("torpor")
    except PackageNotFoundError:
        return "0"
