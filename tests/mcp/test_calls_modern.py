"""Servers of 2026-07-28, which ask by their results: answered days later, from another process."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.test_calls import SOON, calling, causes, effects, question, text, told
from torpor import Agent, Limits, McpServer, Runtime
from torpor.core.chunks import AnyChunk, Stop, TextDelta
from torpor.core.messages import Usage
from torpor.core.request import Attempt, Request
from torpor.models import ScriptedModel, call
from torpor.models.scripted import Script

OFFICE = Path(__file__).with_name("office.py")
ASK: Script = [call("ask", tag="x"), told]
FORM = {"action": "accept", "content": {"city": "Riga"}}


def office(folder: Path, **options: Any) -> McpServer:
    return McpServer("office", command=[sys.executable, str(OFFICE), str(folder)], **options)


async def test_what_a_server_asks_is_answered_from_another_process(tmp_path: Path) -> None:
    """A form and a choice, in any order, while no process of ours or the server's is there."""
    store, script = f"sqlite:///{tmp_path / 't.db'}", ASK
    async with calling(office(tmp_path), script, store) as (_, thread):
        await question(thread)
        choice, form = sorted(await thread.waits(), key=lambda one: one.kind)
        async with asyncio.timeout(SOON):
            while ", looked at again at " not in (await thread.explain()).text:
                await asyncio.sleep(0.01)
        id = thread.id
    assert (choice.kind, choice.choices) == ("choice", ("red", "green", "None of these"))
    assert form.kind == "form"
    async with Runtime(store, listen=None, workers=0) as runtime:
        assert (await runtime.thread(id).answer(choice.id, "green")).taken
    agent = Agent("clerk", model=ScriptedModel(script), tools=[office(tmp_path)])
    async with Runtime(store, agents=[agent], listen=None) as runtime:
        assert (await runtime.thread(id).answer(form.id, {"city": "Riga"})).taken
        answers = json.loads(await text(runtime.thread(id)))
    assert answers == {"where": FORM, "what": {"action": "accept", "content": {"colour": "green"}}}
    assert effects(tmp_path) == ["ask x"]


async def test_what_is_dismissed_is_told_as_that(tmp_path: Path) -> None:
    async with calling(office(tmp_path), [call("ask", tag="x"), told]) as (_, thread):
        await question(thread)
        for one in await thread.waits():
            await thread.answer(one.id, None)
        answers = json.loads(await text(thread))
    assert answers == {"where": {"action": "cancel"}, "what": {"action": "decline"}}


async def test_a_url_to_visit_is_an_authorization(tmp_path: Path) -> None:
    async with calling(office(tmp_path), [call("visit", tag="x"), told]) as (_, thread):
        asked = await question(thread)
        assert (asked.kind, asked.url, asked.prompt) == ("authorization", "https://sign.test/x", "Sign it.")
        await thread.answer(asked.id, True)
        assert json.loads(await text(thread)) == {"visit": {"action": "accept"}}


async def test_roots_are_answered_at_once(tmp_path: Path) -> None:
    server = office(tmp_path, roots=(str(tmp_path),))
    async with calling(server, [call("roots", tag="x"), told]) as (_, thread):
        [root] = json.loads(await text(thread))["roots"]["roots"]
    assert root["uri"] == tmp_path.as_uri()


async def test_what_cannot_be_asked_is_declined(tmp_path: Path) -> None:
    async with calling(office(tmp_path), [call("odd", tag="x"), told]) as (_, thread):
        answers = json.loads(await text(thread))
    assert answers == {"odd": {"action": "decline"}}


async def test_a_server_may_ask_to_be_asked_again(tmp_path: Path) -> None:
    async with calling(office(tmp_path), [call("again", tag="x"), told]) as (_, thread):
        await text(thread)
    assert effects(tmp_path) == ["again x"]


async def test_a_server_that_asks_for_ever_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torpor.tools.mcp.calls.ROUNDS", 3)
    async with calling(office(tmp_path), [call("endless", tag="x"), told]) as (_, thread):
        assert "asked more than 3 times" in await text(thread)


async def test_a_task_gives_its_result(tmp_path: Path) -> None:
    script: Script = [[call("build", tag="x", seconds=0.5), call("build", tag="bad")], told]
    async with calling(office(tmp_path), script) as (_, thread):
        reply = await text(thread)
        assert [cause for cause, _ in await causes(thread)] == ["", ""]
    assert "build done: x" in reply
    assert "it broke" in reply
    assert sorted(effects(tmp_path)) == ["build bad", "build x"]


async def test_a_task_that_asks_is_answered_and_asked_once(tmp_path: Path) -> None:
    async with calling(office(tmp_path), [call("survey", tag="x"), told]) as (_, thread):
        await thread.answer((await question(thread)).id, {"city": "Riga"})
        assert json.loads(await text(thread)) == {"where": FORM}
        assert await thread.waits() == []


class Talking:
    """A model that says what it was asked, and costs."""

    name = "scripted:talking"

    def __init__(self, inner: ScriptedModel) -> None:
        self._inner = inner
        self.requests: list[Request] = []

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        if not request.epoch.startswith("sampling/"):
            async for chunk in self._inner.stream(request, attempt):
                yield chunk
            return
        self.requests.append(request)
        yield TextDelta("Said: ")
        yield TextDelta(request.text)
        yield Stop(usage=Usage(input=30, output=12), model="talker")


@pytest.mark.parametrize("allowed", [True, False])
async def test_sampling_is_done_by_the_agents_model_and_recorded(tmp_path: Path, *, allowed: bool) -> None:
    model = Talking(ScriptedModel([call("sample", tag="x"), told]))
    agent = Agent("clerk", model=model, tools=[office(tmp_path, sampling=allowed)])
    async with Runtime("memory:", agents=[agent], listen=None) as runtime:
        thread = await runtime.start("clerk", "go")
        answer = json.loads(await text(thread))["said"]
        records = [record for record in await thread.records() if record.yielded == "sampling"]
    if not allowed:
        assert "may not ask the agent's model" in answer["content"]["text"]
        assert (records, model.requests) == ([], [])
        return
    assert answer["content"] == {"type": "text", "text": "Said: Say it."}
    assert answer["model"] == "talker"
    [record] = records
    assert record.usage == Usage(input=30, output=12)
    [request] = model.requests
    assert (request.instructions, request.settings["max_tokens"]) == ("Be brief.", 20)


async def test_sampling_is_within_the_agents_limit_of_tokens(tmp_path: Path) -> None:
    model = Talking(ScriptedModel([call("sample", tag="x"), call("sample", tag="y"), told]))
    limits = Limits(tokens=40)
    agent = Agent("clerk", model=model, tools=[office(tmp_path, sampling=True)], limits=limits)
    async with Runtime("memory:", agents=[agent], listen=None) as runtime:
        thread = await runtime.start("clerk", "go")
        last = json.loads(await text(thread))["said"]
    assert "limit is reached" in last["content"]["text"]
    assert len(model.requests) == 1
