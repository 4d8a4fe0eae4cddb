"""The HTTP side: who may ask, what they ask, and the acknowledgement before any work."""

import asyncio
import hmac
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from torpor.tools.addresses import host_of, is_loopback
from torpor.tools.server import wire
from torpor.tools.server.migration import Migration, Unmoved
from torpor.tools.server.work import Begin, Busy, Work
from torpor.tools.signatures import ID, Secrets, Unsigned
from torpor.tools.strict import Malformed

log = logging.getLogger("torpor.tools.server")

SLOWEST_BODY = 30.0
BURST = 10.0  # seconds worth of requests that may come at once
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class _Acknowledgement(Response):
    """An empty 200; the work begins when it has been sent, or could not be sent."""

    def __init__(self, begin: Begin) -> None:
        super().__init__(status_code=200)
        self._begin = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._begin()


class Front:
    """The endpoints of a tool server. `work` is awaited for, so that a server starts at its first request.

    With `signed_by` every message must be signed by one of these secrets.
    """

    def __init__(
        self,
        *,
        work: Callable[[], Awaitable[Work]],
        manifest: Callable[[str], dict[str, Any]],
        clean_up: Callable[[str], Awaitable[None]] | None,
        migration: Migration | None,
        signed_by: Secrets | None,
        token: str | None,
        public_url: str | None,
        allow_private: bool | None,
        largest_body: int,
        requests_per_second: float,
    ) -> None:
        self._work = work
        self._manifest = manifest
        self._clean_up = clean_up
        self._migration = migration
        self._signed_by = signed_by
        self._seen: dict[str, float] = {}
        self._token = None if token is None else token.encode()
        self._public_url = None if public_url is None else public_url.rstrip("/")
        self._allow_private = allow_private
        self._largest_body = largest_body
        self._allowance = _Allowance(requests_per_second, requests_per_second * BURST)

    def routes(self) -> list[Route]:
        """The routes of all endpoints."""
        posts = {
            "/invoke": self._invoke,
            "/cancel_tool_call": self._cancel,
            "/close_thread": self._close,
            "/tool_call_status": self._status,
            f"{wire.CHOICE_PATH}/{{token}}": self._chosen,
        }
        if self._migration is not None:
            posts["/migrate"] = self._migrate
        found = [Route("/.well-known/rap-toolset", self._guarded(self._discover), methods=["GET"])]
        return found + [Route(path, self._guarded(what), methods=["POST"]) for path, what in posts.items()]

    def _guarded(
        self, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                self._admit(request)
                return await answer(request)
            except Malformed as error:
                return _problem(400, str(error))
            except HTTPException as error:
                return _problem(error.status_code, error.detail, error.headers)
            except Busy:
                return _problem(503, "too many calls at work", {"Retry-After": "1"})
            except sqlite3.Error as error:
                log.error("the outbox failed: %s", error)  # noqa: TRY400 -- one line is enough
                return _problem(503, "the server cannot keep this now", {"Retry-After": "5"})

        return guarded

    def _admit(self, request: Request) -> None:
        """Let in only runtimes: no page in a browser, no foreign host name, the right token, a sane rate."""
        if "origin" in request.headers:
            raise HTTPException(403, "pages in a browser may not call tools")
        if _is_loopback(request) and not self._is_expected_host(request.headers.get("host", "")):
            raise HTTPException(403, "this host name is not served here; set public_url to serve it")
        if self._token is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
                raise HTTPException(401, "a valid bearer token is needed", {"WWW-Authenticate": "Bearer"})
        if not self._allowance.take():
            raise HTTPException(503, "too many requests", {"Retry-After": "1"})

    def _is_expected_host(self, header: str) -> bool:
        expected = set(_LOCAL_NAMES)
        if self._public_url is not None:
            expected.add(host_of(self._public_url))
        return host_of(f"//{header}") in expected

    async def _discover(self, request: Request) -> Response:
        await self._work()
        return _json(self._manifest(f"{self._base(request)}/invoke"))

    def _base(self, request: Request) -> str:
        return self._public_url or str(request.base_url).rstrip("/")

    def _is_private_allowed(self, request: Request) -> bool:
        return _is_loopback(request) if self._allow_private is None else self._allow_private

    async def _invoke(self, request: Request) -> Response:
        body = await self._body(request)
        invocation = wire.read_invocation(body, request.headers.get("idempotency-key"))
        invocation = msgspec.structs.replace(invocation, server=self._base(request))
        private = self._is_private_allowed(request)
        if not private and wire.is_private(host_of(invocation.callback_url)):
            raise Malformed("callback_url leads to a private address, which this server does not call")
        work = await self._work()
        return _Acknowledgement(await work.accept(invocation, private=private))

    async def _cancel(self, request: Request) -> Response:
        thread, ident = wire.read_notice(await self._body(request))
        work = await self._work()
        return _Acknowledgement(await work.cancel(thread, ident))

    async def _close(self, request: Request) -> Response:
        thread = wire.read_closure(await self._body(request))
        if self._is_replayed(request):
            return Response()
        clean_up = self._clean_up
        work = await self._work()
        return _Acknowledgement(
            await work.close(thread, None if clean_up is None else lambda: clean_up(thread))
        )

    async def _status(self, request: Request) -> Response:
        thread, ident = wire.read_notice(await self._body(request))
        work = await self._work()
        return _json({"alive": await work.alive(thread, ident)})

    async def _chosen(self, request: Request) -> Response:
        ident, selected = wire.read_selection(await self._body(request))
        work = await self._work()
        await work.questions.answer(request.path_params["token"], ident, selected)
        return Response()

    async def _migrate(self, request: Request) -> Response:
        assert self._migration is not None
        session, destination = wire.read_migration(await self._body(request))
        if self._is_replayed(request):
            return _problem(409, "this message came before")
        try:
            private = self._is_private_allowed(request)
            await self._migration.run(session, destination, private=private)
        except Unmoved as error:
            return _problem(error.status, str(error))
        return Response()

    def _is_replayed(self, request: Request) -> bool:
        """Say whether a signed message came before, and remember it for as long as its time is accepted.

        Only messages that could have a second effect need that.
        """
        if self._signed_by is None:
            return False
        now, id = time.time(), request.headers[ID]
        lasting = 2 * self._signed_by.tolerance
        self._seen = {known: at for known, at in self._seen.items() if now - at <= lasting}
        if id in self._seen:
            return True
        self._seen[id] = now
        return False

    async def _body(self, request: Request) -> bytes:
        body = await self._received(request)
        if self._signed_by is not None:
            try:
                self._signed_by.verify(request.headers.items(), body, time.time())
            except Unsigned as error:
                raise HTTPException(401, str(error)) from None
        return body

    async def _received(self, request: Request) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                async for part in request.stream():
                    size += len(part)
                    if size > self._largest_body:
                        raise HTTPException(413, f"a body may have at most {self._largest_body} bytes")
                    parts.append(part)
        except TimeoutError:
            raise HTTPException(408, "the body took too long") from None
        return b"".join(parts)


class _Allowance:
    """Lets a burst through at once, then so many requests a second."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


def _is_loopback(request: Request) -> bool:
    """Say whether the request came in at an address that only this machine reaches."""
    host, _ = request.scope.get("server") or ("", None)
    return is_loopback(host)


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _problem(status: int, text: str, headers: Any = None) -> Response:
    body = msgspec.json.encode({"error": text})
    return Response(body, status, headers=headers, media_type="application/json")
