"""Cancellations, closures and status checks: always 200, never a word about the state, and effective."""

import asyncio
import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import eventually, talking
from torpor.tools.server import Retry, ToolCall, ToolServer


class Yard:
    """A server with tools that end only when they are told to."""

    def __init__(self, path: Path) -> None:
        self.server = ToolServer("yard", outbox=path / "o.db", grace=0.3, retry=Retry(first=0.03))
        for function in (self.waits, self.partial, self.stubborn, self.threaded, self.fast):
            self.server.tool(function)
        self.calls: dict[str, ToolCall] = {}
        self.ended: list[str] = []
        self.release = threading.Event()

    async def waits(self, call: ToolCall) -> None:
        """Wait for ever."""
        self.calls[call.id] = call
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(call.id)

    async def partial(self, call: ToolCall) -> str:
        """Give what there is when cancelled."""
        self.calls[call.id] = call
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "2 of 9 shelves"
        return "9 of 9 shelves"

    async def stubborn(self, call: ToolCall) -> None:
        """Ignore cancellation."""
        self.calls[call.id] = call
        while not self.release.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    def threaded(self, call: ToolCall) -> str:
        """Look at the cancelled event from a thread."""
        self.calls[call.id] = call
        while not call.cancelled.is_set():
            self.release.wait(0.01)
        return "stopped half-way"

    async def fast(self) -> str:
        """Answer at once."""
        return "fast"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("waits", "Error: cancelled"),
        ("partial", "2 of 9 shelves"),
        ("stubborn", "Error: cancelled"),
        ("threaded", "stopped half-way"),
    ],
)
async def test_a_cancelled_call_stops_and_still_has_its_result(tmp_path: Path, tool: str, text: str) -> None:
    yard = Yard(tmp_path)
    async with talking(yard.server) as (peer, stub):
        await peer.invoke(tool)
        await eventually(lambda: "c-1" in yard.calls)
        assert await peer.alive("c-1") is True
        assert await peer.cancel("c-1") == (200, b"")
        assert await peer.cancel("c-1") == (200, b"")
        assert (await stub.result("c-1"))["text"] == text
        assert yard.calls["c-1"].cancelled.is_set()
        await eventually(lambda: _dead(peer.alive("c-1")))
        assert len(stub.received) == 1
        yard.release.set()


async def _dead(asked: Any) -> bool:
    return not await asked


async def test_notices_say_the_same_for_known_and_unknown_calls(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    async with talking(yard.server) as (peer, stub):
        await peer.invoke("waits", ident="running")
        await eventually(lambda: "running" in yard.calls)
        await peer.invoke("fast", ident="done")
        await stub.result("done")
        for ident in ("nobody", "done"):
            assert await peer.cancel(ident) == (200, b"")
        assert await peer.cancel("running", thread="th-foreign") == (200, b"")
        assert await peer.close("th-unknown") == (200, b"")
        assert await peer.alive("running") is True
        assert await peer.cancel("running") == (200, b"")
        await stub.result("running")
        assert yard.ended == ["running"]


UNUSABLE: list[Any] = ["", "a\u0000", "x" * 257, 7, None, ["c-1"], "\ud800", "line\nbreak"]


async def test_ids_that_cannot_be_ids_are_refused(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    async with talking(yard.server) as (peer, stub):
        await peer.invoke("waits")
        await eventually(lambda: "c-1" in yard.calls)
        for ident, path in itertools.product(UNUSABLE, ("/cancel_tool_call", "/tool_call_status")):
            for members in (
                {"thread_id": ident, "tool_call_id": "c-1"},
                {"thread_id": "th-1", "tool_call_id": ident},
            ):
                status, body = await peer.post(path, members)
                assert status == 400
                assert b"c-1" not in body
            assert (await peer.post("/close_thread", {"thread_id": ident}))[0] == 400
        assert await peer.alive("c-1") is True
        assert stub.received == []


async def test_asking_changes_nothing(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    async with talking(yard.server, otherwise=503) as (peer, stub):
        assert await peer.alive("nobody") is False
        await peer.invoke("partial")
        await eventually(lambda: "c-1" in yard.calls)
        assert [await peer.alive("c-1") for _ in range(10)] == [True] * 10
        status, body = await peer.post("/tool_call_status", {"thread_id": "th-1", "tool_call_id": "c-1"})
        assert (status, json.loads(body)) == (200, {"alive": True})
        await peer.cancel("c-1")
        await stub.count(1)
        assert await peer.alive("c-1") is True
        stub.otherwise = 200
        await stub.count(2)
        assert stub.received[0].raw == stub.received[1].raw


async def test_closing_a_thread_stops_its_calls_and_cleans_up_in_the_background(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    closed: list[str] = []
    may_end = asyncio.Event()

    @yard.server.on_close
    async def clean(thread: str) -> None:
        await may_end.wait()
        closed.append(thread)
        raise RuntimeError("cleaning failed")

    async with talking(yard.server) as (peer, stub):
        await peer.invoke("waits", ident="mine")
        peer.thread = "th-2"
        await peer.invoke("waits", ident="other")
        await eventually(lambda: len(yard.calls) == 2)
        assert await peer.close("th-1") == (200, b"")
        assert (await stub.result("mine"))["text"] == "Error: cancelled"
        assert closed == []
        assert await peer.close("th-1") == (200, b"")
        may_end.set()
        await eventually(lambda: closed == ["th-1", "th-1"])
        assert await peer.alive("other", thread="th-2") is True
        assert await peer.close("th-2") == (200, b"")
        await stub.result("other")


async def test_a_call_may_come_after_its_thread_was_closed(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    async with talking(yard.server) as (peer, stub):
        await peer.close()
        await peer.invoke("fast")
        assert (await stub.result("c-1"))["text"] == "fast"
