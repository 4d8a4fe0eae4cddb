"""kill -9 of a runtime while an official server works for it: the right result, or an honest word."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.test_official import everything_over_http, program
from torpor import Runtime
from torpor.public import Thread

ROOT = Path(__file__).parents[2]
SOON = 90.0
LONG = ("trigger-long-running-operation", {"duration": 20, "steps": 40})
RESEARCH = ("simulate-research-query", {"topic": "bees"})


def start(folder: Path, call: tuple[str, dict[str, Any]], server: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.mcp.mortal",
        str(folder),
        call[0],
        *map(json.dumps, (call[1], server)),
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[Thread]:
    """The thread, as a process sees it that runs nothing."""
    async with Runtime(f"sqlite:///{folder / 't.db'}", listen=None, workers=0) as runtime:
        yield runtime.thread("t")


async def until(look: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async with asyncio.timeout(SOON):
        while True:
            try:
                found = await look()
            except Exception:  # noqa: BLE001 -- the thread may not be there yet
                found = None
            if found:
                return found
            await asyncio.sleep(0.1)


async def reply_of(folder: Path, process: subprocess.Popen[bytes]) -> str:
    _, errors = await asyncio.to_thread(process.communicate, timeout=SOON)
    assert process.returncode == 0, errors.decode()
    return (folder / "reply").read_text()


async def killed_in_the_midst(folder: Path, server: dict[str, Any]) -> str:
    dying = start(folder, LONG, server)
    async with watching(folder) as thread:
        await until(thread.views)
    dying.send_signal(signal.SIGKILL)
    await asyncio.to_thread(dying.communicate)
    return await reply_of(folder, start(folder, LONG, server))


def is_right_or_honest(reply: str) -> bool:
    return reply.startswith("Long running operation completed") or "its outcome is unknown" in reply


@pytest.mark.slow
async def test_a_tool_of_twenty_seconds_over_stdio(tmp_path: Path) -> None:
    server = {"command": [program("mcp-server-everything"), "stdio"]}
    assert is_right_or_honest(await killed_in_the_midst(tmp_path, server))


@pytest.mark.slow
async def test_a_tool_of_twenty_seconds_over_http(tmp_path: Path) -> None:
    async with everything_over_http() as url:
        assert is_right_or_honest(await killed_in_the_midst(tmp_path, {"url": url}))


@pytest.mark.slow
async def test_a_task_over_http(tmp_path: Path) -> None:
    """The server outlives the runtime, but keeps its tasks by session: that one is gone is said as it is."""
    async with everything_over_http() as url:
        dying = start(tmp_path, RESEARCH, {"url": url})
        async with watching(tmp_path) as thread:
            await until(thread.views)
        dying.send_signal(signal.SIGKILL)
        await asyncio.to_thread(dying.communicate)
        reply = await reply_of(tmp_path, start(tmp_path, RESEARCH, {"url": url}))
    assert reply.startswith("# Research Report: bees") or "does not know its task any more" in reply


@pytest.mark.slow
async def test_a_task_that_asks_a_person(tmp_path: Path) -> None:
    asking = (RESEARCH[0], {**RESEARCH[1], "ambiguous": True})
    async with everything_over_http() as url:
        process = start(tmp_path, asking, {"url": url})
        async with watching(tmp_path) as thread:
            [asked] = await until(thread.waits)
            assert asked.kind == "choice"
            assert (await thread.answer(asked.id, 1)).taken
            reply = await reply_of(tmp_path, process)
    assert reply.startswith("# Research Report: bees (historical)")
