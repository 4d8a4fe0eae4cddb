"""HTTP connections that cost little, whoever opens them: few enough, with heads that are short and prompt."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_LIMIT = 64 * 1024
"""Bytes that may come without completing a request's head or adding to its body (trailers, for example)."""
HEAD_SECONDS = 15.0
"""Seconds that the head of a request may take, from the opening of its connection or its first byte."""
MOST = 8_192
"""Connections at once; fewer where the process may not open so many files."""
ABORT = "torpor.abort"
"""Extension of a request's scope: ``call`` ends its connection, and forgets what was still to be sent."""
SPARE_FILES = 128
"""Files that the process can still open when it takes no more connections."""


class Connection(HttpToolsProtocol):
    """One connection, which ends if it brings too much, too slowly, or as one too many."""

    head_seconds = HEAD_SECONDS
    most = MOST

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._idle_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > min(self.most, _affordable()):
            transport.abort()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_has_come()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._idle_bytes += len(data)
        answering: RequestResponseCycle | None = self.cycle
        if answering is None or answering.response_complete:
            self._expect_head()
        super().data_received(data)
        if self._idle_bytes > HEAD_LIMIT:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope.setdefault("extensions", {})[ABORT] = {"call": self.transport.abort}

    def on_headers_complete(self) -> None:
        self._idle_bytes = 0
        self._head_has_come()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        super().on_body(body)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _head_has_come(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _affordable() -> int:
    """Connections for which this process may open files."""
    try:
        import resource
    except ImportError:  # a system without such a limit
        return MOST
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if allowed == resource.RLIM_INFINITY else max(1, allowed - SPARE_FILES)
