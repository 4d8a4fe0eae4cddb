"""Signing in at MCP servers: OAuth 2.1 as a wait that a person settles, be it days later.

A request that a server refuses for want of a token raises ``AuthorizationNeeded``. ``Authorizations.begin``
makes a consent URL of it for the call that waits; the browser comes back to any process of the store, which
hands what it brings to ``finish``. All that lies between is kept sealed in the store.
"""

import asyncio
import dataclasses
import hmac
import logging
from collections.abc import Awaitable, Callable
from copy import copy
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec

from torpor.core.errors import Broken, Refused, TorporError, Unavailable
from torpor.ports import Clock, Side
from torpor.tools.bridged import McpServer
from torpor.tools.mcp import attempts
from torpor.tools.mcp.attempts import Attempts
from torpor.tools.mcp.challenges import AuthorizationNeeded, Challenge
from torpor.tools.mcp.exchange import Rejected, Token, exchange, revoke
from torpor.tools.mcp.fetch import Bounds, Unclear
from torpor.tools.mcp.flows import LIFE, SCOPE, Flow, Flows, consent_url, fresh_secrets, key_of
from torpor.tools.mcp.grants import Grant, Grants, granted, mark_of
from torpor.tools.mcp.metadata import Protected, client_document, discover
from torpor.tools.mcp.registrations import Registrations, document_for, redirect_for
from torpor.tools.mcp.vault import Missing, Vault
from torpor.tools.tokens import Keys
from torpor.tools.tokens import Token as State

if TYPE_CHECKING:
    import httpx2

__all__ = ["AuthorizationNeeded", "Authorizations", "Challenge", "Consent", "Finished", "Missing", "Settled"]

REUSED = 86_400.0
"""Seconds for which a call that asks again is given the same URL."""
DISCOVERY_SECONDS = 45.0
"""For all that servers are asked before a person can be."""
KNOWN_SECONDS = 60.0
"""For which it is kept what they said."""
FAILED_SECONDS = 2.0
"""For which it is kept that they could not be asked, so that calls which come together do not queue up."""
KNOWN_MOST = 256
TIDY_EVERY = 3_600.0
CODE_LIMIT = 8_192
REGISTERED_ANEW = frozenset({"invalid_client", "invalid_scope", "unauthorized_client"})
"""Error codes that say that our client is not known, or not as it should be."""
ERRORS = REGISTERED_ANEW | {
    "consent_required", "interaction_required", "invalid_request", "invalid_target",
    "login_required", "server_error", "temporarily_unavailable", "unsupported_response_type",
}  # fmt: skip
"""Error codes that are repeated to whoever reads the log; nothing else of what a browser brings is."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Consent:
    """Where a person signs in for a call. ``url`` stays out of histories and logs."""

    url: str = dataclasses.field(repr=False)
    key: str
    """Names the authorization that is asked for: the same for all calls that one consent lets go on."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """What came of a browser's return, in words for the person; ``status`` as of HTTP."""

    ok: bool
    title: str
    text: str
    status: int = 200


Settled = Callable[[str, str, str], Awaitable[None]]
"""Told of each waiting call (thread, call, outcome), perhaps more than once. Outcomes: ``authorized`` (go
on), ``declined`` (the person does not want to), ``failed`` (try again: it will raise ``AuthorizationNeeded``
anew, and ``begin`` then gives another URL)."""

AGAIN = "The waiting call asks again; look for its new link where you found this one."
_INVALID = Finished(
    False, "This link is not valid", "It is not one of ours, or not whole. Nothing was changed.", 400
)
_OVER = Finished(
    False, "This link is over", "It was used already, or is too old. Nothing was changed by opening it.", 410
)
_MIXED = Finished(
    False,
    "This answer is not from the right place",
    "Another authorization server answered than the one that was asked. Nothing was changed.",
    400,
)
_BUSY = Finished(False, "Not yet", "It is being worked on. Reload this page in a minute.", 503)


class Authorizations:
    """Tokens for MCP servers by server and user. Made with ``await Authorizations.open(...)``.

    ``place`` gives the public base URL of a process that serves the way back; it raises ``Unavailable`` if
    there is none. ``secret``: what tokens are sealed with (``TORPOR_SECRET``); empty: a key in the store.
    Threads without a user share one, the empty one.
    """

    def __init__(
        self, side: Side, vault: Vault, keys: Keys, clock: Clock, place: Callable[[], Awaitable[str]]
    ) -> None:
        self.settled: Settled | None = None
        """Set by whoever has calls waiting. Until then nobody is told; see ``recover``."""
        self._side = side
        self._keys = keys
        self._clock = clock
        self._place = place
        self._attempts = Attempts(side)
        self._grants = Grants(side, vault, clock, self._attempts)
        self._flows = Flows(side, vault)
        self._registrations = Registrations(side, vault, clock)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._known: dict[tuple[McpServer, str, str], tuple[float, Protected | Refused | Unavailable]] = {}
        self._tidied = float("-inf")

    @classmethod
    async def open(
        cls, side: Side, keys: Keys, clock: Clock, place: Callable[[], Awaitable[str]], *, secret: str = ""
    ) -> "Authorizations":
        """Ready to use; makes the store's key if there is none. ``Refused`` for too short a secret."""
        return cls(side, await Vault.open(side, secret), keys, clock, place)

    def auth(self, server: McpServer, user: str) -> "httpx2.Auth":
        """What signs the requests to a server for a user; ``Sessions`` takes it as ``auth``.

        Raises ``AuthorizationNeeded`` out of the request, ``Unavailable`` while a token cannot be renewed, or
        ``Refused`` if the server does not take what was just granted. The latest ``AuthorizationNeeded``
        stays on it as ``needed``, where a transport swallows errors.
        """
        from torpor.tools.mcp.bearer import Bearer

        return Bearer(server, user, self._grants)

    async def begin(self, needed: AuthorizationNeeded, thread: str, call: str) -> Consent | None:
        """A consent URL for a call that waits; None if it may be tried again at once. Asks the servers.

        A repeat gives the same URL. The person may be back before the caller has put down that it waits: ask
        ``is_waiting`` after that. ``Refused`` if the server's metadata cannot be used or no client can be
        registered (the text says what to configure); ``Unavailable`` if it cannot be asked now.
        """
        server, challenge = needed.server, needed.challenge
        mark = mark_of(server, needed.user)
        await self._tidy()
        async with self._turn(mark):
            grant = await self._grants.read(mark)
            if grant is not None and grant.id != challenge.used and grant.covers(challenge.scope):
                return None
            place = await self._place()
            kept = await self._flows.read(key_of(mark, thread, call))
            if kept is not None and self._serves(kept, redirect_for(place, server.name), challenge):
                return Consent(kept.url, mark)
            flow = await self._flow(needed, grant, place)
        flow = msgspec.structs.replace(flow, mark=mark, thread=thread, call=call)
        state = await self._keys.sign(thread, call, flow.state_scope)
        flow = msgspec.structs.replace(flow, url=consent_url(flow, state))
        await self._flows.write(flow)
        return None if await self._came_meanwhile(flow, grant, challenge) else Consent(flow.url, mark)

    async def _came_meanwhile(self, flow: Flow, before: Grant | None, challenge: Challenge) -> bool:
        """Whether another call's consent came before this flow was there to be told of it."""
        grant = await self._grants.read(flow.mark)
        if (
            grant is None
            or (before is not None and grant.id == before.id)
            or not grant.covers(challenge.scope)
        ):
            return False
        await self._flows.end(flow.key)
        return True

    def _turn(self, mark: str) -> asyncio.Lock:
        lock = self._turns.get(mark)
        if lock is None:
            lock = self._turns[mark] = asyncio.Lock()
        return lock

    def _serves(self, flow: Flow, redirect: str, challenge: Challenge) -> bool:
        """Whether an earlier flow of a call is still what it needs."""
        asked = set(challenge.scope.split()) <= set(flow.scope.split())
        young = self._clock.now() - flow.begun < REUSED
        return not flow.done and asked and young and flow.redirect == redirect

    async def _flow(self, needed: AuthorizationNeeded, grant: Grant | None, place: str) -> Flow:
        server = needed.server
        bounds = Bounds(tuple(sorted(server.reach)), server.allow_http)
        protected = await self._protected(server, needed.challenge, bounds)
        before = grant.scope.split() if grant is not None else []
        scope = " ".join(dict.fromkeys([*before, *protected.scope.split()]))
        client = await self._registrations.client(server, protected.issuer, place, scope, bounds)
        nonce, verifier = fresh_secrets()
        return Flow(
            nonce=nonce,
            verifier=verifier,
            begun=self._clock.now(),
            server=server.name,
            user=needed.user,
            redirect=client.redirect,
            issuer=protected.issuer,
            client=client,
            bounds=bounds,
            resource=protected.resource,
            scope=scope,
        )

    async def _protected(self, server: McpServer, challenge: Challenge, bounds: Bounds) -> Protected:
        """What servers say of themselves, asked once for calls that come together."""
        key = (server, challenge.resource_metadata, challenge.scope)
        until, known = self._known.get(key, (0.0, None))
        if known is None or self._clock.now() >= until:
            known = await self._discovered(server, challenge, bounds)
            seconds = KNOWN_SECONDS if isinstance(known, Protected) else FAILED_SECONDS
            if len(self._known) >= KNOWN_MOST:
                self._known.clear()
            self._known[key] = (self._clock.now() + seconds, known)
        if isinstance(known, Protected):
            return known
        raise copy(known)

    async def _discovered(
        self, server: McpServer, challenge: Challenge, bounds: Bounds
    ) -> Protected | Refused | Unavailable:
        try:
            async with asyncio.timeout(DISCOVERY_SECONDS):
                return await discover(server, challenge, bounds)
        except TimeoutError:
            return Unavailable(f"Where to sign in at {server.name!r} was not to be had in time.")
        except (Refused, Unavailable) as error:
            return error

    async def has_token(self, server: McpServer, user: str, scope: str = "") -> bool:
        """Whether there is a token that covers the scopes; perhaps one that has to be renewed first."""
        grant = await self._grants.read(mark_of(server, user))
        return grant is not None and grant.covers(scope)

    async def is_waiting(self, key: str, thread: str, call: str) -> bool:
        """Whether a consent is still to come for a call."""
        flow = await self._flows.read(key_of(key, thread, call))
        return flow is not None and not flow.done

    async def withdraw(self, key: str, thread: str, call: str) -> None:
        """A call does not wait any more: its URL is over."""
        await self._flows.end(key_of(key, thread, call))

    async def finish(
        self, name: str, state: str, code: str = "", *, iss: str = "", error: str = ""
    ) -> Finished:
        """What a browser brought back to the place of a server's name. Never raises for what it brought."""
        try:
            return await self._finish(name, await self._keys.read(state), code, iss, error)
        except Refused:
            return _INVALID
        except (Unavailable, Broken) as problem:
            logger.warning("a sign-in at %r could not be finished: %s", name, problem)
            return _BUSY

    async def _finish(self, name: str, state: State, code: str, iss: str, error: str) -> Finished:
        kind, _, rest = state.scope.partition("@")
        mark, _, nonce = rest.partition(".")
        if kind != SCOPE:
            return _INVALID
        flow = await self._flows.read(key_of(mark, state.thread, state.call))
        if flow is None or flow.done or not hmac.compare_digest(flow.nonce, nonce):
            return _OVER
        if self._clock.now() - flow.begun > LIFE:
            return _OVER
        if flow.server != name or ((iss or flow.issuer.tells) and iss != flow.issuer.issuer):
            logger.warning("a sign-in at %r was answered by another authorization server", flow.server)
            return _MIXED
        if error:
            return await self._refused(flow, error)
        if not 0 < len(code) <= CODE_LIMIT:
            return _INVALID
        return await self._redeem(flow, code)

    async def _refused(self, flow: Flow, error: str) -> Finished:
        """The authorization server gave no code."""
        if error == "access_denied":
            return await self._given_up(flow, "declined")
        if error in REGISTERED_ANEW:
            await self._registrations.forget(flow.issuer, flow.client)
        return await self._failed(flow, Refused(error if error in ERRORS else "for a reason of its own"))

    async def _redeem(self, flow: Flow, code: str) -> Finished:
        attempt = await self._attempts.take(f"code/{flow.nonce}")
        if attempt is None:
            return _BUSY
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": flow.redirect,
            "code_verifier": flow.verifier,
            "resource": flow.resource,
        }
        try:
            token = await exchange(flow.issuer, flow.client, flow.bounds, form)
        except Rejected as error:
            if error.kind in REGISTERED_ANEW:
                await self._registrations.forget(flow.issuer, flow.client)
            return await self._failed(flow, error)
        except (Refused, Unclear) as error:
            return await self._failed(flow, error)
        except Unavailable:
            await self._attempts.end(attempt, lost=False)
            return _BUSY
        return await self._agreed(flow, token)

    async def _agreed(self, flow: Flow, token: Token) -> Finished:
        """Keep the token, then tell all calls that wait for this authorization."""
        now = self._clock.now()
        fields = {name: getattr(flow, name) for name in ("issuer", "client", "bounds", "resource", "scope")}
        await self._grants.write(flow.mark, granted(token, now, consented=now, **fields))
        await self._flows.write(msgspec.structs.replace(flow, done=True, verifier="", url=""))
        for mark, thread, call in await self._flows.waiting(flow.mark):
            await self._tell(mark, thread, call, "authorized")
        whose = f" for the user {flow.user!r}" if flow.user else ""
        text = f"The MCP server {flow.server!r} may be used{whose} now. What waited for it goes on by itself."
        return Finished(True, "You are signed in", f"{text} You can close this page.")

    async def _failed(self, flow: Flow, error: TorporError) -> Finished:
        logger.warning("a sign-in at %r failed: %s", flow.server, error)
        return await self._given_up(flow, "failed")

    async def _given_up(self, flow: Flow, outcome: str) -> Finished:
        await self._flows.end(flow.key)
        await self._tell(flow.mark, flow.thread, flow.call, outcome)
        if outcome == "declined":
            text = f"The MCP server {flow.server!r} is not used. The call that asked for it is told."
            return Finished(False, "You have declined", text)
        text = f"The authorization server of {flow.server!r} did not complete it. {AGAIN}"
        return Finished(False, "Signing in failed", text, 502)

    async def _tell(self, mark: str, thread: str, call: str, outcome: str) -> bool:
        """Tell of one call. If that fails it is told again by ``recover``, or finds out by itself."""
        if self.settled is None:
            return False
        try:
            await self.settled(thread, call, outcome)
        except TorporError as error:
            logger.warning("call %r of %r could not be told that it is %s: %s", call, thread, outcome, error)
            return False
        await self._flows.end(key_of(mark, thread, call))
        return True

    async def recover(self) -> int:
        """Tell of calls whose consent came where nobody could be told, or a process died; says how many."""
        told = 0
        for mark, thread, call in await self._flows.waiting():
            grant = await self._grants.read(mark)
            flow = await self._flows.read(key_of(mark, thread, call))
            if grant is not None and flow is not None and (flow.done or flow.begun < grant.consented):
                told += await self._tell(mark, thread, call, "authorized")
        return told

    async def document(self, name: str) -> dict[str, object]:
        """What an authorization server reads of our client for an MCP server of this name."""
        place = await self._place()
        return client_document(document_for(place, name), redirect_for(place, name))

    async def forget(self, server: McpServer, user: str = "") -> bool:
        """Revoke and drop a token; False if there was none."""
        mark = mark_of(server, user)
        grant = await self._grants.read(mark)
        await self._grants.drop(mark)
        await self._registrations.unpin(server)
        if grant is not None:
            await revoke(grant.issuer, grant.client, grant.bounds, grant.refresh or grant.access)
        return grant is not None

    async def _tidy(self) -> None:
        """Forget what is too old to be of use, now and then."""
        now = self._clock.now()
        if now - self._tidied >= TIDY_EVERY:
            self._tidied = now
            await self._flows.forget_old(now)
            await self._side.forget(attempts.SPACE, now - LIFE)

    async def close(self) -> None:
        """Let renewals under way come to their end. Idempotent."""
        await self._grants.close()
