"""Tokens for MCP servers, kept sealed and renewed in time, by one process at a time.

A refresh token is good for one use at many servers, so nobody uses one that another is using, and none that
was answered is used again. Where an answer was lost, the token is tried once more: if its server still takes
it, no person is troubled; if not, a person has to sign in, as without the try.
"""

import asyncio
import hashlib
import logging
import secrets

import msgspec

from torpor.core.errors import Refused, Unavailable
from torpor.ports import Clock, Side
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.attempts import Attempt, Attempts
from torpor.tools.mcp.exchange import Rejected, Token, exchange
from torpor.tools.mcp.fetch import Bounds, Unclear
from torpor.tools.mcp.metadata import Client, Issuer
from torpor.tools.mcp.vault import Vault

SPACE = "mcp-tokens"
MARGIN = 60.0
"""Seconds before its end from which on a token is renewed; less for one that lives shortly."""
LOST_MOST = 2
"""Uses of a refresh token whose answers were lost, after which it is given up."""
PAUSE = 5.0
"""Seconds after a failure for which this process does not try again."""
LOOK_SECONDS = 0.05
"""After which a token that another process renews is looked for, first; then less often."""
LOOK_MOST = 1.0
FINAL = frozenset({
    "invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "unsupported_grant_type",
    "no_token", "unusable",
})  # fmt: skip
"""Error codes after which a refresh token is of no more use."""

logger = logging.getLogger(__name__)


class Grant(msgspec.Struct, frozen=True):
    """What a person has granted for one user at one server, as of its latest renewal."""

    id: str
    """Another one after each renewal."""
    access: str
    consented: float
    """When the person agreed."""
    issuer: Issuer
    client: Client
    bounds: Bounds
    resource: str
    scope: str = ""
    refresh: str = ""
    renew_at: float = 0.0
    expires: float = 0.0
    """0: it is not known when."""

    def __repr__(self) -> str:
        return f"Grant({self.id!r})"

    def covers(self, scope: str) -> bool:
        """Whether all scopes of a list are granted."""
        return set(scope.split()) <= set(self.scope.split())


def mark_of(server: McpServer, user: str) -> str:
    """Names what a user may be granted at a server. Another URL under the same name is another server."""
    named = msgspec.msgpack.encode((server.address, server.url or "", user))
    return hashlib.sha256(named).hexdigest()[:40]


def granted(token: Token, now: float, **rest: object) -> Grant:
    """A new grant of what a token says; ``rest`` are the other fields."""
    ends = {}
    if token.seconds:
        margin = min(MARGIN, token.seconds / 10)
        ends = {"expires": now + token.seconds, "renew_at": now + token.seconds - margin}
    scope = rest.pop("scope", "") if token.scope is None else token.scope
    fields = {**rest, **ends, "scope": scope, "access": token.access, "refresh": token.refresh}
    return Grant(id=secrets.token_hex(8), **fields)  # type: ignore[arg-type]


class Grants:
    """Grants by mark."""

    def __init__(self, side: Side, vault: Vault, clock: Clock, attempts: Attempts) -> None:
        self._side = side
        self._vault = vault
        self._clock = clock
        self._attempts = attempts
        self._renewing: dict[str, asyncio.Task[Grant | None]] = {}
        self._pauses: dict[str, float] = {}

    async def read(self, mark: str) -> Grant | None:
        """What is granted now, whether its token is still good or not."""
        kept = await self._vault.get(SPACE, mark)
        return msgspec.msgpack.decode(kept, type=Grant) if kept else None

    async def write(self, mark: str, grant: Grant) -> None:
        """Keep a grant in place of any other."""
        await self._vault.put(SPACE, mark, msgspec.msgpack.encode(grant))

    async def drop(self, mark: str, id: str = "") -> None:
        """Forget a grant; with an ``id`` only this one."""
        kept = await self.read(mark)
        if not id or (kept is not None and kept.id == id):
            await self._vault.put(SPACE, mark, b"")

    async def current(self, mark: str) -> Grant | None:
        """A grant whose token is good, renewed if need be; None if a person has to agree first.

        ``Unavailable`` if it has to be renewed and cannot be now.
        """
        grant, now = await self.read(mark), self._clock.now()
        if grant is None or not grant.expires or now < grant.renew_at:
            return grant
        is_good = now < grant.expires
        if not grant.refresh:
            if not is_good:
                await self.drop(mark, grant.id)
            return grant if is_good else None
        try:
            return await self.after(mark, grant.id)
        except Unavailable:
            if is_good:
                return grant
            raise

    async def after(self, mark: str, id: str) -> Grant | None:
        """The grant that takes the place of the one of this id, which is renewed unless it was already.

        A renewal goes on when its caller is cancelled: what it brings would be lost otherwise.
        """
        task = self._renewing.get(id)
        if task is None:
            task = asyncio.create_task(self._renew(mark, id), name="torpor-mcp-renewal")
            self._renewing[id] = task
            task.add_done_callback(lambda done: self._is_over(id, done))
        return await asyncio.shield(task)

    def _is_over(self, id: str, task: asyncio.Task[Grant | None]) -> None:
        self._renewing.pop(id, None)
        if not task.cancelled():
            task.exception()  # whoever waits has it; perhaps nobody does any more

    def is_new(self, grant: Grant, seconds: float) -> bool:
        """Whether a person has agreed within so many seconds."""
        return self._clock.now() - grant.consented < seconds

    async def close(self) -> None:
        """Let what is being renewed come to its end."""
        await asyncio.gather(*self._renewing.values(), return_exceptions=True)

    async def _renew(self, mark: str, id: str) -> Grant | None:
        wait = LOOK_SECONDS
        while True:
            grant = await self.read(mark)
            if grant is None or grant.id != id or not grant.refresh:
                return grant if grant is not None and grant.id != id else None
            self._check_pause(mark)
            attempt = await self._attempts.take(id)
            if attempt is not None:
                return await self._try(mark, grant, attempt)
            await self._clock.sleep(wait)
            wait = min(wait * 2, LOOK_MOST)

    def _check_pause(self, mark: str) -> None:
        left = self._pauses.get(mark, 0.0) - self._clock.now()
        if left > 0:
            raise Unavailable("A token could not be renewed just now.", retry_after=left)
        self._pauses.pop(mark, None)

    async def _try(self, mark: str, grant: Grant, attempt: Attempt) -> Grant | None:
        kept = await self.read(mark)
        if kept is None or kept.id != grant.id:  # it was renewed before the attempt was taken
            return kept
        if attempt.count.lost >= LOST_MOST:
            await self.drop(mark, grant.id)
            return None
        form = {"grant_type": "refresh_token", "refresh_token": grant.refresh, "resource": grant.resource}
        try:
            token = await exchange(grant.issuer, grant.client, grant.bounds, form)
        except Rejected as error:
            return await self._rejected(mark, grant, attempt, error)
        except (Refused, Unavailable) as error:
            raise await self._put_off(mark, attempt, error) from None
        return await self._renewed(mark, grant, token)

    async def _put_off(self, mark: str, attempt: Attempt, error: Refused | Unavailable) -> Unavailable:
        """Leave the token as it is, for another attempt after a while."""
        await self._attempts.end(attempt, lost=isinstance(error, Unclear | Rejected))
        wait = getattr(error, "retry_after", None) or PAUSE
        self._pauses[mark] = self._clock.now() + wait
        return Unavailable(f"A token could not be renewed: {error}", retry_after=wait)

    async def _renewed(self, mark: str, grant: Grant, token: Token) -> Grant | None:
        """Keep what a renewal brought, unless a person has agreed anew meanwhile."""
        kept = await self.read(mark)
        if kept is None or kept.id != grant.id:
            return kept
        fields = {name: getattr(grant, name) for name in ("issuer", "client", "bounds", "resource", "scope")}
        token = msgspec.structs.replace(token, refresh=token.refresh or grant.refresh)
        new = granted(token, self._clock.now(), consented=grant.consented, **fields)
        await self.write(mark, new)
        return new

    async def _rejected(self, mark: str, grant: Grant, attempt: Attempt, error: Rejected) -> Grant | None:
        logger.info("a token could not be renewed: %s", error)
        if error.kind not in FINAL:
            raise await self._put_off(mark, attempt, error)
        kept = await self.read(mark)
        if kept is not None and kept.id != grant.id:
            return kept
        await self.drop(mark, grant.id)
        return None
