"""Server-sent events: committed messages once each and in order, however often a client comes back."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.web.places import TOKEN, Client, echo, served, store_of, until
from torpor import Agent
from torpor.core.messages import Text
from torpor.models import ScriptedModel
from torpor.ports import LiveEvent
from torpor.runtime.live import BUFFERED
from torpor.wiring import open_parts

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])


class Event(msgspec.Struct):
    """One event as a client sees it."""

    name: str = ""
    id: str = ""
    data: Any = None


@contextlib.asynccontextmanager
async def watching(
    client: Client, thread: str, after: int | None = None, last: str | None = None
) -> AsyncIterator[AsyncIterator[Event]]:
    """The events of a thread, until the block ends."""
    query = "" if after is None else f"?after={after}"
    headers = {} if last is None else {"Last-Event-ID": last}
    url = f"{client.url}/threads/{thread}/events{query}"
    async with client.session.get(url, headers=headers) as response:
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _events(response)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    event = Event()
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        field, _, value = line.partition(": ")
        match field:
            case "event":
                event.name = value
            case "id":
                event.id = value
            case "data":
                event.data = msgspec.json.decode(value)
            case "" if event.name:
                yield event
                event = Event()


async def take(events: AsyncIterator[Event], number: int) -> list[Event]:
    """The next so many committed messages."""
    found: list[Event] = []
    async with asyncio.timeout(60):
        while len(found) < number:
            event = await anext(events)
            if event.name == "message":
                found.append(event)
    return found


@STORES
async def test_messages_come_once_and_in_order(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        thread = await client.start("one")
        async with watching(client, thread) as events:
            first = await take(events, 3)
            await client.ask("POST", f"/threads/{thread}/messages", json={"text": "two"})
            rest = await take(events, 2)
        assert [event.id for event in first + rest] == ["1", "2", "3", "4", "5"]
        assert [event.data["position"] for event in first + rest] == [1, 2, 3, 4, 5]
        _, body = await client.ask("GET", f"/threads/{thread}/messages")
        assert [event.data for event in first + rest] == body["messages"]


@STORES
async def test_who_comes_back_misses_nothing_and_sees_nothing_twice(kind: str, tmp_path: Path) -> None:
    async with served(store_of(kind, tmp_path)) as (_, client):
        thread = await client.start("0")
        seen: list[Event] = []
        last: str | None = None
        for number in range(1, 8):
            # Each time the client leaves in the middle of a stream that goes on meanwhile.
            async with watching(client, thread, last=last) as events:
                await client.ask("POST", f"/threads/{thread}/messages", json={"text": str(number)})
                seen += await take(events, 1)
            last = seen[-1].id
        total = await _length(client, thread, 8)
        while len(seen) < total:
            async with watching(client, thread, last=seen[-1].id) as events:
                seen += await take(events, min(2, total - len(seen)))
        assert [int(event.id) for event in seen] == list(range(1, total + 1))
        said = [event.data["text"] for event in seen if event.data["type"] == "said"]
        assert said == [str(number) for number in range(8)]


async def _length(client: Client, thread: str, said: int) -> int:
    """The thread's length once all that was said is answered."""
    length = 0

    async def quiet() -> bool:
        nonlocal length
        _, found = await client.ask("GET", f"/threads/{thread}")
        _, page = await client.ask("GET", f"/threads/{thread}/messages?limit=1000")
        length = found["length"]
        there = [message for message in page["messages"] if message["type"] == "said"]
        return len(there) == said and not found["explanation"]["waits"]

    await until(quiet)
    return length


async def test_where_a_stream_begins() -> None:
    begins = ((None, None, 1), (2, None, 3), (None, "2", 3), (0, "2", 3), (2, "0", 1))
    async with served("memory:") as (_, client):
        thread = await client.start()
        await client.settled(thread)
        for after, last, first in begins:
            async with watching(client, thread, after, last) as events:
                assert (await take(events, 1))[0].id == str(first)


async def test_a_position_that_is_none_is_refused() -> None:
    async with served("memory:") as (_, client):
        thread = await client.start()
        await client.settled(thread)
        for last in ("x", "-1", "1.5", "9" * 20, "100"):
            headers = {"Last-Event-ID": last}
            status, body = await client.ask("GET", f"/threads/{thread}/events", headers=headers)
            assert (status, body["error"]["type"]) == (400, "refused"), last


async def test_text_is_live_and_has_no_id() -> None:
    model = ScriptedModel(["some words that come in pieces"], chunk=6, pace=0.005)
    async with served("memory:", [Agent("slow", model=model)], workers=1) as (_, client):
        _, started = await client.ask("POST", "/threads", json={"agent": "slow"})
        thread = started["id"]
        async with watching(client, thread) as events:
            await client.ask("POST", f"/threads/{thread}/messages", json={"text": "go"})
            seen: list[Event] = []
            async with asyncio.timeout(60):
                while not (seen and seen[-1].data.get("type") == "turn"):
                    seen.append(await anext(events))
        live = [event for event in seen if event.name != "message"]
        assert {event.name for event in live} >= {"started", "text", "received"}
        assert all(event.id == "" for event in live)
        written = "".join(event.data["text"] for event in live if event.name == "text")
        assert written == "some words that come in pieces" == seen[-1].data["text"]


async def test_who_comes_late_gets_the_text_so_far() -> None:
    stuck = asyncio.Event()
    from torpor.models import say, stall

    model = ScriptedModel([[say("first half, "), stall(until=stuck), say("second half")]])
    async with served("memory:", [Agent("slow", model=model)], workers=1) as (runtime, client):
        thread = await client.start(agent="slow")

        async def begun() -> bool:
            return "first half" in str(runtime.parts.live._snapshot(thread))

        await until(begun)
        async with watching(client, thread, last="0") as events, asyncio.timeout(60):
            while (event := await anext(events)).name != "text":
                pass
            assert event.data == {"text": "first half, "}
            stuck.set()


async def test_what_is_not_read_yet_is_shown_as_received() -> None:
    async with served("memory:", workers=0) as (_, client):
        thread = await client.start("are you there?")
        async with watching(client, thread) as events, asyncio.timeout(60):
            event = await anext(events)
        assert (event.name, event.id, event.data["text"]) == ("received", "", "are you there?")
        assert event.data["signal"].startswith("said/")


async def test_silence_is_filled_and_a_client_that_goes_is_forgotten() -> None:
    async with served("memory:", workers=0) as (runtime, client):
        streams = runtime.app.state.streams
        streams.keep_alive = 0.02
        thread = await client.start()
        url = f"{client.url}/threads/{thread}/events"
        async with client.session.get(url) as response, asyncio.timeout(60):
            while await response.content.readline() != b": still here\n":
                pass
            assert streams.count == 1
            assert runtime.parts.live.watched(thread)
            response.close()

        async def forgotten() -> bool:
            return streams.count == 0 and not runtime.parts.live.watched(thread)

        await until(forgotten)


async def test_a_server_that_stops_ends_its_streams() -> None:
    async with contextlib.AsyncExitStack() as stack:
        inner = contextlib.AsyncExitStack()
        _, client = await inner.enter_async_context(served("memory:", workers=0))
        await stack.enter_async_context(aiohttp.ClientSession())
        thread = await client.start()
        session = await stack.enter_async_context(
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
        )
        async with session.get(f"{client.url}/threads/{thread}/events") as response:
            assert await response.content.readline() == b"retry: 2000\n"
            async with asyncio.timeout(3):
                await inner.aclose()
                await response.content.read()
            assert response.content.at_eof()


async def test_what_another_process_commits_is_seen(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'shared.db'}"
    async with served(store, [echo()], workers=0) as (_, client), open_parts(store, [echo()]) as other:
        thread = await client.start("over there")
        async with watching(client, thread) as events:
            worker = other.worker(1)
            worker.start()
            seen = await take(events, 3)
            await worker.stop(1)
        assert [event.data["type"] for event in seen] == ["noted", "said", "turn"]


async def test_a_client_that_does_not_read_holds_up_nobody_and_loses_no_message() -> None:
    async with served("memory:") as (runtime, client):
        thread = await client.start()
        await client.settled(thread)
        live = runtime.parts.live
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.setblocking(False)
            host, port = client.url.removeprefix("http://").split(":")
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, (host, int(port)))
            lines = [
                f"GET /threads/{thread}/events HTTP/1.1",
                f"Host: {host}",
                f"Authorization: Bearer {TOKEN}",
            ]
            await loop.sock_sendall(slow, "\r\n".join([*lines, "", ""]).encode())

            async def connected() -> bool:
                return live.watched(thread)

            await until(connected)
            for _ in range(200):
                for _ in range(100):
                    live.publish(thread, LiveEvent("text", "x" * 1_000))
                await asyncio.sleep(0)
            assert max(len(watcher._events) for watcher in live._watchers[thread]) <= BUFFERED
            await runtime.parts.threads.say(thread, [Text("the last words")])
            received = b""
            async with asyncio.timeout(60):
                while b'"text":"echo the last words"' not in received:
                    received = received[-100_000:] + await loop.sock_recv(slow, 65_536)
