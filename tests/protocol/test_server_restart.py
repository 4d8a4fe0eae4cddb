"""A tool server that dies: what it accepted and what it owes is there when it comes back."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.protocol.stubs import Peer, StubRuntime, eventually, stub_runtime

SERVED = Path(__file__).with_name("served.py")


class Served:
    """Starts and kills the real process."""

    def __init__(self, path: Path, http: aiohttp.ClientSession, stub: StubRuntime) -> None:
        self.effects_path = path / "effects"
        self.outbox = path / "o.db"
        self.peer = Peer("", http, stub.url)
        self.process: asyncio.subprocess.Process | None = None

    def effects(self) -> list[str]:
        return self.effects_path.read_text().splitlines() if self.effects_path.exists() else []

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            SERVED,
            self.outbox,
            self.effects_path,
            "0",
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "RAP_EMBEDDED": "1"},
        )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 20)
        self.peer.base = f"http://127.0.0.1:{json.loads(line)['port']}"

    async def end(self, number: signal.Signals) -> bytes:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(number)
        await asyncio.wait_for(self.process.wait(), 10)
        return await self.process.stdout.read()


@contextlib.asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Served, StubRuntime]]:
    async with stub_runtime() as stub, aiohttp.ClientSession() as http:
        one = Served(path, http, stub)
        await one.start()
        try:
            yield one, stub
        finally:
            if one.process is not None and one.process.returncode is None:
                await one.end(signal.SIGKILL)


def has(effects: Callable[[], list[str]], *wanted: str) -> Callable[[], bool]:
    return lambda: set(wanted) <= set(effects())


async def test_what_was_owed_and_running_survives_kill_9(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, stub):
        peer = server.peer
        stub.otherwise = 503
        for ident, tool in (("q", "quick"), ("f", "fragile"), ("k", "keyed"), ("n", "count"), ("w", "watch")):
            assert await peer.invoke(tool, ident=ident) == 200
        hanging = ["fragile th-1/f", "keyed th-1/k", "counted", "watching"]
        await eventually(has(server.effects, "quick th-1/q", *hanging))
        await stub.until(lambda _: {one.body["id"] for one in stub.received} >= {"q", "n", "w"})
        first = next(one.raw for one in stub.received if one.body["id"] == "q")
        await server.end(signal.SIGKILL)

        stub.received.clear()
        stub.otherwise = 200
        await server.start()
        assert (await stub.result("q"))["text"] == "done"
        assert [one.raw for one in stub.received if one.body.get("id") == "q"] == [first]
        unknown = "Error: the tool server restarted while this call ran; its outcome is unknown"
        assert (await stub.result("f"))["text"] == unknown
        assert (await stub.result("k"))["text"] == "done again"
        await stub.until(lambda _: len(of(stub, "n")) == 3 and len(of(stub, "w")) == 1)
        assert [(event["text"], event["seq"]) for event in of(stub, "n")] == [("1", 1), ("2", 2), ("3", 3)]
        assert of(stub, "n")[-1]["final"] is True
        assert of(stub, "w")[0]["final"] is True
        assert of(stub, "w")[0]["text"].startswith("Error: the tool server restarted and this subscription")
        for ident in ("q", "f", "k", "n", "w"):
            await eventually(dead(peer, ident))
        effects = server.effects()
        assert effects.count("quick th-1/q") == effects.count("fragile th-1/f") == 1
        assert effects.count("keyed th-1/k") == 2

        await peer.invoke("quick", ident="q")
        await stub.until(lambda _: len([one for one in stub.received if one.body.get("id") == "q"]) == 2)
        assert server.effects().count("quick th-1/q") == 1


def of(stub: StubRuntime, ident: str) -> list[dict[str, Any]]:
    return [one.body for one in stub.received if one.body.get("tool_call_id") == ident]


def dead(peer: Peer, ident: str) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return not await peer.alive(ident)

    return ask


async def test_a_subscription_is_alive_after_a_restart_and_can_be_cancelled(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, stub):
        await server.peer.invoke("count", ident="n")
        await stub.count(3)
        await eventually(has(server.effects, "counted"))
        await server.peer.cancel("n")
        await server.end(signal.SIGKILL)
        await server.start()
        assert await server.peer.alive("n") is False
        await server.peer.invoke("quick", ident="q")
        await stub.result("q")
        assert len(stub.received) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly_and_the_runtime_is_told(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with served(tmp_path) as (server, stub):
        await server.peer.invoke("fragile", ident="f")
        await server.peer.invoke("partial", ident="p")
        await server.peer.invoke("keyed", ident="k")
        await eventually(has(server.effects, "fragile th-1/f", "partial", "keyed th-1/k"))
        rest = await server.end(number)
        assert rest == b""
        assert server.process is not None
        assert server.process.returncode == 0
        stopped = "Error: the tool server stopped while this call ran; its outcome is unknown"
        assert (await stub.result("f"))["text"] == stopped
        assert (await stub.result("p"))["text"] == "half"
        assert len(stub.received) == 2
        await server.start()
        assert (await stub.result("k"))["text"] == "done again"


async def test_functions_that_never_end_do_not_keep_it_from_stopping(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, stub):
        await server.peer.invoke("stubborn", ident="s")
        await server.peer.invoke("blocking", ident="b")
        await eventually(has(server.effects, "stubborn", "blocking"))
        await server.end(signal.SIGTERM)
        assert server.process is not None
        assert server.process.returncode == 0
        for ident in ("s", "b"):
            assert (await stub.result(ident))["text"].startswith("Error: the tool server stopped")


async def test_a_choice_outlives_kill_9(tmp_path: Path) -> None:
    """The question stands, its answer counts once; what may not run again ends, its answer has no effect."""
    async with served(tmp_path) as (server, stub):
        peer = server.peer
        await peer.invoke("pick", ident="p")
        await peer.invoke("pick_once", ident="o")
        await stub.until(lambda _: {one.body["id"] for one in stub.received} == {"p", "o"})
        urls = {one.body["id"]: urlsplit(one.body["response_url"]).path for one in stub.received}
        await server.end(signal.SIGKILL)
        await server.start()
        text = (await eventually(lambda: settled(stub, "o")))["text"]
        assert text == "Error: the tool server restarted while this call ran; its outcome is unknown"
        for _ in range(2):
            for ident, path in urls.items():
                assert await peer.post(path, {"id": ident, "selected": 0}) == (200, b"")
        assert (await eventually(lambda: settled(stub, "p")))["text"] == "red"
        assert server.effects() == ["picked red"]
        # Killed between sending and noting that it was sent, it sends a question again, under the same id.
        asked = {one.body["event_id"] for one in stub.received if one.body["type"] == "user_choice"}
        assert len(asked) == 2


def settled(stub: StubRuntime, ident: str) -> dict[str, Any] | None:
    bodies = [one.body for one in stub.received]
    return next((one for one in bodies if one["type"] == "tool_result" and one["id"] == ident), None)
