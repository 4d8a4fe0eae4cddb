"""Signing in at MCP servers: OAuth 2.1 as a wait that a person settles, be it days later.

A request that a server refuses for want of a token raises ``AuthorizationNeeded``. ``Authorizations.begin``
makes a consent URL of it for the call that waits; the browser comes back to ``/oauth/callback`` of any process
of the store, which hands the answer to ``finish``. All that lies between is kept sealed in the store.
"""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from torpor.core.errors import Unavailable
from torpor.ports import Clock, Side
from torpor.tools.mcp.servers import McpServer
from torpor.tools.tokens import Keys

if TYPE_CHECKING:
    import httpx2

CALLBACK_PATH = "/oauth/callback"
"""Where authorization servers send browsers back to."""


@dataclasses.dataclass(frozen=True)
class Challenge:
    """How a server refused a request: what its ``WWW-Authenticate`` header says."""

    resource_metadata: str = ""
    scope: str = ""


class AuthorizationNeeded(Unavailable):
    """A server wants a person to sign in for this user first. ``Authorizations.begin`` takes it."""

    def __init__(self, server: McpServer, user: str, challenge: Challenge) -> None:
        super().__init__(f"The MCP server {server.name!r} wants a person to sign in.")
        self.server = server
        self.user = user
        self.challenge = challenge


@dataclasses.dataclass(frozen=True)
class Consent:
    """Where a person signs in for a call. ``url`` stays out of histories and logs."""

    url: str = dataclasses.field(repr=False)
    key: str
    """Names the authorization that is asked for: the same for all calls that one consent lets go on."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """What came of a browser's return, in words for the person."""

    ok: bool
    text: str
    status: int = 200


Settled = Callable[[str, str, str], Awaitable[None]]
"""Told of each waiting call (thread, call, outcome), perhaps more than once. Outcomes: ``authorized`` (go on),
``declined`` (the person does not want to), ``failed`` (try again: it will raise ``AuthorizationNeeded`` anew,
and ``begin`` then gives another URL)."""


class Authorizations:
    """Tokens for MCP servers by server and user. Made with ``await Authorizations.open(...)``.

    ``place`` gives the public base URL of a process that serves ``CALLBACK_PATH``; it raises ``Unavailable``
    if there is none. ``secret``: what tokens are sealed with (``TORPOR_SECRET``); empty: a key in the store.
    """

    settled: Settled
    """Set by whoever has calls waiting; by default nobody is told, and calls find out when they try again."""

    @classmethod
    async def open(
        cls, side: Side, keys: Keys, clock: Clock, place: Callable[[], Awaitable[str]], *, secret: str = ""
    ) -> "Authorizations":
        """Ready to use; makes the store's key if there is none."""
        raise NotImplementedError

    def auth(self, server: McpServer, user: str) -> "httpx2.Auth":
        """What signs the requests to a server for a user; ``Sessions`` takes it as ``auth``.

        Raises ``AuthorizationNeeded`` out of the request, or ``Unavailable`` while a token cannot be renewed.
        The last ``AuthorizationNeeded`` stays on it as ``needed``, where a transport swallows errors.
        """
        raise NotImplementedError

    async def begin(self, needed: AuthorizationNeeded, thread: str, call: str) -> Consent:
        """A consent URL for a call that waits. The same one for a repeat. Asks the servers.

        ``Refused`` if the server's metadata cannot be used or no client can be registered (the text says what
        to configure); ``Unavailable`` if it cannot be asked now.
        """
        raise NotImplementedError

    async def has_token(self, server: McpServer, user: str, scope: str = "") -> bool:
        """Whether there is a token that covers the scopes; perhaps one that has to be renewed first."""
        raise NotImplementedError

    async def finish(self, state: str, code: str = "", iss: str = "", error: str = "") -> Finished:
        """What a browser brought back. Never raises for what it brought."""
        raise NotImplementedError

    async def recover(self) -> int:
        """Tell again of calls whose consent came while their process died; says how many."""
        raise NotImplementedError

    async def forget(self, server: McpServer, user: str = "") -> bool:
        """Revoke and drop a token; False if there was none."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        raise NotImplementedError
