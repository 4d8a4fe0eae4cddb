"""Readers that do not read: what is kept for them is bounded, each by itself and all together."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest

from tests.web.places import TOKEN, Client, served, until
from torpor import Agent
from torpor.clock import SystemClock
from torpor.core.codec import encode
from torpor.core.messages import Said, Text
from torpor.models import ScriptedModel
from torpor.ports import LiveEvent, StoredMessage
from torpor.runtime import live
from torpor.runtime.following import HEAVY, committed
from torpor.runtime.live import LocalLive
from torpor.stores.memory import MemoryStore
from torpor.testing.samples import commit_on, thread_row
from torpor.web import live as web_live
from torpor.web.live import ROOM

MEGA = 1_000_000


def held(one: LocalLive) -> int:
    """Characters that all watchers hold, counted anew."""
    return sum(len(e.text) for many in one._watchers.values() for w in many for e in w._events)


async def follow(one: LocalLive, thread: str) -> Any:
    """A watcher that has connected and takes nothing more."""
    stream = one.follow(thread)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    one.publish(thread, LiveEvent("text", "first"))
    await waiting
    return stream


async def test_a_watcher_that_takes_nothing_keeps_the_latest_only() -> None:
    one = LocalLive()
    stream = await follow(one, "t")
    for number in range(50):
        one.publish("t", LiveEvent("text", f"{number:03}" + "x" * 100_000))
    assert held(one) <= live.HELD
    first = await anext(stream)
    assert first.text[:3] == "045"
    await stream.aclose()
    assert (held(one), one._held.size) == (0, 0)


async def test_all_watchers_together_keep_a_bounded_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HELD_BY_ALL", 2 * MEGA)
    one = LocalLive()
    streams = [await follow(one, f"t{number}") for number in range(20)]
    for number in range(20):
        for _ in range(4):
            one.publish(f"t{number}", LiveEvent("view", "x" * 120_000, name="v"))
    assert held(one) == one._held.size <= 2 * MEGA
    for stream in streams:
        await stream.aclose()
    assert one._held.size == 0


async def test_an_event_too_large_for_anybody_is_dropped() -> None:
    one = LocalLive()
    stream = await follow(one, "t")
    one.publish("t", LiveEvent("text", "x" * (live.HELD + 1)))
    one.publish("t", LiveEvent("text", "next"))
    assert (await anext(stream)).text == "next"
    await stream.aclose()


class Counting(MemoryStore):
    """Says how many messages are asked for at once."""

    asked: list[int]

    async def read(self, thread: str, after: int = 0, limit: int = 1000) -> list[StoredMessage]:
        self.asked.append(limit)
        return await super().read(thread, after, limit)


async def test_of_a_long_history_few_heavy_messages_are_held_and_all_are_told_in_order() -> None:
    store = Counting(SystemClock())
    store.asked = []
    await store.create(thread_row("t"))
    heavy = [Said(1.0, (Text(f"{number:03}" + "x" * (HEAVY // 3)),)) for number in range(40)]
    light = [Said(1.0, (Text(f"{number:03}"),)) for number in range(40, 900)]
    kept = tuple(StoredMessage(at, encode(one)) for at, one in enumerate([*heavy, *light], 1))
    await store.commit(commit_on(await store.load("t"), messages=kept))
    stream = committed(store, LocalLive(), SystemClock(), "t", 0)
    told = [await anext(stream) for _ in range(900)]
    await stream.aclose()
    assert [entry.position for entry in told] == list(range(1, 901))
    assert max(store.asked) <= 500
    assert max(store.asked[1:8]) <= 6  # after heavy ones few are asked for


async def stuck(client: Client, thread: str) -> socket.socket:
    """A connection that asks for a thread's events and reads none."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    slow.setblocking(False)
    host, port = client.url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    await loop.sock_connect(slow, (host, int(port)))
    lines = [
        f"GET /threads/{thread}/events HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {TOKEN}",
        "",
        "",
    ]
    await loop.sock_sendall(slow, "\r\n".join(lines).encode())
    return slow


async def test_a_client_that_takes_nothing_is_dropped_and_what_it_held_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_live, "SLOWEST", 1 << 40)
    loud = Agent("loud", model=ScriptedModel(lambda _: "y" * 20 * MEGA))
    async with served("memory:", [loud]) as (runtime, client):
        streams = runtime.app.state.streams
        streams.patience = 0.3
        thread = await client.start("go", "loud")
        await client.settled(thread)
        slow = await stuck(client, thread)

        async def began() -> bool:
            return bool(streams.room._left < ROOM)

        await until(began)

        async def gone() -> bool:
            return bool(streams.room._left == ROOM and streams.count == 0)

        await until(gone)
        slow.close()
        status, _ = await client.ask("GET", f"/threads/{thread}")
        assert status == 200


async def test_a_stream_for_which_there_is_no_room_ends_and_comes_back() -> None:
    loud = Agent("loud", model=ScriptedModel(lambda _: "y" * MEGA))
    async with served("memory:", [loud]) as (runtime, client):
        thread = await client.start("go", "loud")
        await client.settled(thread)
        streams = runtime.app.state.streams
        with streams.room.share() as grow:
            grow(streams.room._left + 1)
            seen = await _read(client, thread)
            assert (b"retry: 2000" in seen, b"yyy" in seen) == (True, False)
        assert b"y" * 1_000 in await _read(client, thread, enough=MEGA)


async def _read(client: Client, thread: str, enough: int = 1 << 60) -> bytes:
    """What a stream brings until it ends, or has brought enough."""
    seen = b""
    timeout = aiohttp.ClientTimeout(total=20)
    async with client.session.get(f"{client.url}/threads/{thread}/events", timeout=timeout) as response:
        async for piece in response.content.iter_any():
            seen += piece
            if len(seen) > enough:
                break
    return seen
