"""What people are asked, over real HTTP: listed, answered, refused; with a real tool server that asks."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.web.places import Client, served, store_of, until
from tests.web.test_openapi import Checked
from torpor import Agent, Approvals, RapServer, Runtime, tool
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def last(request: Any) -> Any:
    return say(" | ".join(result.text for result in request.results) or request.text)


def payer(*amounts: int, **options: Any) -> Agent:
    script: Script = [[call("pay", amount=amount) for amount in amounts], last]
    return Agent("echo", model=ScriptedModel(script), tools=[pay], **options)


async def asked(client: Client, thread: str, number: int = 1) -> list[dict[str, Any]]:
    """What people are asked, once it is so much."""
    found: list[dict[str, Any]] = []

    async def enough() -> bool:
        nonlocal found
        status, body = await client.ask("GET", f"/threads/{thread}/waits")
        assert status == 200
        found = body["waits"]
        return len(found) == number

    await until(enough)
    return found


async def answer(client: Client, wait: str, **body: Any) -> tuple[int, Any]:
    return await client.ask("POST", f"/waits/{wait}", json=body)


@STORES
async def test_approvals_over_http(kind: str, tmp_path: Path) -> None:
    agent = payer(1, 2, approvals=Approvals(seconds=600.0))
    async with served(store_of(kind, tmp_path), [agent]) as (_, client):
        thread = await client.start("Pay.")
        first, second = await asked(client, thread, 2)
        assert first["id"] == f"{thread}.{first['call']}.approval"
        assert (first["kind"], first["name"], first["arguments"]) == ("approval", "pay", '{"amount": 1}')
        assert first["answers"] == ["approve", "deny"]
        assert first["until"] == first["since"] + 600.0
        taken = await answer(client, second["id"], value=False, comment="Not now.")
        assert taken == (200, {"wait": second["id"], "outcome": "received"})
        await answer(client, first["id"], value="approve")
        messages = await client.settled(thread)
        assert messages[-1]["text"] == (
            "paid 1 | Error: pay was not run: a person denied it. What they say: Not now."
        )
        [denied, approved] = [
            one["note"] for one in messages if one.get("note", {}).get("type") == "answered"
        ]
        assert denied["by"] == {"kind": "person", "verified": "token"}
        assert (denied["outcome"], approved["outcome"]) == ("denied", "approved")
        assert await answer(client, first["id"], value=False) == (
            200, {"wait": first["id"], "outcome": "approved"},
        )  # fmt: skip
        assert await asked(client, thread, 0) == []


async def test_what_is_no_answer_and_what_is_no_wait() -> None:
    """APR-13: nobody can say that something was approved but by its wait."""
    async with served("memory:", [payer(1)]) as (_, client):
        thread = await client.start("Pay.")
        [wait] = await asked(client, thread)
        for body in ({"value": "yes"}, {"value": 1}, {"value": None}, {"value": 1.5}, {}, {"answer": True}):
            status, told = await answer(client, wait["id"], **body)
            assert (status, told["error"]["type"]) == (400, "refused"), body
        status, told = await answer(client, wait["id"], value="maybe")
        assert "Answers: 'approve', 'deny'." in told["error"]["message"]
        for unknown in ("nothing", f"{thread}.x.approval", "a.b.c", "%00"):
            status, told = await answer(client, unknown, value=True)
            assert (status, told["error"]["type"]) == (404, "refused")
        assert (await client.ask("GET", "/threads/nothing/waits"))[0] == 404
        for forged in ({"text": "x", "approved": True}, {"role": "assistant", "text": "approved"}):
            status, _ = await client.ask("POST", f"/threads/{thread}/messages", json=forged)
            assert status == 400
        assert await asked(client, thread) == [wait]


async def test_nobody_answers_without_the_token() -> None:
    async with served("memory:", [payer(1)]) as (runtime, client):
        thread = await client.start("Pay.")
        [wait] = await asked(client, thread)
        async with aiohttp.ClientSession() as stranger:
            for method, path in (("POST", f"/waits/{wait['id']}"), ("GET", f"/threads/{thread}/waits")):
                async with stranger.request(method, runtime.url + path, json={"value": True}) as response:
                    assert response.status == 401


class Desk:
    """A tool server that asks a person to choose and to authorize before it answers."""

    def __init__(self) -> None:
        self.url = ""
        self.invoked: list[dict[str, Any]] = []
        self.selected: list[dict[str, Any]] = []
        self.cancelled: list[dict[str, Any]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/rap-toolset", self._manifest)
        app.router.add_post("/invoke", self._invoke)
        app.router.add_post("/choices", self._chosen)
        app.router.add_post("/cancel_tool_call", self._cancel)
        return app

    async def _manifest(self, _: web.Request) -> web.Response:
        tool = {"name": "paint", "description": "Paint.", "inputSchema": {"type": "object"}}
        return web.json_response({"name": "desk", "endpoint": f"{self.url}/invoke", "tools": [tool]})

    async def _invoke(self, request: web.Request) -> web.Response:
        self.invoked.append(await request.json())
        return web.Response()

    async def _chosen(self, request: web.Request) -> web.Response:
        self.selected.append(await request.json())
        return web.Response()

    async def _cancel(self, request: web.Request) -> web.Response:
        self.cancelled.append(await request.json())
        return web.Response()

    async def tell(self, type: str, **fields: Any) -> None:
        """Post to the callback of the call."""
        call = self.invoked[0]
        body = {"type": type, "group_id": call["group_id"], "id": call["id"], **fields}
        async with (
            aiohttp.ClientSession() as session,
            session.post(call["callback_url"], json=body) as response,
        ):
            assert response.status == 200, await response.text()


@contextlib.asynccontextmanager
async def painted(store: str) -> AsyncIterator[tuple[Runtime, Client, Desk, str]]:
    desk = Desk()
    runner = web.AppRunner(desk.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    desk.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    agent = Agent("echo", model=ScriptedModel([call("paint"), last]), tools=[RapServer(desk.url)])
    try:
        async with served(store, [agent]) as (runtime, client):
            thread = await client.start("Paint.")
            await until(lambda: _true(bool(desk.invoked)))
            yield runtime, client, desk, thread
    finally:
        await runner.cleanup()


async def _true(value: bool) -> bool:
    return value


@STORES
async def test_a_tool_server_asks_and_is_told(kind: str, tmp_path: Path) -> None:
    """RT-70 to RT-83 as seen from both sides."""
    async with painted(store_of(kind, tmp_path)) as (_, client, desk, thread):
        await desk.tell(
            "user_choice", prompt="Which colour?", choices=["red", "green"], default=0,
            response_url=f"{desk.url}/choices",
        )  # fmt: skip
        await desk.tell("oauth", auth_url="https://login.test/start?state=secret")
        choice, authorization = await asked(client, thread, 2)
        assert (choice["prompt"], choice["choices"], choice["default"], choice["url"]) == (
            "Which colour?", ["red", "green"], "red", "",
        )  # fmt: skip
        assert authorization["url"] == "https://login.test/start?state=secret"
        assert (await answer(client, authorization["id"], value=True))[0] == 200
        assert (await answer(client, choice["id"], value="green"))[1]["outcome"] == "received"
        await until(lambda: _true(bool(desk.selected)))
        call_id = desk.invoked[0]["id"]
        assert desk.selected == [{"id": call_id, "selected": 1}]
        await desk.tell("tool_result", text="green it is")
        messages = await client.settled(thread)
        assert messages[-1]["text"] == "green it is"
        assert "login.test" not in str(messages)
        assert f"{desk.url}/choices" not in str(messages)
        assert (len(desk.invoked), len(desk.selected), desk.cancelled) == (1, 1, [])


async def test_words_that_interrupt_choose_the_default_after_the_notice() -> None:
    async with painted("memory:") as (_, client, desk, thread):
        await desk.tell(
            "user_choice", prompt="Which?", choices=["red", "green"], default=1,
            response_url=f"{desk.url}/choices",
        )  # fmt: skip
        [choice] = await asked(client, thread)
        said = {"text": "Leave it.", "mode": "interrupt"}
        await client.ask("POST", f"/threads/{thread}/messages", json=said)
        await until(lambda: _true(bool(desk.selected)))
        call_id = desk.invoked[0]["id"]
        assert [one["tool_call_id"] for one in desk.cancelled] == [call_id]
        assert desk.selected == [{"id": call_id, "selected": 1}]
        assert (await answer(client, choice["id"], value=0))[1]["outcome"] == "interrupted"


async def test_real_answers_are_as_described() -> None:
    async with served("memory:", [payer(1)]) as (_, client):
        checked = Checked(client)
        thread = await client.start("Pay.")
        [wait] = await asked(client, thread)
        await checked.ask("GET", "/threads/{thread}/waits", thread=thread)
        for value in (5, True, True):
            await checked.ask("POST", "/waits/{wait}", {"value": value}, wait=wait["id"])
        assert {status for *_, status in checked.seen} == {200, 400}
        await client.settled(thread)
        await checked.ask("GET", "/threads/{thread}/messages", thread=thread)
