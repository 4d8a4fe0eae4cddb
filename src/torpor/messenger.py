"""What the runtime says to tool servers, made of what it knows: addresses, manifests, deadlines, answers."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

from torpor.core.codec import decode_head
from torpor.core.effects import Choose, Invoke
from torpor.core.errors import Refused
from torpor.ports import Row, Side, Store, Transport
from torpor.runtime.roster import Bridge
from torpor.tools.catalog import RapServer, known_manifest, read_manifest
from torpor.tools.mcp.servers import is_bridged

ANSWERS = "answers"
"""Space of the tool servers that have ever said whether they work on a call."""


class Home(Protocol):
    """Where calls go out from."""

    store: Store
    side: Side

    @property
    def servers(self) -> Mapping[str, RapServer]:
        """Tool servers as configured, by base URL."""

    async def callback_url(self, thread: str, call: str, server: str) -> str:
        """Where a tool server posts what comes of a call."""


class Messenger:
    """The way to tool servers for one call: endpoint, callback URL, body."""

    def __init__(self, home: Home, transport: Transport, bridge: Bridge | None = None) -> None:
        self._home = home
        self._transport = transport
        self._bridge = bridge
        self._answering: set[str] = set()

    async def manifest(self, server: str, user: str = "") -> bytes:
        """A server's manifest for a user, fetched and found valid."""
        if is_bridged(server):
            return await self._need_bridge(server).manifest(server, user)
        return await self._transport.discover(server)

    def has_changed(self, server: str, hash: str, user: str = "") -> bool:
        """Whether a server is known to have another manifest by now; those of RAP servers are kept."""
        return bool(self._bridge and is_bridged(server) and self._bridge.has_changed(server, hash, user))

    def _need_bridge(self, server: str) -> Bridge:
        if self._bridge is None:
            raise Refused(f"No server {server} is configured here.")
        return self._bridge

    async def invoke(self, row: Row, effect: Invoke) -> None:
        """Hand a call over once."""
        callback = await self._home.callback_url(row.thread, effect.call, effect.server)
        current = await self._home.store.row(row.thread) or row
        head = decode_head(current.head, current.shape)
        facts = {
            "name": effect.name,
            "arguments": effect.arguments,
            "call": effect.call,
            "thread": row.thread,
            "callback": callback,
            "ancestors": head.ancestors,
            "user_id": row.user_id,
            "trace": effect.trace or row.trace,
            "deadline": self._deadline(effect),
        }
        endpoint = await self._endpoint(row.thread, head.toolsets.get(effect.server, ""))
        await self._transport.invoke(effect.server, endpoint, facts, effect.call)

    def _deadline(self, effect: Invoke) -> str:
        """When the runtime will settle the call by itself; empty: never."""
        server = self._home.servers.get(effect.server)
        if server is None or not server.call_timeout or not effect.at:
            return ""
        return datetime.fromtimestamp(effect.at + server.call_timeout, UTC).isoformat(timespec="milliseconds")

    async def _endpoint(self, thread: str, manifest: str) -> str:
        """The URL that takes invocations, by the manifest that the thread has recorded; empty: ask again."""
        known = known_manifest(manifest)
        body = await self._home.side.get_blob(thread, manifest) if manifest and known is None else None
        if body is not None:
            known = read_manifest(body, manifest)
        return known.endpoint if known else ""

    async def cancel(self, row: Row, call: str, servers: tuple[str, ...]) -> None:
        """Tell servers that a call is no longer wanted; best effort, side by side."""
        told = (self._cancel(server, row, call) for server in servers)
        await asyncio.gather(*told)

    async def _cancel(self, server: str, row: Row, call: str) -> None:
        if not is_bridged(server):
            await self._transport.cancel(server, row.thread, call, row.trace)
        elif self._bridge is not None:
            await self._bridge.cancel(server, row.thread, call)

    async def closed(self, row: Row, servers: tuple[str, ...]) -> None:
        """Tell servers that a thread is closed; best effort, side by side."""
        rap = [server for server in servers if not is_bridged(server)]
        told = [self._transport.close_thread(server, row.thread, row.trace) for server in rap]
        if self._bridge is not None and len(rap) < len(servers):
            told.append(self._bridge.close_thread(row.thread))
        await asyncio.gather(*told)

    async def keeps_state(self, thread: str, manifest: str) -> bool:
        """Whether a manifest that is kept beside a thread says that its server has state of sessions."""
        body = await self._home.side.get_blob(thread, manifest)
        return body is not None and read_manifest(body, manifest).needs_migration

    async def keeps_state_now(self, server: str) -> bool:
        """The same, by the manifest that the server shows when it is asked."""
        return read_manifest(await self.manifest(server)).needs_migration

    def signs(self, server: str) -> bool:
        """Whether a server signs what it sends."""
        known = self._home.servers.get(server)
        return known is not None and known.secrets is not None

    async def migrate(self, server: str, session: str, destination: str, trace: str) -> None:
        """Have a server move a session; returns once it has."""
        await self._transport.migrate(server, session, destination, trace)

    async def choose(self, row: Row, effect: Choose) -> None:
        """Tell a server once what a person chose."""
        if is_bridged(effect.server):
            bridge = self._need_bridge(effect.server)
            await bridge.choose(row.thread, effect.call, effect.url, effect.value or str(effect.selected))
            return
        await self._transport.choose(
            effect.server, effect.url, effect.call, effect.selected, effect.id, row.trace
        )

    async def is_alive(self, row: Row, server: str, call: str) -> bool | None:
        """Whether a server still works on a call, or holds its subscription; None: nobody can tell.

        A server that has nothing at the path of that question counts as one that lost the call only if it
        has answered the question before.
        """
        if is_bridged(server):
            return None
        said = await self._transport.status(server, row.thread, call, row.trace)
        if said in ("alive", "dead"):
            await self._remember(server)
            return said == "alive"
        if said == "missing":
            return False if await self._has_answered(server) else None
        return False if said == "invalid" else None

    async def _remember(self, server: str) -> None:
        if server not in self._answering:
            await self._home.side.put_new(ANSWERS, server, b"1")
            self._answering.add(server)

    async def _has_answered(self, server: str) -> bool:
        return server in self._answering or await self._home.side.get(ANSWERS, server) is not None
