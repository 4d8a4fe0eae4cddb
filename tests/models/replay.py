"""A provider on loopback that sends back prepared bytes, piece by piece, and keeps what it was asked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Reply:
    """One response; then `whole` ends the body, `cut` drops the line, `hang` waits until it is left."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    then: str = "whole"
    type: str = "text/event-stream; charset=utf-8"

    def bytewise(self) -> "Reply":
        """The same, one byte a write."""
        body = b"".join(self.pieces)
        single = [body[at : at + 1] for at in range(len(body))]
        return Reply(single, self.status, self.headers, self.then, self.type)


@dataclass(frozen=True)
class Seen:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


class Replay:
    """Serves the replies in order; the last one is served from then on."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = replies
        self._left = asyncio.Event()
        self.seen: list[Seen] = []
        self.url = ""
        self.connections = 0
        self.answering = 0
        """Responses begun and neither ended nor left."""

    async def idle(self) -> None:
        """Wait until no response is under way."""
        while self.answering:
            self._left.clear()
            await self._left.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                self.seen.append(await read_request(reader))
                reply = self._replies[min(len(self.seen), len(self._replies)) - 1]
                self.answering += 1
                try:
                    await self._answer(reply, reader, writer)
                finally:
                    self.answering -= 1
                    self._left.set()
                if reply.then == "cut":
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = {"content-type": reply.type, "transfer-encoding": "chunked", **reply.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Replayed\r\n{lines}\r\n".encode())
        for piece in reply.pieces:
            if piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
        if reply.then == "whole":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        elif reply.then == "hang":
            await reader.read()


async def read_request(reader: asyncio.StreamReader) -> Seen:
    """One request with a body of a told length."""
    head = (await reader.readuntil(HEAD_END)).decode("latin-1")
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(first.split(" ")[1], headers, body)


@contextlib.asynccontextmanager
async def replaying(*replies: Reply) -> AsyncIterator[Replay]:
    """A replay on loopback, stopped on exit."""
    replay = Replay(replies)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(replay.serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    replay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield replay
    finally:
        server.close()
        await asyncio.wait_for(asyncio.gather(*tasks), 10)
        await server.wait_closed()
