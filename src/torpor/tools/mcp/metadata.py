"""What MCP servers and authorization servers say of themselves, and clients registered with the latter."""

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.tools.addresses import host_of, is_loopback
from torpor.tools.bridged import McpServer
from torpor.tools.mcp import fetch
from torpor.tools.mcp.challenges import Challenge
from torpor.tools.mcp.fetch import Answer, Bounds, shown

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, ProtectedResourceMetadata

M = TypeVar("M", "ProtectedResourceMetadata", "OAuthMetadata")

TRIED = 3
"""Authorization servers of a resource that are asked, until one can be used."""
SCOPE_LIMIT = 2_000
CLIENT_NAME = "Torpor"
CLIENT_ID_LIMIT = 2_048

PARAMETERS = frozenset({
    "response_type", "client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method", "scope",
    "resource", "prompt",
})  # fmt: skip
"""Parameters of a consent URL that are ours to give."""


class Client(msgspec.Struct, frozen=True):
    """What we are called at an authorization server."""

    id: str
    secret: str = ""
    method: str = "none"
    """``none``, ``client_secret_basic`` or ``client_secret_post``."""
    expires: float = 0.0
    """When the secret does; 0: never."""
    redirect: str = ""
    """Where browsers are sent back to, if it was registered here for that."""

    def __repr__(self) -> str:
        return f"Client({self.id!r})"


class Issuer(msgspec.Struct, frozen=True):
    """An authorization server."""

    issuer: str
    authorize: str
    token: str
    register: str = ""
    revoke: str = ""
    tells: bool = False
    """It names itself when it sends a browser back."""
    documents: bool = False
    """A client's id may be the URL of a document that describes it."""
    methods: tuple[str, ...] | None = None
    """How clients may prove who they are at its token endpoint."""


class Protected(msgspec.Struct, frozen=True):
    """What to ask for, and where."""

    resource: str
    scope: str
    issuer: Issuer


async def discover(server: McpServer, challenge: Challenge, bounds: Bounds) -> Protected:
    """Which authorization server, resource and scopes belong to an MCP server."""
    from mcp.client.auth.utils import get_client_metadata_scopes
    from mcp.shared.auth import DEFAULT_GRANT_TYPES
    from mcp.shared.auth_utils import resource_url_from_server_url

    described = await _resource(server, challenge, bounds)
    metadata = await _first_issuer(server, described, bounds)
    asked = server.oauth.scope if server.oauth else ""
    told = asked or get_client_metadata_scopes(
        challenge.scope or None, described, metadata, list(DEFAULT_GRANT_TYPES)
    )
    if len(told or "") > SCOPE_LIMIT:
        raise Refused(f"The MCP server {server.name!r} asks for too many scopes.")
    resource = str(described.resource) if described else resource_url_from_server_url(server.url or "")
    return Protected(resource, told or "", _usable(metadata, server, bounds))


async def _resource(
    server: McpServer, challenge: Challenge, bounds: Bounds
) -> "ProtectedResourceMetadata | None":
    """What the server says of itself as a protected resource; None if it says nothing."""
    from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
    from mcp.shared.auth import ProtectedResourceMetadata

    url, unread = server.url or "", ""
    for place in build_protected_resource_metadata_discovery_urls(challenge.resource_metadata or None, url):
        answer = await fetch.get(place, bounds)
        if answer.status != 200:
            _check_there(answer, place)
            continue
        found = _parsed(ProtectedResourceMetadata, answer)
        if found is not None:
            _check_resource(server, str(found.resource))
            return found
        unread = unread or place
    if unread:
        raise Refused(f"{shown(unread)} does not have the metadata of a protected resource.")
    return None


def _check_resource(server: McpServer, resource: str) -> None:
    """A token for another resource is not for this server to get."""
    from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

    own = resource_url_from_server_url(server.url or "")
    if not check_resource_allowed(requested_resource=own, configured_resource=resource):
        raise Refused(
            f"The MCP server {server.name!r} says that it is {shown(resource)}, but its url is {shown(own)}."
        )


async def _first_issuer(
    server: McpServer, described: "ProtectedResourceMetadata | None", bounds: Bounds
) -> "OAuthMetadata":
    """The first authorization server whose metadata can be had."""
    named = [str(url) for url in described.authorization_servers] if described else [""]
    failure: TorporError | None = None
    for issuer in named[:TRIED]:
        try:
            return await _metadata(server, issuer, bounds)
        except (Refused, Unavailable) as error:
            failure = failure or error
    assert failure is not None, "at least one is named"
    raise failure


async def _metadata(server: McpServer, issuer: str, bounds: Bounds) -> "OAuthMetadata":
    """An authorization server's metadata, which must name it. Empty: the MCP server is one itself."""
    from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls, issuers_match
    from mcp.shared.auth import OAuthMetadata

    url = server.url or ""
    expected = issuer or f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    for place in build_oauth_authorization_server_metadata_discovery_urls(issuer or None, url):
        answer = await fetch.get(place, bounds)
        if answer.status != 200:
            _check_there(answer, place)
            continue
        found = _parsed(OAuthMetadata, answer)
        if found is None:
            continue
        if not (str(found.issuer) == expected or (not issuer and issuers_match(str(found.issuer), expected))):
            raise Refused(
                f"{shown(place)} is of another authorization server: it names {shown(str(found.issuer))} "
                f"as issuer, not {shown(expected)}."
            )
        return found
    raise Refused(
        f"The MCP server {server.name!r} wants a person to sign in, but {shown(expected)} has no metadata of "
        "an authorization server. If it takes a token, give it in headers."
    )


def _check_there(answer: Answer, place: str) -> None:
    """A server that is busy says nothing about what it has."""
    if answer.status >= 500 or answer.status == 429:
        raise Unavailable(f"{shown(place)} answered {answer.status}.", retry_after=answer.retry_after)


def _parsed(kind: "type[M]", answer: Answer) -> "M | None":
    try:
        return kind.model_validate_json(answer.body)
    except ValueError:
        return None


def _usable(found: "OAuthMetadata", server: McpServer, bounds: Bounds) -> Issuer:
    """An authorization server with endpoints that may be asked and a flow that is safe."""
    issuer = str(found.issuer)
    methods = found.code_challenge_methods_supported
    vouched = bool(server.oauth and server.oauth.client_id)
    if "S256" not in (methods or ()) and not (methods is None and vouched):
        raise Refused(
            f"{shown(issuer)} does not say that it supports PKCE with S256, without which signing in is not "
            "safe. If you know that it does, configure a client_id for it."
        )
    authorize = bounds.check(
        str(found.authorization_endpoint), f"The authorization endpoint of {shown(issuer)}"
    )
    if PARAMETERS & {name for name, _ in parse_qsl(urlsplit(authorize).query, keep_blank_values=True)}:
        raise Refused(f"The authorization endpoint of {shown(issuer)} has parameters that are ours to give.")
    return Issuer(
        issuer,
        authorize,
        bounds.check(str(found.token_endpoint), f"The token endpoint of {shown(issuer)}"),
        str(found.registration_endpoint or ""),
        str(found.revocation_endpoint or ""),
        bool(found.authorization_response_iss_parameter_supported),
        bool(found.client_id_metadata_document_supported),
        None
        if found.token_endpoint_auth_methods_supported is None
        else tuple(found.token_endpoint_auth_methods_supported),
    )


def given_client(server: McpServer, issuer: Issuer) -> Client | None:
    """The client that the server's author configured, if there is one."""
    oauth = server.oauth
    if oauth is None or not oauth.client_id:
        return None
    if not oauth.client_secret:
        return Client(oauth.client_id)
    basic = issuer.methods is None or "client_secret_basic" in issuer.methods
    return Client(
        oauth.client_id, oauth.client_secret, "client_secret_basic" if basic else "client_secret_post"
    )


def client_document(url: str, redirect: str) -> dict[str, object]:
    """The document at ``url`` that describes the client whose id is that URL."""
    return {"client_id": url, "token_endpoint_auth_method": "none", **_described(redirect)}


def _described(redirect: str) -> dict[str, object]:
    return {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native" if is_loopback(host_of(redirect)) else "web",
    }


async def register(server: McpServer, issuer: Issuer, redirect: str, scope: str, bounds: Bounds) -> Client:
    """A client of our own. ``Refused``, saying what to configure, if none is to be had."""
    if not issuer.register:
        raise Refused(_no_client(server, issuer, "does not register clients by itself"))
    wanted = _described(redirect) | ({"scope": scope} if scope else {})
    method = _method(issuer)
    if method:
        wanted["token_endpoint_auth_method"] = method
    answer = await fetch.post(issuer.register, bounds, body=msgspec.json.encode(wanted))
    _check_there(answer, issuer.register)
    if answer.status not in (200, 201):
        raise Refused(_no_client(server, issuer, f"registered no client (it answered {answer.status})"))
    return _registered(server, issuer, redirect, answer)


def _method(issuer: Issuer) -> str:
    """How we would like to prove who we are: with nothing, if that is known to be allowed."""
    known = ("none", "client_secret_basic", "client_secret_post")
    return next((one for one in known if one in (issuer.methods or ())), "")


def _registered(server: McpServer, issuer: Issuer, redirect: str, answer: Answer) -> Client:
    from mcp.client.auth import OAuthRegistrationError
    from mcp.client.auth.oauth2 import check_registration_usable
    from mcp.shared.auth import OAuthClientInformationFull

    try:
        found = OAuthClientInformationFull.model_validate_json(answer.body)
        check_registration_usable(found)
    except (ValueError, OAuthRegistrationError):
        raise Refused(_no_client(server, issuer, "registered a client that cannot be used")) from None
    listed = [str(url) for url in found.redirect_uris or ()]
    if (listed and redirect not in listed) or not is_plain(found.client_id, CLIENT_ID_LIMIT):
        raise Refused(_no_client(server, issuer, "registered another client than the one asked for"))
    return _client(found, redirect)


def _client(found: "OAuthClientInformationFull", redirect: str) -> Client:
    secret = found.client_secret or ""
    method = found.token_endpoint_auth_method or ("client_secret_basic" if secret else "none")
    return Client(found.client_id, secret, method, float(found.client_secret_expires_at or 0), redirect)


def _no_client(server: McpServer, issuer: Issuer, why: str) -> str:
    return (
        f"{shown(issuer.issuer)} {why}. Register one there by hand and give its client_id to the MCP server "
        f"{server.name!r}: oauth = {{client_id = …}}."
    )


def is_plain(text: str, limit: int) -> bool:
    """Whether this is non-empty printable ASCII without spaces, fit for a header."""
    return 0 < len(text) <= limit and text.isascii() and text.isprintable() and " " not in text
