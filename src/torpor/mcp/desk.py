"""What a server holds for all its clients: the calls, and the tools that are offered now."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext

from torpor.core.definition import ToolSpec
from torpor.mcp.calls import Calls
from torpor.mcp.clients import Client
from torpor.mcp.limits import FRESH
from torpor.mcp.offers import Offer, of_agents, of_tools, shared

Discover = Callable[[], Awaitable[Sequence[ToolSpec]]]
"""Gives the tools of the RAP servers that answer."""


class Desk:
    """The tools of a server, by name."""

    def __init__(
        self,
        calls: Calls,
        *,
        agents: Sequence[str] = (),
        discover: Discover | None = None,
        answers: bool = True,
        verified: str = "",
    ) -> None:
        self.calls = calls
        self._discover = discover
        self._verified = verified
        own = [*of_agents(agents), *shared(answers=answers, calls=discover is not None)]
        self._own = {offer.name: offer for offer in own}
        self._known: dict[str, Offer] = dict(self._own)
        self._looked = float("-inf")
        self._lock = asyncio.Lock()

    def client(self, context: ServerRequestContext[Any, Any]) -> Client:
        """The client of a request."""
        return Client(context, self._verified)

    async def offers(self) -> dict[str, Offer]:
        """All tools now."""
        async with self._lock:
            if self._discover is not None and time.monotonic() - self._looked > FRESH:
                tools = of_tools(await self._discover(), frozenset(self._own))
                self._known = self._own | {offer.name: offer for offer in tools}
                self._looked = time.monotonic()
        return self._known
