"""Moving sessions: declared, checked before anything moves, and answered with 200 only when it is done."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.protocol.stubs import Peer, eventually, stub_runtime, talking
from torpor.tools.server import ToolError, ToolServer, migration


def depots(path: Path, name: str = "depots", **options: Any) -> ToolServer:
    server = ToolServer(name, outbox=path / f"{name}.db", **options)

    @server.tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    return server


class Moving:
    """A server that moves sessions when the test lets it."""

    def __init__(self, path: Path, failure: Exception | None = None) -> None:
        self.server = depots(path)
        self.server.migrate(self.move)
        self.moved: list[tuple[str, str]] = []
        self.may_end = asyncio.Event()
        self.failure = failure

    async def move(self, session: str, destination: str) -> None:
        self.moved.append((session, destination))
        await self.may_end.wait()
        if self.failure is not None:
            raise self.failure


async def migrate(peer: Peer, destination: Any, session: Any = "th-1") -> tuple[int, str]:
    status, body = await peer.post("/migrate", {"session_id": session, "destination_url": destination})
    return status, json.loads(body)["error"] if body else ""


async def test_the_manifest_says_whether_sessions_have_to_be_moved(tmp_path: Path) -> None:
    async with talking(Moving(tmp_path).server) as (peer, _):
        assert (await peer.discover())["needsMigration"] is True
    async with talking(depots(tmp_path)) as (peer, _):
        assert "needsMigration" not in await peer.discover()
        assert (await peer.post("/migrate", {"session_id": "x", "destination_url": peer.base}))[0] == 404


async def test_200_comes_when_the_session_has_moved_and_not_before(tmp_path: Path) -> None:
    here = Moving(tmp_path)
    there = ToolServer("depots", outbox=":memory:")
    there.tool(ping)
    async with there.listening() as destination, talking(here.server) as (peer, _):
        asking = [asyncio.create_task(migrate(peer, f"{destination}/")) for _ in range(2)]
        await eventually(lambda: here.moved)
        assert not any(one.done() for one in asking)
        assert await peer.invoke("ping") == 200
        here.may_end.set()
        assert await asyncio.gather(*asking) == [(200, ""), (200, "")]
        assert here.moved == [("th-1", destination)]


def ping() -> str:
    """Answer."""
    return "pong"


async def test_a_plain_function_may_move_sessions_too(tmp_path: Path) -> None:
    moved: list[tuple[str, str]] = []
    server = depots(tmp_path, token="sesame")

    @server.migrate
    def move(session: str, destination: str) -> None:
        moved.append((session, destination))

    async with talking(server) as (peer, _):
        assert await migrate(peer, peer.base) == (200, "")  # itself: it wants a token, which it is not told
        assert moved == [("th-1", peer.base)]
        peer.headers.clear()
        assert (await migrate(peer, peer.base))[0] == 401
        assert len(moved) == 1


@pytest.mark.parametrize(
    ("failure", "status", "reason"),
    [
        (ToolError("the destination refused the import: disk full"), 502, "the destination refused"),
        (ValueError("no /etc/passwd at 10.0.0.7"), 500, "no [hidden] at [hidden]"),
        (KeyError("x"), 500, "the tool has a mistake (KeyError)"),
        (TimeoutError(), 504, "took too long"),
    ],
)
async def test_a_failure_is_told_with_its_reason(
    tmp_path: Path, failure: Exception, status: int, reason: str
) -> None:
    here = Moving(tmp_path, failure)
    here.may_end.set()
    async with talking(here.server) as (peer, _):
        given, text = await migrate(peer, peer.base)
        assert given == status
        assert reason in text
        await migrate(peer, peer.base)
        assert len(here.moved) == 2


async def test_ts_123_nothing_moves_to_where_nobody_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead address, one that hangs, one that is no tool server, one that is another server."""
    monkeypatch.setattr(migration, "REACHED_WITHIN", 0.1)
    here = Moving(tmp_path)
    other = depots(tmp_path, "others")
    async with (
        hanging() as hangs,
        stub_runtime() as stub,
        stub_runtime(otherwise=503) as failing,
        other.listening() as another,
        talking(here.server) as (peer, _),
    ):
        origins = [one.url.removesuffix("/cb") for one in (stub, failing)]
        for destination in ("http://127.0.0.1:1", hangs, *origins, another):
            status, reason = await migrate(peer, destination)
            assert status == 502
            assert "the destination" in reason
    assert here.moved == []


@asynccontextmanager
async def hanging() -> AsyncIterator[str]:
    """A server that takes connections and never answers."""
    waiting: list[asyncio.StreamWriter] = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting.append(writer)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in waiting:
            writer.close()


@pytest.mark.parametrize("destination", [None, "", "nowhere", "ftp://127.0.0.1", 7, "http://"])
async def test_what_is_no_destination_is_refused(tmp_path: Path, destination: Any) -> None:
    here = Moving(tmp_path)
    async with talking(here.server) as (peer, _):
        assert (await migrate(peer, destination))[0] == 400
        assert (await migrate(peer, peer.base, session=""))[0] == 400
    assert here.moved == []


async def test_sessions_are_not_moved_inside_where_callbacks_may_not_go(tmp_path: Path) -> None:
    server = depots(tmp_path, allow_private=False)
    moved: list[str] = []
    server.migrate(lambda session, _: moved.append(session))
    async with server.listening() as url, aiohttp.ClientSession() as http:
        status, reason = await migrate(Peer(url, http, ""), url)
        assert status == 400
        assert "private address" in reason
    assert moved == []
