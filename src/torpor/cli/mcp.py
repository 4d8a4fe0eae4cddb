"""``torpor mcp``: agents and tools for MCP clients, and MCP servers looked into."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli.options import AgentRefs, Config, Json, Store, run, settings_of, with_agents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from torpor.agent import Agent
    from torpor.mcp.desk import Desk
    from torpor.mcp.stdio import Pipes
    from torpor.settings import Settings
    from torpor.wiring import Parts

LISTEN = "127.0.0.1:8378"
CALLBACKS = "127.0.0.1:0"

mcp = typer.Typer(no_args_is_help=True, help="Agents for MCP clients, and MCP servers for agents.")


@mcp.callback()
def _mcp() -> None:
    """Agents for MCP clients, and MCP servers for agents."""


@mcp.command("serve")
def serve(
    agents: AgentRefs = None,
    *,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="AGENT", help="Serve this agent, by its name; repeatable. Left out: all known."),
    ] = None,
    rap: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Serve the tools of the RAP server at this URL too; repeatable."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="The RAP servers' bearer token.",
            envvar="TORPOR_RAP_TOKEN",
            show_envvar=True,
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Over HTTP, instead of input and output.")] = False,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where --http listens; port 0 takes a free one.")
    ] = LISTEN,
    owner: Annotated[
        str, typer.Option(metavar="OWNER", help="Threads get this owner; only such can be addressed.")
    ] = "",
    user: Annotated[str, typer.Option(metavar="USER", help="The user id that new threads get.")] = "",
    answers: Annotated[
        bool, typer.Option("--answers/--no-answers", help="Offer the tool that answers people's waits.")
    ] = True,
    workers: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Slices side by side; 0: none here.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Work in this folder: clients start commands anywhere."),
    ] = None,
    config: Config = None,
    store: Store = None,
) -> None:
    """Serve agents and RAP tool servers to an MCP client, over standard input and output, or HTTP."""
    _need_sdk()
    if folder is not None:
        _enter(folder)
    pipes = None if http else _pipes()
    overrides = {"workers": workers, "agents": agents or None}
    settings = with_agents(settings_of(config, store, **overrides))
    wanted = _Wanted(tuple(agent or ()), tuple(rap or ()), token, owner, user, answers)
    run(_serve(settings, wanted, pipes, listen))


Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="MCP servers by name. Left out: all.")
]
UserId = Annotated[str, typer.Option("--user", metavar="USER", help="As this user of the agents.")]


@mcp.command("check")
def check(
    names: Names = None,
    *,
    user: UserId = "",
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Start configured MCP servers, list their tools, and say what is wrong; exit code 1 if one fails."""
    _need_sdk()
    from torpor.cli import mcp_servers

    run(mcp_servers.check(settings_of(config, store), names or [], user, as_json))


@mcp.command("list")
def list_(*, as_json: Json = False, config: Config = None, store: Store = None) -> None:
    """List the configured MCP servers; none is started."""
    _need_sdk()
    from torpor.cli import mcp_servers

    mcp_servers.show_all(settings_of(config, store), as_json)


@mcp.command("logout")
def logout(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The MCP server's name.")],
    *,
    user: UserId = "",
    config: Config = None,
    store: Store = None,
) -> None:
    """Revoke and forget what a user has granted at an MCP server."""
    _need_sdk()
    from torpor.cli import mcp_servers

    run(mcp_servers.logout(settings_of(config, store), name, user))


class _Wanted:
    """What shall be served, and as whom."""

    def __init__(
        self,
        agents: tuple[str, ...],
        rap: tuple[str, ...],
        token: str | None,
        owner: str,
        user: str,
        answers: bool,
    ) -> None:
        self.agents = agents
        self.rap = rap
        self.token = token
        self.owner = owner
        self.user = user
        self.answers = answers


def _enter(folder: Path) -> None:
    from torpor.core.errors import Refused

    try:
        os.chdir(folder)
    except OSError as error:
        raise Refused(f"The folder {folder} cannot be entered: {error.strerror}.") from None


def _pipes() -> "Pipes":
    """Output belongs to the protocol before anything of an agent's module can print."""
    from torpor.mcp.stdio import Pipes

    return Pipes()


def _need_sdk() -> None:
    from importlib.util import find_spec

    from torpor.core.errors import Refused

    if find_spec("mcp") is None:
        raise Refused("The MCP SDK is not installed. Run: pip install 'torpor[mcp]'")


async def _serve(settings: "Settings", wanted: _Wanted, pipes: "Pipes | None", listen: str) -> int:
    from torpor.cli.tokens import make_token
    from torpor.cli.working import log_to_stderr
    from torpor.mcp.http import serving
    from torpor.mcp.server import build
    from torpor.mcp.stdio import serve as serve_pipes
    from torpor.wiring import open_parts

    log_to_stderr(settings.log_level)
    token = make_token(settings.token_path)
    async with contextlib.AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings, _callers(settings, wanted)))
        desk = await _desk(parts, wanted, verified="" if pipes else "token")
        await _take_callbacks(parts, stack)
        if settings.workers:
            await stack.enter_async_context(parts.working(settings.workers))
        server = build(desk)
        work: Coroutine[Any, Any, object]
        if pipes is not None:
            where, work = "over standard input and output", serve_pipes(server, pipes)
        else:
            url = await stack.enter_async_context(serving(server, listen, token, settings.public_url))
            where, work = f"{url}, token in {settings.token_path}", asyncio.Event().wait()
        await _until_signalled(work, lambda: _say(f"serving {where}", desk))
    return 0


def _callers(settings: "Settings", wanted: _Wanted) -> "list[Agent]":
    """The agent that makes clients' calls of RAP tools, if such are served.

    A server that an agent configures is reached as it is configured there.
    """
    if not wanted.rap:
        return []
    from torpor.mcp.caller import caller, servers_of
    from torpor.wiring import load_agents

    return [caller(servers_of(wanted.rap, wanted.token, load_agents(settings.agents)))]


async def _desk(parts: "Parts", wanted: _Wanted, *, verified: str) -> "Desk":
    from torpor.mcp.caller import CALLER
    from torpor.mcp.calls import Calls
    from torpor.mcp.desk import Desk
    from torpor.mcp.rap import discovery
    from torpor.mcp.reach import Reach

    agents = await _names(parts, wanted)
    member = parts.roster.get(CALLER)
    reach = Reach(parts.threads, (*agents, CALLER) if member else agents, wanted.owner)
    calls = Calls(parts.threads, reach, wanted.user)
    discover = discovery(parts.transport, member) if member else None
    return Desk(calls, agents=agents, discover=discover, answers=wanted.answers, verified=verified)


async def _names(parts: "Parts", wanted: _Wanted) -> tuple[str, ...]:
    """The agents to serve. ``Refused`` if one is known nowhere, or there is nothing to serve."""
    from torpor.core.errors import Refused
    from torpor.mcp.caller import CALLER
    from torpor.runtime.presence import present

    known = [name for name in parts.roster.names if name != CALLER]
    elsewhere = {name for here in await present(parts.side, await parts.store.now()) for name in here.agents}
    for name in wanted.agents:
        if name not in known and name not in elsewhere:
            raise Refused(
                f"No agent {name!r} is known here, and no worker runs it. "
                f"Known: {', '.join(known) or 'none'}."
            )
    if not (wanted.agents or known or wanted.rap):
        raise Refused(
            "There is nothing to serve. Name agents, `torpor mcp serve package.module:name`, or list them in "
            "torpor.toml; or name a RAP server with --rap."
        )
    return wanted.agents or tuple(known)


async def _take_callbacks(parts: "Parts", stack: contextlib.AsyncExitStack) -> None:
    """Take what tool servers send, and whom MCP servers send back, unless a server of this store does."""
    import secrets

    from torpor import McpServer
    from torpor.web.app import build

    known = await parts.address()
    tools = [tool for agent in parts.agents for tool in agent.tools]
    is_sent_to = parts.servers or any(isinstance(tool, McpServer) for tool in tools)
    if not is_sent_to or parts.public_url or known.is_lasting:
        return
    if known.url and await parts.is_ours(known.url):
        return
    token = secrets.token_urlsafe(32)
    app = build(parts.threads, parts.callbacks, token=token, authorizations=parts.authorizations)
    parts.here = await stack.enter_async_context(_listening(app, known.url))
    await parts.register(parts.here, "runtime")


@contextlib.asynccontextmanager
async def _listening(app: Any, before: str) -> "AsyncIterator[str]":
    """On a free port: that of the process before, if it still is free, since open calls know that one."""
    from urllib.parse import urlsplit

    from torpor.core.errors import Refused
    from torpor.web.listening import listening

    async with contextlib.AsyncExitStack() as stack:
        url = ""
        if urlsplit(before).hostname == "127.0.0.1":
            with contextlib.suppress(Refused):
                url = await stack.enter_async_context(listening(app, urlsplit(before).netloc))
        yield url or await stack.enter_async_context(listening(app, CALLBACKS))


async def _until_signalled(work: "Coroutine[Any, Any, object]", ready: "Callable[[], None]") -> None:
    """Work until that is done, or a signal ends it in order."""
    from torpor.cli.working import until_signalled

    signalled = asyncio.create_task(until_signalled(), name="torpor-signals")
    await asyncio.sleep(0)
    ready()
    tasks: list[asyncio.Task[Any]] = [signalled, asyncio.create_task(work, name="torpor-mcp")]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _say(what: str, desk: "Desk") -> None:
    from torpor.cli.screen import err, line

    agents = [name for name in desk.calls.reach.agents if not name.startswith("mcp-caller")]
    err().print(line(("mcp: ", "dim"), what, f"  agents: {', '.join(agents) or 'none'}"))
