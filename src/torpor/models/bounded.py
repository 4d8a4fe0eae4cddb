"""Bodies of providers as they arrive: no line, no answer and no error without end, and nothing to unpack."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2

from torpor.core.errors import ModelRefused, Unavailable

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of one line of a stream of events."""
MOST = 512 * 1024 * 1024
"""Bytes of one answer, with all that its events hold beside words."""
ERROR_KEPT = 256 * 1024
"""Bytes that are read of a body that tells an error."""

IDENTITY = {"Accept-Encoding": "identity"}
"""Header of requests whose answers come as they are."""


class Bounded(httpx2.AsyncByteStream):
    """The bytes of an answer. ``Unavailable`` once a line, or the whole, is longer than any is."""

    def __init__(self, inner: httpx2.AsyncByteStream, provider: str) -> None:
        self._inner = inner
        self._provider = provider

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole = line = 0
        async for chunk in self._inner:
            whole += len(chunk)
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            line = len(chunk) - end if end else line + len(chunk)
            if line > LONGEST_LINE or whole > MOST:
                raise Unavailable(f"{self._provider}: the answer does not end", tries=2)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class Beginning(httpx2.AsyncByteStream):
    """The first bytes of a body; the rest stays unread."""

    def __init__(self, inner: httpx2.AsyncByteStream, size: int) -> None:
        self._inner = inner
        self._size = size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._size
        async for chunk in self._inner:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._inner.aclose()


def bounding(provider: str) -> dict[str, list[Callable[[httpx2.Response], Awaitable[None]]]]:
    """Hooks of a client whose answers are bounded. ``ModelRefused`` for one that is compressed."""

    async def bound(response: httpx2.Response) -> None:
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        packed = coding not in ("", "identity")
        if response.is_error:
            response.headers.pop("content-encoding", None)
            response.stream = Beginning(stream, 0 if packed else ERROR_KEPT)
        elif packed:
            await stream.aclose()
            raise ModelRefused(f"{provider}: answered compressed, which was not asked for", kind="request")
        else:
            response.stream = Bounded(stream, provider)

    return {"response": [bound]}
