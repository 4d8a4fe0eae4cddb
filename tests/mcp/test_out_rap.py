"""RAP tool servers for MCP clients: each tool is one of theirs, each call a thread."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client

from tests.mcp.counter import served
from torpor import Runtime
from torpor.tools.server import Image, Retry, ToolCall, ToolError, ToolServer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Depots:
    """A tool server whose tools wait for events of the test."""

    def __init__(self, folder: Path) -> None:
        self.kit = kit = ToolServer(
            "depots", outbox=folder / "outbox.db", retry=Retry(first=0.05, longest=0.2), grace=0.5
        )
        self.go = asyncio.Event()
        self.closed: list[str] = []

        @kit.tool(read_only=True)
        async def stock(part: str) -> int:
            """Count the units of a part."""
            return len(part)

        @kit.tool
        async def picture() -> Image:
            """Show a pixel."""
            return Image(base64.b64decode(PIXEL), "image/png")

        @kit.tool
        async def recite(length: int) -> str:
            """Recite a long text."""
            return "é" * length

        @kit.tool(destructive=True)
        async def scrap(part: str) -> None:
            """Scrap a part."""
            raise ToolError(f"{part} is bolted down")

        @kit.tool
        async def slow(call: ToolCall) -> str:
            """Be slow."""
            await call.progress(0.5, "half way")
            await self.go.wait()
            return "done"

        @kit.tool
        async def watch(call: ToolCall) -> None:
            """Tell of two deliveries."""
            await call.subscribe("watching")
            await self.go.wait()
            await call.event("a truck")
            await call.event("a train", final=True)

        @kit.tool
        async def pick(call: ToolCall) -> str:
            """Ask which."""
            return (await call.choose("Which?", ["red", "blue"])).text


@contextlib.asynccontextmanager
async def depots(tmp_path: Path) -> AsyncIterator[tuple[Depots, Client, Runtime]]:
    given = Depots(tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(given.kit.listening())
        server, runtime = await stack.enter_async_context(served([], rap=[url]))
        client = await stack.enter_async_context(Client(server, mode="2026-07-28"))
        yield given, client, runtime


def text(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


def thread_of(result: types.CallToolResult) -> str:
    assert result.meta is not None
    return str(result.meta["torpor/thread"])


async def test_its_tools_are_offered_with_their_own_shapes(tmp_path: Path) -> None:
    async with depots(tmp_path) as (_, client, _):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "threads",
            "wait",
            "answer",
            "stop",
            "stock",
            "recite",
            "picture",
            "scrap",
            "slow",
            "watch",
            "pick",
        }
        assert tools["stock"].description == "Count the units of a part."
        assert tools["stock"].input_schema["properties"]["part"]["type"] == "string"
        hints = {name: tool.annotations and tool.annotations.destructive_hint for name, tool in tools.items()}
        assert (hints["scrap"], hints["stock"]) == (True, False)


async def test_a_call_gives_its_result_and_its_thread_is_closed(tmp_path: Path) -> None:
    async with depots(tmp_path) as (_, client, runtime):
        result = await client.call_tool("stock", {"part": "bolt"})
        assert (text(result), result.is_error) == ("4", False)
        thread = runtime.thread(thread_of(result))
        while (await thread.row()).state != "closed":
            await asyncio.sleep(0.01)


async def test_a_picture_is_a_picture(tmp_path: Path) -> None:
    async with depots(tmp_path) as (_, client, _):
        found = (await client.call_tool("picture", {})).content
        part = next(part for part in found if isinstance(part, types.ImageContent))
        assert (part.data, part.mime_type) == (PIXEL, "image/png")


async def test_a_long_text_comes_whole(tmp_path: Path) -> None:
    async with depots(tmp_path) as (_, client, _):
        result = await client.call_tool("recite", {"length": 50_000})
        assert text(result) == "é" * 50_000


async def test_a_failure_and_wrong_arguments_are_errors(tmp_path: Path) -> None:
    async with depots(tmp_path) as (_, client, _):
        failed = await client.call_tool("scrap", {"part": "bolt"})
        assert failed.is_error
        assert "bolt is bolted down" in text(failed)
        wrong = await client.call_tool("stock", {"part": 7})
        assert wrong.is_error
        assert "part" in text(wrong)


async def test_a_slow_call_is_waited_for_by_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torpor.mcp.calls.WAIT", 0.5)
    async with depots(tmp_path) as (given, client, _):
        told: list[str] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            told.append(message or "")

        begun = await client.call_tool("slow", {}, progress_callback=progress)
        assert "Call `wait` with thread" in text(begun)
        assert any("half way" in one for one in told), told
        waiting = asyncio.create_task(client.call_tool("wait", {"thread": thread_of(begun)}))
        given.go.set()
        assert text(await waiting) == "done"


async def test_events_come_one_by_one(tmp_path: Path) -> None:
    async with depots(tmp_path) as (given, client, _):
        begun = await client.call_tool("watch", {})
        assert text(begun).startswith("watching")
        given.go.set()
        seen, at = [], begun
        for _ in range(2):
            assert at.meta is not None
            where = {"thread": thread_of(begun), "after": at.meta["torpor/position"]}
            at = await client.call_tool("wait", where)
            seen.append(text(at).partition("\n")[0])
        assert seen == ["a truck", "a train"]


async def test_a_question_of_a_tool_is_answered(tmp_path: Path) -> None:
    async with depots(tmp_path) as (_, client, _):
        begun = await client.call_tool("pick", {})
        wait = text(begun).partition("wait ")[2].partition(":")[0]
        assert "answers: red | blue" in text(begun)
        assert not (await client.call_tool("answer", {"wait": wait, "value": "blue"})).is_error
        assert text(await client.call_tool("wait", {"thread": thread_of(begun)})) == "blue"


async def test_a_server_that_is_away_is_left_out(tmp_path: Path) -> None:
    async with (
        served([], rap=["http://127.0.0.1:9"]) as (server, _),
        Client(server, mode="legacy") as client,
    ):
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "threads",
            "wait",
            "answer",
            "stop",
        }
