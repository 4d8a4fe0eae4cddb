"""Supervised connections to the MCP servers of one process."""

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torpor.ports import Side
from torpor.tools.mcp.listing import Offered
from torpor.tools.mcp.servers import McpServer

if TYPE_CHECKING:
    import httpx2
    from mcp_types import (
        CallToolResult,
        CreateMessageRequest,
        ElicitRequest,
        InputRequiredResult,
    )

MANIFESTS = "mcp-manifests"
"""Space of the manifests that were made last, by address (and user, where the server knows users)."""

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""How far a call is: done, in all (if known), and words."""

Asked = "Callable[[ElicitRequest | CreateMessageRequest], Awaitable[Any]]"
"""Answers what an old-style server asks in the midst of a call: an ElicitResult, a CreateMessageResult, or
an ErrorData."""

Auth = "Callable[[McpServer, str], httpx2.Auth]"
"""Signs requests to a server for a user. Raises ``AuthorizationNeeded`` out of the request if it cannot."""


@dataclasses.dataclass(frozen=True)
class Task:
    """What a server said of a call that it works on as a task, in either era."""

    id: str
    status: str
    """``working``, ``input_required``, ``completed``, ``failed`` or ``cancelled``."""
    message: str = ""
    poll: float = 5.0
    """Seconds until it should be asked again."""
    ttl: float | None = None
    """Seconds for which the server keeps it."""


class Sessions:
    """Connections to MCP servers, shared by threads unless a server keeps state by connection.

    ``auth`` gives what signs the requests to servers that ask for it, by server and user.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        side: Side,
        *,
        auth: "Callable[[McpServer, str], httpx2.Auth] | None" = None,
    ) -> None:
        self._servers = {server.address: server for server in servers}
        self._side = side
        self._auth = auth

    def server(self, address: str) -> McpServer:
        """The server of an address. ``Refused`` if none has it."""
        raise NotImplementedError

    def add(self, server: McpServer) -> None:
        """Make a server known, or put another in the place of the one of its address."""
        raise NotImplementedError

    async def manifest(self, address: str, user: str = "") -> bytes:
        """The server's tools as a manifest: from a live connection, else the one made last.

        ``Unavailable`` while the server is still starting and nothing is known of it; ``Refused`` if it
        cannot be started at all, with what it wrote on its standard error.
        """
        raise NotImplementedError

    def has_changed(self, address: str, hash: str, user: str = "") -> bool:
        """Whether a manifest is known to be no longer the current one. Asks nobody."""
        raise NotImplementedError

    async def session(self, address: str, root: str = "", user: str = "") -> "Session":
        """A working connection, made if there is none, within the server's ``start_timeout``.

        ``Unavailable`` (with ``retry_after``), ``Refused`` or ``AuthorizationNeeded``.
        """
        raise NotImplementedError

    async def close_thread(self, root: str) -> None:
        """End the connections that only this root thread uses."""
        raise NotImplementedError

    async def close(self) -> None:
        """End all connections and processes. Idempotent."""
        raise NotImplementedError

    def problems(self, address: str) -> tuple[str, ...]:
        """What is wrong with a server, in words: tools left out, noise, its last failures."""
        raise NotImplementedError


class Session:
    """One working connection."""

    server: McpServer
    modern: bool
    """Its protocol is of 2026-07-28 or later: what it asks comes as a result, and calls may be resumed."""
    exclusive: bool
    """Calls go one at a time, since it asks users while it works (old protocol only)."""
    capabilities: Mapping[str, Any]
    """What the server said it can do, as JSON."""

    def tool(self, shown: str, arguments: Mapping[str, Any] | None = None) -> Offered | None:
        """The tool that a name in the manifest stands for, or None.

        Of the wrapper ``NAME_invoke_tool``, with its arguments: the tool that these name.
        """
        raise NotImplementedError

    async def call(
        self,
        shown: str,
        arguments: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        asked: "Callable[[ElicitRequest | CreateMessageRequest], Awaitable[Any]] | None" = None,
        key: str = "",
        as_task: bool = False,
        responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
        limit: float | None = None,
        sending: Callable[[], Awaitable[None]] | None = None,
    ) -> "CallToolResult | InputRequiredResult | Task":
        """Call a tool by its name in the manifest; what this package adds is answered likewise.

        ``key`` goes along as ``_meta`` ``torpor/key``. ``as_task``: ask an old-style server to make it a
        task. ``responses`` and ``request_state`` go on with a call that came to an InputRequiredResult.
        ``limit``: seconds in all, where less than ``call_timeout`` is left. ``sending`` is awaited just
        before the request goes out (after waiting for a turn on an exclusive connection).

        Raises ``Lost``, ``TimedOut``, ``TooLarge``, ``AuthorizationNeeded``, or ``Declined`` (a ``Refused``)
        with the server's words (an error of the protocol, not of the tool). Cancelled, it tells the server.
        """
        raise NotImplementedError

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Any request, such as ``tasks/get``, and its result as JSON. Raises as ``call`` does."""
        raise NotImplementedError

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification. Never raises; it may be lost."""
        raise NotImplementedError
