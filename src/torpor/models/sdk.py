"""What both official SDKs need: a check that they are there, one client a loop, one way to read a stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from torpor.core.chunks import AnyChunk
from torpor.core.errors import ModelRefused, Refused, TorporError, Unavailable
from torpor.models.failures import clean, error_of, facts_of

C = TypeVar("C")
END = object()

_loaded: dict[str, ModuleType] = {}


def require(package: str) -> None:
    """``Refused`` with the command to run, if an SDK is not installed."""
    if find_spec(package) is None:
        raise Refused(
            f"the {package} SDK is not installed; in Torpor's checkout run: pip install '.[{package}]'"
        )


def host_of(base_url: str) -> str:
    """Host and port of a base URL, without a name or password. ``Refused`` if it is no address."""
    try:
        parts = urlsplit(base_url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        known = False
    if not known:
        raise Refused("base_url is no address that can be asked: write http://host:port/path")
    return parts.netloc.rpartition("@")[2]


async def loaded(package: str) -> ModuleType:
    """An SDK, imported aside the first time: it takes seconds. Several may ask at once."""
    if package not in _loaded:
        _loaded[package] = await asyncio.to_thread(import_module, package)
    return _loaded[package]


class Clients(WeakKeyDictionary[asyncio.AbstractEventLoop, C]):
    """One client for each event loop: connections belong to the loop that made them."""

    def here(self, make: Callable[[], C]) -> C:
        """The running loop's client, made if there is none."""
        loop = asyncio.get_running_loop()
        client = self.get(loop)
        if client is None:
            client = self[loop] = make()
        return client

    def forget(self) -> C | None:
        """The running loop's client, no longer kept."""
        return self.pop(asyncio.get_running_loop(), None)


MOST_STREAMED = 32_000_000
"""Characters of one answer that are read; each piece counts ``PIECE`` more."""
PIECE = 64


class Reader(Protocol):
    """Turns one provider's events, as decoded JSON, into chunks."""

    ended: bool
    """The provider has said why it stopped: the turn is whole, whatever happens to the connection."""

    def head(self, headers: Mapping[str, str]) -> None:
        """Take note of the response's headers."""

    def read(self, event: Any) -> Iterator[AnyChunk]:
        """The chunks of one event."""

    def finish(self) -> Iterator[AnyChunk]:
        """What is left, and the stop."""


class Reason:
    """Explains an SDK's exceptions as our errors. ``secret`` is never shown."""

    def __init__(self, sdk: ModuleType, provider: str, secret: str) -> None:
        import httpx2

        self._sdk = sdk
        self._provider = provider
        self._secret = secret
        transport = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)
        self._lost = (sdk.APIConnectionError, *transport, ValueError, TimeoutError)
        self.known = (sdk.APIError, *self._lost)

    def lost(self, error: Exception) -> bool:
        """Whether the connection failed, rather than the provider having said something."""
        return isinstance(error, self._lost)

    def why(self, error: Exception) -> TorporError:
        """Our error for one of ``known``."""
        if isinstance(error, TimeoutError):
            return Unavailable(f"{self._provider}: the answer took longer than it may")
        if isinstance(error, self._sdk.APIConnectionError) or not isinstance(error, self._sdk.APIError):
            cause = error.__cause__ or error
            if isinstance(cause, TorporError):  # raised by us while the SDK was reading
                return cause
            return Unavailable(f"{self._provider}: connection lost ({type(cause).__name__})")
        return self._said(error)

    def _said(self, error: Any) -> TorporError:
        response = getattr(error, "response", None)
        status = response.status_code if response is not None else 0
        facts = facts_of(
            self._provider,
            status=status if status >= 300 else 0,
            body=error.body,
            headers=response.headers if response is not None else {},
            secret=self._secret,
        )
        return error_of(facts)

    def early(self) -> Unavailable:
        """The stream ended before its end."""
        return Unavailable(f"{self._provider}: the answer ended before it was complete")

    def endless(self) -> Unavailable:
        """The stream brings more than any answer has."""
        return Unavailable(f"{self._provider}: the answer does not end", tries=2)

    def unusable(self, error: Exception) -> ModelRefused:
        """The SDK refuses to be set up."""
        text = str(error).replace(self._secret, "***") if self._secret else str(error)
        return ModelRefused(f"{self._provider}: {clean(text)}", kind="auth")


async def relay(
    opening: Coroutine[Any, Any, Any], reader: Reader, reason: Reason, seconds: float
) -> AsyncGenerator[AnyChunk, None]:
    """Read one answer to its end. The connection is released however this ends.

    ``seconds`` bounds the whole, connecting included; 0: no bound.
    """
    deadline = asyncio.get_running_loop().time() + seconds if seconds > 0 else None
    stream = None
    try:
        async with asyncio.timeout_at(deadline):
            stream = await opening
        reader.head(stream.response.headers)
        room = MOST_STREAMED
        while (event := await _next(stream, deadline)) is not END:
            for chunk in reader.read(event):
                room -= PIECE + len(getattr(chunk, "text", ""))
                if room < 0:
                    raise reason.endless()
                yield chunk
    except reason.known as error:
        if not (reader.ended and reason.lost(error)):
            raise reason.why(error) from None
    finally:
        if stream is not None:
            await stream.close()
    if not reader.ended:
        raise reason.early()
    for chunk in reader.finish():
        yield chunk


async def _next(stream: Any, deadline: float | None) -> Any:
    async with asyncio.timeout_at(deadline):
        return await anext(stream, END)
