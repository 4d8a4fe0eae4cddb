"""Clients registered at authorization servers, kept sealed, one for each server and place of return."""

import hashlib

import msgspec

from torpor.core.errors import Refused
from torpor.ports import Clock, Side
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.fetch import Bounds
from torpor.tools.mcp.metadata import Client, Issuer, given_client, register
from torpor.tools.mcp.vault import Vault

SPACE = "mcp-clients"
PINS = "mcp-issuers"
CALLBACK_PATH = "/oauth/callback"
"""Where authorization servers send browsers back to; the name of the MCP server follows."""
DOCUMENT_PATH = "/oauth/client"
"""Where the documents are that describe our clients; the name of the MCP server follows."""
NEAR = 86_400.0
"""Seconds before the end of a client's secret from which on another client is registered."""


class Registrations:
    """Which client we are at an authorization server."""

    def __init__(self, side: Side, vault: Vault, clock: Clock) -> None:
        self._side = side
        self._vault = vault
        self._clock = clock

    async def client(
        self, server: McpServer, issuer: Issuer, place: str, scope: str, bounds: Bounds
    ) -> Client:
        """The client for a server, whose browsers come back below ``place``; registered if there is none."""
        redirect = redirect_for(place, server.name)
        given = given_client(server, issuer)
        if given is not None:
            if given.secret:
                await self._check_pin(server, issuer)
            return msgspec.structs.replace(given, redirect=redirect)
        kept = await self._vault.get(SPACE, _key(issuer, redirect))
        client = msgspec.msgpack.decode(kept, type=Client) if kept else None
        if client is not None and not (client.expires and client.expires - NEAR < self._clock.now()):
            return client
        if issuer.documents and place.startswith("https:"):
            return Client(document_for(place, server.name), redirect=redirect)
        client = await register(server, issuer, redirect, scope, bounds)
        await self._vault.put(SPACE, _key(issuer, redirect), msgspec.msgpack.encode(client))
        return client

    async def _check_pin(self, server: McpServer, issuer: Issuer) -> None:
        """A secret goes to the authorization server that it went to first, whatever the MCP server says."""
        first = await self._side.put_new(PINS, _pin(server), issuer.issuer.encode())
        if first and first != issuer.issuer.encode():
            raise Refused(
                f"The MCP server {server.name!r} names another authorization server than before. Its "
                f"client_secret is not shown to that one; if it may be: torpor mcp logout {server.name}."
            )
        if not first:
            await self._side.put(PINS, _pin(server), issuer.issuer.encode())

    async def forget(self, issuer: Issuer, client: Client) -> None:
        """An authorization server does not know a client any more: the next one is registered anew."""
        await self._vault.put(SPACE, _key(issuer, client.redirect), b"")

    async def unpin(self, server: McpServer) -> None:
        """Let a server's client secret go to another authorization server."""
        await self._side.put(PINS, _pin(server), b"")


def redirect_for(place: str, name: str) -> str:
    """Where browsers come back to for a server. No two servers share one, so that their codes stay apart."""
    return f"{place.rstrip('/')}{CALLBACK_PATH}/{name}"


def document_for(place: str, name: str) -> str:
    """Where a server's client is described."""
    return f"{place.rstrip('/')}{DOCUMENT_PATH}/{name}"


def _key(issuer: Issuer, redirect: str) -> str:
    return hashlib.sha256(f"{issuer.issuer}\x00{redirect}".encode()).hexdigest()[:40]


def _pin(server: McpServer) -> str:
    client = server.oauth.client_id if server.oauth else ""
    return hashlib.sha256(f"{server.url}\x00{client}".encode()).hexdigest()[:40]
