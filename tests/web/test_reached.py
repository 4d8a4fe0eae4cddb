"""Which address calls name for their answers: the given one, the store's lasting one, else one's own."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.web.places import TOKEN, Client, echo, store_of
from torpor import Agent, Refused, Runtime
from torpor.models import ScriptedModel, call
from torpor.tools.catalog import RapServer
from torpor.tools.server import ToolCall, ToolServer
from torpor.web.app import build
from torpor.web.listening import listening
from torpor.wiring import Address, Parts, open_parts

PUBLIC = "https://agents.example"


@contextlib.asynccontextmanager
async def runtime(store: str, listen: str | None = "127.0.0.1:0", **options: str) -> AsyncIterator[Runtime]:
    async with Runtime(store, agents=[echo()], workers=0, listen=listen, **options) as one:
        yield one


async def named(parts: Parts) -> str:
    """The base of the URLs that calls from here name."""
    return (await parts.callback_url("t", "c")).partition("/callbacks/")[0]


async def test_a_given_url_wins_and_is_registered(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    async with runtime(store) as first:
        assert await first.parts.address() == Address(first.url, "runtime")
        async with runtime(store, public_url=PUBLIC) as second:
            assert await named(second.parts) == PUBLIC
            assert await second.parts.address() == Address(PUBLIC, "public")


async def test_a_lasting_address_is_named_and_kept(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    for kind, url in (("public", PUBLIC), ("serve", "http://192.0.2.7:8377")):
        async with open_parts(store) as parts:
            await parts.register(url, kind)
        async with runtime(store) as one:
            assert await named(one.parts) == url
            assert await one.parts.address() == Address(url, kind)


async def test_two_runtimes_each_name_their_own_port_and_others_one_that_lives(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    async with runtime(store) as first, runtime(store) as second, runtime(store, listen=None) as portless:
        assert first.url != second.url
        assert [await named(one.parts) for one in (first, second)] == [first.url, second.url]
        assert await named(portless.parts) == first.url


async def test_a_runtime_listens_where_the_last_one_did(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    async with runtime(store) as first:
        url = first.url
    async with runtime(store) as second:
        assert second.url == url


async def test_the_fixed_address_of_a_server_is_not_taken_over(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    async with open_parts(store) as parts:
        app = build(parts.threads, parts.callbacks, token=TOKEN)
        async with listening(app, "127.0.0.1:0") as url:
            await parts.register(url, "serve")
            async with runtime(store) as one:
                assert await named(one.parts) == one.url != url
                assert await one.parts.address() == Address(url, "serve")
        async with runtime(store) as one:
            assert one.url != url
            assert await one.parts.address() == Address(one.url, "runtime")


async def test_a_stranger_at_the_registered_port_gets_no_tokens(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    async with runtime(store) as first:
        url = first.url
    async with open_parts("memory:") as other:
        app = build(other.threads, other.callbacks, token=TOKEN)
        async with (
            listening(app, url.removeprefix("http://")),
            runtime(store) as one,
            runtime(store, listen=None) as portless,
        ):
            assert one.url != url
            assert await named(portless.parts) == one.url


async def test_what_listens_and_never_answers_is_no_server(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with open_parts(store) as parts:
            await parts.register(f"http://127.0.0.1:{silent.getsockname()[1]}", "serve")
        async with runtime(store) as one:
            assert await one.parts.address() == Address(one.url, "runtime")


async def test_a_runtime_is_used_once() -> None:
    one = Runtime("memory:", agents=[echo()], workers=0)
    async with one:
        with pytest.raises(Refused, match="make a new one"):
            await one.__aenter__()
    with pytest.raises(Refused, match="make a new one"):
        await one.__aenter__()


async def test_one_that_could_not_begin_may_begin_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        one = Runtime("memory:", agents=[echo()], workers=0, listen=listen)
        with pytest.raises(Refused, match="Cannot listen"):
            await one.__aenter__()
    async with one:
        assert one.url == f"http://{listen}"


async def test_mounted_in_another_application(tmp_path: Path) -> None:
    async with (
        Runtime(store_of("sqlite", tmp_path), agents=[echo()], listen=None, token=TOKEN) as one,
    ):
        app = Starlette(routes=[Mount("/x", app=one.app)])
        app.state = one.app.state
        async with listening(app, "127.0.0.1:0") as url, _asking(url) as client:
            assert (await client.ask("GET", "/x/healthz"))[0] == 200
            assert (await client.ask("POST", "/x/callbacks/wrong", json={}))[0] == 403
            assert (await client.ask("GET", "/x/threads"))[0] == 401
            token = {"Authorization": f"Bearer {TOKEN}"}
            async with client.session.post(
                f"{url}/x/threads", json={"agent": "echo"}, headers=token
            ) as started:
                assert started.status == 201
                assert started.headers["Location"].startswith("/x/threads/")
                thread = (await started.json())["id"]
            _, ticket = await client.ask("POST", "/x/tickets", json={"thread": thread}, headers=token)
            path = f"{url}/x/threads/{thread}/events?ticket={ticket['ticket']}"
            async with client.session.get(path) as events:
                assert events.status == 200


@contextlib.asynccontextmanager
async def _asking(url: str) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session, url)


@pytest.mark.parametrize("seconds", [0, 3600])
async def test_a_tool_server_is_told_until_when_its_answer_counts(tmp_path: Path, seconds: int) -> None:
    told: asyncio.Queue[float | None] = asyncio.Queue()
    tools = ToolServer("tools", outbox=str(tmp_path / "outbox.db"))

    @tools.tool()
    async def work(call: ToolCall) -> str:
        """Work."""
        told.put_nowait(call.deadline.timestamp() if call.deadline else None)
        return "done"

    async with tools.listening() as url:
        agent = Agent(
            "worker",
            model=ScriptedModel([call("work"), "done"]),
            tools=[RapServer(url, call_timeout=seconds)],
        )
        async with Runtime("memory:", agents=[agent]) as one:
            now = await one.parts.store.now()
            thread = await one.start("worker", "go")
            await thread.reply(timeout=60)
            deadline = told.get_nowait()
            if seconds:
                assert deadline is not None
                assert now + seconds - 1 <= deadline <= now + seconds + 10
            else:
                assert deadline is None
