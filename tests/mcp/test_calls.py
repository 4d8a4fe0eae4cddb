"""Calls to an MCP server of ours, in real processes: results, deaths, tasks, questions, limits."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.mcp.mortal import depot
from torpor import Agent, McpServer, Runtime
from torpor.core.messages import Result, text_of
from torpor.core.views import PROGRESS
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script
from torpor.public import Thread
from torpor.runtime.questions import Question

SOON = 90.0


def told(request: Any) -> Any:
    return say(" | ".join(result.text for result in request.results))


@asynccontextmanager
async def calling(
    server: McpServer, script: Script, store: str = "memory:", **options: Any
) -> AsyncIterator[tuple[Runtime, Thread]]:
    agent = Agent("clerk", model=ScriptedModel(script), tools=[server], approvals="never")
    async with Runtime(store, agents=[agent], listen=None, **options) as runtime:
        yield runtime, await runtime.start("clerk", "go")


async def question(thread: Thread) -> Question:
    async with asyncio.timeout(SOON):
        while not (asked := await thread.waits()):
            await asyncio.sleep(0.02)
    return asked[0]


async def text(thread: Thread) -> str:
    return (await thread.reply(timeout=SOON)).text


async def causes(thread: Thread) -> list[tuple[str, str]]:
    results = [one for one in await thread.history() if isinstance(one, Result)]
    return [(result.cause, text_of(result.parts)) for result in results]


def task_of(folder: Path) -> dict[str, Any]:
    """What the depot keeps of its only task; empty if there is none."""
    paths = list(folder.glob("task-*"))
    kept: dict[str, Any] = json.loads(paths[0].read_text()) if paths else {}
    return kept


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


async def test_calls_of_one_turn_run_side_by_side(tmp_path: Path) -> None:
    calls = [call(name, tag=name, seconds=0.3) for name in ("send", "look", "put")]
    async with calling(depot(tmp_path), [calls, told]) as (_, thread):
        assert await text(thread) == "send done: send | look done: look | put done: put"
    assert sorted(effects(tmp_path)) == ["look look", "put put", "send send"]


async def test_a_task_is_submitted_once_and_looked_at_until_it_is_done(tmp_path: Path) -> None:
    async with calling(depot(tmp_path), [call("build", tag="x", seconds=0.7), told]) as (_, thread):
        assert await text(thread) == "build done: x"
    assert effects(tmp_path) == ["build x"]


async def test_a_server_that_dies_mid_call_is_asked_again_for_what_is_safe_only(tmp_path: Path) -> None:
    """Its process takes all that it worked on with it: what is not safe is unknown."""
    script: Script = [[call("send", tag="a", seconds=2), call("crash", tag="b")], told]
    async with calling(depot(tmp_path), script) as (_, thread):
        reply = await text(thread)
        [unknown, _] = await causes(thread)
    assert "crash done: b" in reply
    assert unknown[0] == "unknown"
    assert "It may or may not have taken effect" in unknown[1]
    assert sorted(effects(tmp_path)) == ["crash b", "send a"]


async def test_a_form_is_filled_in_while_the_server_waits(tmp_path: Path) -> None:
    async with calling(depot(tmp_path), [call("ask", tag="x"), told]) as (_, thread):
        asked = await question(thread)
        assert (asked.kind, asked.prompt) == ("form", "Where to?")
        assert (await thread.answer(asked.id, {"city": "Riga"})).taken
        answer = json.loads(await text(thread))
    assert answer == {"action": "accept", "content": {"city": "Riga"}}


async def test_time_that_a_person_takes_counts_for_no_limit(tmp_path: Path) -> None:
    server = depot(tmp_path, idle_timeout=0.4, call_timeout=0.8)
    async with calling(server, [call("ask", tag="x"), told]) as (_, thread):
        asked = await question(thread)
        await asyncio.sleep(1.2)
        await thread.answer(asked.id, {"city": "Riga"})
        assert json.loads(await text(thread))["action"] == "accept"


async def test_a_form_may_be_declined(tmp_path: Path) -> None:
    async with calling(depot(tmp_path), [call("ask", tag="x"), told]) as (_, thread):
        await thread.answer((await question(thread)).id, "decline")
        assert json.loads(await text(thread)) == {"action": "decline"}


async def test_a_task_asks_a_person(tmp_path: Path) -> None:
    async with calling(depot(tmp_path), [call("survey", tag="x"), told]) as (_, thread):
        await thread.answer((await question(thread)).id, {"city": "Oslo"})
        assert json.loads(await text(thread))["content"] == {"city": "Oslo"}


async def test_who_may_not_be_asked_is_not(tmp_path: Path) -> None:
    async with calling(depot(tmp_path, elicitation=False), [call("ask", tag="x"), told]) as (_, thread):
        reply = await text(thread)
    assert "accept" not in reply


async def test_a_call_that_takes_too_long_is_given_up_and_its_server_told(tmp_path: Path) -> None:
    server = depot(tmp_path, call_timeout=0.6, idle_timeout=30)
    async with calling(server, [call("send", tag="x", seconds=30), told]) as (_, thread):
        await text(thread)
        [(cause, words)] = await causes(thread)
        assert cause == "timeout"
        assert "given up" in words
        await _until(lambda: "cancelled True" in effects(tmp_path))


async def test_a_task_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    server = depot(tmp_path, call_timeout=0.6)
    async with calling(server, [call("build", tag="x", seconds=30), told]) as (_, thread):
        await text(thread)
        assert [cause for cause, _ in await causes(thread)] == ["timeout"]
    assert task_of(tmp_path)["cancelled"]


async def test_what_is_interrupted_is_cancelled_at_its_server(tmp_path: Path) -> None:
    script: Script = [
        [call("send", tag="x", seconds=30), call("build", tag="y", seconds=30)],
        say("Stopped."),
    ]
    async with calling(depot(tmp_path), script) as (_, thread):
        await _until(lambda: len(effects(tmp_path)) == 2)
        await _until(lambda: task_of(tmp_path))
        await thread.send("Leave that.", mode="interrupt")
        assert await text(thread) == "Stopped."
        await _until(lambda: "cancelled True" in effects(tmp_path))
        await _until(lambda: task_of(tmp_path).get("cancelled"))


async def test_progress_is_shown_to_watchers(tmp_path: Path) -> None:
    async with calling(depot(tmp_path), [call("send", tag="x", seconds=1.5), told]) as (_, thread):
        async with asyncio.timeout(SOON):
            while not (views := [view for view in await thread.views() if view.type == PROGRESS]):
                await asyncio.sleep(0.05)
        shown = json.loads(views[0].content)
        assert 0 < shown["fraction"] <= 1
        assert shown["message"].startswith("step")
        await text(thread)
        assert not [view for view in await thread.views() if view.type == PROGRESS]


async def test_a_server_may_use_the_agents_model_only_if_it_is_allowed(tmp_path: Path) -> None:
    async with calling(depot(tmp_path), [call("sample", tag="x"), told]) as (_, thread):
        assert "code" in await text(thread)


async def _until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not done():
            await asyncio.sleep(0.02)
