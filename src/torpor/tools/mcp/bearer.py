"""Signing the requests to an MCP server with its user's token. Loads httpx2."""

from collections.abc import AsyncGenerator

import httpx2
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
)

from torpor.core.errors import Refused
from torpor.tools.addresses import origin_of
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.challenges import AuthorizationNeeded, Challenge
from torpor.tools.mcp.grants import Grant, Grants, mark_of
from torpor.tools.mcp.metadata import SCOPE_LIMIT

URL_LIMIT = 4_096
NEW = 60.0
"""Seconds after a consent for which a refusal means that another one would not help."""


class Bearer(httpx2.Auth):
    """Shows a token to the origin of the server's URL only, and renews it when it is refused.

    Raises ``AuthorizationNeeded`` out of the request where a person has to agree, ``Unavailable`` where a
    token cannot be renewed now, ``Refused`` where the server does not take what was just granted.
    """

    def __init__(self, server: McpServer, user: str, grants: Grants) -> None:
        self._server = server
        self._user = user
        self._grants = grants
        self._mark = mark_of(server, user)
        self.needed: AuthorizationNeeded | None = None
        """The latest, for transports that swallow errors."""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if origin_of(str(request.url)) != origin_of(self._server.url or ""):
            yield request
            return
        grant = await self._grants.current(self._mark)
        _sign(request, grant)
        response = yield request
        if response.status_code == 401 and grant is not None:
            again = await self._grants.after(self._mark, grant.id)
            if again is not None:
                grant = again
                _sign(request, grant)
                response = yield request
        if response.status_code == 401:
            raise await self._unauthorized(response, grant)
        if response.status_code == 403 and self._lacks_scope(response, grant):
            raise self._need(response, grant)

    async def _unauthorized(
        self, response: httpx2.Response, grant: Grant | None
    ) -> AuthorizationNeeded | Refused:
        if grant is None:
            return self._need(response, grant)
        if self._grants.is_new(grant, NEW):
            return Refused(
                f"The MCP server {self._server.name!r} does not take the token that was just granted for it: "
                "it and its authorization server do not fit together."
            )
        await self._grants.drop(self._mark, grant.id)
        return self._need(response, grant)

    def _lacks_scope(self, response: httpx2.Response, grant: Grant | None) -> bool:
        """Whether more scopes than were granted are asked for, so that a person can help."""
        if extract_field_from_www_auth(response, "error") != "insufficient_scope":
            return False
        asked = extract_scope_from_www_auth(response) or ""
        return bool(asked) and (grant is None or not grant.covers(asked))

    def _need(self, response: httpx2.Response, grant: Grant | None) -> AuthorizationNeeded:
        metadata = extract_resource_metadata_from_www_auth(response) or ""
        scope = extract_scope_from_www_auth(response) or ""
        challenge = Challenge(
            metadata if len(metadata) <= URL_LIMIT else "",
            scope if len(scope) <= SCOPE_LIMIT else "",
            grant.id if grant else "",
        )
        self.needed = AuthorizationNeeded(self._server, self._user, challenge)
        return self.needed


def _sign(request: httpx2.Request, grant: Grant | None) -> None:
    if grant is not None:
        request.headers["Authorization"] = f"Bearer {grant.access}"
