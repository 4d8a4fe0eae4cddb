"""Callbacks over real HTTP: bounded, durable before they are answered, and rung."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from multidict import CIMultiDict
from starlette.routing import Route

from tests.web.places import Client, served, store_of, until
from torpor import Agent, Runtime, tool
from torpor.core.codec import decode_head
from torpor.core.messages import Text
from torpor.models import ScriptedModel, call
from torpor.tools.callbacks import Callbacks
from torpor.tools.catalog import RapServer
from torpor.tools.tokens import scope_of
from torpor.web.app import build
from torpor.web.callbacks import CallbackWeb
from torpor.web.listening import listening

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])


def waiting(over: asyncio.Event) -> Agent:
    """An agent that calls a tool which does not end before ``over``, and reports what it gave."""

    @tool(repeat="safe")
    async def forever() -> str:
        """Wait for news from elsewhere."""
        await over.wait()
        return ""

    def script(request: Any) -> Any:
        return f"got {request.results[0].text}" if request.results else call("forever")

    return Agent("echo", model=ScriptedModel(script), tools=[forever])


@contextlib.asynccontextmanager
async def pending(store: str) -> AsyncIterator[tuple[Runtime, Client, str, str, str]]:
    """A runtime, a client, a thread with a pending call, that call, and the path of its callbacks."""
    over = asyncio.Event()
    async with served(store, [waiting(over)]) as (runtime, client):
        thread = await client.start()
        call_id = await pending_call(client, thread)
        yield runtime, client, thread, call_id, f"/callbacks/{runtime.parts.keys.mint(thread, call_id)}"
        over.set()


async def pending_call(client: Client, thread: str) -> str:
    """The id of the call that a thread waits for."""
    found = ""

    async def is_there() -> bool:
        nonlocal found
        waits = (await client.ask("GET", f"/threads/{thread}/explain"))[1]["waits"]
        found = next((wait["id"] for wait in waits if wait["kind"] == "call"), "")
        return bool(found)

    await until(is_there)
    return found


def result(thread: str, call_id: str, text: str = "42") -> dict[str, Any]:
    """The body of a result."""
    return {"type": "tool_result", "group_id": thread, "id": call_id, "text": text}


@STORES
async def test_a_result_wakes_its_thread_once(kind: str, tmp_path: Path) -> None:
    async with pending(store_of(kind, tmp_path)) as (_, client, thread, call_id, path):
        body = result(thread, call_id)
        answers = await asyncio.gather(*(client.ask("POST", path, json=body) for _ in range(4)))
        assert answers == [(200, None)] * 4
        messages = await client.settled(thread)
        assert [message["type"] for message in messages] == ["noted", "said", "turn", "result", "turn"]
        assert messages[-1]["text"] == "got 42"
        assert messages[3]["by"]["verified"] == "callback"
        assert await client.ask("POST", path, json=body) == (200, None), "a repeat of what was taken"
        assert (await client.ask("POST", path, json=result(thread, call_id, "43")))[0] == 410
        assert len(await client.settled(thread)) == 5


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"type":"tool_result"}', 400), (b"", 400), (b'{"type":"x"}', 400)],
)
async def test_bad_bodies_are_said(body: bytes, status: int) -> None:
    async with pending("memory:") as (_, client, _thread, _call, path):
        answered, told = await client.ask("POST", path, data=body)
        assert answered == status
        assert told["error"]["type"] == "refused"


async def test_a_body_for_another_thread_is_refused_and_has_no_effect() -> None:
    async with pending("memory:") as (_, client, thread, call_id, path):
        other = await client.start()
        assert (await client.ask("POST", path, json=result(other, call_id)))[0] == 403
        assert (await client.ask("POST", path, json=result(thread, "another")))[0] == 403
        assert await pending_call(client, thread) == call_id


async def test_only_post_and_only_valid_tokens() -> None:
    async with pending("memory:") as (_, client, thread, call_id, path):
        assert (await client.ask("GET", path))[0] == 405
        for wrong in ("/callbacks/x", f"{path}x", path[:-1], "/callbacks/" + "k" * 2_000):
            assert (await client.ask("POST", wrong, json=result(thread, call_id)))[0] == 403
        assert (await client.ask("POST", "/callbacks/", json={}))[0] == 404


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_413_and_settles_its_call(chunked: bool) -> None:
    async with pending("memory:") as (runtime, client, thread, _call, path):
        parts = runtime.parts
        small = Callbacks(parts.store, parts.side, parts.keys, parts.clock, body_limit=1_000)
        app = build(parts.threads, small, token="t")
        body = b'{"type":"tool_result","group_id":"' + b"x" * 5_000_000

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 65_536):
                yield body[start : start + 65_536]

        async with listening(app, "127.0.0.1:0") as url:
            given = pieces() if chunked else io.BytesIO(body)
            async with client.session.post(url + path, data=given) as response:
                assert response.status == 413
        messages = await client.settled(thread)
        assert "larger than 1,000 bytes" in messages[3]["text"]
        assert messages[3]["is_error"]


async def test_cbk_08_signatures_are_read_from_all_headers_as_they_came() -> None:
    server = RapServer("http://127.0.0.1:1", secret="whsec_" + "c2VjcmV0" * 4)
    assert server.secrets
    async with pending("memory:") as (runtime, client, thread, call_id, _path):
        parts = runtime.parts
        callbacks = Callbacks(parts.store, parts.side, parts.keys, parts.clock, servers=[server])
        token = parts.keys.mint(thread, call_id, scope_of(server.url))
        body = msgspec.json.encode(result(thread, call_id, "café"))
        good = list(server.secrets.sign("evt_01", parts.clock.now(), body).items())
        async with listening(build(parts.threads, callbacks, token="t"), "127.0.0.1:0") as url:

            async def post(headers: list[tuple[str, str]]) -> int:
                async with client.session.post(
                    f"{url}/callbacks/{token}", data=body, headers=CIMultiDict(headers)
                ) as response:
                    return response.status

            statuses = [
                await post(headers) for headers in ([], [*good, good[1]], [*good, ("Webhook-Id", "x")])
            ]
            assert statuses == [401, 401, 401]
            assert await post(good) == 200
        messages = await client.settled(thread)
        assert messages[-1]["text"] == "got café"
        assert messages[3]["by"]["verified"] == "signature"


async def test_a_wrong_token_is_refused_whatever_its_body() -> None:
    async with served("memory:", workers=0) as (_, client):
        body = io.BytesIO(b" " * 8 * 1024 * 1024)
        async with (
            asyncio.timeout(60),
            client.session.post(f"{client.url}/callbacks/wrong", data=body) as told,
        ):
            assert told.status == 403


async def test_a_wrong_token_is_not_read_without_end() -> None:
    """Who never stops sending is cut off; whether it reads the answer before is the network's to say."""
    async with served("memory:", workers=0) as (_, client):
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 65_536
                yield b" " * 65_536

        async with asyncio.timeout(60):
            try:
                async with client.session.post(f"{client.url}/callbacks/wrong", data=endless()) as told:
                    assert told.status == 403
            except aiohttp.ClientOSError:
                pass
        assert sent < 64 * 1024 * 1024


async def test_a_body_that_comes_too_slowly_is_to_be_sent_again() -> None:
    async with pending("memory:") as (runtime, client, thread, call_id, path):
        parts = runtime.parts
        hurried = CallbackWeb(parts.callbacks, parts.queue, seconds=0.05)
        app = build(parts.threads, parts.callbacks, token="t")
        app.router.routes.insert(0, Route("/callbacks/{token}", hurried.receive, methods=["POST"]))
        slow = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"{"
            await slow.wait()
            yield b"}"

        async with (
            listening(app, "127.0.0.1:0") as url,
            client.session.post(url + path, data=pieces()) as response,
        ):
            slow.set()
            assert response.status == 503
            assert "Retry-After" in response.headers
        assert await client.ask("POST", path, json=result(thread, call_id)) == (200, None)


async def test_too_many_at_once_are_told_when_to_come_again() -> None:
    async with pending("memory:") as (runtime, client, thread, call_id, path):
        parts = runtime.parts
        app = build(
            parts.threads, Callbacks(parts.store, parts.side, parts.keys, parts.clock, at_once=0), token="t"
        )
        async with (
            listening(app, "127.0.0.1:0") as url,
            client.session.post(url + path, json=result(thread, call_id)) as response,
        ):
            assert response.status == 503
            assert int(response.headers["Retry-After"]) >= 1
        assert await client.ask("POST", path, json=result(thread, call_id)) == (200, None)
        assert (await client.settled(thread))[-1]["text"] == "got 42"


@pytest.mark.slow
async def test_a_thousand_callbacks_twice_at_once(tmp_path: Path) -> None:
    """Each of 1,000 threads gets its one result, and every POST is answered with 200."""
    number, over = 1_000, asyncio.Event()
    async with served(store_of("sqlite", tmp_path), [waiting(over)], workers=8) as (runtime, client):
        for start in range(0, number, 100):
            await asyncio.gather(*(runtime.start("echo", f"{start + i}") for i in range(100)))
        calls: dict[str, str] = {}

        async def all_pending() -> bool:
            for row in await runtime.threads(limit=number):
                if row.waits and row.thread not in calls:
                    calls[row.thread] = next(iter(decode_head(row.head, row.shape).pending))
            return len(calls) == number

        await until(all_pending)
        paths = {one: f"/callbacks/{runtime.parts.keys.mint(one, calls[one])}" for one in calls}
        answers = await asyncio.gather(
            *(
                client.ask("POST", paths[one], json=result(one, calls[one], one))
                for one in calls
                for _ in "ab"
            )
        )
        assert answers == [(200, None)] * (2 * number)

        async def all_told() -> bool:
            rows = await runtime.threads(limit=number)
            return all(row.length == 5 and not row.owes for row in rows)

        await until(all_told)
        for one in calls:
            entries = await runtime.parts.threads.history(one)
            assert [type(entry.message).__name__ for entry in entries][-2:] == ["Result", "Turn"]
            assert entries[-1].message.parts == (Text(f"got {one}"),)  # type: ignore[union-attr]
        over.set()
