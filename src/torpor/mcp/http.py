"""Streamable HTTP: the SDK's sessions behind the same gate as the API."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from torpor.mcp.limits import BODY_MOST, SESSION_IDLE, SESSIONS_MOST
from torpor.web.access import Access
from torpor.web.app import Gate
from torpor.web.listening import listening

PATH = "/mcp"


@contextlib.asynccontextmanager
async def serving(server: Server[Any], listen: str, token: str, public_url: str = "") -> AsyncIterator[str]:
    """Serve MCP clients on ``host:port`` while the block runs; gives the URL.

    Every request needs the bearer token, a host name that is served, and no origin of other pages.
    ``Refused`` if the address cannot be had.
    """
    sessions = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=SESSION_IDLE,
        max_sessions=SESSIONS_MOST,
        max_request_body_size=BODY_MOST,
    )
    access = Access(token, public_url)
    app = Starlette(
        routes=[Route(PATH, StreamableHTTPASGIApp(sessions))], middleware=[Middleware(Gate, access=access)]
    )
    app.state.access = access
    app.state.streams = running = _Running(sessions)
    await running.begin()
    try:
        async with listening(app, listen) as url:
            yield url + PATH
    finally:
        await running.ended()


class _Running:
    """The SDK's sessions, entered and left by one task; they end before the server that waits for them."""

    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._sessions = sessions
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name="torpor-mcp-sessions")
        await self._ready.wait()

    async def _run(self) -> None:
        async with self._sessions.run():
            self._ready.set()
            await self._over.wait()

    def end(self) -> None:
        """Let open streams end."""
        self._over.set()

    async def ended(self) -> None:
        self.end()
        if self._task is not None:
            await self._task
