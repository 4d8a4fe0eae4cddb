"""Tool servers to talk to: one that follows a script over real HTTP, and one that misbehaves byte by byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from torpor.tools.protocol import CANCEL_PATH, CLOSE_PATH, MANIFEST_PATH

Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed


@dataclass
class ToolStub:
    """Answers each path with the next of its scripted answers, then with 200."""

    url: str = ""
    manifest: bytes | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    endpoint: str = ""
    script: dict[str, list[web.Response]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)

    def at(self, path: str) -> list[Seen]:
        """The requests to a path."""
        return [one for one in self.seen if one.path == path]

    def described(self) -> bytes:
        """The manifest that it serves."""
        if self.manifest is not None:
            return self.manifest
        return json.dumps(
            {
                "name": "stub",
                "endpoint": self.endpoint or f"{self.url}/invoke",
                "tools": self.tools or [ping()],
            }
        ).encode()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.seen.append(Seen(request.method, request.raw_path, dict(request.headers), raw))
        answers = self.script.get(request.path)
        if answers:
            return answers.pop(0)
        if request.path.endswith(MANIFEST_PATH):
            return web.Response(body=self.described(), content_type="application/json")
        return web.Response()


def ping(name: str = "ping", **more: Any) -> dict[str, Any]:
    """A tool definition without defects."""
    return {
        "name": name,
        "description": "Answers.",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        **more,
    }


@asynccontextmanager
async def tool_stub(made: ToolStub | None = None, **settings: Any) -> AsyncIterator[ToolStub]:
    """A scripted tool server on loopback; ``made``: one of a kind of its own."""
    stub = made or ToolStub(**settings)
    application = web.Application(client_max_size=4_000_000)
    application.router.add_route("*", "/{path:.*}", stub.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stub
    finally:
        await runner.cleanup()


@asynccontextmanager
async def rude_server(speak: Speak) -> AsyncIterator[str]:
    """A server that reads one request's head and then does what ``speak`` does."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await speak(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.close()
        await server.wait_closed()


def saying(text: bytes) -> Speak:
    """Sends these bytes and closes."""

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return speak


async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Never answers."""
    await reader.read()
    await asyncio.Event().wait()


def endless(head: bytes, chunk: bytes, pause: float = 0.0) -> Speak:
    """Sends a head and then the same chunk for ever."""

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(pause)

    return speak


__all__ = [
    "CANCEL_PATH",
    "CLOSE_PATH",
    "MANIFEST_PATH",
    "ToolStub",
    "endless",
    "ping",
    "rude_server",
    "saying",
    "silence",
    "tool_stub",
]
