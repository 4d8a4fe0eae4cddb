"""Connections to MCP servers at a URL: only to addresses that are allowed, and bodies of bounded size."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

import httpcore2
import httpx2
from httpcore2 import AnyIOBackend

from torpor.core.errors import Refused
from torpor.tools.addresses import Blocked, literal, may_reach
from torpor.tools.mcp.faults import TooLarge

T = TypeVar("T")

KEPT_SECONDS = 30.0
"""For which an idle connection is kept."""


_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)


def _is_loud(_: logging.LogRecord) -> bool:
    return not _is_quiet.get()


logging.getLogger("httpx2").addFilter(_is_loud)


async def quietly(work: Awaitable[T]) -> T:
    """Do work without a line in the log for each request: URLs may hold what nobody should read there."""
    reset = _is_quiet.set(True)
    try:
        return await work
    finally:
        _is_quiet.reset(reset)


def _alive() -> list[tuple[int, int, int]]:
    """Socket options by which a connection whose other end is gone is noticed within about a minute."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


@cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def blocked(error: BaseException) -> Blocked | None:
    """Why a connection could not be made, if that is because it may not be."""
    seen: BaseException | None = error
    while seen is not None:
        found = next((one for one in (seen, *seen.args) if isinstance(one, Blocked)), None)
        if found is not None:
            return found
        seen = seen.__cause__
    return None


class _PublicBackend(AnyIOBackend):
    """Resolves names itself, so that the address which is checked is the one connected to."""

    def __init__(self, reach: frozenset[str]) -> None:
        self._reach = reach

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        found = await self._addresses(host, port)
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in found:
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> list[str]:
        name = host.strip("[]").rstrip(".").lower()
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved") from error
        found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        kept = [one for one in found if self._may(name, one)]
        if found and not kept:
            raise httpcore2.ConnectError(Blocked(f"{host} is not a public address"))
        return kept

    def _may(self, name: str, found: str) -> bool:
        address = literal(found)
        return address is not None and may_reach(name, address, self._reach)


class _Counted(httpx2.AsyncByteStream):
    """A body that breaks off where it has more bytes than are taken."""

    def __init__(self, inner: Any, limit: int, on_flow: Callable[[], None]) -> None:
        self._inner = inner
        self._limit = limit
        self._on_flow = on_flow

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            self._on_flow()
            if size > self._limit:
                raise TooLarge(f"the answer has more than {self._limit:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class PublicTransport(httpx2.AsyncHTTPTransport):
    """HTTP to allowed addresses. A body that is no stream of events has at most ``limit`` bytes.

    ``on_flow`` is called whenever more of such a body has come.
    """

    def __init__(self, reach: frozenset[str], limit: int, on_flow: Callable[[], None]) -> None:
        super().__init__(verify=_tls())
        self._limit = limit
        self._on_flow = on_flow
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_tls(),
            max_connections=None,
            max_keepalive_connections=20,
            keepalive_expiry=KEPT_SECONDS,
            network_backend=_PublicBackend(reach),
            socket_options=_alive(),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            await response.aclose()
            raise Refused(f"it answered in the coding {coding[:40]!r}, which was not asked for")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Counted(response.stream, self._limit, self._on_flow)
        return response
