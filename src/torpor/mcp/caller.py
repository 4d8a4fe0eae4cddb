"""Tools of RAP servers without a model: a thread makes the one call that it is told to make.

So a call is as durable as any other: its result is taken by a callback whenever it comes, and read later.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from torpor.agent import Agent
from torpor.core.chunks import AnyChunk, CallDelta, CallStart, Stop
from torpor.core.definition import Limits
from torpor.core.errors import ModelRefused
from torpor.core.request import Attempt, InputItem, Request, TurnItem
from torpor.tools.catalog import RapServer

CALLER = "mcp-caller"
"""The name of the agent; its threads are calls of MCP clients."""


class Obedient:
    """A model that does what it is told first, once, and is silent from then on."""

    name = "none:mcp-caller"
    window = 0

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:  # noqa: ARG002
        made = any(isinstance(item, TurnItem) for item in request.items)
        told = next((item for item in request.items if isinstance(item, InputItem)), None)
        if made or told is None:
            yield Stop("end")
            return
        name, arguments = read_order(told.text)
        yield CallStart(0, name)
        yield CallDelta(0, json.dumps(arguments, ensure_ascii=False))
        yield Stop("calls")


class Order(msgspec.Struct, frozen=True):
    """A call to make."""

    tool: str
    arguments: dict[str, Any]


def order(tool: str, arguments: dict[str, Any]) -> str:
    """What a thread of the caller is told."""
    return msgspec.json.encode(Order(tool, arguments)).decode()


def read_order(text: str) -> tuple[str, dict[str, Any]]:
    """Tool and arguments of an order. ``ModelRefused`` if it is none."""
    try:
        told = msgspec.json.decode(text, type=Order)
    except msgspec.MsgspecError as error:
        raise ModelRefused(
            f"This agent makes one call for an MCP client, and nothing else ({error})."
        ) from None
    return told.tool, told.arguments


def caller(servers: Sequence[RapServer]) -> Agent:
    """The agent that calls tools of these servers. Which calls need approval is left to the client."""
    limits = Limits(depth=0, children=0, threads=0)
    return Agent(CALLER, model=Obedient(), tools=list(servers), limits=limits, approvals="never")


def servers_of(urls: Sequence[str], token: str | None, agents: Sequence[Agent]) -> list[RapServer]:
    """The RAP servers at these URLs: as an agent configures one, else with this token."""
    known = {one.url: one for agent in reversed(agents) for one in agent.tools if isinstance(one, RapServer)}
    asked = [RapServer(url, token=token) for url in dict.fromkeys(urls)]
    return [known.get(one.url, one) for one in asked]
