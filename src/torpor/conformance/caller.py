"""Requests to a stranger's server: each bounded in time and size, to allowed addresses, and remembered."""

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from torpor.conformance.exchange import Exchange, headers_shown, shown
from torpor.core.errors import Refused
from torpor.tools.addresses import Blocked, check_literal, check_url, literal, may_reach, origin_of, reach

BODY_LIMIT = 2_000_000
"""Bytes of one answer that are read at most."""
OWN = object()
"""Stands for the credential that the caller was given."""


class Answer(msgspec.Struct, frozen=True):
    """What came of one request. ``status`` 0: no usable answer, because of ``error``."""

    exchange: Exchange
    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = {}
    error: str = ""
    began: float = 0.0
    ended: float = 0.0
    """Instants of the monotonic clock."""

    @property
    def seconds(self) -> float:
        """How long the answer took."""
        return self.ended - self.began

    @property
    def told(self) -> str:
        """The status in words."""
        return f"it answered {self.status}" if self.status else f"it gave no answer ({self.error})"


class Caller:
    """Asks one server. An async context manager.

    Answers take at most ``within`` seconds; redirects are not followed; the token goes to the origin of
    ``url`` alone. ``Refused`` for a URL that cannot be used.
    """

    def __init__(self, url: str, *, token: str | None, within: float) -> None:
        check_url(url, allow_http=True, what="The URL of the server")
        parts = urlsplit(url)
        self.url = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query, ""))
        self.token = token
        self._within = within
        self._reach = reach(self.url)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        resolver = _Resolver(self._reach)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"User-Agent": "torpor-rap-check", "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    def at(self, path: str) -> str:
        """The URL of one of the server's own paths; a query of the base URL is kept."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path + path, parts.query, ""))

    async def get(self, path: str, *, token: Any = OWN) -> Answer:
        """GET one of the server's own paths."""
        return await self._ask("GET", self.at(path), None, token)

    async def post(self, url: str, body: bytes | Mapping[str, Any], *, token: Any = OWN) -> Answer:
        """POST to a URL, or to one of the server's own paths. A mapping is sent as JSON."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._ask("POST", self.at(url) if url.startswith("/") else url, raw, token)

    async def _ask(self, method: str, url: str, body: bytes | None, token: Any) -> Answer:
        told = f"{method} {url}{f' {shown(body)}' if body is not None else ''}"
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._within):
                status, headers, read = await self._send(method, url, body, token)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, Refused) as error:
            why = _words(error, self._within)
            answered = Exchange(told, f"nothing: {why}")
            return Answer(answered, error=why, began=began, ended=time.monotonic())
        ended = time.monotonic()
        answered = Exchange(told, f"{status}{headers_shown(headers)} {shown(read) or '(empty)'}")
        return Answer(answered, status, read, headers, "", began, ended)

    async def _send(
        self, method: str, url: str, body: bytes | None, token: Any
    ) -> tuple[int, Mapping[str, str], bytes]:
        check_url(url, allow_http=True, what="An address that the server gave")
        target = URL(url, encoded=url.isascii())
        check_literal(str(target), self._reach)
        assert self._session is not None
        async with self._session.request(
            method,
            target,
            data=body,
            headers=self._headers(url, body, token),
            allow_redirects=False,
        ) as answer:
            read = bytearray()
            async for chunk in answer.content.iter_any():
                read += chunk
                if len(read) > BODY_LIMIT:
                    raise ValueError(f"its answer has more than {BODY_LIMIT:,} bytes")
            return answer.status, answer.headers, bytes(read)

    def _headers(self, url: str, body: bytes | None, token: Any) -> dict[str, str]:
        headers = {"Accept": "application/json"} if body is None else {"Content-Type": "application/json"}
        given = self.token if token is OWN else token
        if given and origin_of(url) == origin_of(self.url):
            headers["Authorization"] = f"Bearer {given}"
        return headers


class _Resolver(AbstractResolver):
    """Leaves out addresses that a server of this kind may not send anybody to."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._inner = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        name = host.rstrip(".").lower()
        kept = [
            one
            for one in found
            if (address := literal(one["host"])) is not None and may_reach(name, address, self._hosts)
        ]
        if found and not kept:
            raise Blocked(f"{host} leads to an address that is not public")
        return kept

    async def close(self) -> None:
        await self._inner.close()


def _words(error: BaseException, within: float) -> str:
    if isinstance(error, TimeoutError):
        return f"not within {within:g} s"
    cause = getattr(error, "os_error", None) or error
    return getattr(cause, "strerror", None) or f"{type(cause).__name__}: {str(cause)[:200]}"
