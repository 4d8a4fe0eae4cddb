"""Delivering callbacks: retried, never redirected, each to its own place, and their URLs kept secret."""

import asyncio
import itertools
import logging
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import Peer, StubRuntime, eventually, stub_runtime, talking
from torpor.tools.server import Retry, ToolCall, ToolServer

FAST = Retry(first=0.04, longest=0.2)


def echoing(path: Path, **options: Any) -> ToolServer:
    server = ToolServer("echo", outbox=path, **{"retry": FAST, **options})

    @server.tool
    async def echo(text: str) -> str:
        """Give the text back."""
        await asyncio.sleep(0)
        return text

    return server


async def test_server_errors_are_retried_with_growing_gaps_and_the_same_body(tmp_path: Path) -> None:
    async with talking(echoing(tmp_path / "o.db"), script=[503, 500, 502]) as (peer, stub):
        await peer.invoke("echo", {"text": "x"})
        received = await stub.until(lambda all_: len(all_) == 4)
        gaps = [after.at - before.at for before, after in itertools.pairwise(received)]
        assert gaps[0] >= 0.03
        assert gaps[0] < gaps[1] < gaps[2]
        assert len({one.raw for one in received}) == 1
        await eventually(lambda: _not_alive(peer))


async def _not_alive(peer: Peer) -> bool:
    return not await peer.alive("c-1")


async def _dead(asked: Any) -> bool:
    return not await asked


async def test_until_a_result_has_arrived_its_call_is_alive(tmp_path: Path) -> None:
    async with talking(echoing(tmp_path / "o.db"), otherwise=503) as (peer, stub):
        await peer.invoke("echo", {"text": "x"})
        await stub.count(3)
        assert await peer.alive("c-1") is True
        stub.otherwise = 200
        await eventually(lambda: _not_alive(peer))


async def test_a_refusal_is_final(tmp_path: Path) -> None:
    refusals = [400, 401, 404, 409, 410, 413, 422, 429]
    async with talking(echoing(tmp_path / "o.db"), script=list(refusals)) as (peer, stub):
        for status in refusals:
            await peer.invoke("echo", {"text": "x"}, f"c-{status}")
            await stub.result(f"c-{status}")
        await eventually(lambda: _dead(peer.alive("c-400")))
        await peer.invoke("echo", {"text": "y"}, "last")
        await stub.result("last")
        assert [one.body["id"] for one in stub.received] == [f"c-{status}" for status in refusals] + ["last"]


async def test_retry_after_is_honoured(tmp_path: Path) -> None:
    async with talking(echoing(tmp_path / "o.db"), script=[503], headers={"Retry-After": "1"}) as (
        peer,
        stub,
    ):
        await peer.invoke("echo", {"text": "x"})
        received = await stub.until(lambda all_: len(all_) == 2)
        assert received[1].at - received[0].at >= 0.95


async def test_redirects_are_not_followed(tmp_path: Path) -> None:
    async with stub_runtime() as trap:
        server = echoing(tmp_path / "o.db")
        async with talking(server, script=[302, 307], headers={"Location": trap.url}) as (peer, stub):
            await peer.invoke("echo", {"text": "x"})
            received = await stub.until(lambda all_: len(all_) == 3)
            assert {one.path for one in received} == {"/cb"}
            assert trap.received == []


VERBATIM = [
    ("", "/"),
    ("/", "/"),
    ("?a=b", "/?a=b"),
    ("/a/b/c?token=x%2Fy%7E&z=%C3%A9+1", "/a/b/c?token=x%2Fy%7E&z=%C3%A9+1"),
    ("/%2e%2e/x//y;p=1", "/%2e%2e/x//y;p=1"),
]


async def test_callback_urls_are_used_as_they_came(tmp_path: Path) -> None:
    async with talking(echoing(tmp_path / "o.db")) as (peer, stub):
        for tail, asked in VERBATIM:
            peer.callback_url = stub.url.removesuffix("/cb") + tail
            await peer.invoke("echo", {"text": "x"}, f"c{tail}")
            await stub.result(f"c{tail}")
            assert stub.received[-1].path == asked


async def test_a_runtime_that_is_down_is_tried_until_it_is_back(tmp_path: Path) -> None:
    async with stub_runtime() as gone:
        port = int(gone.url.split(":")[2].split("/")[0])
    async with talking(echoing(tmp_path / "o.db")) as (peer, _):
        peer.callback_url = gone.url
        await peer.invoke("echo", {"text": "x"})
        assert await peer.alive("c-1") is True
        async with stub_runtime(port) as back:
            assert (await back.result("c-1"))["text"] == "x"


async def test_what_nobody_takes_is_given_up_in_the_end(tmp_path: Path) -> None:
    server = echoing(tmp_path / "o.db", retry=Retry(first=0.02, longest=0.05, results_for=0.2))
    async with talking(server, otherwise=500) as (peer, stub):
        await peer.invoke("echo", {"text": "x"})
        await eventually(lambda: _not_alive(peer))
        assert len(stub.received) >= 2


async def test_a_hundred_calls_of_three_runtimes_end_where_they_belong(tmp_path: Path) -> None:
    async with (
        stub_runtime() as one,
        stub_runtime() as two,
        talking(echoing(tmp_path / "o.db")) as (peer, three),
    ):
        stubs = [one, two, three]
        peers = [Peer(peer.base, peer.http, stub.url, thread=f"th-{n}") for n, stub in enumerate(stubs)]
        await asyncio.gather(
            *(
                peers[n % 3].invoke("echo", {"text": f"text {n}"}, f"c-{n}", call_id=f"p-{n}")
                for n in range(100)
            )
        )
        for which, stub in enumerate(stubs):
            mine = range(which, 100, 3)
            bodies = await stub.count(len(mine))
            assert sorted((body["id"], body["call_id"], body["text"]) for body in bodies) == sorted(
                (f"c-{n}", f"p-{n}", f"text {n}") for n in mine
            )
            assert {body["group_id"] for body in bodies} == {f"th-{which}"}


async def test_a_dead_runtime_does_not_hold_up_another(tmp_path: Path) -> None:
    dead = StubRuntime(url="http://127.0.0.1:9/cb")
    async with talking(echoing(tmp_path / "o.db")) as (peer, stub):
        lost = Peer(peer.base, peer.http, dead.url, thread="th-lost")
        await asyncio.gather(*(lost.invoke("echo", {"text": "x"}, f"d-{n}") for n in range(100)))
        await peer.invoke("echo", {"text": "y"})
        assert (await stub.result("c-1"))["text"] == "y"


async def test_callback_urls_stay_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "o.db"
    async with talking(echoing(path), script=[503, 404]) as (peer, stub):
        peer.callback_url = stub.url + "/s3cretpath?token=s3crettoken"
        await peer.invoke("echo", {"text": "x"}, "a")
        await stub.count(2)
        peer.callback_url = "http://127.0.0.1:9/s3cretpath"
        await peer.invoke("echo", {"text": "x"}, "b")
        await eventually(lambda: "no answer" in caplog.text)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "refused with 404" in caplog.text
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("torpor"))
    assert "s3cret" not in ours
    assert "s3cret" not in caplog.text


async def test_private_addresses_can_be_forbidden(tmp_path: Path) -> None:
    async with talking(echoing(tmp_path / "o.db", allow_private=False)) as (peer, stub):
        port = stub.url.split(":")[2]
        for host in (
            "127.0.0.1",
            "localhost",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "10.0.0.1",
            "169.254.169.254",
            "0.0.0.0",
        ):
            peer.callback_url = f"http://{host}:{port}"
            status, answer = await peer.post("/invoke", peer.invocation("echo", {"text": "x"}))
            assert status == 400, host
            assert host.encode() not in answer
        assert stub.received == []


async def test_a_name_cannot_hide_a_private_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with talking(echoing(tmp_path / "o.db", allow_private=False)) as (peer, stub):
        # Short forms of an address are no literals, yet they resolve to one.
        peer.callback_url = stub.url.replace("127.0.0.1", "127.1")
        assert await peer.invoke("echo", {"text": "x"}) == 200
        await eventually(lambda: "no answer" in caplog.text)
        assert stub.received == []


async def test_one_running_server_holds_an_outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torpor.tools.server.database.PATIENCE", 0.1)
    path = tmp_path / "o.db"
    async with talking(echoing(path)):
        with pytest.raises(ValueError, match="own file"):
            async with echoing(path).listening():
                raise AssertionError("the outbox was held twice")


async def test_an_outbox_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ValueError, match="newer version"):
        async with echoing(path).listening():
            raise AssertionError("it was opened")


async def test_the_server_answers_again_after_a_stop(tmp_path: Path) -> None:
    server = echoing(tmp_path / "o.db")
    for ident in ("a", "b"):
        async with talking(server) as (peer, stub):
            await peer.invoke("echo", {"text": ident}, ident)
            assert (await stub.result(ident))["text"] == ident


async def test_settled_calls_are_forgotten_in_time(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    async with talking(echoing(path)) as (peer, stub):
        await peer.invoke("echo", {"text": "x"})
        await stub.count(1)
    assert _rows(path) == 1
    async with talking(echoing(path, keep=0.0)):
        pass
    assert _rows(path) == 0


def _rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        (rows,) = connection.execute("SELECT count(*) FROM calls").fetchone()
    finally:
        connection.close()
    number: int = rows
    return number


async def test_a_thread_of_its_own_can_be_served_by_another_asgi_server(tmp_path: Path) -> None:
    """The app works without lifespan events: it starts at its first request."""
    import uvicorn

    server = echoing(tmp_path / "o.db")

    @server.tool
    def who(call: ToolCall) -> str:
        """Say who asked."""
        return call.thread

    served = uvicorn.Server(uvicorn.Config(server.app, port=0, lifespan="off", log_config=None))
    served.capture_signals = lambda: __import__("contextlib").nullcontext()  # type: ignore[method-assign]
    task = asyncio.create_task(served.serve())
    await eventually(lambda: served.started)
    port = served.servers[0].sockets[0].getsockname()[1]
    try:
        import aiohttp

        async with stub_runtime() as stub, aiohttp.ClientSession() as http:
            peer = Peer(f"http://127.0.0.1:{port}", http, stub.url)
            assert (await peer.discover())["endpoint"] == f"{peer.base}/invoke"
            await peer.invoke("who")
            assert (await stub.result("c-1"))["text"] == "th-1"
            async with server._running():
                pass
    finally:
        served.should_exit = True
        await task


async def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torpor.tools.server.work.KEEP_TRYING", 0.05)
    server = echoing(tmp_path / "o.db")
    gate = asyncio.Event()

    @server.tool
    async def large() -> str:
        """Give a large result."""
        await gate.wait()
        return "x" * 100_000

    async with talking(server) as (peer, stub):
        await peer.invoke("large", ident="before")
        await eventually(lambda: peer.alive("before"))
        await server._database.do(lambda db: db.execute("PRAGMA max_page_count = 1").fetchone())
        status, answer = await peer.post("/invoke", peer.invocation("echo", {"text": "y" * 50_000}, "during"))
        assert status == 503
        assert b"full" not in answer
        gate.set()
        assert await peer.alive("before") is True
        await server._database.do(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchone())
        assert len((await stub.result("before"))["text"]) == 100_000
        assert await peer.invoke("echo", {"text": "y" * 50_000}, "during") == 200
        assert len((await stub.result("during"))["text"]) == 50_000


async def test_a_flood_is_told_to_come_again(tmp_path: Path) -> None:
    async with talking(echoing(tmp_path / "o.db", requests_per_second=0.5)) as (peer, _):
        members = {"thread_id": "th-1", "tool_call_id": "c-1"}
        statuses = [(await peer.post("/tool_call_status", members))[0] for _ in range(8)]
        assert statuses == [200] * 5 + [503] * 3
