"""Agents joined with their model and tools: what the runtime's roster is made of."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from torpor.agent import Agent
from torpor.core.builtins import BUILTINS, offered
from torpor.core.definition import Definition, ToolSpec
from torpor.core.errors import Refused
from torpor.models import resolve
from torpor.ports import Model, Side
from torpor.runtime.roster import Bridge, Function
from torpor.tools.catalog import Catalog, RapServer, ToolServer, assemble
from torpor.tools.functions import BoundTool, FunctionTool, read_result
from torpor.tools.mcp.servers import McpServer
from torpor.tools.reading import History
from torpor.tools.schema import compile_schema

KNOWN = 64
"""Definitions that an agent keeps, of as many different sets of manifests; the longest unused make room."""

DECIDED_HERE = {
    shown.name: ToolSpec(
        shown.name,
        shown.description,
        shown.schema,
        compile_schema(shown.schema),
        repeat="safe",
        builtin=True,
    )
    for shown in BUILTINS
}


class Joined:
    """One agent as the runtime needs it."""

    def __init__(
        self,
        agent: Agent,
        side: Side,
        history: History,
        *,
        named: Mapping[str, McpServer] | None = None,
    ) -> None:
        """``named``: the MCP servers that settings configure, by name."""
        self.agent = agent
        self.name = agent.name
        self.tier = agent.tier
        self.model: Model = resolve(agent.model) if isinstance(agent.model, str) else agent.model
        given = getattr(self.model, "window", 0) if agent.window is None else agent.window
        self.window: int = given
        self.rap = {server.url: server for server in agent.tools if isinstance(server, RapServer)}
        self.mcp = {
            one.address: _configured(one, named or {}) for one in agent.tools if isinstance(one, McpServer)
        }
        self.bridge: Bridge | None = None
        """What carries out calls to its MCP servers; put here by who joins all agents."""
        self.bridged = frozenset(self.mcp)
        self._servers: dict[str, ToolServer] = {**self.rap, **self.mcp}
        self.servers = tuple(self._servers)
        own = [one for one in agent.tools if isinstance(one, FunctionTool)]
        reader = read_result(side, history)
        self._own = own
        self._reader = reader
        self.functions: Mapping[str, Function] = {one.name: BoundTool(one, side) for one in (*own, reader)}
        self._known: OrderedDict[object, tuple[Definition, tuple[str, ...]]] = OrderedDict()
        self._plain, clashes = self._at({})
        if clashes:
            raise Refused(f"Agent {agent.name!r}: {' '.join(clashes)}")

    def definition(self, manifests: Mapping[str, bytes]) -> Definition:
        """The agent with the tools of these manifests."""
        return self._at(manifests)[0] if manifests else self._plain

    def problems(self, manifests: Mapping[str, bytes]) -> Sequence[str]:
        """What is wrong with its tools, in words."""
        return self._at(manifests)[1]

    def _at(self, manifests: Mapping[str, bytes]) -> tuple[Definition, tuple[str, ...]]:
        # Python's own hash: keyed, so that no server can aim at another's, and computed once for each body.
        key = tuple((url, len(body), hash(body)) for url, body in manifests.items())
        known = self._known.get(key)
        if known is None:
            catalog = self._assembled(manifests)
            known = self._known[key] = (self._defined(catalog), catalog.problems)
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known

    def _assembled(self, manifests: Mapping[str, bytes]) -> Catalog:
        bodies = [(self._servers[address], body) for address, body in manifests.items()]
        decided = [DECIDED_HERE[shown.name] for shown in offered(self.agent.limits)]
        here = (*decided, self._reader.spec)
        return assemble([one.spec for one in self._own], here, bodies)

    def _defined(self, catalog: Catalog) -> Definition:
        agent = self.agent
        return Definition(
            agent=agent.name,
            model=self.model.name,
            instructions=agent.instructions,
            settings=agent.settings,
            limits=agent.limits,
            wake=agent.wake,
            tier=agent.tier,
            tools=catalog.tools,
            window=self.window,
            events=agent.events,
            orphans=agent.orphans,
            approvals=agent.approvals,
        )


def _configured(server: McpServer, named: Mapping[str, McpServer]) -> McpServer:
    """A server, or the one that the settings configure under its name."""
    if not server.is_reference:
        return server
    if server.name not in named:
        known = ", ".join(named) or "none"
        raise Refused(f"No MCP server {server.name!r} is configured. The settings have: {known}.")
    return named[server.name]


def mcp_servers(members: Sequence[Joined]) -> list[McpServer]:
    """The MCP servers of all agents. ``Refused`` if two different ones have one name."""
    servers: dict[str, McpServer] = {}
    for member in members:
        for address, server in member.mcp.items():
            if servers.setdefault(address, server) != server:
                raise Refused(f"Two MCP servers are named {server.name!r}; each needs a name of its own.")
    return list(servers.values())
