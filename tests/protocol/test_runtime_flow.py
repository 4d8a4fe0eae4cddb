"""A whole runtime against a scripted tool server over real HTTP: people, views, signatures, events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.protocol.tool_stub import CANCEL_PATH, Seen, ToolStub, ping, tool_stub
from torpor import Agent, RapServer, Runtime
from torpor.core.messages import Happened, Message, Result, text_of
from torpor.models import ScriptedModel, call, say
from torpor.public import Thread
from torpor.tools.protocol import STATUS_PATH
from torpor.tools.signatures import SIGNATURE, Secrets

SECRET = b"s" * 32
LOGIN = "https://id.test/authorize?state=Zk3"
CHOICE = "/choice"


class Tool:
    """The tool server's side: what it was asked, and what it sends."""

    def __init__(self, stub: ToolStub, http: aiohttp.ClientSession) -> None:
        self.stub = stub
        self.http = http
        self.secrets: Secrets | None = None

    async def asked(self, path: str = "/invoke", number: int = 0) -> dict[str, Any]:
        """The body of a request, once it has come."""
        return (await self.came(path, number)).body

    async def came(self, path: str, number: int = 0) -> Seen:
        async with asyncio.timeout(60):
            while len(self.stub.at(path)) <= number:
                await asyncio.sleep(0.002)
        return self.stub.at(path)[number]

    async def send(self, kind: str, *, headers: dict[str, str] | None = None, **members: Any) -> int:
        """A callback for the first call; the status that it was answered with."""
        asked = await self.asked()
        named = "tool_call_id" if kind == "subscription_event" else "id"
        told = {"type": kind, "group_id": asked["group_id"], named: asked["id"], **members}
        body = json.dumps(told).encode()
        if headers is None:
            id = str(members.get("event_id", kind))
            headers = self.secrets.sign(id, time.time(), body) if self.secrets else {}
        async with self.http.post(asked["callback_url"], data=body, headers=headers) as response:
            return response.status

    def choice(self, **more: Any) -> dict[str, Any]:
        url = self.stub.url + CHOICE
        return {"prompt": "Reorder?", "choices": ["Yes", "No"], "default": 1, "response_url": url, **more}


@asynccontextmanager
async def running(
    script: Any, store: str = "memory:", stub: ToolStub | None = None, **settings: Any
) -> AsyncIterator[tuple[Runtime, Tool]]:
    async with tool_stub(stub) as served, aiohttp.ClientSession() as http:
        agent = Agent("worker", model=ScriptedModel(script), tools=[RapServer(served.url, **settings)])
        async with Runtime(store, agents=[agent]) as runtime:
            yield runtime, Tool(served, http)


def script() -> list[Any]:
    return [call("ping", n=1), lambda request: say(f"It says: {request.results[0].text}")]


async def question(thread: Thread) -> Any:
    """The one question that people are asked, once it is there."""
    async with asyncio.timeout(60):
        while not (found := await thread.waits()):
            await asyncio.sleep(0.002)
    [only] = found
    return only


async def messages(thread: Thread, kind: type[Message], number: int) -> list[Any]:
    """The messages of a kind, once there are so many."""
    async with asyncio.timeout(60):
        while True:
            found = [one for one in await thread.history() if isinstance(one, kind)]
            if len(found) >= number:
                return found
            await asyncio.sleep(0.002)


@pytest.mark.parametrize(("value", "selected"), [("Yes", 0), (1, 1), (None, 1)])
async def test_a_person_chooses_and_the_tool_goes_on(value: Any, selected: int) -> None:
    async with running(script()) as (runtime, tool):
        thread = await runtime.start("worker", "go")
        assert await tool.send("user_choice", **tool.choice()) == 200
        asked = await question(thread)
        assert (asked.kind, asked.prompt, asked.choices) == ("choice", "Reorder?", ("Yes", "No"))
        await thread.answer(asked.id, value)
        told = await tool.asked(CHOICE)
        assert told == {"id": (await tool.asked())["id"], "selected": selected}
        assert await tool.send("tool_result", text="ordered") == 200
        assert (await thread.reply(10)).text == "It says: ordered"
        assert len(tool.stub.at("/invoke")) == len(tool.stub.at(CHOICE)) == 1


async def test_an_interruption_says_first_that_the_call_is_unwanted_then_the_default() -> None:
    async with running([call("ping"), say("Fine.")]) as (runtime, tool):
        thread = await runtime.start("worker", "go")
        await tool.send("user_choice", **tool.choice())
        await question(thread)
        await thread.send("Never mind.", mode="interrupt")
        assert (await thread.reply(10)).text == "Fine."
        assert (await tool.asked(CHOICE))["selected"] == 1
        paths = [one.path for one in tool.stub.seen if one.path in (CANCEL_PATH, CHOICE)]
        assert paths == [CANCEL_PATH, CHOICE]
        assert await thread.waits() == []


async def test_a_choice_that_cannot_be_told_ends_in_an_error_that_the_model_reads() -> None:
    async with running(script()) as (runtime, tool):
        tool.stub.script[CHOICE] = [web.Response(status=404)]
        thread = await runtime.start("worker", "go")
        await tool.send("user_choice", **tool.choice())
        await thread.answer((await question(thread)).id, "Yes")
        assert "choice could not be told" in (await thread.reply(10)).text
        assert await tool.asked(CANCEL_PATH)
        assert await tool.send("tool_result", text="late") == 200, "its real result is news"


async def test_an_authorization_is_shown_until_the_result_comes_and_nowhere_afterwards() -> None:
    async with running(script()) as (runtime, tool):
        thread = await runtime.start("worker", "go")
        assert await tool.send("oauth", auth_url=LOGIN) == 200
        asked = await question(thread)
        assert (asked.kind, asked.url) == ("authorization", LOGIN)
        assert await tool.send("tool_result", text="3 orders") == 200
        assert (await thread.reply(10)).text == "It says: 3 orders"
        assert await thread.waits() == []
        assert LOGIN not in repr(await thread.history())
        assert len(tool.stub.at("/invoke")) == 1


async def test_views_are_told_kept_and_shown_to_who_comes_later() -> None:
    async with running(script()) as (runtime, tool):
        thread = await runtime.start("worker", "go")
        asked = await tool.asked()
        auth = {"Authorization": f"Bearer {runtime.token}"}
        url = f"{runtime.url}/threads/{thread.id}/events"

        async def view(n: object, type: str = "diff") -> int:
            content = {} if n is None else {"n": n}
            return await tool.send("view_update", view_type=type, content=content)

        async with tool.http.get(url, headers=auth) as early:
            shown = _views(early)
            assert [await view(1), await view(2), await view("x", "log"), await view(None, "log")] == [
                200
            ] * 4
            told = [await anext(shown) for _ in range(4)]
        assert told == [("diff", {"n": 1}), ("diff", {"n": 2}), ("log", {"n": "x"}), ("log", {})]
        async with tool.http.get(url, headers=auth) as late:
            assert await anext(_views(late)) == ("diff", {"n": 2})
        assert [(one.type, json.loads(one.content)) for one in await thread.views()] == [("diff", {"n": 2})]
        await tool.send(
            "view_update", view_type="x-progress", content={"fraction": 0.25, "message": "linking"}
        )
        [pending] = [wait for wait in (await thread.explain()).waits if wait.id == asked["id"]]
        assert pending.note.startswith("25% done: linking, said ")
        assert "25% done: linking" in (await thread.explain()).text
        await tool.send("tool_result", text="done")
        assert (await thread.reply(10)).text == "It says: done"
        assert await view(3) == 200, "a view needs no pending call"
        assert len([one for one in await thread.history() if isinstance(one, Result)]) == 1


async def _views(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """The views that a stream of events tells of."""
    name = b""
    async with asyncio.timeout(60):
        async for line in response.content:
            if line.startswith(b"event: "):
                name = line[7:].strip()
            elif line.startswith(b"data: ") and name == b"view":
                told = json.loads(line[6:])
                yield told["view_type"], told["content"]


async def test_signatures_both_ways_and_what_is_not_signed_has_no_effect() -> None:
    async with running(script(), secret=[SECRET]) as (runtime, tool):
        thread = await runtime.start("worker", "go")
        tool.secrets = Secrets(SECRET)
        seen = await tool.came("/invoke")
        assert tool.secrets.verify(seen.headers.items(), seen.raw, time.time()).id == seen.body["id"]
        assert await tool.send("tool_result", text="forged", headers={}) == 401
        assert await tool.send("tool_result", text="forged", headers={SIGNATURE: "v1,é"}) == 401
        assert await tool.send("tool_result", text="done") == 200
        assert (await thread.reply(10)).text == "It says: done"
        [result] = [one for one in await thread.history() if isinstance(one, Result)]
        assert (result.by.verified, result.by.key_id) == ("signature", "0")


async def test_numbered_events_count_once_until_the_last() -> None:
    def told(request: Any) -> Any:
        return say("Noted.")

    stub = ToolStub(tools=[ping("ping")])
    async with running([call("ping"), *[told] * 9], stub=stub) as (runtime, tool):
        thread = await runtime.start("worker", "go")
        assert await tool.send("tool_result", text="watching", subscription=True) == 200
        await messages(thread, Result, 1)
        for seq in (2, 1, 2):
            members: dict[str, Any] = {"seq": seq, "event_id": f"e{seq}", "associative": True}
            assert await tool.send("subscription_event", text=f"n{seq}", **members) == 200
        await tool.send("subscription_event", text="end", seq=3, event_id="e3", associative=True, final=True)
        happened: list[Happened] = await messages(thread, Happened, 3)
        assert sorted(text_of(one.parts) for one in happened) == ["end", "n1", "n2"]
        assert (await tool.send("subscription_event", text="x", seq=4, event_id="e4")) == 410
        assert (await tool.send("subscription_event", text="end", seq=3, event_id="e3")) == 200


async def test_a_call_that_its_server_lost_while_the_runtime_was_away_is_settled_at_its_start(
    tmp_path: Path,
) -> None:
    store = f"sqlite:///{tmp_path / 'threads.db'}"
    async with tool_stub() as stub:
        agent = Agent("worker", model=ScriptedModel(script()), tools=[RapServer(stub.url)])
        async with Runtime(store, agents=[agent], listen=None, public_url="http://here") as runtime:
            thread = await runtime.start("worker", "go")
            while not stub.at("/invoke") or await runtime.parts.store.outbox(thread.id):
                await asyncio.sleep(0.002)
        stub.script[STATUS_PATH] = [web.json_response({"alive": False})]
        async with Runtime(store, agents=[agent], listen=None, public_url="http://here") as runtime:
            reply = await runtime.thread(thread.id).reply(10)
    assert "no longer works on this call" in reply.text
    assert stub.at(STATUS_PATH)[0].body == {
        "thread_id": thread.id,
        "tool_call_id": stub.at("/invoke")[0].body["id"],
    }
