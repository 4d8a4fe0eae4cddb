"""Looking into a configured MCP server: it is started, lists its tools, and is ended again."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from torpor.agent import Agent
from torpor.core.errors import Refused, TorporError
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.challenges import AuthorizationNeeded
from torpor.tools.mcp.configured import Configured, Table
from torpor.tools.mcp.connection import Connection
from torpor.tools.mcp.faults import SignInNeeded

if TYPE_CHECKING:
    import httpx2

TOLD_EVERY = 5.0
"""Seconds between two tellings that a server is still starting."""

Sign = Callable[[McpServer], Awaitable["httpx2.Auth | None"]]
"""Gives what signs the requests to a server, if there is anything."""
Tell = Callable[[str], None]


class Seen(msgspec.Struct, frozen=True):
    """A tool as agents would be offered it. ``asks``: it waits for a person's approval by default."""

    name: str
    repeat: str
    asks: bool = False
    task: bool = False
    description: str = ""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one server. ``works``: it can be used, whatever the ``problems``."""

    name: str
    where: str
    works: bool
    problems: list[str] = []
    protocol: str = ""
    capabilities: list[str] = []
    tools: list[Seen] = []
    seconds: float = 0.0


async def check(server: McpServer, *, sign: Sign | None = None, tell: Tell = lambda _: None) -> Checked:
    """Start or reach a server, list what it offers, and end it. Never raises for what the server does."""
    began = time.monotonic()
    found = await _tried(server, None, tell)
    if isinstance(found.failure, SignInNeeded) and sign is not None:
        auth = await sign(server)
        found = await _tried(server, auth, tell) if auth is not None else found
    return _told(server, found, time.monotonic() - began)


class _Found(msgspec.Struct, frozen=True):
    """What a connection came to."""

    failure: TorporError | None
    protocol: str = ""
    capabilities: list[str] = []
    tools: list[Seen] = []
    problems: tuple[str, ...] = ()
    noise: str = ""


async def _tried(server: McpServer, auth: Any, tell: Tell) -> _Found:
    connection = Connection(server, auth=auth, on_listing=lambda _: None, on_end=lambda _: None)
    connection.begin()
    try:
        failure = await _ready(connection, tell)
        return _Found(failure) if failure is not None else _looked_at(connection)
    finally:
        await connection.close()


async def _ready(connection: Connection, tell: Tell) -> TorporError | None:
    """What a start failed of, if it did, or took too long for."""
    server, began = connection.server, time.monotonic()
    try:
        while (left := server.start_timeout - (time.monotonic() - began)) > 0:
            if await connection.ready(min(left, TOLD_EVERY)):
                return None
            tell(f"{server.name}: still starting ({time.monotonic() - began:.0f} s)")
    except TorporError as error:
        return error
    account = connection.transport.account() if server.url is None else ""
    told = f" ({account})" if account else ""
    return Refused(
        f"It has not introduced itself within {server.start_timeout:g} s{told}. A first start may have to "
        "install it: try again, or set start_timeout."
    )


def _looked_at(connection: Connection) -> _Found:
    listing, client = connection.listing, connection.client
    assert listing is not None
    tasks = {one.shown for one in listing.offered.values() if one.tasks != "forbidden"}
    wires = listing.wires if connection.server.wrapped else json.loads(listing.manifest)["tools"]
    return _Found(
        None,
        (client.protocol_version or "") if client is not None else "",
        sorted(connection.capabilities),
        [_seen(wire, tasks) for wire in wires],
        listing.problems,
        str(connection.transport.noise) if connection.transport.noise.count else "",
    )


def _told(server: McpServer, found: _Found, seconds: float) -> Checked:
    problems = [*found.problems]
    if found.failure is not None:
        problems = [_explained(found.failure)]
    if found.noise:
        problems.append(f"It writes to its standard output what is no message: {found.noise}.")
    if found.failure is None and not found.tools:
        problems.append("It offers no tools.")
    return Checked(
        name=server.name,
        where=where(server),
        works=found.failure is None,
        problems=problems,
        protocol=found.protocol,
        capabilities=found.capabilities,
        tools=found.tools,
        seconds=seconds,
    )


def _seen(tool: dict[str, Any], tasks: set[str]) -> Seen:
    marks = tool.get("annotations") or {}
    repeat = "safe" if marks.get("readOnly") else "keyed" if marks.get("idempotent") else "unsafe"
    words = " ".join(str(tool.get("description", "")).split())
    return Seen(tool["name"], repeat, bool(marks.get("destructive")), tool["name"] in tasks, words)


def _explained(error: TorporError) -> str:
    """A failure, and what to do about it."""
    if isinstance(error, AuthorizationNeeded | SignInNeeded):
        return (
            "It wants a person to sign in. An agent's thread that uses it will ask for that with a link "
            "(a wait for an authorization); or give it a header Authorization."
        )
    return str(error)


def where(server: McpServer) -> str:
    """The command or URL of a server up to where secrets may begin: its program, and what that runs."""
    if server.url is not None:
        return server.url.partition("?")[0]
    program, *words = server.command or ("",)
    places = [place for place, word in enumerate(words) if not word.startswith("-")]
    kept = words[: places[0] + 1] if places else words
    shown = [program, *(word.partition("=")[0] for word in kept)]
    return " ".join([*shown, *(["…"] if len(kept) < len(words) else [])])


def clashes(checked: Sequence[Checked]) -> list[str]:
    """Names of tools that several servers offer, in words."""
    counts = Counter(tool.name for one in checked for tool in one.tools)
    return [
        f"{name} is offered by {', '.join(one.name for one in checked if name in _names(one))}: an agent "
        "that has both is offered each with its server's name before it; set prefix to choose another."
        for name, count in sorted(counts.items())
        if count > 1
    ]


def _names(checked: Checked) -> set[str]:
    return {tool.name for tool in checked.tools}


async def check_all(
    servers: Sequence[McpServer], *, sign: Sign | None = None, tell: Tell = lambda _: None
) -> list[Checked]:
    """Several servers, side by side."""
    return list(await asyncio.gather(*(check(server, sign=sign, tell=tell) for server in servers)))


def of_settings(
    tables: Mapping[str, Table], file: str, environ: Mapping[str, str]
) -> dict[str, McpServer | Refused]:
    """The servers that settings configure, by name; or why one cannot be used."""
    found = Configured(tables, file, environ)
    made: dict[str, McpServer | Refused] = {name: _made(found, name) for name in tables}
    try:
        return made | {name: _made(found, name) for name in found if name not in made}
    except Refused as error:
        return made | {file: error}


def _made(found: Configured, name: str) -> McpServer | Refused:
    try:
        return found[name]
    except Refused as error:
        return error


def of_agents(agents: Sequence[Agent]) -> list[McpServer]:
    """The servers that agents themselves configure."""
    tools = (tool for agent in agents for tool in agent.tools)
    return [tool for tool in tools if isinstance(tool, McpServer) and not tool.is_reference]
