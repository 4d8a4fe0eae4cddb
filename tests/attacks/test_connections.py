"""Strangers who open connections: none may cost memory or a file for long, whatever it sends or does not."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

import pytest

from tests.web.places import echo, served
from torpor.connections import HEAD_LIMIT, Connection
from torpor.tools.server import ToolServer

START = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /callbacks/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
MOST_SENT = 8_000_000
ENDLESS = {
    "one header": (START + b"X: ", b"y" * 10_000),
    "many headers": (START, b"X: y\r\n" * 2_000),
    "a path": (b"GET /", b"y" * 10_000),
    "trailers": (POST + b"0\r\n", b"X: y\r\n" * 2_000),
    "chunk extensions": (POST + b"1;a=", b"y" * 10_000),
}


@contextlib.asynccontextmanager
async def web() -> AsyncIterator[str]:
    async with served("memory:", [echo()]) as (runtime, _):
        yield runtime.url


@contextlib.asynccontextmanager
async def kit() -> AsyncIterator[str]:
    server = ToolServer("tools", outbox=":memory:")

    @server.tool
    def ping() -> str:
        """Answer."""
        return "pong"

    async with server.listening() as url:
        yield url


Server = Callable[[], AbstractAsyncContextManager[str]]
SERVERS = pytest.mark.parametrize("server", [web, kit])


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(url)
    return await asyncio.open_connection(place.hostname, place.port)


async def sent_before_the_end(url: str, pieces: Iterable[bytes]) -> int:
    """Bytes that a server lets itself be sent, up to ``MOST_SENT``."""
    _, writer = await connect(url)
    sent = 0
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            if sent > MOST_SENT:
                break
    writer.close()
    return sent


@SERVERS
@pytest.mark.parametrize("kind", ENDLESS)
async def test_endless_heads_are_cut(server: Server, kind: str) -> None:
    head, more = ENDLESS[kind]
    async with server() as url:
        assert await sent_before_the_end(url, itertools.chain([head], itertools.repeat(more))) < MOST_SENT


@SERVERS
@pytest.mark.parametrize("said", [b"", b"GET /hea", START + b"X: y\r\n"])
async def test_heads_that_do_not_come_are_not_waited_for(
    server: Server, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "head_seconds", 0.05)
    async with server() as url:
        reader, writer = await connect(url)
        writer.write(said)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_a_second_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "head_seconds", 0.05)
    async with web() as url:
        reader, writer = await connect(url)
        writer.write(START + b"\r\n")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(START)
        async with asyncio.timeout(4):  # less than the time for which an idle connection is kept
            await reader.read()
        writer.close()


async def test_connections_beyond_the_limit_are_refused_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with web() as url:
        monkeypatch.setattr(Connection, "most", 3)
        opened = [await connect(url) for _ in range(3)]
        for _, writer in opened:
            writer.write(START + b"\r\n")
        for reader, _ in opened:
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        reader, writer = await connect(url)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        for _, one in [*opened, (reader, writer)]:
            one.close()


async def test_ordinary_large_requests_pass() -> None:
    body = b"x" * (4 * HEAD_LIMIT)
    async with web() as url:
        reader, writer = await connect(url)
        writer.write(
            b"POST /callbacks/x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        assert b" 403 " in await reader.readuntil(b"\r\n\r\n")
        writer.close()
