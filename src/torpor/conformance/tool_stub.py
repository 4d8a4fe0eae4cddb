"""A stub tool server on loopback: shows a manifest, takes calls by script, and sends whatever it is told."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from torpor.conformance.discovery import MANIFEST
from torpor.conformance.exchange import Exchange, shown
from torpor.conformance.probe import CANCEL, CLOSE
from torpor.tools.strict import Malformed, parse_object

BODY_LIMIT = 4 * 1024 * 1024
MOST_REQUESTS = 5_000
HUNG = 15.0
"""Seconds after which a request that is not to be answered is dropped."""
INVOKE = "/invoke"


class Request:
    """One request as it came."""

    def __init__(self, request: web.Request, raw: bytes) -> None:
        self.at = time.monotonic()
        self.method = request.method
        self.target = request.raw_path
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.raw = raw
        self.defect = ""
        self.body: dict[str, Any] = {}
        try:
            self.body = parse_object(raw) if raw else {}
        except Malformed as error:
            self.defect = str(error)

    @property
    def exchange(self) -> Exchange:
        """It, to be shown."""
        return Exchange(f"{self.method} {self.target} {shown(self.raw)}", "")


class Script(msgspec.Struct, frozen=True):
    """One answer, given after some seconds. ``status`` 0: none at all."""

    status: int = 200
    body: bytes = b""
    after: float = 0.0


class ToolStub:
    """Answers each path with the next of its script, then with 200. ``manifest`` may be any bytes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = ""
        self.endpoint = ""
        self.tools: list[dict[str, Any]] = [tool("echo")]
        self.manifest = b""
        self.keeps_state = False
        self.requests: list[Request] = []
        self.script: dict[str, list[Script]] = {}
        self._changed = asyncio.Condition()
        self._http: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    @property
    def described(self) -> bytes:
        """The manifest that it shows."""
        members: dict[str, Any] = {
            "name": self.name,
            "endpoint": self.endpoint or self.url + INVOKE,
            "tools": self.tools,
        }
        if self.keeps_state:
            members["needsMigration"] = True
        return self.manifest or json.dumps(members).encode()

    def at(self, path: str) -> list[Request]:
        """The requests to a path."""
        return [one for one in self.requests if one.target == path]

    @property
    def calls(self) -> list[Request]:
        """The invocations that came."""
        return [one for one in self.requests if one.method == "POST" and "callback_url" in one.body]

    async def until(self, holds: Callable[[], object], within: float) -> bool:
        """Wait until something holds; False if it does not in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within), self._changed:
                await self._changed.wait_for(holds)
        return bool(holds())

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Take one request, whatever it is."""
        if len(self.requests) >= MOST_REQUESTS:
            return web.Response(status=503)
        raw = await request.read()
        async with self._changed:
            self.requests.append(Request(request, raw))
            self._changed.notify_all()
        scripted = self.script.get(request.path)
        told = scripted.pop(0) if scripted else Script()
        await asyncio.sleep(told.after if told.status else HUNG)
        if request.path == MANIFEST and not told.body and told.status == 200:
            return web.Response(body=self.described, content_type="application/json")
        return web.Response(status=told.status, body=told.body)

    async def post(self, url: str, body: Mapping[str, Any] | bytes) -> int:
        """Send a callback; gives the status of the answer, 0 for none."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        assert self._http is not None
        try:
            async with self._http.post(
                URL(url, encoded=True), data=raw, headers={"Content-Type": "application/json"}
            ) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return 0

    async def settle(self, call: Request, text: str, **more: Any) -> int:
        """Send the result of a call; gives the status of the answer."""
        return await self.post(call.body["callback_url"], result(call, text, **more))

    async def start(self) -> None:
        """Begin to listen."""
        application = web.Application(client_max_size=BODY_LIMIT)
        application.router.add_route("*", "/{path:.*}", self.answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))

    async def leave(self) -> None:
        """Listen no more; what it sends still goes out."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def stop(self) -> None:
        """End."""
        await self.leave()
        if self._http is not None:
            await self._http.close()


@contextlib.asynccontextmanager
async def tool_stubs(*names: str) -> AsyncIterator[tuple[ToolStub, ...]]:
    """Stub tool servers while the block runs."""
    stubs = tuple(ToolStub(name) for name in names)
    try:
        for stub in stubs:
            await stub.start()
        yield stubs
    finally:
        await asyncio.gather(*(stub.stop() for stub in stubs))


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool definition without defects, whose ``n`` must be an integer."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    return {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": {**schema, "additionalProperties": False},
        "annotations": {"readOnly": True},
        **more,
    }


def result(call: Request, text: str, **more: Any) -> dict[str, Any]:
    """The result of a call."""
    ids = {"group_id": call.body["group_id"], "id": call.body["id"]}
    return {"type": "tool_result", **ids, "text": text, **more}


def event(call: Request, text: str, **more: Any) -> dict[str, Any]:
    """An event of the subscription that a call opened."""
    ids = {"group_id": call.body["group_id"], "tool_call_id": call.body["id"]}
    return {"type": "subscription_event", **ids, "text": text, **more}


__all__ = [
    "CANCEL",
    "CLOSE",
    "MANIFEST",
    "Request",
    "Script",
    "ToolStub",
    "event",
    "result",
    "tool",
    "tool_stubs",
]
