"""Settings into concrete parts: the only module that knows all backends. Imported by entry points alone."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from torpor import __version__
from torpor.agent import Agent, check_agents
from torpor.clock import SystemClock
from torpor.core.errors import Refused, Unavailable
from torpor.crew import Joined, mcp_servers
from torpor.messenger import Messenger
from torpor.models.names import import_by_name
from torpor.ports import Backend, Clock, Model, Queue, Side, Store, Transport
from torpor.queues.memory import MemoryQueue
from torpor.queues.sqlite import SqliteQueue
from torpor.runtime.consents import Consents
from torpor.runtime.definitions import Definitions
from torpor.runtime.dispatch import CLAIM_SECONDS, Dispatcher
from torpor.runtime.equip import Equipment
from torpor.runtime.gates import Gates
from torpor.runtime.hot import Hot
from torpor.runtime.ids import Ids
from torpor.runtime.lineages import Lineages
from torpor.runtime.live import LocalLive
from torpor.runtime.presence import Company, presence
from torpor.runtime.resting import pack_always
from torpor.runtime.retention import Keep, keep_of, prune_always
from torpor.runtime.roster import Bridge, Roster
from torpor.runtime.scan import scan
from torpor.runtime.sharing import SharedLive
from torpor.runtime.state import Kit
from torpor.runtime.sweep import sweep_always
from torpor.runtime.threads import Threads
from torpor.runtime.worker import RESERVED, Worker
from torpor.settings import SECRET, check_store, is_postgres
from torpor.stores import examine as looks
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.tools.addresses import host_of, is_loopback
from torpor.tools.callbacks import Callbacks
from torpor.tools.client import HttpTransport
from torpor.tools.forwarding import Forwarding
from torpor.tools.mcp.authorization import Authorizations, Missing
from torpor.tools.mcp.bridge import McpBridge
from torpor.tools.mcp.configured import Configured
from torpor.tools.mcp.servers import McpServer
from torpor.tools.schema import fits
from torpor.tools.tokens import Keys, scope_of

if TYPE_CHECKING:
    from torpor.web.shapes import Health

LEASE_SECONDS = 15.0
GRACE = 5.0
"""Seconds that slices and functions are given when their process is asked to end."""
HOT_BYTES = 64 * 1024 * 1024
ADDRESSES = "addresses"
PROBE_SECONDS = 1.0


class Address(msgspec.Struct, frozen=True):
    """Where tool servers send what comes of calls, and who said so.

    ``kind``: ``public`` for a URL that was given, ``serve`` for a server's own address, ``runtime`` for one
    that a ``Runtime`` happened to get.
    """

    url: str = ""
    kind: str = "serve"

    @property
    def is_lasting(self) -> bool:
        """It leads here from elsewhere, and stays: nobody needs another one."""
        return bool(self.url) and self.kind != "runtime" and not is_loopback(host_of(self.url))


class Parts:
    """All parts of one process over one store, joined. An async context manager; see ``open_parts``."""

    def __init__(
        self,
        url: str,
        agents: Sequence[Agent] = (),
        *,
        public_url: str | None = None,
        clock: Clock | None = None,
        lease: float = LEASE_SECONDS,
        claim: float = CLAIM_SECONDS,
        reserved: int = RESERVED,
        owner_cap: int = 0,
        hot: int = HOT_BYTES,
        synchronous: str = "FULL",
        ids: Ids | None = None,
        backends: "tuple[Backend, Queue] | None" = None,
        transport: Transport | None = None,
        bridge: Bridge | None = None,
        mcp: Mapping[str, McpServer] | None = None,
        keep: Keep | None = None,
        live: LocalLive | None = None,
        worker: str = "",
    ) -> None:
        self.url = url
        self.agents = check_agents(agents)
        self.public_url = public_url
        self.here = ""
        """Where this process itself takes callbacks, if calls from here shall name that."""
        self.clock: Clock = clock or SystemClock()
        self.ids = ids or Ids()
        self.keep = keep or Keep()
        self._claim = claim
        self._reserved = reserved
        self._owner_cap = owner_cap
        self._hot = hot
        self._transport = transport
        self._bridge = bridge
        self._named = mcp or {}
        self._worker = worker or f"{socket.gethostname()}/{os.getpid()}"
        self._authorizations: Authorizations | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        store, self.queue = backends or _open_store(url, self.clock, lease, synchronous)
        if clock is None:
            self.clock = getattr(store, "clock", self.clock)
        self.backend: Backend = store
        self.store: Store = store
        self.side: Side = store
        self.live = live or (LocalLive() if backends else _live_over(store))

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self.store.close)
        self._stack.push_async_callback(self.queue.close)
        if isinstance(self.live, SharedLive):
            self._stack.push_async_callback(self.live.close)
        try:
            await self._join()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _join(self) -> None:
        self.keys = await Keys.open(self.side, passed=asyncio.get_running_loop().time)
        members = [Joined(agent, self.side, self.store, named=self._named) for agent in self.agents]
        self.roster = Roster(members)
        self.mcp = await self._mcp_bridge(members)
        bridge = self._bridge or self.mcp
        self.servers = {url: server for member in members for url, server in member.rap.items()}
        self.transport: Transport = self._transport or HttpTransport(
            tuple(self.servers.values()), now=self.clock.now
        )
        self._stack.push_async_callback(self.transport.close)
        self._stack.push_async_callback(_let_go, [member.model for member in members])
        forwarding = Forwarding()
        self._stack.push_async_callback(forwarding.close)
        self.callbacks = Callbacks(
            self.store, self.side, self.keys, self.clock, servers=self.servers.values(), live=self.live,
            forward=forwarding, fresh=lambda: self.ids.hex(32),
        )  # fmt: skip
        self.threads = Threads(
            self.backend, self.side, self.queue, self.live, self.roster, self.clock, self.ids, fits=fits
        )
        self._stack.push_async_callback(bridge.close)
        for member in members:
            member.bridge = bridge
        self.messenger = messenger = Messenger(self, self.transport, bridge)
        self.equipment = Equipment(self.side, messenger, self.clock)
        consents = Consents(self.store, self.roster, self.equipment)
        self.dispatcher = Dispatcher(
            self.store, self.queue, self.roster, messenger, self.clock, self.ids, self._claim,
            consents=consents,
        )  # fmt: skip
        self.kit = Kit(
            store=self.store,
            side=self.side,
            clock=self.clock,
            roster=self.roster,
            live=self.live,
            equipment=self.equipment,
            gates=Gates(self.side, self.clock),
            definitions=Definitions(self.side),
            hot=Hot(self._hot),
            lineages=Lineages(self.store),
            ids=self.ids,
            dispatch=self.dispatcher,
            claim=self._claim,
            worker=self._worker,
        )

    async def _mcp_bridge(self, members: Sequence[Joined]) -> McpBridge:
        servers, authorizations = mcp_servers(members), None
        if any(server.url for server in servers):
            with suppress(Missing):  # what signing in needs is not installed: whoever has to sign in is told
                authorizations = await self.authorizations()
        models = {member.name: (member.model, member.agent.limits.tokens) for member in members}
        return McpBridge(
            servers, self.store, self.side, self.queue, self.clock,
            hasten=self._hasten, models=models.get, live=self.live, authorizations=authorizations,
        )  # fmt: skip

    async def _hasten(self, thread: str, call: str) -> None:
        await self.dispatcher.hasten(thread, call)

    async def _signed(self, thread: str, call: str, outcome: str) -> None:
        await self.mcp.signed(thread, call, outcome)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def worker(self, slots: int = 8, **options: Any) -> Worker:
        """A worker over these parts."""
        shares = {"reserved": self._reserved, "owner_cap": self._owner_cap}
        return Worker(self.kit, self.queue, self.clock, slots=slots, **(shares | options))

    @asynccontextmanager
    async def working(self, slots: int) -> AsyncIterator[Worker]:
        """Run slices here while the block runs, with their sweep, and with word that a worker is there."""
        names, id = self.roster.names, self.kit.worker
        async with presence(
            self.side, self.clock, id, names, slots=slots, now=self.store.now, release=__version__
        ) as company:
            worker = self.worker(slots, company=company)
            background = [asyncio.create_task(what, name=name) for name, what in self._beside(company)]
            if self._authorizations is not None:
                await self._authorizations.recover()
            if isinstance(self.live, SharedLive):
                self.live.listen()
            worker.start()
            try:
                yield worker
            finally:
                await worker.stop(GRACE)
                await self.dispatcher.drain(GRACE)
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)

    def _beside(self, company: Company) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What goes on beside slices."""
        names = self.roster.names
        yield "torpor-sweep", sweep_always(
            self.store, self.queue, self.clock, names,
            peers=lambda: company.peers(names), jitter=self.ids.jitter, swept=company.swept,
        )  # fmt: skip
        yield "torpor-pack", pack_always(self.backend, self.clock, self.keep.awake)
        yield "torpor-prune", prune_always(self.backend, self.clock, self.keep)
        asking, servers = self.dispatcher.asking, tuple(self.servers)
        yield "torpor-scan", scan(self.store, self.side, asking, servers, self.clock)

    async def callback_url(self, thread: str, call: str, server: str = "", *, signs: bool = False) -> str:
        """Where a tool server posts what comes of a call. ``Unavailable`` while no server is registered.

        ``signs``: it signs what it sends, although it is not configured here.
        """
        known = self.servers.get(server)
        scope = scope_of(server) if signs or (known and known.secrets) else "call"
        return f"{await self.place()}/callbacks/{await self.keys.sign(thread, call, scope)}"

    async def address(self) -> Address:
        """The address that is registered for this store's callbacks; without a URL if none is."""
        return address_of(await self.side.get(ADDRESSES, "public"))

    async def place(self) -> str:
        """The base URL at which tool servers and browsers reach a process of this store."""
        base = self.public_url or self.here or (await self.address()).url
        if not base:
            raise Unavailable(
                "No address for callbacks is known: run `torpor serve` on this store once, or set public_url."
            )
        return base.rstrip("/")

    async def authorizations(self) -> Authorizations:
        """What people have granted at MCP servers. ``Refused`` where ``torpor[mcp]`` is not installed."""
        async with self._opening:
            if self._authorizations is None:
                secret = os.environ.get(SECRET, "")
                opened = await Authorizations.open(
                    self.side, self.keys, self.clock, self.place, secret=secret
                )
                opened.settled = self._signed
                self._stack.push_async_callback(opened.close)
                self._authorizations = opened
        return self._authorizations

    async def register(self, url: str, kind: str) -> None:
        """Make this the store's address for callbacks; see ``Address`` for kinds."""
        await self.side.put(ADDRESSES, "public", msgspec.json.encode(Address(url, kind)))

    async def is_ours(self, url: str) -> bool:
        """Whether a server that shares this store answers at a URL."""
        challenge = secrets.token_urlsafe(24)
        health = await ask_health(url, challenge)
        return health is not None and await self.keys.proves(challenge, health.store)


def open_parts(settings: Any, agents: Sequence[Agent] = (), **options: Any) -> Parts:
    """Parts for a store URL, or for settings; the agents are those given and those that settings name."""
    if isinstance(settings, str):
        return Parts(settings, agents, **options)
    named = load_agents(settings.agents)
    chosen = [*agents, *(agent for agent in named if agent.name not in {given.name for given in agents})]
    options.setdefault("public_url", settings.public_url or None)
    for name in ("lease", "claim", "reserved", "owner_cap"):
        options.setdefault(name, getattr(settings, name))
    options.setdefault("keep", keep_of(settings))
    options.setdefault("mcp", Configured(settings.mcp, settings.mcp_servers, os.environ))
    return Parts(settings.store, chosen, **options)


def load_agents(refs: Sequence[str]) -> list[Agent]:
    """Agents by reference, ``package.module:name``. ``Refused`` says which one cannot be had and why."""
    return [_load_agent(ref) for ref in refs]


def _load_agent(ref: str) -> Agent:
    module, _, name = ref.partition(":")
    if not (module and name):
        raise Refused(f"{ref!r} is no reference to an agent; write package.module:name.")
    imported = import_by_name(module, f"The agent {ref!r}")
    found = getattr(imported, name, None)
    if found is None:
        known = [key for key, value in vars(imported).items() if isinstance(value, Agent)]
        raise Refused(f"The module {module!r} has no agent {name!r}. It has: {', '.join(known) or 'none'}.")
    if not isinstance(found, Agent):
        raise Refused(f"{ref!r} is a {type(found).__name__}, not an Agent.")
    return found


def address_of(value: bytes | None) -> Address:
    """A registered address as it is stored."""
    return msgspec.json.decode(value, type=Address) if value else Address()


async def ask_health(url: str, challenge: str) -> "Health | None":
    """What a server says of itself; None if none of ours answers within a second."""
    import aiohttp

    from torpor.web.shapes import Health

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PROBE_SECONDS)) as session,
            session.get(f"{url}/healthz", params={"challenge": challenge}, allow_redirects=False) as response,
        ):
            return msgspec.json.decode(await response.content.read(10_000), type=Health)
    except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, ValueError):
        return None


async def _let_go(models: Sequence[Model]) -> None:
    """Let models close the connections that they hold in this loop, if they hold any."""
    for model in models:
        close = getattr(model, "close", None)
        if close is not None:
            await close()


def _open_store(url: str, clock: Clock, lease: float, synchronous: str) -> tuple[Backend, Queue]:
    check_store(url)
    if url == "memory:":
        return MemoryStore(clock), MemoryQueue(clock, lease=lease)
    if is_postgres(url):
        return _open_postgres(url, clock, lease)
    database = Database.open(url, clock=clock, synchronous=synchronous)  # type: ignore[arg-type]
    return SqliteStore(database), SqliteQueue(database, lease=lease)


def _live_over(store: Backend) -> LocalLive:
    """Live events of this process, and of those that share a store which can carry them."""
    database = getattr(store, "database", None)
    if database is None or not hasattr(database, "place"):
        return LocalLive()
    from torpor.queues.hints import PostgresWire

    return SharedLive(PostgresWire(database), secrets.token_urlsafe(9))


def _open_postgres(url: str, clock: Clock, lease: float) -> tuple[Backend, Queue]:
    try:
        from torpor.queues.postgres import PostgresQueue
        from torpor.stores.postgres import Database as Server
        from torpor.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise Refused(f"A PostgreSQL store needs {error.name}: pip install 'torpor[postgres]'.") from error
    # Where no clock is given, the server's is the clock of all.
    database = Server.open(url, clock=None if isinstance(clock, SystemClock) else clock)
    return PostgresStore(database), PostgresQueue(database, lease=lease)


examine, is_there = looks.examine, looks.is_there
"""Looks at the store of a URL that change nothing: what there is to say of it, and whether there is one."""
