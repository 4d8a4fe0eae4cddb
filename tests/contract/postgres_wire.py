"""What stands between a store and its server in tests: it counts answers, falls silent, or swallows one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

WIRE = "sslmode=disable&gssencmode=disable"
"""In a URL: what passes can be read."""


class Wire:
    """What is seen and done on the way to the server."""

    def __init__(self) -> None:
        self.answers = 0
        """How often the server has come to the end of what it was asked: round trips."""
        self.swallow = b""
        """What a request holds whose answer is lost, together with the connection; once."""
        self.swallowed = 0
        self.links: set[Link] = set()

    def mute(self) -> None:
        """Nothing passes on connections that are there now, and nobody is told."""
        for link in self.links:
            link.silent = True


class Link:
    """One connection."""

    def __init__(self, wire: Wire, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._wire = wire
        self._client = client
        self._server = server
        self._doomed = False
        self.silent = False

    async def ask(self, reader: asyncio.StreamReader) -> None:
        while some := await reader.read(65_536):
            if self._wire.swallow and self._wire.swallow in some:
                self._wire.swallow, self._doomed = b"", True
            if not self.silent:
                self._server.write(some)
        self._server.close()

    async def answer(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                header = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(header[1:], "big") - 4)
                is_end = header[:1] == b"Z"
                self._wire.answers += is_end
                if self._doomed and is_end:
                    self._wire.swallowed += 1
                    break
                if not (self._doomed or self.silent):
                    self._client.write(header + body)
        self._client.close()


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[tuple[Wire, str]]:
    """A wire to the server of a URL, and the URL that leads over it."""
    address, _, database = url.rpartition("/")
    host, _, target = address.rpartition(":")
    wire, tasks = Wire(), set[asyncio.Task[None]]()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", int(target))
        link = Link(wire, writer, back)
        wire.links.add(link)
        try:
            await asyncio.gather(link.ask(reader), link.answer(there))
        except (OSError, asyncio.CancelledError):
            writer.close()
        finally:
            back.close()
            wire.links.discard(link)
            tasks.discard(task)

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield wire, f"{host}:{port}/{database}?{WIRE}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
