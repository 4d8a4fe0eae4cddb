"""Supervised connections to the MCP servers of one process."""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.ports import Side
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.challenges import AuthorizationNeeded
from torpor.tools.mcp.faults import Lost, SignInNeeded
from torpor.tools.mcp.listing import Listing, Offered, fingerprint, sign_in_listing
from torpor.tools.mcp.session import Progress, Session, Task

if TYPE_CHECKING:
    import httpx2

    from torpor.tools.mcp.connection import Connection

__all__ = ["MANIFESTS", "Offered", "Progress", "Session", "Sessions", "Task"]

logger = logging.getLogger(__name__)

MANIFESTS = "mcp-manifests"
"""Space of the manifests that were made last, by address (and user, where the server knows users)."""

FIRST_WAIT = 5.0
"""Seconds that are waited for a server of which nothing is known yet; it goes on starting afterwards."""
LONGEST_BACKOFF = 60.0
STEADY = 30.0
"""Seconds after which a connection that ends is no failure in a row any more."""
IDLE = 900.0
"""Seconds after which a connection of one user is let go."""
SOON = 2.0
"""Seconds after which a server that is still starting should be asked again."""


class _Key(NamedTuple):
    """Who shares a connection."""

    address: str
    root: str
    user: str


class _Kept(msgspec.Struct, frozen=True):
    """A manifest as it is kept, and the configuration it belongs to."""

    of: str
    manifest: str


class _Place:
    """A connection, those before it, and when the next one may be made."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.failure: TorporError | None = None
        self.failures = 0
        self.not_before = 0.0
        self.begun = 0.0
        self.used = 0.0
        self.plain = False

    @property
    def live(self) -> "Connection | None":
        """The connection, if it takes calls or may come to."""
        one = self.connection
        return None if one is None or one.has_ended or (one.is_ready and not one.is_usable) else one

    def backoff(self) -> float:
        """Seconds until the next try: none after the first failure, then more and more."""
        return 0.0 if self.failures <= 1 else min(2.0 ** (self.failures - 2), LONGEST_BACKOFF)


class Sessions:
    """Connections to MCP servers, shared by threads unless a server keeps state by connection.

    ``auth`` gives what signs the requests to servers that ask for it, by server and user.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        side: Side,
        *,
        auth: "Callable[[McpServer, str], httpx2.Auth] | None" = None,
    ) -> None:
        self._servers = {server.address: server for server in servers}
        self._side = side
        self._auth = auth
        self._places: dict[_Key, _Place] = {}
        self._manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        self._signed = {one.address for one in self._servers.values() if one.oauth is not None}
        """Servers that have asked somebody to sign in."""
        self._connections: set[Connection] = set()
        """All that have not ended."""
        self._work: set[asyncio.Task[Any]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False

    def server(self, address: str) -> McpServer:
        """The server of an address. ``Refused`` if none has it."""
        found = self._servers.get(address)
        if found is None:
            raise Refused(f"No MCP server is configured as {address.removeprefix('mcp:')!r}.")
        if found.is_reference:
            raise Refused(
                f"The settings configure no MCP server {found.name!r}: it needs a command or a url."
            )
        return found

    def add(self, server: McpServer) -> None:
        """Make a server known, or put another in the place of the one of its address."""
        if self._servers.get(server.address) == server:
            return
        self._servers[server.address] = server
        if server.oauth is not None:
            self._signed.add(server.address)
        for key in [key for key in self._places if key.address == server.address]:
            old = self._places.pop(key).connection
            if old is not None and old.is_ready:
                old.retire()
            elif old is not None:
                self._aside(old.close())

    # -------------------------------------------------------------- manifests

    async def manifest(self, address: str, user: str = "") -> bytes:
        """The server's tools as a manifest: from a live connection, else the one made last.

        ``Unavailable`` while the server is still starting and nothing is known of it; ``Refused`` if it
        cannot be started at all. Of a server at which the user has to sign in first: a tool to do so.
        """
        server = self.server(address)
        known = await self._known(server, user)
        key = self._key(server, "", user)
        if known is not None and (server.per_thread or self._live(key) or self._is_nobodys(server, user)):
            return known
        try:
            connection = await self._connected(server, "", user, known is not None, FIRST_WAIT)
        except AuthorizationNeeded:
            known = await self._known(server, user)
            return sign_in_listing(server).manifest if known is None else known
        except TorporError:
            if known is None:
                raise
            return known
        if server.per_thread and connection is not None:
            connection.retire()
        found = await self._known(server, user)
        if found is None:
            raise self._starting(server)
        return found

    def has_changed(self, address: str, hash: str, user: str = "") -> bool:
        """Whether a manifest is known to be no longer the current one. Asks nobody."""
        server = self._servers.get(address)
        if server is None:
            return False
        known = self._manifests.get((address, self._user(server, user)))
        return known is not None and known[0] != hash

    async def _known(self, server: McpServer, user: str) -> bytes | None:
        """The manifest made last: by this process, or by another with the same configuration."""
        place = (server.address, self._user(server, user))
        if place not in self._manifests:
            body = await self._side.get(MANIFESTS, " ".join(filter(None, place)))
            kept = _kept(body)
            if kept is not None and kept.of == fingerprint(server):
                manifest = kept.manifest.encode()
                self._manifests.setdefault(place, (hashlib.sha256(manifest).hexdigest(), manifest))
        found = self._manifests.get(place)
        return None if found is None else found[1]

    def _listed(self, key: _Key, listing: Listing) -> None:
        server = self._servers[key.address]
        self._problems[key.address] = listing.problems
        kept = msgspec.json.encode(_Kept(fingerprint(server), listing.manifest.decode()))
        for user in {key.user, ""}:  # those who do not say for whom they ask get what was listed last
            known = self._manifests.get((key.address, user))
            self._manifests[key.address, user] = (listing.hash, listing.manifest)
            if known is None or known[0] != listing.hash:
                self._aside(self._side.put(MANIFESTS, " ".join(filter(None, (key.address, user))), kept))

    # -------------------------------------------------------------- sessions

    async def session(self, address: str, root: str = "", user: str = "") -> Session:
        """A working connection, made if there is none, within the server's ``start_timeout``.

        ``Unavailable`` (with ``retry_after``), ``Refused`` or ``AuthorizationNeeded``.
        """
        server = self.server(address)
        connection = await self._connected(server, root, user, False, server.start_timeout)
        if connection is None:
            raise self._starting(server)
        from torpor.tools.mcp.live import LiveSession

        signed = connection.is_signed
        return LiveSession(connection, lambda fault: self._sign_in_needed(server, fault, signed=signed))

    async def close_thread(self, root: str) -> None:
        """End the connections that only this root thread uses."""
        if root:
            places = [self._places.pop(key) for key in list(self._places) if key.root == root]
            ending = [place.connection.close() for place in places if place.connection is not None]
            await asyncio.gather(*ending, return_exceptions=True)

    async def close(self) -> None:
        """End all connections and processes. Idempotent."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._places.clear()
        ending = [one.close() for one in self._connections]
        await asyncio.gather(*ending, *self._work, return_exceptions=True)

    def problems(self, address: str) -> tuple[str, ...]:
        """What is wrong with a server, in words: tools left out, noise, its last failures."""
        told = list(self._problems.get(address, ()))
        for key, place in self._places.items():
            if key.address == address:
                account = "" if place.connection is None else place.connection.noise
                told += [str(one) for one in (place.failure, account) if one]
        return tuple(dict.fromkeys(told))

    # -------------------------------------------------------------- connections

    async def _connected(
        self, server: McpServer, root: str, user: str, in_background: bool, seconds: float
    ) -> "Connection | None":
        """A connection that is up; None if it is not within so many seconds, but starts."""
        await _sdk()
        until = _now() + seconds
        while True:
            key = self._key(server, root, user)
            place = self._places.setdefault(key, _Place())
            connection = self._wanted(server, key, place)
            if in_background:
                return connection
            plain, place.used = place.plain, _now()
            try:
                return connection if await connection.ready(max(until - _now(), 0.0)) else None
            except SignInNeeded as fault:
                needed = self._sign_in_needed(server, fault, signed=connection.is_signed)
                if not isinstance(needed, Lost):
                    raise needed from None
            except Refused:
                raise
            except TorporError:
                if plain or not place.plain:
                    raise

    def _wanted(self, server: McpServer, key: _Key, place: _Place) -> "Connection":
        """The connection of a place; a new one is begun if it has none and may have one."""
        if self._is_closed:
            raise Unavailable("The connections to MCP servers are closed.")
        live = place.live
        if live is not None:
            return live
        wait = place.not_before - _now()
        if wait > 0:
            if isinstance(place.failure, Refused):
                raise place.failure
            raise Unavailable(str(place.failure), retry_after=wait)
        from torpor.tools.mcp.connection import Connection

        place.connection = Connection(
            server,
            auth=self._auth(server, key.user) if self._auth and self._is_signed(server) else None,
            plain=place.plain,
            on_listing=lambda listing: self._listed(key, listing),
            on_end=lambda ended: self._ended(place, ended),
        )
        place.begun = _now()
        self._connections.add(place.connection)
        place.connection.begin()
        self._sweep_later(key)
        return place.connection

    def _ended(self, place: _Place, ended: "Connection") -> None:
        """A connection is no more: settle when there may be another one."""
        self._connections.discard(ended)
        if place.connection is not ended:
            return
        if ended.is_ready and (ended.server.url is not None or _now() - place.begun > STEADY):
            place.failures = 0
        elif not isinstance(ended.failure, SignInNeeded | AuthorizationNeeded):
            place.failures += 1
        place.failure = ended.failure
        if not ended.is_ready and ended.server.url is None and not isinstance(ended.failure, Refused):
            place.plain = not place.plain
        place.not_before = _now() + place.backoff()

    def _starting(self, server: McpServer) -> Unavailable:
        begun = [place.connection for key, place in self._places.items() if key.address == server.address]
        told = "; ".join(filter(None, (one.transport.account() for one in begun if one is not None)))
        words = f"The MCP server {server.name!r} is still starting{f' ({told})' if told else ''}."
        return Unavailable(words, retry_after=SOON)

    def _key(self, server: McpServer, root: str, user: str) -> _Key:
        return _Key(server.address, root if server.per_thread else "", self._user(server, user))

    def _user(self, server: McpServer, user: str) -> str:
        """The user whose connection is used: nobody's, until the server has asked somebody to sign in."""
        return user if self._is_signed(server) else ""

    def _is_signed(self, server: McpServer) -> bool:
        return server.address in self._signed

    def _is_nobodys(self, server: McpServer, user: str) -> bool:
        """Whether there is no use in connecting: somebody has to sign in, and it is not said who."""
        return self._is_signed(server) and not user

    def _live(self, key: _Key) -> bool:
        place = self._places.get(key)
        return place is not None and place.connection is not None and place.connection.is_usable

    def _sign_in_needed(self, server: McpServer, fault: SignInNeeded, *, signed: bool) -> TorporError:
        """What a 401 means: from now on requests to the server are signed, each user's for itself."""
        has_header = any(name.lower() == "authorization" for name in server.headers)
        if self._auth is None or has_header or signed:
            hint = (
                "check the header Authorization" if has_header else "give it a header Authorization, or oauth"
            )
            return Refused(f"The MCP server {server.name!r} cannot be used: {fault}; {hint}.")
        self._signed.add(server.address)
        return Lost(f"The MCP server {server.name!r} wants a person to sign in.", sent=False)

    # -------------------------------------------------------------- the rest

    def _sweep_later(self, key: _Key) -> None:
        if key.user and self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(IDLE / 2, self._sweep)

    def _sweep(self) -> None:
        """Let go of users' connections that nobody has used for long."""
        self._sweeper = None
        for key in [key for key in self._places if key.user]:
            place = self._places[key]
            connection = place.connection
            if connection is None or connection.has_ended:
                del self._places[key]
            elif _now() - place.used > IDLE and connection.flights.is_empty:
                connection.retire()
            self._sweep_later(key)

    def _aside(self, work: Any) -> None:
        async def done() -> None:
            try:
                await work
            except TorporError as error:
                logger.info("a manifest was not kept: %s", error)

        task = asyncio.create_task(done())
        self._work.add(task)
        task.add_done_callback(self._work.discard)


_loading, _loaded = threading.Lock(), threading.Event()


async def _sdk() -> None:
    """Load the SDK, in a thread: it takes seconds. ``Refused`` if it is not installed."""
    if _loaded.is_set():
        return
    try:
        await asyncio.to_thread(_load)
    except ImportError as error:
        raise Refused(
            f"MCP servers need the MCP SDK ({error.name} is missing): pip install 'torpor[mcp]'."
        ) from None


def _load() -> None:
    """One after the other: a module that another thread is half through with cannot be used."""
    with _loading:
        import torpor.tools.mcp.live  # noqa: F401

        _loaded.set()


def _kept(body: bytes | None) -> _Kept | None:
    try:
        return None if body is None else msgspec.json.decode(body, type=_Kept)
    except msgspec.MsgspecError:
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()
