"""Calls to bridged servers: resumed after deaths, put off and hastened, given up, and never done twice."""

import asyncio
from collections.abc import Sequence
from itertools import product

import pytest

from tests.runtime.bridging import LINES, TOOLS, BridgedWorld, manifest
from tests.runtime.shown import check_requests, story
from tests.runtime.test_crash_points import Told, begin, is_equal_or_unknown, memory
from tests.runtime.test_waits import answers
from tests.runtime.world import Fate, Input, World, after, says
from torpor import Agent
from torpor.core.errors import Refused
from torpor.core.messages import Closed, Equipped, Noted, Result, text_of
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script
from torpor.testing.clock import FakeClock
from torpor.tools.mcp.servers import McpServer
from torpor.wiring import Parts

BUILD: Script = [call("build"), say("Built.")]
MAIL: Script = [call("mail"), say("Sent, or not.")]
ASK: Script = [call("ask"), say("Then that.")]
ALL: Script = [[call("build"), call("mail"), call("ask")], say("All done.")]
CHOSEN = Input(after(note="Requested"), answers("red"))


def agents(script: Script, approvals: str = "never") -> list[Agent]:
    return [Agent("worker", model=ScriptedModel(script), tools=[LINES], approvals=approvals)]


async def play(
    script: Script,
    fates: Sequence[Fate] = (),
    *,
    inputs: Sequence[Input] = (),
) -> BridgedWorld:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks of the dead
    clock = FakeClock()
    copies = [Input(one.when, one.act) for one in inputs]
    world = BridgedWorld(memory(clock), clock, lambda: agents(script), inputs=copies)
    async with world.outside:
        for fate in fates:
            await world.live(fate, begin)
        while not await world.live(None, begin):
            pass
        assert await world.store.stranded() == []
        assert await world.store.outbox("t") == []
        check_requests(world.asked)
    return world


def results(world: World) -> list[tuple[str, str]]:
    return [(text_of(m.parts), m.cause) for m in world.messages if isinstance(m, Result)]


async def test_a_call_is_put_off_until_its_server_is_done() -> None:
    world = await play(BUILD)
    assert results(world) == [("built", "")]
    [job] = world.works.jobs
    assert world.works.jobs[job] == 3
    [first, *others] = world.works.runs
    assert (first.name, first.server, first.repeat, first.root) == ("build", LINES.address, "keyed", "t")
    assert [run.attempt for run in others] == [2, 3, 4]
    assert not any(run.vanished for run in world.works.runs)
    assert world.works.forgotten == [first.call]


async def test_a_call_that_waits_is_hastened_by_what_it_waits_for() -> None:
    world = await play(ASK, inputs=[CHOSEN])
    assert results(world) == [("chosen: 0", "")]
    assert world.asked[1].at - world.asked[0].at < 100  # not the eleven days until it would look by itself


async def every_death(script: Script, inputs: Sequence[Input] = (), *, unsafe: bool = False) -> int:
    expected: Told = story((await play(script, [counted := Fate()], inputs=inputs)).messages)
    fates = [Fate(at, after=late) for at, late in product(range(counted.count), (False, True))]
    for fate in fates:
        world = await play(script, [fate], inputs=inputs)
        told = story(world.messages)
        assert told == expected or (unsafe and is_equal_or_unknown(told, expected)), fate.where
        assert len(world.works.effects) == len(set(world.works.effects)), fate.where
    return len(fates)


@pytest.mark.parametrize("name", ["build", "mail", "ask"])
def test_every_death_ends_in_the_undisturbed_history(name: str) -> None:
    script = {"build": BUILD, "mail": MAIL, "ask": ASK}[name]
    inputs = [CHOSEN] if name == "ask" else []
    assert asyncio.run(every_death(script, inputs, unsafe=name == "mail")) >= 30


async def test_a_call_that_is_given_up_is_cancelled_at_its_server() -> None:
    interrupt = Input(after(1, invoked=""), says("Leave that.", "interrupt"))
    world = await play([call("ask"), say("Left.")], inputs=[interrupt])
    [cancelled] = world.works.cancelled
    assert [(cause, "ask" in text) for text, cause in results(world)] == [("interrupted", True)]
    assert [run.call for run in world.works.runs] in ([], [cancelled])


async def test_closing_tells_the_bridge() -> None:
    async def close(world: World) -> None:
        await world.outside.threads.close("t")

    world = await play([say("Hello.")], inputs=[Input(after(1), close)])
    assert any(isinstance(m, Noted) and isinstance(m.note, Closed) for m in world.messages)
    assert world.works.closed == ["t"]


async def test_what_was_begun_is_not_judged_again_by_a_new_policy() -> None:
    """A call that is under way goes on, whatever people would have to approve by now."""
    clock = FakeClock()
    policy = ["never"]
    world = BridgedWorld(memory(clock), clock, lambda: agents(BUILD, policy[0]))
    async with world.outside:
        died = await world.live(Fate(30), begin)
        begun = bool(world.works.jobs)
        policy[0] = "always"
        await world.live()
    assert (died, begun) == (False, True)
    assert results(world) == [("built", "")]


async def test_other_tools_are_recorded_when_an_exchange_begins() -> None:
    async def say_more(world: World) -> None:
        assert isinstance(world, BridgedWorld)
        world.works.manifest = manifest(("build", "mail"))
        await says("Again.")(world)

    script: Script = [say("Hello."), call("build"), say("Built.")]
    world = await play(script, inputs=[Input(after(1), say_more)])
    notes = [m.note for m in world.messages if isinstance(m, Noted) and isinstance(m.note, Equipped)]
    assert len(notes) == 2
    assert notes[0] != notes[1]
    shown = [{tool.name for tool in one.request.tools} & set(TOOLS) for one in world.asked]
    assert shown == [{"build", "mail", "ask"}, {"build", "mail"}, {"build", "mail"}]


async def test_an_agent_that_needs_a_server_of_the_settings_names_it() -> None:
    agent = Agent("worker", model=ScriptedModel(BUILD), tools=[McpServer("lines")])
    with pytest.raises(Refused, match=r"No MCP server 'lines' is configured\. The settings have: other"):
        async with Parts("memory:", [agent], mcp={"other": LINES}):
            pass
    async with Parts("memory:", [agent], mcp={"lines": LINES}) as parts:
        assert parts.roster.need("worker").bridged == {"mcp:lines"}
