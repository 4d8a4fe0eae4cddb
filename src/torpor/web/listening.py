"""Serving an application inside the running event loop, with an end that keeps its bound."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.applications import Starlette

from torpor.connections import Connection
from torpor.core.errors import Refused
from torpor.settings import parse_listen

GOODBYE = 5
"""Seconds that open requests are given when the server stops."""
TICK = 1.0
"""Seconds after which the Date header of answers is renewed."""


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it, says when it is ready, and ends when told rather than at a tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Take no more connections, and let ``serve`` return once the open ones are done."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextlib.asynccontextmanager
async def listening(app: Starlette, listen: str) -> AsyncIterator[str]:
    """Serve ``app`` on ``host:port`` (port 0: a free one) while the block runs; gives the base URL.

    ``Refused`` if the address cannot be had, or if others could reach it and the application has no token.
    """
    host, port = parse_listen(listen)
    app.state.access.listens_on(host)
    listener = _bind(host, port)
    url = _url(host, listener.getsockname()[1])
    server = _Server(_config(app))
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="torpor-web")
    ready = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        yield url
    finally:
        ready.cancel()
        app.state.streams.end()
        server.end()
        await serving
        listener.close()


def check_free(listen: str) -> None:
    """``Refused`` if the address cannot be had, before anything is made for a server that cannot be."""
    _bind(*parse_listen(listen)).close()


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GOODBYE,
    )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The event loop turns Nagle's delay off only for sockets that name their protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2_048)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Refused(f"Cannot listen on {host}:{port}: {_why(error)}.") from None
    return listener


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            "something listens there already, perhaps another server of yours; give another port to --listen"
        )
    return error.strerror or str(error)


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"
