"""A process dies before or after every durable action of a call to an MCP server, by the real bridge."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from tests.runtime.bridging import LINES, manifest
from tests.runtime.shown import check_requests, story
from tests.runtime.test_crash_points import Told, begin, is_equal_or_unknown, memory
from tests.runtime.world import Fate, Input, World, after
from torpor import Agent
from torpor.core.messages import Result
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script
from torpor.testing.clock import FakeClock
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.bridge import McpBridge
from torpor.tools.mcp.faults import Declined
from torpor.tools.mcp.listing import Offered
from torpor.tools.mcp.session import Task
from torpor.wiring import Parts

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKS = {
    "resultType": "input_required",
    "requestState": "s",
    "inputRequests": {
        "where": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Where?", "requestedSchema": CITY},
        }
    },
}


class Outside:
    """What the server does and keeps, whatever processes die."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.tasks: dict[str, int] = {}
        self.answers: list[Mapping[str, Any]] = []


class Line:
    """A connection of one process, over which each request is a durable action."""

    server = LINES
    modern = True
    exclusive = False

    def __init__(self, fate: Fate, outside: Outside) -> None:
        self._fate = fate
        self._outside = outside

    def tool(self, shown: str, arguments: Mapping[str, Any] | None = None) -> Offered:
        return Offered(shown, shown)

    async def call(self, shown: str, arguments: Mapping[str, Any], **options: Any) -> Any:
        await options["sending"]()
        return await self._fate.pass_through(shown, lambda: self._done(shown, options))

    async def _done(self, shown: str, options: Mapping[str, Any]) -> Any:
        from torpor.tools.mcp import content

        key = options["key"]
        if shown == "build":
            if key not in self._outside.tasks:  # it knows such keys
                self._outside.effects.append(key)
                self._outside.tasks[key] = 0
            return Task(key, "working", poll=2.0)
        if shown == "ask" and options["request_state"] is None:
            return content.outcome(ASKS)
        self._outside.effects.append(key)
        if options["responses"]:
            self._outside.answers.append(options["responses"])
        return content.said(f"{shown} done")

    async def request(self, method: str, params: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        return await self._fate.pass_through(method, lambda: self._asked(params["taskId"]))  # type: ignore[no-any-return]

    async def _asked(self, task: str) -> dict[str, Any]:
        if task not in self._outside.tasks:
            raise Declined("no such task")
        self._outside.tasks[task] += 1
        if self._outside.tasks[task] < 3:
            return {"taskId": task, "status": "working"}
        return {
            "taskId": task,
            "status": "completed",
            "result": {"content": [{"type": "text", "text": "built"}]},
        }

    def outcome(self, result: Mapping[str, Any]) -> Any:
        from torpor.tools.mcp import content

        return content.outcome(result)


class Connections:
    """The connections of one process."""

    def __init__(self, fate: Fate, outside: Outside) -> None:
        self._line = Line(fate, outside)

    def server(self, address: str) -> McpServer:
        return LINES

    async def manifest(self, address: str, user: str = "") -> bytes:
        return manifest().replace(b'"readOnly": true', b'"readOnly": false')

    def has_changed(self, address: str, hash: str, user: str = "") -> bool:
        return False

    async def session(self, address: str, root: str = "", user: str = "") -> Line:
        return self._line

    async def close_thread(self, root: str) -> None:
        return None

    async def close(self) -> None:
        return None


class McpWorld(World):
    """A world whose agents call an MCP server through the real bridge."""

    outside_: Outside

    def parts(self, fate: Fate) -> Parts:
        if "outside_" not in vars(self):
            self.outside_ = Outside()
        parts = super().parts(fate)

        async def hasten(thread: str, call: str) -> None:
            await parts.dispatcher.hasten(thread, call)

        bridge = McpBridge(
            [LINES], parts.store, parts.side, parts.queue, self.clock, hasten=hasten, models=lambda _: None
        )
        connections: Any = Connections(fate, self.outside_)
        bridge.sessions = bridge._calls._sessions = connections
        parts._bridge = bridge
        return parts


async def fills_in(world: World) -> None:
    [asked] = await world.outside.threads.waits("t")
    await world.outside.threads.answer(asked.id, {"city": "Riga"})


SCENES: dict[str, tuple[Script, Sequence[Input]]] = {
    "build": ([call("build"), say("Built.")], ()),
    "mail": ([call("mail"), say("Sent, or not.")], ()),
    "ask": ([call("ask"), say("Then there.")], (Input(after(note="Requested"), fills_in),)),
}


async def play(name: str, fates: Sequence[Fate]) -> McpWorld:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks of the dead
    script, inputs = SCENES[name]
    clock = FakeClock()
    agents = lambda: [Agent("worker", model=ScriptedModel(script), tools=[LINES], approvals="never")]  # noqa: E731
    world = McpWorld(memory(clock), clock, agents, inputs=[Input(one.when, one.act) for one in inputs])
    async with world.outside:
        for fate in fates:
            await world.live(fate, begin)
        while not await world.live(None, begin):
            pass
        assert world.awaited == 0 or is_unknown(world)
        assert await world.store.stranded() == []
        assert await world.store.outbox("t") == []
        kept = await world.store.entries("mcp-calls")
        assert fates[0].dead or not any(kept.values())
        check_requests(world.asked)
    return world


def is_unknown(world: World) -> bool:
    return any(m.cause == "unknown" for m in world.messages if isinstance(m, Result))


def unasked(told: Told) -> Told:
    """Without what people were asked: a call of unknown outcome may not have come to that."""
    return [one for one in told if one not in (("noted", "Requested"), ("noted", "Answered"))]


async def every_death(name: str) -> tuple[int, int]:
    """How many deaths there were, and after how many of them the outcome was unknown."""
    expected: Told = story((await play(name, [counted := Fate()])).messages)
    unknown = 0
    fates = [Fate(at, after=late) for at, late in product(range(counted.count), (False, True))]
    for fate in fates:
        world = await play(name, [fate])
        told = story(world.messages)
        if is_unknown(world):
            unknown += 1
            assert is_equal_or_unknown(unasked(told), unasked(expected)), (fate.where, told)
        else:
            assert told == expected, fate.where
        assert len(world.outside_.effects) == len(set(world.outside_.effects)) <= 1, fate.where
    return len(fates), unknown


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least", "most"), [("build", 0, 0), ("mail", 1, 5), ("ask", 1, 8)])
def test_every_death_ends_in_the_result_or_an_honest_word(name: str, least: int, most: int) -> None:
    """Unknown is only what went out and had no answer yet; never a second effect, never stuck."""
    deaths, unknown = asyncio.run(every_death(name))
    assert deaths >= 30
    assert least <= unknown <= most
