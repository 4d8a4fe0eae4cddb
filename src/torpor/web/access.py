"""Who may ask: host names, origins of pages, the bearer token, and tickets for event streams.

Without a token only this machine may ask, under its own names, so that neither the network nor a page in a
browser (which may make a name of its own lead here) reaches the API.
"""

import hmac
import ipaddress
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from torpor.core.errors import Refused
from torpor.web.problems import Problem
from torpor.web.proof import proof
from torpor.web.tickets import Tickets

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- recognised, not bound to
OPEN_PATHS = ("/healthz", "/callbacks/", "/oauth/")
"""No token is asked for here: a callback carries its own in its path, a browser's return in its query."""


class Access:
    """Decides whether a request may go on. Holds the token; shows it to nobody."""

    def __init__(self, token: str = "", public_url: str = "") -> None:
        self._token = token.encode()
        self._public = urlsplit(public_url)
        self._hosts = set(LOCAL_NAMES)
        self._any_address = False
        self.tickets = Tickets()

    @property
    def guarded(self) -> bool:
        """A token is needed."""
        return bool(self._token)

    def listens_on(self, host: str) -> None:
        """Serve requests for this host too. ``Refused`` if others could reach it and no token is needed."""
        if not is_loopback(host) and not self.guarded:
            raise Refused(
                f"Listening on {host} would let the network in without a token. "
                "Listen on 127.0.0.1, or start with a token (`torpor serve` makes one)."
            )
        self._any_address = self._any_address or host in WILDCARDS
        self._hosts.add(host.lower())

    def proof(self, challenge: str) -> str:
        """What only a holder of the token can answer to a challenge; empty without a token."""
        return proof(self._token.decode(), challenge)

    def check(self, scope: Scope) -> Problem | None:
        """None if the request may go on, else how to refuse it."""
        path = route_path(scope)
        if path == OPEN_PATHS[0] or path.startswith(OPEN_PATHS[1:]):
            return None
        headers = Headers(scope=scope)
        return self._check_source(scope, headers) or self._check_token(scope, path, headers)

    def _check_source(self, scope: Scope, headers: Headers) -> Problem | None:
        if not self.guarded and not _is_local(scope):
            return Problem(403, "Without a token only this machine may ask. Start the server with a token.")
        host = headers.get("host", "")
        if len(headers.getlist("host")) > 1 or not self._is_known(host):
            return Problem(403, "This host name is not served here. Set public_url to serve it.")
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, host):
            return Problem(403, "Pages of other origins may not ask here.")
        return None

    def _check_token(self, scope: Scope, path: str, headers: Headers) -> Problem | None:
        if not self.guarded or self._bears(headers) or self._has_ticket(scope, path):
            return None
        return Problem(
            401, "A valid bearer token is needed; see the store's token file.", {"WWW-Authenticate": "Bearer"}
        )

    def _is_known(self, header: str) -> bool:
        name = _host(header)
        if name in self._hosts:
            return True
        if not self.guarded:
            return False
        return name == (self._public.hostname or "").lower() != "" or (
            self._any_address and _is_address(name)
        )

    def _is_own(self, origin: str, host: str) -> bool:
        try:
            page = urlsplit(origin)
        except ValueError:
            return False
        if page.scheme not in ("http", "https") or not page.netloc:
            return False
        public = self._public
        return page.netloc.lower() == host.lower() or (
            (page.scheme, page.netloc.lower()) == (public.scheme, public.netloc.lower())
        )

    def _bears(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token)

    def _has_ticket(self, scope: Scope, path: str) -> bool:
        if scope["method"] != "GET" or not path.endswith("/events"):
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [])
        return len(given) == 1 and self.tickets.take(given[0], path)


def route_path(scope: Scope) -> str:
    """The path below the place where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    below = path.removeprefix(root)
    return below if root and path.startswith(root) and below.startswith("/") else path


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def verified(scope: Mapping[str, object]) -> str:
    """How the sender of an admitted request was verified, as kept beside what it says."""
    access = scope["app"].state.access  # type: ignore[attr-defined]
    return "token" if access.guarded else ""


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    return client is not None and is_loopback(client[0])


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host(header: str) -> str:
    if not header or any(c in header for c in "/@?#\\ \t"):
        return ""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""
