"""What answers over HTTP mean that are no messages: redirects, refusals, failures."""

import time
from contextlib import suppress
from urllib.parse import urljoin

import httpx2
from mcp_types import JSONRPCError

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.core.retry import told_wait
from torpor.tools.addresses import origin_of
from torpor.tools.mcp.faults import Lost
from torpor.tools.mcp.lines import Noise, read_line

REFUSAL_BYTES = 64 * 1024
RETRY_AFTER_MOST = 3600.0


def redirected(response: httpx2.Response, url: str) -> str:
    """Where a redirect leads that may be followed, or an empty text."""
    location = response.headers.get("location", "")
    if response.status_code not in (307, 308) or not location:
        return ""
    try:
        target = urljoin(url, location)
        return target if origin_of(target) == origin_of(url) and "@" not in target else ""
    except ValueError:
        return ""


def judged(response: httpx2.Response) -> TorporError:
    """What a status other than 200 means for a request."""
    status = response.status_code
    if 300 <= status < 400:
        return Refused(f"it redirects elsewhere ({status}), which is not followed")
    if status == 202:
        return Refused("it took a request without answering it (202)")
    if status == 404:
        return Refused("there is no MCP server at its URL (404)")
    if status in (408, 425, 429, 503):
        seconds = told_wait(response.headers.get("retry-after", ""), time.time())
        wait = None if seconds is None else min(seconds, RETRY_AFTER_MOST)
        return Lost(f"it is busy ({status})", sent=False, retry_after=wait)
    if status >= 500:
        return Lost(f"it failed ({status})", sent=True)
    return Refused(f"it refuses the request ({status})")


def protocol_error(body: bytes, id: int | str) -> JSONRPCError | None:
    """The error that a refusal holds in the protocol's own form, for the request of this id."""
    found = read_line(body, Noise())
    if len(found) == 1 and isinstance(found[0], JSONRPCError):
        return found[0].model_copy(update={"id": id})
    return None


async def beginning(response: httpx2.Response) -> bytes:
    """So much of a body as is looked at."""
    body = bytearray()
    with suppress(httpx2.HTTPError, Unavailable):
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > REFUSAL_BYTES:
                break
    return bytes(body)


def words(error: BaseException) -> str:
    """What an error says, or else its kind."""
    return getattr(error, "strerror", None) or str(error)[:200] or type(error).__name__
