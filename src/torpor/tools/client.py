"""The way to tool servers over HTTP: each request once, bounded in time and size, to allowed addresses only.

No connection outlives its request, so that a waiting thread holds none. Retries are the caller's business.
"""

import asyncio
import hashlib
import logging
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.core.retry import told_wait
from torpor.core.text import clean
from torpor.tools import protocol
from torpor.tools.addresses import Blocked, check_literal, check_url, literal, may_reach
from torpor.tools.catalog import MANIFEST_LIMIT, RapServer, check_for, read_manifest

NOTICE_SECONDS = 3.0
"""Seconds that a notice of a cancelled call or a closed thread may take."""
CONNECT_SECONDS = 5.0
MIGRATION_SECONDS = 1_800.0
"""Seconds that a server may take to move a session."""
RETRY_AFTER_MOST = 86_400.0
OF_THE_ASKER = frozenset({401, 403, 407, 408, 421, 425, 426, 429})
"""Statuses that say something of who asks, or of the moment, and nothing of the call that is asked about."""
ANSWER_LIMIT = 64 * 1024
"""Bytes that are read of an answer to a question, or of a reason."""
REASON_SHOWN = 500

_TRACE = re.compile("[0-9a-f]{32}")

logger = logging.getLogger(__name__)

_permitted: ContextVar[frozenset[str]] = ContextVar("_permitted", default=frozenset())


@contextmanager
def permitting(hosts: frozenset[str]) -> Iterator[None]:
    """Let the requests of the block find these hosts at addresses that are not public."""
    reset = _permitted.set(hosts)
    try:
        yield
    finally:
        _permitted.reset(reset)


class Ambiguous(Unavailable):
    """The request may have arrived: repeat it only where a repeat does no harm."""

    ambiguous = True


class PublicResolver(AbstractResolver):
    """Resolves names and leaves out the addresses that the request under way may not go to."""

    def __init__(self, inner: AbstractResolver | None = None) -> None:
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        name, hosts = host.rstrip(".").lower(), _permitted.get()
        kept = [one for one in found if _allowed(name, one["host"], hosts)]
        if found and not kept:
            raise Blocked(f"{host} leads to an address that is not public")
        return kept

    async def close(self) -> None:
        await self._inner.close()


def _allowed(name: str, host: str, hosts: frozenset[str]) -> bool:
    address = literal(host)
    return address is not None and may_reach(name, address, hosts)


class HttpTransport:
    """Tool servers by base URL; fulfils the ``Transport`` port.

    ``resolver`` replaces the system's look-up of names. The address check stays in front of it. ``now`` and
    ``fresh`` give the time and the id of what is signed.
    """

    def __init__(
        self,
        servers: Iterable[RapServer] = (),
        *,
        resolver: AbstractResolver | None = None,
        now: Callable[[], float] = time.time,
        fresh: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._now = now
        self._fresh = fresh
        self._servers = {server.url: server for server in servers}
        self._endpoints: dict[str, str] = {}
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    def server(self, url: str) -> RapServer:
        """A server as configured. ``Refused`` for one that is not."""
        server = self._servers.get(url.rstrip("/"))
        if server is None:
            raise Refused(f"No tool server {url} is configured here.")
        return server

    async def discover(self, server: str) -> bytes:
        """The manifest's bytes, checked whole and for this server. ``Refused`` says all that is wrong."""
        known = self.server(server)
        url = known.at(protocol.MANIFEST_PATH)
        try:
            async with asyncio.timeout(known.timeout):
                body = await self._get(known, url)
        except TimeoutError:
            raise Unavailable(f"{known.url} did not send its manifest within {known.timeout:g} s.") from None
        try:
            manifest = read_manifest(body)
        except Refused as error:
            raise Refused(f"{known.url}: {error}") from error
        check_for(manifest, known)
        self._endpoints[known.url] = manifest.endpoint
        return body

    async def invoke(self, server: str, endpoint: str, body: Mapping[str, Any], key: str) -> None:
        """Hand over one invocation. ``body`` holds the facts that ``protocol.invocation`` takes.

        An empty ``endpoint``: the one the server named last, asked for if need be. If nobody is there (any
        more), the server is asked where its endpoint is now, and that place is tried once.
        """
        known = self.server(server)
        sent = protocol.invocation(body, key, share_user=known.share_user)
        endpoint = endpoint or self._endpoints.get(known.url, "")
        started = time.monotonic()
        try:
            await self._hand_over(known, endpoint, sent, key, str(body.get("trace") or ""))
        except TorporError as error:
            _log(body, known, started, str(error))
            raise
        _log(body, known, started, "accepted")

    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None:
        """Tell a server (all, side by side, if ``server`` is empty) that a call is no longer wanted."""
        await self._notify(server, protocol.CANCEL_PATH, protocol.cancellation(thread, call), trace)

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None:
        """Tell a server (all, side by side, if ``server`` is empty) that a thread is closed."""
        await self._notify(server, protocol.CLOSE_PATH, protocol.closure(thread), trace)

    async def choose(
        self, server: str, url: str, call: str, selected: int, key: str, trace: str = ""
    ) -> None:
        """Tell a server what a person chose, once, at the URL that it gave."""
        known = self.server(server)
        body = protocol.selection(call, selected)
        await self._post(known, url, body, key, trace, f"{known.url} refused the choice")

    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        """Ask a server whether it still works on a call; see the port for the words it answers in."""
        known = self.server(server)
        body = protocol.status_question(thread, call)
        try:
            async with (
                asyncio.timeout(known.timeout),
                self._sent(known, protocol.STATUS_PATH, body, trace) as answer,
            ):
                return await _standing(answer)
        except TimeoutError:
            raise Unavailable(f"{known.url} did not answer within {known.timeout:g} s.") from None

    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        """Have a server move a session; returns once it has."""
        known = self.server(server)
        body = protocol.migration(session, destination)
        try:
            async with (
                asyncio.timeout(MIGRATION_SECONDS),
                self._sent(known, protocol.MIGRATE_PATH, body, trace) as answer,
            ):
                if answer.status != 200:
                    _judge(answer, f"{known.url} did not move the session{await _reason(answer)}")
        except TimeoutError:
            raise Ambiguous(f"{known.url} did not move the session within {MIGRATION_SECONDS:g} s.") from None

    async def close(self) -> None:
        """Let go of what is held."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _get(self, server: RapServer, url: str) -> bytes:
        async with self._request(server, "GET", url, {"Accept": "application/json"}) as answer:
            _judge(answer, f"{server.url} has no manifest")
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > MANIFEST_LIMIT:
                    raise Refused(f"The manifest of {server.url} has more than {MANIFEST_LIMIT:,} bytes.")
            return bytes(body)

    async def _hand_over(self, server: RapServer, endpoint: str, body: bytes, key: str, trace: str) -> None:
        if not endpoint:
            await self.discover(server.url)
            await self._post(server, self._endpoints[server.url], body, key, trace)
            return
        try:
            await self._post(server, endpoint, body, key, trace)
        except (_NobodyThere, _NotFound) as error:
            moved = await self._moved(server, endpoint)
            if not moved:
                raise
            logger.info("%s: endpoint moved (%s)", server.url, error)
            await self._post(server, moved, body, key, trace)

    async def _moved(self, server: RapServer, endpoint: str) -> str:
        """The endpoint that the server names now, if it is another one."""
        try:
            await self.discover(server.url)
        except TorporError:
            return ""
        found = self._endpoints[server.url]
        return found if found != endpoint else ""

    async def _post(
        self, server: RapServer, url: str, body: bytes, key: str, trace: str, what: str = ""
    ) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key, **_traced(trace, key)}
        try:
            async with (
                asyncio.timeout(server.timeout),
                self._request(server, "POST", url, headers, body, key) as answer,
            ):
                _judge(answer, what or f"{server.url} refused the call")
        except TimeoutError:
            raise Ambiguous(f"{server.url} did not answer within {server.timeout:g} s.") from None

    async def _notify(self, server: str, path: str, body: bytes, trace: str) -> None:
        servers = [self._servers.get(server.rstrip("/"))] if server else list(self._servers.values())
        await asyncio.gather(*(self._tell(one, path, body, trace) for one in servers if one is not None))

    async def _tell(self, server: RapServer, path: str, body: bytes, trace: str) -> None:
        try:
            async with (
                asyncio.timeout(NOTICE_SECONDS),
                self._sent(server, path, body, trace) as answer,
            ):
                logger.debug("notice %s to %s: %d", path, server.url, answer.status)
        except (TorporError, TimeoutError) as error:
            logger.info("notice %s to %s was not taken: %s", path, server.url, error)

    @asynccontextmanager
    async def _sent(
        self, server: RapServer, path: str, body: bytes, trace: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One POST to one of the server's own paths."""
        headers = {"Content-Type": "application/json", **_traced(trace, f"{path}{body!r}")}
        async with self._request(server, "POST", server.at(path), headers, body) as answer:
            yield answer

    @asynccontextmanager
    async def _request(
        self,
        server: RapServer,
        method: str,
        url: str,
        headers: dict[str, str],
        body: bytes | None = None,
        id: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request, no redirects followed; failures of the network become errors of ours.

        ``id``: of the message, where it may be sent again.
        """
        check_url(url, allow_http=server.allow_http, what=f"An address given by {server.url}")
        token = server.token_for(url)
        if token:
            headers = {**headers, "Authorization": f"Bearer {token}"}
        if server.secrets is not None:
            headers = {**headers, **server.secrets.sign(id or self._fresh(), self._now(), body or b"")}
        limits = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, server.timeout / 2))
        try:
            with permitting(server.reach):
                target = URL(url, encoded=url.isascii())
                check_literal(str(target), server.reach)  # as it is asked: wide digits have become plain ones
                async with self._opened().request(
                    method, target, data=body, headers=headers, allow_redirects=False, timeout=limits
                ) as answer:
                    yield answer
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _translated(server, error) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=PublicResolver(self._resolver), use_dns_cache=False, force_close=True, limit=0
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"User-Agent": "torpor", "Accept-Encoding": "identity"},
            )
        return self._session


class _NobodyThere(Unavailable):
    """No connection could be made, so nothing was sent."""


class _NotFound(Refused):
    """The server has nothing at that path."""


def _traced(trace: str, key: str) -> dict[str, str]:
    """The W3C header for a request in a trace of 32 hexadecimal digits, if there is such a trace."""
    if not _TRACE.fullmatch(trace) or not trace.strip("0"):
        return {}
    return {"traceparent": f"00-{trace}-{hashlib.sha256(key.encode()).hexdigest()[:16]}-01"}


async def _standing(answer: aiohttp.ClientResponse) -> str:
    """What an answer says of a call, by its status and then by its body."""
    status = answer.status
    if 200 <= status < 300:
        body = await _read(answer)
        return protocol.status_answer(body) if len(body) <= ANSWER_LIMIT else "invalid"
    if status in (404, 405):
        return "missing"
    if status in OF_THE_ASKER:
        return "unknown"
    return "invalid" if 400 <= status < 500 else "unknown"


async def _reason(answer: aiohttp.ClientResponse) -> str:
    """What a server says of its failure, in brackets; empty if it says nothing that can be shown."""
    words = " ".join(clean((await _read(answer)).decode(errors="replace")).split())
    shown = "".join(character for character in words if character.isprintable())[:REASON_SHOWN]
    return f" ({shown})" if shown else ""


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """A body, or just more of it than is looked at."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > ANSWER_LIMIT:
            break
    return bytes(body)


def _judge(answer: aiohttp.ClientResponse, what: str) -> None:
    """Raise unless the status is exactly 200."""
    status = answer.status
    if status == 200:
        return
    if status >= 500:
        raise Unavailable(f"{what} for now: it answered {status}.", retry_after=_retry_after(answer.headers))
    if status == 404:
        raise _NotFound(f"{what}: it answered 404.")
    redirect = " (redirects are not followed)" if 300 <= status < 400 else ""
    raise Refused(f"{what}: it answered {status}{redirect}.")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, where the server names a usable number or date."""
    seconds = told_wait(headers.get("Retry-After", ""), time.time())
    return None if seconds is None else min(seconds, RETRY_AFTER_MOST)


def _translated(server: RapServer, error: Exception) -> TorporError:
    cause = getattr(error, "os_error", None) or error
    if isinstance(cause, Blocked):
        return Refused(f"{server.url} leads to an address that requests may not go to: {cause}.")
    if isinstance(error, aiohttp.InvalidURL):
        return Refused(f"{server.url} gave an address that cannot be used.")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Refused(f"The certificate of {server.url} is not valid for it.")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return _NobodyThere(f"{server.url} cannot be reached ({_words(cause)}).")
    return Ambiguous(f"{server.url} closed the connection before it had answered ({_words(cause)}).")


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def _log(body: Mapping[str, Any], server: RapServer, started: float, outcome: str) -> None:
    seconds = time.monotonic() - started
    named = (body.get("call"), body.get("name"), server.url)
    logger.info("call %r of %r at %s: %s (%.3f s)", *named, outcome, seconds)
