"""Where browsers come back to after people signed in at MCP servers, and what describes our clients."""

import re
from collections.abc import Awaitable, Callable
from html import escape
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from torpor.core.errors import Refused
from torpor.web.problems import Problem, answer

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{ font: 1.1rem/1.5 sans-serif; max-width: 36rem; margin: 4rem auto; padding: 0 1rem }}</style>
</head><body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""
_TAKEN = ("state", "code", "iss", "error")


class Finished(Protocol):
    """What came of a browser's return."""

    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def status(self) -> int: ...


class Authorizations(Protocol):
    """What people grant at MCP servers."""

    async def finish(
        self, name: str, state: str, code: str = "", *, iss: str = "", error: str = ""
    ) -> Finished: ...

    async def document(self, name: str) -> dict[str, object]: ...


class OAuthWeb:
    """``GET /oauth/callback/{server}`` and ``GET /oauth/client/{server}``."""

    def __init__(self, opened: Callable[[], Awaitable[Authorizations]] | None) -> None:
        self._opened = opened

    async def callback(self, request: Request) -> Response:
        """Finish a sign-in, and say in a page of plain HTML what came of it."""
        if request.method != "GET":  # whatever looks ahead must not use up what a person brings
            return Response(status_code=200, headers=_HEADERS)
        given = request.query_params
        if any(len(given.getlist(name)) > 1 for name in _TAKEN):
            return _page(400, "This link is not valid", "It says something twice. Nothing was changed.")
        found = await (await self._authorizations()).finish(
            _named(request),
            given.get("state", ""),
            given.get("code", ""),
            iss=given.get("iss", ""),
            error=given.get("error", ""),
        )
        return _page(found.status, found.title, found.text)

    async def client(self, request: Request) -> Response:
        """Describe the client whose id is the URL of this document."""
        return answer(200, await (await self._authorizations()).document(_named(request)))

    async def _authorizations(self) -> Authorizations:
        if self._opened is None:
            raise Refused("Nobody signs in at MCP servers here.")
        return await self._opened()


def _named(request: Request) -> str:
    name: str = request.path_params["server"]
    if not _NAME.fullmatch(name):
        raise Problem(404, "There is no such path.")
    return name


def _page(status: int, title: str, text: str) -> Response:
    page = _PAGE.format(title=escape(title), text=escape(text))
    return Response(page, status, headers=_HEADERS, media_type="text/html")
