"""A stub runtime on loopback: takes callbacks, answers each by script, and lets checks wait for them."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from torpor.conformance.exchange import Exchange, headers_shown, shown
from torpor.core.errors import Refused
from torpor.tools.strict import Malformed, parse_object

BODY_LIMIT = 4 * 1024 * 1024
"""Bytes of one callback."""
TOTAL_LIMIT = 64 * 1024 * 1024
"""Bytes of all callbacks that are kept."""
MOST_CALLBACKS = 5_000
SLOWEST_BODY = 10.0
"""Seconds."""
HOLD = 1.0
"""Seconds for which a callback that overtakes its acknowledgement is kept waiting for it."""


class Callback:
    """One request that came, and how it was answered."""

    def __init__(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> None:
        self.at = time.monotonic()
        self.method = method
        self.target = target
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.content_type = self.headers.get("content-type", "")
        self.raw = raw
        self.body: dict[str, Any] = {}
        self.defect = ""
        self.status = 0
        self.answered = 0.0
        """When it was answered, where that is told."""
        try:
            self.body = parse_object(raw)
        except Malformed as error:
            self.defect = str(error)

    @property
    def type(self) -> str:
        """What it says it is."""
        kind = self.body.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def exchange(self) -> Exchange:
        """It, to be shown."""
        told = f"{self.method} {self.target}{headers_shown(self.headers)} {shown(self.raw)}"
        return Exchange(told, str(self.status or "held"))


class Asked:
    """One call made, and all that came back for it."""

    def __init__(self, thread: str, id: str, call_id: str | None, url: str, script: Iterable[int]) -> None:
        self.thread = thread
        self.id = id
        self.call_id = call_id
        self.url = url
        self.target = _target(url)
        self.script = list(script)
        self.otherwise = 200
        self.callbacks: list[Callback] = []
        self.accepted = asyncio.Event()
        """Set when the acknowledgement is complete."""
        self.exchange = Exchange("", "")
        self.ack_seconds = 0.0
        self.status = 0
        self.acked_at = 0.0
        self.cancelled = False
        self._changed = asyncio.Condition()

    @property
    def results(self) -> list[Callback]:
        """Its results, repeats included."""
        return [one for one in self.callbacks if one.type == "tool_result"]

    @property
    def events(self) -> list[Callback]:
        """Its events, repeats included."""
        return [one for one in self.callbacks if one.type == "subscription_event"]

    @property
    def result(self) -> dict[str, Any]:
        """The first result's members; empty: none has come."""
        return self.results[0].body if self.results else {}

    @property
    def shown(self) -> tuple[Exchange, ...]:
        """The call and what came of it, to be shown."""
        return (self.exchange, *(one.exchange for one in self.callbacks[-3:]))

    async def until(self, holds: Callable[[], object], within: float) -> bool:
        """Wait until something holds; False if it does not in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within), self._changed:
                await self._changed.wait_for(holds)
        return bool(holds())

    async def settled(self, within: float) -> bool:
        """Wait for a result."""
        return await self.until(lambda: self.results, within)

    async def came(self, callback: Callback) -> int:
        """Take a callback in; gives the status to answer with."""
        async with self._changed:
            self.callbacks.append(callback)
            callback.status = self.script.pop(0) if self.script else self.otherwise
            self._changed.notify_all()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.accepted.wait(), HOLD)
        return callback.status


class Instance:
    """What passes for another instance of a tool server: it shows a manifest, and takes whatever comes."""

    def __init__(self, url: str, manifest: bytes) -> None:
        self.url = url
        self.path = urlsplit(url).path
        self.hold = 0.0
        """Seconds before what comes is answered."""
        self.status = 200
        self.parts: list[Callback] = []
        """What came, other than questions for its manifest."""
        self._manifest = manifest

    async def answer(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        """Take one request."""
        if request.method in ("GET", "HEAD"):
            return web.Response(body=self._manifest, content_type="application/json")
        part = Callback(request.method, request.raw_path, request.headers, raw)
        self.parts.append(part)
        await asyncio.sleep(self.hold)
        part.answered, part.status = time.monotonic(), self.status
        return web.Response(status=self.status)


class StubRuntime:
    """Where callbacks come in, under ``base``."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.strays: list[Callback] = []
        """Callbacks that fit no call."""
        self.asked: list[Asked] = []
        self.dropped = 0
        """Callbacks that were over a limit and not kept."""
        self._run = secrets.token_hex(6)
        self._by_target: dict[str, Asked] = {}
        self._instances: list[Instance] = []
        self._bytes = 0

    @property
    def callbacks(self) -> list[tuple[Asked, Callback]]:
        """All that came for calls, with the call whose URL it came to."""
        return [(asked, callback) for asked in self.asked for callback in asked.callbacks]

    def expect(
        self,
        *,
        thread: str = "",
        call_id: str | None = None,
        script: Iterable[int] = (),
        url: str = "",
    ) -> Asked:
        """Make ready for a call: fresh ids, and a URL with ``{base}`` and ``{secret}`` filled in."""
        number = len(self.asked) + 1
        form = url or "{base}/cb/{secret}"
        asked = Asked(
            thread or f"check-{self._run}-t{number}",
            f"check-{self._run}-c{number}",
            call_id,
            form.replace("{base}", self.base).replace("{secret}", secrets.token_urlsafe(18)),
            script,
        )
        self.asked.append(asked)
        self._by_target[asked.target] = asked
        return asked

    def instance(self, manifest: bytes) -> Instance:
        """Another instance of the tool server under test, as far as that can be pretended."""
        made = Instance(f"{self.base}/instance-{secrets.token_hex(6)}", manifest)
        self._instances.append(made)
        return made

    def thread(self) -> str:
        """A thread id that was never used."""
        return f"check-{self._run}-{secrets.token_hex(6)}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Take one request, whatever it is."""
        if self._bytes >= TOTAL_LIMIT or sum(len(one.callbacks) for one in self.asked) >= MOST_CALLBACKS:
            self.dropped += 1
            return web.Response(status=503)
        raw = await self._read(request)
        if raw is None:
            self.dropped += 1
            return web.Response(status=413)
        self._bytes += len(raw)
        for instance in self._instances:
            if request.path.startswith(instance.path):
                return await instance.answer(request, raw)
        callback = Callback(request.method, request.raw_path, request.headers, raw)
        asked = self._by_target.get(callback.target) or self._named(callback)
        if asked is None:
            callback.status = 404
            self.strays = [*self.strays[:99], callback]
            return web.Response(status=404)
        return web.Response(status=await asked.came(callback))

    async def _read(self, request: web.Request) -> bytes | None:
        body = bytearray()
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > BODY_LIMIT:
                        return None
        except TimeoutError:
            return None
        return bytes(body)

    def _named(self, callback: Callback) -> Asked | None:
        """The call that a body names although it came to another URL. Ids are hard to guess."""
        id = callback.body.get("id") or callback.body.get("tool_call_id")
        return next((asked for asked in self.asked if asked.id == id), None)


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


@contextlib.asynccontextmanager
async def stub_runtime(listen: str = "127.0.0.1:0", public_url: str = "") -> AsyncIterator[StubRuntime]:
    """A stub runtime while the block runs. ``Refused`` if it cannot listen there."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise Refused(f"{listen!r} is no host:port to listen on.")
    stub = StubRuntime("")
    application = web.Application(client_max_size=BODY_LIMIT)
    application.router.add_route("*", "/{path:.*}", stub.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        except OSError as error:
            raise Refused(f"Nothing can listen on {listen}: {error.strerror}.") from error
        stub.base = public_url.rstrip("/") or f"http://{host}:{runner.addresses[0][1]}"
        yield stub
    finally:
        await runner.cleanup()
