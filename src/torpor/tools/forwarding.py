"""Callbacks of threads that have left: handed on to where they live now, as they came."""

import logging
from collections.abc import Iterable

import aiohttp
import msgspec
from yarl import URL

from torpor.tools.callbacks import Outcome

SECONDS = 15.0
"""Seconds that the other end may take for one callback."""
AWAY = Outcome(
    503, "The thread has moved, and its new place does not answer; send it again.", retry_after=5.0
)
KEPT = (
    "content-type",
    "content-digest",
    "traceparent",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
)
"""Headers that go along."""

logger = logging.getLogger(__name__)


class _Told(msgspec.Struct, frozen=True):
    message: str = ""


class _Answer(msgspec.Struct, frozen=True):
    error: _Told = _Told()


class Forwarding:
    """Hands callbacks on; one that cannot be is for its sender to repeat."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, url: str, body: bytes, headers: Iterable[tuple[str, str]]) -> Outcome:
        """Send a callback to where it is taken now; gives the answer of that place."""
        kept = [(name, value) for name, value in headers if name.lower() in KEPT]
        try:
            async with self._opened().post(
                URL(url, encoded=True), data=body, headers=kept, allow_redirects=False
            ) as answer:
                return _outcome(answer.status, await answer.content.read(10_000))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            logger.warning("a callback could not be handed on: %s", type(error).__name__)
            return AWAY

    async def close(self) -> None:
        """Let go of what is held."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=SECONDS),
                connector=aiohttp.TCPConnector(force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _outcome(status: int, body: bytes) -> Outcome:
    if status == 200:
        return Outcome(200)
    if not 400 <= status < 500:
        return AWAY
    try:
        return Outcome(status, msgspec.json.decode(body, type=_Answer).error.message)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Outcome(status)
