"""Server-sent events of a thread: committed messages by position, and between them what is lossy.

Each committed message carries ``id: <its position>``; a client that comes back with ``Last-Event-ID`` gets
what follows, each message once. Text as it is written, what was received and not yet read, and views carry
none.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from torpor.connections import ABORT
from torpor.core.errors import TorporError
from torpor.ports import LiveEvent
from torpor.runtime.replies import Entry
from torpor.runtime.threads import Threads
from torpor.web.bodies import SMALL, Crowded, Room
from torpor.web.problems import Problem, answer_error
from torpor.web.shapes import received, shown

KEEP_ALIVE = 15.0
"""Seconds of silence after which a comment is sent."""
STREAMS = 1_000
"""Streams at once; more are told to come again."""
ROOM = 128 * 1024 * 1024
"""Bytes that are on their way in all streams together; one that would bring more ends, and comes back."""
PATIENCE = 30.0
"""Seconds for which a client may take nothing of what it is sent, before it is dropped."""
SLOWEST = 64 * 1024
"""Bytes a second that it must take of what is large."""

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}
_SHOWN = frozenset({"text", "reasoning", "call", "started", "dropped", "received"})


class Streams:
    """The event streams of one application, so that a server that stops can end them."""

    def __init__(self, threads: Threads, keep_alive: float = KEEP_ALIVE) -> None:
        self.threads = threads
        self.keep_alive = keep_alive
        self.closing = asyncio.Event()
        self.room = Room(ROOM)
        self.patience = PATIENCE
        self.count = 0
        """Streams that are open."""

    async def open(self, request: Request) -> Response:
        """Answer ``GET /threads/{thread}/events``."""
        thread = request.path_params["thread"]
        after = _after(request)
        row = await self.threads.row(thread)
        if after > row.length:
            raise Problem(400, f"The thread has {row.length} messages; nothing can follow {after}.")
        if request.method == "HEAD":
            return Response(headers=_HEADERS)
        if self.count >= STREAMS or self.closing.is_set():
            raise Problem(503, "Too many event streams are open here.", {"Retry-After": "5"})
        return _Stream(self, thread, after)

    def end(self) -> None:
        """End all streams; their clients come back to whoever serves next."""
        self.closing.set()


class _Stream(Response):
    """One stream; ends when its client goes, when the server stops, or when the store cannot be read."""

    def __init__(self, streams: Streams, thread: str, after: int) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._streams = streams
        self._thread = thread
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        gone = asyncio.create_task(_gone(receive))
        tasks = [
            asyncio.create_task(self._pump(send)),
            asyncio.create_task(self._streams.closing.wait()),
            gone,
        ]
        self._streams.count += 1
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.count -= 1
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(ended[0], TimeoutError):
            _abort(scope)
        elif gone.cancelled():
            await self._finish(scope, send)

    async def _finish(self, scope: Scope, send: Send) -> None:
        try:
            async with asyncio.timeout(self._streams.patience):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            _abort(scope)

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._blocks()) as blocks:
            async for block in blocks:
                try:
                    await self._send(send, block)
                except Crowded:
                    return

    async def _send(self, send: Send, block: bytes) -> None:
        """Send a block; if it is large, wait until it is on its way. ``TimeoutError``: nobody takes it."""
        with self._streams.room.share() as grow:
            grow(len(block))
            async with asyncio.timeout(self._streams.patience + len(block) / SLOWEST):
                await send({"type": "http.response.body", "body": block, "more_body": True})
                if len(block) > SMALL:
                    await send({"type": "http.response.body", "body": b"", "more_body": True})

    async def _blocks(self) -> AsyncGenerator[bytes]:
        yield b"retry: 2000\n\n"
        items = cast(
            "AsyncGenerator[Entry | LiveEvent]", self._streams.threads.committed(self._thread, self._after)
        )
        coming = _next(items)
        try:
            for block in [*await self._received(), *await self._views()]:
                yield block
            while True:
                done, _ = await asyncio.wait([coming], timeout=self._streams.keep_alive)
                if done:
                    block, coming = _render(coming.result()), _next(items)
                    yield block
                else:
                    yield b": still here\n\n"
        except TorporError as error:
            yield _event("error", msgspec.json.decode(answer_error(error).body))
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
            await items.aclose()

    async def _received(self) -> list[bytes]:
        """What was said and not yet read by the agent, as of now."""
        return [_event("received", one) for one in await received(self._streams.threads, self._thread)]

    async def _views(self) -> list[bytes]:
        """What is shown beside the conversation, as of now."""
        return [_view(view.type, view.content) for view in await self._streams.threads.views(self._thread)]


def _next(items: AsyncIterator[Entry | LiveEvent]) -> "asyncio.Future[Entry | LiveEvent]":
    return asyncio.ensure_future(anext(items))


def _abort(scope: Scope) -> None:
    """Let go of a connection with all that it was still to take, where the server says how."""
    abort = scope.get("extensions", {}).get(ABORT, {}).get("call")
    if abort is not None:
        abort()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _render(item: Entry | LiveEvent) -> bytes:
    if isinstance(item, Entry):
        return f"id: {item.position}\n".encode() + _event("message", shown(item))
    if item.kind == "view":
        return _view(item.name, item.text)
    return _event(item.kind, {"text": item.text}) if item.kind in _SHOWN else b""


def _view(name: str, content: str) -> bytes:
    """A view's content as it came, but for white space between its members."""
    whole = msgspec.Raw(msgspec.json.format(content.encode(), indent=-1))
    return _event("view", {"view_type": name, "content": whole})


def _event(name: str, value: Any) -> bytes:
    """One event. JSON text holds no line breaks, so one line of data is enough."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def _after(request: Request) -> int:
    given = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    if not (given.isascii() and given.isdigit() and len(given) < 17 and int(given) <= 1 << 53):
        raise Problem(400, "after and Last-Event-ID are positions: whole numbers from 0 on.")
    return int(given)
