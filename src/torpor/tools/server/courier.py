"""Delivers callbacks: in order for each call, again and again until a runtime takes or refuses them."""

import asyncio
import contextlib
import io
import logging
import random
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from torpor.core.retry import told_wait
from torpor.tools.server import asked
from torpor.tools.server.outbox import Outbox
from torpor.tools.server.owed import Callback, Retry
from torpor.tools.server.wire import is_private
from torpor.tools.signatures import Secrets

log = logging.getLogger("torpor.tools.server")

MOST_AT_ONCE = 64
MOST_PER_HOST = 16
LONGEST_RETRY_AFTER = 3600.0
TIMEOUT = aiohttp.ClientTimeout(total=30.0, connect=10.0)


class Courier:
    """Sends what the outbox owes, signed if there are secrets.

    `ended` is told the number of each call whose subscription nobody takes, `unasked` that a question was
    refused.
    """

    def __init__(self, outbox: Outbox, retry: Retry, secrets: Secrets | None = None) -> None:
        self._outbox = outbox
        self._retry = retry
        self._secrets = secrets
        self.ended: Callable[[int], None] = lambda _: None
        self.unasked: Callable[[], None] = lambda: None
        self._rung = asyncio.Event()
        self._sending: dict[int, tuple[str, asyncio.Task[None]]] = {}
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()

    def start(self) -> None:
        """Begin sending."""
        self._task = asyncio.create_task(self._run())

    def ring(self) -> None:
        """Say that there may be something to send."""
        self._idle.clear()
        self._rung.set()

    async def stop(self, within: float) -> None:
        """Send what can be sent at once, for at most `within` seconds, and stop."""
        self.ring()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), within)
        tasks = [task for _, task in self._sending.values()]
        if self._task is not None:
            tasks.append(self._task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in self._sessions.values():
            await session.close()

    async def _run(self) -> None:
        while True:
            self._rung.clear()
            try:
                later = await self._send_due()
            except Exception:
                log.exception("the outbox could not be read; trying again")
                later = time.time() + 1.0
            wait = None if later is None else max(later - time.time(), 0.01)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), wait)

    async def _send_due(self) -> float | None:
        due, later = await self._outbox.due(set(self._sending), 16 * MOST_AT_ONCE)
        hosts = Counter(host for host, _ in self._sending.values())
        for callback in due:
            host = urlsplit(callback.url).netloc
            if len(self._sending) < MOST_AT_ONCE and hosts[host] < MOST_PER_HOST:
                hosts[host] += 1
                task = asyncio.create_task(self._send(callback))
                self._sending[callback.seq] = host, task
        if not due and not self._sending and not self._rung.is_set():
            self._idle.set()
        return later

    async def _send(self, callback: Callback) -> None:
        try:
            body = await self._outbox.body(callback)
            if body is not None:
                status, retry_after = await self._post(callback, body)
                await self._conclude(callback, status, retry_after)
        except Exception:
            log.exception("callback %d could not be concluded", callback.seq)
            await asyncio.sleep(1.0)
        finally:
            del self._sending[callback.seq]
            self.ring()

    async def _post(self, callback: Callback, body: bytes) -> tuple[int | None, float | None]:
        """Send once; gives the status (None: no answer) and the pause that was asked for."""
        try:
            async with self._session(private=callback.private).post(
                URL(callback.url, encoded=True),
                data=io.BytesIO(body),
                headers=self._headers(callback, body),
                allow_redirects=False,
            ) as answer:
                return answer.status, _pause(answer.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # The text of the error would hold the URL, which is a secret.
            log.info("callback %d: no answer (%s)", callback.seq, type(error).__name__)
            return None, None

    def _headers(self, callback: Callback, body: bytes) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if self._secrets is not None:
            headers |= self._secrets.sign(callback.id, time.time(), body)
        return headers

    async def _conclude(self, callback: Callback, status: int | None, retry_after: float | None) -> None:
        if status is not None and 200 <= status < 300:
            await self._outbox.delivered(callback)
        elif status is not None and 400 <= status < 500:
            log.warning("callback %d (%s) was refused with %d", callback.seq, callback.kind, status)
            await self._drop(callback, status)
        else:
            pause = max(self._backoff(callback.attempt), retry_after or 0.0)
            if time.time() + pause > callback.give_up_at:
                log.warning("callback %d (%s) was never taken", callback.seq, callback.kind)
                await self._drop(callback, None)
            else:
                await self._outbox.retry(callback, time.time() + pause)

    async def _drop(self, callback: Callback, status: int | None) -> None:
        for seq in await self._outbox.give_up(callback, status):
            self.ended(seq)
        if callback.kind in asked.KINDS:
            self.unasked()

    def _backoff(self, attempt: int) -> float:
        pause = min(self._retry.first * 2.0 ** min(attempt, 30), self._retry.longest)
        return pause * random.uniform(0.75, 1.25)  # noqa: S311 -- spreads load, guards nothing

    def _session(self, *, private: bool) -> aiohttp.ClientSession:
        if private not in self._sessions:
            self._sessions[private] = new_session(private=private)
        return self._sessions[private]


def new_session(*, private: bool) -> aiohttp.ClientSession:
    """A client that reaches private addresses only if it may."""
    connector = aiohttp.TCPConnector(limit=0, socket_factory=None if private else _public_socket)
    return aiohttp.ClientSession(connector=connector, timeout=TIMEOUT, cookie_jar=aiohttp.DummyCookieJar())


def _public_socket(address: Any) -> socket.socket:
    """Make a socket unless it would lead inside: here names have been resolved, so no name can hide that."""
    family, kind, protocol, _, (host, *_) = address
    if is_private(host):
        raise OSError("the callback URL leads to a private address")
    return socket.socket(family, kind, protocol)


def _pause(header: str | None) -> float | None:
    seconds = told_wait(header or "", time.time())
    return None if seconds is None else min(seconds, LONGEST_RETRY_AFTER)
