"""A scripted runtime: receives callbacks over real HTTP and lets tests wait for them."""

import asyncio
import contextlib
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from torpor.tools.server import ToolServer

DEADLINE = 10.0


@dataclass
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    raw: bytes
    at: float

    @property
    def body(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed


@dataclass
class StubRuntime:
    """Answers every callback with the next status of `script`, then with `otherwise`."""

    url: str = ""
    script: list[int] = field(default_factory=list)
    otherwise: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, request: web.Request) -> web.Response:
        raw = await request.read()
        async with self.changed:
            self.received.append(Received(request.raw_path, dict(request.headers), raw, time.monotonic()))
            status = self.script.pop(0) if self.script else self.otherwise
            self.changed.notify_all()
        return web.Response(status=status, headers=self.headers)

    async def until(self, enough: Callable[[list[Received]], bool]) -> list[Received]:
        async with asyncio.timeout(DEADLINE), self.changed:
            await self.changed.wait_for(lambda: enough(self.received))
        return self.received

    async def count(self, number: int) -> list[dict[str, Any]]:
        """Wait for `number` callbacks and give their bodies."""
        await self.until(lambda received: len(received) >= number)
        return [one.body for one in self.received]

    async def result(self, ident: str) -> dict[str, Any]:
        """Wait for the result of a call."""

        def its() -> list[dict[str, Any]]:
            return [one.body for one in self.received if one.body.get("id") == ident]

        await self.until(lambda _: bool(its()))
        return its()[-1]


@contextlib.asynccontextmanager
async def stub_runtime(port: int = 0, **options: Any) -> AsyncIterator[StubRuntime]:
    stub = StubRuntime(**options)
    app = web.Application(client_max_size=32 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", stub.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}/cb"
    try:
        yield stub
    finally:
        await runner.cleanup()


@dataclass
class Peer:
    """The runtime's outgoing side: what it sends to a tool server."""

    base: str
    http: aiohttp.ClientSession
    callback_url: str
    thread: str = "th-1"
    headers: dict[str, str] = field(default_factory=dict)

    def invocation(
        self, operation: str | None, arguments: Any = None, ident: str = "c-1", **more: Any
    ) -> dict[str, Any]:
        return {
            "operation": operation,
            "arguments": {} if arguments is None else arguments,
            "id": ident,
            "callback_url": self.callback_url,
            "group_id": self.thread,
            **more,
        }

    async def post(self, path: str, body: Any, **options: Any) -> tuple[int, bytes]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.headers, **options.pop("headers", {})}
        async with self.http.post(f"{self.base}{path}", data=io.BytesIO(raw), headers=headers) as answer:
            return answer.status, await answer.read()

    async def invoke(
        self, operation: str | None, arguments: Any = None, ident: str = "c-1", **more: Any
    ) -> int:
        status, body = await self.post("/invoke", self.invocation(operation, arguments, ident, **more))
        assert body == b"" or status != 200
        return status

    async def cancel(self, ident: str, thread: str | None = None) -> tuple[int, bytes]:
        return await self.post(
            "/cancel_tool_call", {"thread_id": thread or self.thread, "tool_call_id": ident}
        )

    async def close(self, thread: str | None = None) -> tuple[int, bytes]:
        return await self.post("/close_thread", {"thread_id": thread or self.thread})

    async def alive(self, ident: str, thread: str | None = None) -> bool:
        members = {"thread_id": thread or self.thread, "tool_call_id": ident}
        status, body = await self.post("/tool_call_status", members)
        answer = json.loads(body)
        assert status == 200
        assert set(answer) == {"alive"}
        alive: bool = answer["alive"]
        assert type(alive) is bool
        return alive

    async def discover(self) -> dict[str, Any]:
        async with self.http.get(f"{self.base}/.well-known/rap-toolset", headers=self.headers) as answer:
            assert answer.status == 200
            manifest: dict[str, Any] = await answer.json()
            return manifest


async def eventually(holds: Callable[[], Any]) -> Any:
    """Poll a condition (plain or async) until it holds."""
    async with asyncio.timeout(DEADLINE):
        while True:
            value = holds()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def talking(server: ToolServer, **script: Any) -> AsyncIterator[tuple[Peer, StubRuntime]]:
    """Serve a tool server and give both halves of a runtime that talks to it."""
    async with stub_runtime(**script) as stub, server.listening() as url, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        yield Peer(url, http, stub.url, headers=headers), stub
