"""How MCP servers say that a person has to sign in."""

import msgspec

from torpor.core.errors import Unavailable
from torpor.tools.bridged import McpServer


class Challenge(msgspec.Struct, frozen=True):
    """How a server refused a request: what its ``WWW-Authenticate`` header says."""

    resource_metadata: str = ""
    scope: str = ""
    used: str = ""
    """The id of the grant whose token it refused, if it was shown one."""


class AuthorizationNeeded(Unavailable):
    """A server wants a person to sign in for this user first. ``Authorizations.begin`` takes it."""

    def __init__(self, server: McpServer, user: str, challenge: Challenge) -> None:
        super().__init__(f"The MCP server {server.name!r} wants a person to sign in.")
        self.server = server
        self.user = user
        self.challenge = challenge
