"""The ASGI application: which paths there are, and what every request passes through."""

import logging
import time
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.metadata import version
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from torpor.runtime.threads import Threads
from torpor.tools.callbacks import Callbacks
from torpor.web.access import Access, route_path
from torpor.web.callbacks import CallbackWeb
from torpor.web.listening import listening
from torpor.web.live import Streams
from torpor.web.oauth import Authorizations, OAuthWeb
from torpor.web.openapi import Endpoint, document
from torpor.web.problems import answer, answer_error
from torpor.web.routes import ROUTES
from torpor.web.shapes import Health
from torpor.web.threads import ThreadWeb

BODY_LIMIT = 16 * 1024 * 1024

log = logging.getLogger("torpor.web.access")

Call = Callable[[Request], Awaitable[Response]]


def build(
    threads: Threads,
    callbacks: Callbacks,
    *,
    token: str = "",
    public_url: str = "",
    body_limit: int = BODY_LIMIT,
    authorizations: Callable[[], Awaitable[Authorizations]] | None = None,
) -> Starlette:
    """The application over the threads of one store.

    ``token``: the bearer token that everything but callbacks and health asks for; without one only this
    machine is answered. ``public_url``: the address by which others reach it. ``body_limit``: bytes of a
    request's body (callbacks have a limit of their own). ``authorizations`` opens what people grant at MCP
    servers. Serve it with ``listening``.
    """
    access = Access(token, public_url)
    streams = Streams(threads)
    oauth = OAuthWeb(authorizations)
    calls = _calls(threads, callbacks, access, streams, body_limit) | {
        "oauth_callback": oauth.callback,
        "oauth_client": oauth.client,
    }
    app = Starlette(
        routes=[_route(endpoint, calls[endpoint.name]) for endpoint in ROUTES],
        middleware=[Middleware(Gate, access=access)],
        exception_handlers={Exception: _failed, 404: _failed, 405: _failed},
    )
    app.router.redirect_slashes = False
    app.state.access = access
    app.state.streams = streams
    return app


class Gate:
    """Lets in who may ask, and writes one line a request: never a query, never a callback's token."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        began = time.monotonic()
        problem = self._access.check(scope)
        try:
            await (answer_error(problem) if problem else self._app)(scope, receive, noting)
        finally:
            took = (time.monotonic() - began) * 1000
            log.info("%s %s %d %.1f ms", scope["method"], redacted(scope["path"]), status, took)


def redacted(path: str) -> str:
    """A path as it may be logged: no secret, no control character."""
    if "callbacks" in path.lower():
        return "/callbacks/*"
    return "/".join(quote(step, errors="replace") if len(step) <= 64 else "*" for step in path.split("/"))


def _calls(
    threads: Threads, callbacks: Callbacks, access: Access, streams: Streams, body_limit: int
) -> dict[str, Call]:
    web = ThreadWeb(threads, access.tickets, body_limit)

    async def health(request: Request) -> Response:
        await threads.store.row("")
        challenge = request.query_params.get("challenge", "")
        proofs = access.proof(challenge), callbacks.proof(challenge)
        return answer(200, Health("ok", _version(), *proofs))

    async def openapi(_: Request) -> Response:
        return answer(200, document(ROUTES, _version()))

    named: dict[str, Call] = {
        name: getattr(web, name)
        for name in (
            "start",
            "find",
            "get",
            "explain",
            "say",
            "messages",
            "records",
            "stop",
            "nudge",
            "compact",
            "close",
            "delete",
            "waits",
            "answer",
            "fork",
            "children",
            "views",
        )
    }
    rest: dict[str, Call] = {
        "ticket": web.ticket,
        "events": streams.open,
        "callback": CallbackWeb(callbacks, threads.queue).receive,
        "health": health,
        "openapi": openapi,
    }
    return named | rest


def _route(endpoint: Endpoint, call: Call) -> Route:
    async def guarded(request: Request) -> Response:
        try:
            return await call(request)
        except Exception as error:  # noqa: BLE001 -- the one place where anything becomes an answer
            return answer_error(error)

    return Route(endpoint.path, guarded, methods=[endpoint.method], name=endpoint.name)


@cache
def _version() -> str:
    return version("torpor")


async def _failed(request: Request, error: Exception) -> Response:
    answered = answer_error(error)
    if answered.status_code == 405:
        answered.headers["Allow"] = ", ".join(_methods(request))
    return answered


def _methods(request: Request) -> list[str]:
    """What may be asked of a path, by all its routes."""
    path, routes = route_path(request.scope), request.app.routes
    found = [route.methods or set() for route in routes if route.path_regex.match(path)]
    return sorted(set().union(*found))


__all__ = ["build", "listening"]
