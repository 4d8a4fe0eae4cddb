"""Consents that are still to come: sealed, each for one call of one thread, to be finished by any process."""

import base64
import hashlib
import secrets
from urllib.parse import urlencode

import msgspec

from torpor.ports import Side
from torpor.tools.mcp.fetch import Bounds
from torpor.tools.mcp.metadata import Client, Issuer
from torpor.tools.mcp.vault import Vault

SPACE = "mcp-flows"
LIFE = 30 * 86_400.0
"""Seconds for which a consent URL is good."""
SCOPE = "oauth"
"""Begins the scope of tokens that are states of ours; those of callbacks begin otherwise."""


class Flow(msgspec.Struct, frozen=True):
    """What is needed when the browser comes back."""

    nonce: str
    verifier: str
    begun: float
    server: str
    """The name of the MCP server, shown to the person."""
    redirect: str
    issuer: Issuer
    client: Client
    bounds: Bounds
    resource: str
    scope: str = ""
    user: str = ""
    mark: str = ""
    """Of the server and user."""
    thread: str = ""
    call: str = ""
    url: str = ""
    done: bool = False
    """The person has agreed; the call has still to be told."""

    def __repr__(self) -> str:
        return f"Flow({self.server!r}, {self.thread!r}, {self.call!r})"

    @property
    def key(self) -> str:
        """Where it is kept."""
        return key_of(self.mark, self.thread, self.call)

    @property
    def state_scope(self) -> str:
        """What its signed state is for: this authorization, this once."""
        return f"{SCOPE}@{self.mark}.{self.nonce}"


def key_of(mark: str, thread: str, call: str) -> str:
    """Where the flow of a call is kept."""
    return f"{thread}/{call}/{mark}"


def fresh_secrets() -> tuple[str, str]:
    """A nonce and a code verifier."""
    return secrets.token_urlsafe(16), secrets.token_urlsafe(64)


def consent_url(flow: Flow, state: str) -> str:
    """Where a person agrees."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(flow.verifier.encode()).digest())
    asked = {
        "response_type": "code",
        "client_id": flow.client.id,
        "redirect_uri": flow.redirect,
        "state": state,
        "code_challenge": challenge.rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "resource": flow.resource,
    }
    if flow.scope:
        asked["scope"] = flow.scope
    if "offline_access" in flow.scope.split():
        asked["prompt"] = "consent"  # servers of OpenID Connect give no refresh token without
    joint = "&" if "?" in flow.issuer.authorize else "?"
    return f"{flow.issuer.authorize}{joint}{urlencode(asked)}"


class Flows:
    """Flows by the authorization that they ask for, and the call that waits."""

    def __init__(self, side: Side, vault: Vault) -> None:
        self._side = side
        self._vault = vault

    async def read(self, key: str) -> Flow | None:
        """A flow; None once it is over."""
        kept = await self._vault.get(SPACE, key)
        return msgspec.msgpack.decode(kept, type=Flow) if kept else None

    async def write(self, flow: Flow) -> None:
        """Keep a flow in place of an earlier one of its call."""
        await self._vault.put(SPACE, flow.key, msgspec.msgpack.encode(flow))

    async def end(self, key: str) -> None:
        """A flow is over."""
        await self._vault.put(SPACE, key, b"")

    async def waiting(self, mark: str = "") -> list[tuple[str, str, str]]:
        """Mark, thread and call of the flows that are not over, of all or of one authorization."""
        kept = await self._side.entries(SPACE)
        keys = [key.split("/") for key, value in kept.items() if value and key.endswith(mark)]
        return [(mark_, thread, call) for thread, call, mark_ in keys]

    async def forget_old(self, now: float) -> None:
        """Forget those whose URL is not good any more."""
        await self._side.forget(SPACE, now - LIFE)
