"""One working connection to an MCP server, as those see it who call tools."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from torpor.tools.bridged import McpServer
from torpor.tools.mcp.listing import Offered

if TYPE_CHECKING:
    from mcp_types import (
        CallToolResult,
        CreateMessageRequest,
        ElicitRequest,
        InputRequiredResult,
        ListRootsResult,
    )

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""How far a call is: done, in all (if known), and words."""


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


class Session(Protocol):
    """One working connection."""

    @property
    def server(self) -> McpServer: ...
    @property
    def modern(self) -> bool:
        """Its protocol is of 2026 or later: what it asks comes as a result, and calls may be resumed."""

    @property
    def exclusive(self) -> bool:
        """Calls go one at a time, since it asks users while it works (old protocol only)."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the server said it can do, as JSON."""

    def tool(self, shown: str, arguments: Mapping[str, Any] | None = None) -> Offered | None:
        """The tool that a name in the manifest stands for, or None.

        Of the wrapper ``NAME_invoke_tool``, with its arguments: the tool that these name.
        """

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

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        asked: "Callable[[ElicitRequest | CreateMessageRequest], Awaitable[Any]] | None" = None,
        task: str = "",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Any request, such as ``tasks/get``, and its result as JSON. Raises as ``call`` does.

        ``asked``, with the ``task`` it is about: answers what an old-style server asks for that task.
        ``timeout``: seconds without a sign of life, instead of the server's ``idle_timeout``.
        """

    def outcome(self, result: Mapping[str, Any]) -> "CallToolResult | InputRequiredResult | Task":
        """A result of ``tools/call`` or ``tasks/result`` as JSON, read as ``call`` gives it."""

    def roots(self) -> "ListRootsResult":
        """What to answer a server that asks for its roots within an InputRequiredResult."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification. Never raises; it may be lost."""
