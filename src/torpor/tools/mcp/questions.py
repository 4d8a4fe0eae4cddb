"""What an old-style server asks while it works: each question goes to the call that it is about, if any."""

from pathlib import Path
from typing import Any

from mcp.client.session import ClientRequestContext
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
)

from torpor.tools.bridged import McpServer
from torpor.tools.mcp.flight import Flight, Flights
from torpor.tools.mcp.http import HttpTransport
from torpor.tools.mcp.stdio import StdioTransport

INVALID_REQUEST = -32600


class Questions:
    """Answers a server's questions, by the calls under way on its connection."""

    def __init__(
        self, server: McpServer, flights: Flights, transport: StdioTransport | HttpTransport
    ) -> None:
        self._server = server
        self._flights = flights
        self._transport = transport

    def roots(self) -> ListRootsResult:
        """The folders that the configuration gives."""
        uris = [
            one if one.startswith("file:") else Path(one).absolute().as_uri() for one in self._server.roots
        ]
        return ListRootsResult(roots=[Root.model_validate({"uri": uri}) for uri in uris])

    async def asked_for_roots(self, context: ClientRequestContext) -> ListRootsResult:  # noqa: ARG002
        """The SDK's callback."""
        return self.roots()

    async def asked_user(self, context: ClientRequestContext, params: ElicitRequestParams) -> Any:
        """Likewise. Where it cannot be told for which call, nobody is asked."""
        flight = self._whose(context)
        if flight is None:
            return ElicitResult(action="decline")
        return await flight.ask(ElicitRequest(params=params))

    async def asked_to_sample(self, context: ClientRequestContext, params: CreateMessageRequestParams) -> Any:
        flight = self._whose(context)
        if flight is None:
            return ErrorData(code=INVALID_REQUEST, message="It cannot be told for which call this is asked.")
        return await flight.ask(CreateMessageRequest(params=params))

    def _whose(self, context: ClientRequestContext) -> Flight | None:
        """The call for which a server asks something, if that can be told for certain."""
        meta = dict(context.meta or {})
        related = getattr(self._transport, "related", {}).get(context.request_id)
        return self._flights.asking(related, meta)
