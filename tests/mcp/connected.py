"""Connections to servers of ours, for tests."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, TextContent

from torpor import McpServer
from torpor.clock import SystemClock
from torpor.stores.memory import MemoryStore
from torpor.tools.mcp.session import Session
from torpor.tools.mcp.sessions import Sessions

RAW = Path(__file__).with_name("raw_server.py")
SDK = Path(__file__).with_name("sdk_server.py")
SOON = 90.0


def raw(*arguments: str, **options: Any) -> McpServer:
    """The hand-written server, misbehaving in this way."""
    return McpServer("raw", command=[sys.executable, str(RAW), *arguments], **options)


def store() -> MemoryStore:
    return MemoryStore(SystemClock())


@asynccontextmanager
async def connections(*servers: McpServer, side: MemoryStore | None = None) -> AsyncIterator[Sessions]:
    sessions = Sessions(servers, side or store())
    try:
        yield sessions
    finally:
        await sessions.close()


@asynccontextmanager
async def connected(server: McpServer) -> AsyncIterator[Session]:
    async with connections(server) as sessions:
        yield await sessions.session(server.address)


async def text(session: Session, name: str, **more: Any) -> str:
    """The text that a tool gives."""
    arguments = more.pop("arguments", {})
    result = await session.call(name, arguments, **more)
    assert isinstance(result, CallToolResult)
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds: float = SOON) -> None:
    """Wait until something holds; fail if it does not, soon."""
    end = time.monotonic() + seconds
    while True:
        held = holds()
        if held if isinstance(held, bool) else await held:
            return
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
