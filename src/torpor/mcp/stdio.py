"""Standard input and output as the streams of a server: kept for the protocol, bounded, and never in the way.

Whatever else the process prints goes to standard error. Reading and writing happen in threads that end with
the process, since neither can be interrupted.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from typing import Any, BinaryIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage

from torpor.mcp.limits import LINE_MOST

QUEUED = 64

Reading = MemoryObjectReceiveStream[SessionMessage | Exception]
Writing = MemoryObjectSendStream[SessionMessage]


class Pipes:
    """The standard streams, taken away from everybody else from now on."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self.input = _taken(0, os.open(os.devnull, os.O_RDONLY), "rb")
        self.output = _taken(1, os.dup(2), "wb")


def _taken(number: int, instead: int, mode: str) -> BinaryIO:
    kept = os.dup(number)
    os.dup2(instead, number)
    os.close(instead)
    return os.fdopen(kept, mode)  # type: ignore[return-value]


async def serve(server: Server[Any], pipes: Pipes) -> None:
    """Serve one client until it ends its input."""
    async with _streams(pipes) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


@contextlib.asynccontextmanager
async def _streams(pipes: Pipes) -> AsyncIterator[tuple[Reading, Writing]]:
    to_server, reading = anyio.create_memory_object_stream[SessionMessage | Exception](QUEUED)
    writing, from_server = anyio.create_memory_object_stream[SessionMessage](QUEUED)
    lines = _Lines(pipes.input)
    replies = _Replies(pipes.output)
    read = asyncio.create_task(_read(lines, to_server))
    write = asyncio.create_task(_write(replies, from_server))
    try:
        yield reading, writing
        await asyncio.wait([write], timeout=1.0)
    finally:
        for task in (read, write):
            task.cancel()
        await asyncio.gather(read, write, return_exceptions=True)
        for stream in (to_server, reading, writing, from_server):
            stream.close()


async def _read(lines: "_Lines", to_server: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
    async with to_server:
        while line := await lines.next():
            if line.strip():
                await to_server.send(_message(line))


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        if len(line) > LINE_MOST:
            raise ValueError(f"a message has more than {LINE_MOST} bytes")
        text = line.decode(errors="replace")
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error


async def _write(replies: "_Replies", from_server: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    async for sent in from_server:
        body = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
        await replies.put(body.encode() + b"\n")


class _Lines:
    """Lines of a file, read by a thread, a few ahead at most. Empty: it has ended."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(1)
        threading.Thread(target=self._run, name="torpor-mcp-input", daemon=True).start()

    async def next(self) -> bytes:
        return await self._lines.get()

    def _run(self) -> None:
        with contextlib.suppress(RuntimeError, OSError, ValueError, CancelledError):
            line = b"\n"
            while line:
                line = self._line()
                asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()

    def _line(self) -> bytes:
        """A line; of one that is too long just more than is taken, and the rest is passed over."""
        line = self._file.readline(LINE_MOST + 1)
        rest = line
        while len(rest) > LINE_MOST and not rest.endswith(b"\n"):
            rest = self._file.readline(LINE_MOST + 1)
        return line


class _Replies:
    """Writes to a file in a thread; who puts waits until it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._bodies: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="torpor-mcp-output", daemon=True).start()

    async def put(self, body: bytes) -> None:
        written: asyncio.Future[None] = self._loop.create_future()
        self._bodies.put((body, written))
        await written

    def _run(self) -> None:
        with contextlib.suppress(RuntimeError, OSError, ValueError):  # the loop or the process ends
            while True:
                body, written = self._bodies.get()
                self._file.write(body)
                self._file.flush()
                self._loop.call_soon_threadsafe(_done, written)


def _done(written: "asyncio.Future[None]") -> None:
    if not written.done():
        written.set_result(None)
