"""Agents and a RAP server for tests of what is served to MCP clients, and the server over them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from torpor import Agent, Runtime, tool
from torpor.core.request import Request
from torpor.mcp.caller import CALLER, caller, servers_of
from torpor.mcp.calls import Calls
from torpor.mcp.desk import Desk
from torpor.mcp.rap import discovery
from torpor.mcp.reach import Reach
from torpor.mcp.server import Served, build
from torpor.models import ScriptedModel, call, say


class Gate:
    """What the tool ``fetch`` waits for."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()


def agents(gate: Gate) -> list[Agent]:
    """One that answers, one whose tool waits for a gate, one whose tool needs approval, one with both."""

    @tool(repeat="safe")
    async def fetch() -> str:
        """Fetch what is behind the gate."""
        gate.begun.set()
        await gate.open.wait()
        return "treasure"

    @tool(needs_approval=True)
    async def erase(what: str) -> str:
        """Erase something."""
        return f"{what} is gone"

    def once(name: str, **arguments: Any) -> Any:
        def reply(request: Request) -> Any:
            return say(f"It says: {request.results[0].text}") if request.results else call(name, **arguments)

        return reply

    def both(request: Request) -> Any:
        done = [result.name for result in request.results]
        return call("fetch") if not done else call("erase", what="it") if done == ["fetch"] else say("Done.")

    return [
        Agent("echo", model=ScriptedModel(lambda request: "echo " + request.text)),
        Agent("my fetcher", model=ScriptedModel(once("fetch")), tools=[fetch]),
        Agent("eraser", model=ScriptedModel(once("erase", what="all")), tools=[erase]),
        Agent("both", model=ScriptedModel(both), tools=[fetch, erase]),
    ]


@contextlib.asynccontextmanager
async def served(
    members: Sequence[Agent], *, rap: Sequence[str] = (), store: str = "memory:", **options: Any
) -> AsyncIterator[tuple[Served, Runtime]]:
    """The server over agents, and RAP servers, that a runtime here runs."""
    callers = [caller(servers_of(rap, None, members))] if rap else []
    async with Runtime(store, agents=[*members, *callers], listen="127.0.0.1:0" if rap else None) as runtime:
        yield build(desk_over(runtime, **options)), runtime


def desk_over(runtime: Runtime, owner: str = "", **options: Any) -> Desk:
    """What is offered of a runtime's agents."""
    threads, parts = runtime.parts.threads, runtime.parts
    member = threads.roster.get(CALLER)
    names = [name for name in threads.roster.names if name != CALLER]
    calls = Calls(threads, Reach(threads, threads.roster.names, owner))
    discover = discovery(parts.transport, member) if member else None
    return Desk(calls, agents=names, discover=discover, **options)
