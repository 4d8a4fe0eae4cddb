"""Requests to authorization servers: bounded in time and size, to allowed addresses only, no redirects."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
import msgspec
from yarl import URL

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.core.retry import told_wait
from torpor.core.text import clean
from torpor.tools.addresses import Blocked, check_literal, check_url, host_of, is_loopback
from torpor.tools.client import PublicResolver, permitting

SECONDS = 15.0
"""For one request, from its start to the end of its answer."""
CONNECT_SECONDS = 5.0
BODY_LIMIT = 256 * 1024
"""Bytes of an answer that are taken."""
URL_LIMIT = 4_096
URL_SHOWN = 200


class Unclear(Unavailable):
    """The request may have arrived, and the answer is not known."""


class Bounds(msgspec.Struct, frozen=True):
    """Where requests on behalf of an MCP server may go."""

    reach: tuple[str, ...] = ()
    """Hosts that may have addresses which are not public."""
    allow_http: bool = False

    def check(self, url: str, what: str) -> str:
        """The URL, if a request or a browser may be sent there; else ``Refused``."""
        if len(url) > URL_LIMIT:
            raise Refused(f"{what} has more than {URL_LIMIT:,} characters.")
        check_url(url, allow_http=self.allow_http, what=what)
        hosts, host = frozenset(self.reach), host_of(url)
        try:
            check_literal(str(URL(url, encoded=url.isascii())), hosts)
        except ValueError:
            raise Refused(f"{what} is not a URL.") from None
        except Blocked as error:
            raise Refused(f"{what} may not be used: {error}.") from None
        if is_loopback(host) and not any(map(is_loopback, hosts)):
            raise Refused(f"{what} may not be used: {host} is this machine.")
        return url


class Answer(NamedTuple):
    """An answer, whatever its status."""

    status: int
    body: bytes
    retry_after: float | None


async def get(url: str, bounds: Bounds) -> Answer:
    """Ask for JSON. ``Refused`` if it may not be asked for, ``Unavailable`` if it cannot be had now."""
    return await _ask("GET", url, bounds)


async def post(
    url: str,
    bounds: Bounds,
    *,
    form: Mapping[str, str] | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a form, or a body of JSON. ``Unclear`` if it may have arrived without an answer."""
    kind = "application/json" if form is None else "application/x-www-form-urlencoded"
    sent = aiohttp.FormData(dict(form))() if form is not None else body
    return await _ask("POST", url, bounds, sent, {"Content-Type": kind, **(headers or {})})


async def _ask(
    method: str, url: str, bounds: Bounds, body: Any = None, headers: Mapping[str, str] | None = None
) -> Answer:
    where = shown(url)
    bounds.check(url, where)
    try:
        async with asyncio.timeout(SECONDS), _session() as session:
            with permitting(frozenset(bounds.reach)):
                target = URL(url, encoded=url.isascii())
                request = session.request(
                    method, target, data=body, headers=dict(headers or {}), allow_redirects=False
                )
                async with request as response:
                    return Answer(response.status, await _read(response, where), _wait(response.headers))
    except TimeoutError:
        raise Unclear(f"{where} did not answer within {SECONDS:g} s.") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _translated(where, error) from None


def _session() -> aiohttp.ClientSession:
    """A session for one request: there are few of them, and no connection is kept."""
    connector = aiohttp.TCPConnector(
        resolver=PublicResolver(), use_dns_cache=False, force_close=True, limit=1
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": "torpor", "Accept": "application/json", "Accept-Encoding": "identity"},
    )


async def _read(response: aiohttp.ClientResponse, where: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > BODY_LIMIT:
            raise Refused(f"{where} answered with more than {BODY_LIMIT:,} bytes.")
    return bytes(body)


def _wait(headers: Mapping[str, str]) -> float | None:
    import time

    seconds = told_wait(headers.get("Retry-After", ""), time.time())
    return None if seconds is None else min(seconds, 3_600.0)


def _translated(where: str, error: Exception) -> TorporError:
    cause = getattr(error, "os_error", None) or error
    if isinstance(cause, Blocked):
        return Refused(f"{where} leads to an address that requests may not go to.")
    if isinstance(error, aiohttp.InvalidURL):
        return Refused(f"{where} is an address that cannot be used.")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Refused(f"The certificate of {where} is not valid for it.")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return Unavailable(f"{where} cannot be reached.")
    return Unclear(f"{where} closed the connection before it had answered.")


def shown(url: str) -> str:
    """A URL as people may read it: without query, credentials or anything unprintable, and not too long."""
    plain = clean(url).partition("?")[0].partition("#")[0]
    scheme, slashes, rest = plain.partition("://")
    host, slash, path = rest.partition("/")
    named = f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"
    return "".join(c for c in named if c.isprintable() and not c.isspace())[:URL_SHOWN]
