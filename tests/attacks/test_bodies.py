"""Bodies that are too large, or too many: each sender is told so, and memory stays bounded."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.web.places import TOKEN, echo, served
from torpor.web import callbacks
from torpor.web.app import BODY_LIMIT
from torpor.web.bodies import SMALL, Crowded, Room


def posted(url: str, path: str, body: bytes) -> tuple[int, bytes]:
    """The answer to a client that sends all of a body before it looks for one."""
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    try:
        line.request("POST", path, body, headers)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


@pytest.mark.parametrize(("path", "status"), [("/threads", 413), ("/callbacks/x", 403)])
async def test_who_sends_too_much_reads_the_refusal(path: str, status: int) -> None:
    async with served("memory:", [echo()]) as (runtime, _):
        for _ in range(3):
            answer, told = await asyncio.to_thread(posted, runtime.url, path, b" " * (BODY_LIMIT + 4_000_000))
            assert answer == status
            assert json.loads(told)["error"]["type"] == "refused"


def test_a_room_holds_so_much_and_gets_it_back() -> None:
    room = Room(1_000)
    with room.share() as first, room.share() as second:
        first(SMALL + 600)
        second(SMALL)
        second(400)
        with pytest.raises(Crowded):
            second(1)
        with pytest.raises(Crowded):
            first(1)
    with room.share() as third:
        third(SMALL)
        third(1_000)
        with pytest.raises(Crowded):
            third(1)


async def test_large_callbacks_beyond_the_room_come_again_and_small_ones_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callbacks, "Room", lambda: Room(100_000))
    async with served("memory:", [echo()]) as (runtime, client):
        path = f"/callbacks/{runtime.parts.keys.mint(await client.start(), 'c1')}"
        held, go_on = asyncio.Event(), asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b" " * (SMALL + 90_000)
            held.set()
            await go_on.wait()
            yield b"{}"

        first = asyncio.create_task(client.ask("POST", path, data=pieces()))
        await held.wait()
        assert await answers(client.session, runtime.url + path, SMALL + 50_000) == 503
        assert await answers(client.session, runtime.url + path, SMALL) == 400
        go_on.set()
        assert (await first)[0] == 400
        assert await answers(client.session, runtime.url + path, SMALL + 50_000) == 400


async def answers(session: aiohttp.ClientSession, url: str, size: int) -> int:
    async with session.post(url, data=b" " * size) as answer:
        return answer.status
