"""What tests of signing in share: a store, an authorization server, and all that lies between."""

import asyncio

import httpx2
import pytest

from tests.mcp.granting import Granting, agree
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.authorization import AuthorizationNeeded, Authorizations, Finished
from torpor.tools.tokens import Keys

PLACE = "http://127.0.0.1:1"


class Moved(FakeClock):
    """Moves only when told to, but whoever sleeps looks again soon."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


class World:
    """A store, an authorization server, and what there is to sign in between them."""

    def __init__(self, desk: Granting) -> None:
        self.desk = desk
        self.clock = Moved()
        self.store = MemoryStore(self.clock)
        self.server = McpServer("files", url=desk.mcp)
        self.told: list[tuple[str, str, str]] = []
        self.place = PLACE

    async def open(self, secret: str = "") -> Authorizations:
        """As a process does that is started."""
        keys = await Keys.open(self.store)
        found = await Authorizations.open(self.store, keys, self.clock, self._place, secret=secret)
        found.settled = self._settled
        return found

    async def _place(self) -> str:
        return self.place

    async def _settled(self, thread: str, call: str, outcome: str) -> None:
        self.told.append((thread, call, outcome))

    async def ask(
        self, here: Authorizations, user: str = "ann", server: McpServer | None = None
    ) -> httpx2.Response:
        """One request to the resource."""
        server = server or self.server
        async with httpx2.AsyncClient(verify=False, auth=here.auth(server, user)) as client:
            return await client.post(server.url or "", json={})

    async def needed(
        self, here: Authorizations, user: str = "ann", server: McpServer | None = None
    ) -> AuthorizationNeeded:
        """What a request needs that is refused."""
        with pytest.raises(AuthorizationNeeded) as raised:
            await self.ask(here, user, server)
        return raised.value

    async def url(
        self, here: Authorizations, user: str = "ann", thread: str = "t1", server: McpServer | None = None
    ) -> str:
        """Where a person signs in for a call."""
        consent = await here.begin(await self.needed(here, user, server), thread, "c1-0")
        assert consent is not None
        return consent.url

    async def finish(self, here: Authorizations, url: str, name: str = "files") -> Finished:
        """The person agrees, and comes back."""
        back = await agree(url)
        assert back["to"] == f"{self.place}/oauth/callback/{name}"
        return await here.finish(
            name, back["state"], back.get("code", ""), iss=back.get("iss", ""), error=back.get("error", "")
        )

    async def sign_in(self, here: Authorizations, user: str = "ann", thread: str = "t1") -> None:
        """All of it."""
        assert (await self.finish(here, await self.url(here, user, thread))).ok

    async def dump(self) -> bytes:
        """All small values of the store, as they lie there."""
        found = b""
        for space in self.store._spaces:
            for key, value in (await self.store.entries(space)).items():
                found += key.encode() + value
        return found
