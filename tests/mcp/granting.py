"""An authorization server, and a resource that it protects, on loopback; both can be told to misbehave."""

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

Answer = dict[str, Any] | Response


class Granting:
    """The two servers in one application. What it does can be changed by its fields at any time."""

    def __init__(self) -> None:
        self.url = ""
        self.scopes = "files:read"
        """What the resource asks for."""
        self.life: float | None = 3600
        self.rotates = True
        self.denies = False
        self.told_scope: str | None = None
        """What a token says that it is for; None: nothing."""
        self.tells_issuer = True
        self.issuer = ""
        """What it calls itself when it sends a browser back; empty: what it is called."""
        self.resource: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        """Put over what the two servers say of themselves; None takes a member away."""
        self.instead: dict[str, Callable[[Request], Awaitable[Response]]] = {}
        """By path: answers in place of the usual ones."""
        self.usual: dict[str, Callable[[Request], Awaitable[Response]]] = {}
        """By path: the usual answers."""
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, str] = {}
        """Scopes of the access tokens that are good."""
        self.refreshing: dict[str, str] = {}
        """Scopes of the refresh tokens that are good."""
        self.used: Counter[str] = Counter()
        """How often each refresh token was used."""
        self.open: tuple[str, ...] = ()
        """Methods of the MCP server that need no token."""
        self.asked: list[str] = []
        """Paths of all requests."""
        self.forms: list[dict[str, str]] = []
        """Forms that came to the token endpoint."""

    @property
    def mcp(self) -> str:
        """The resource's URL."""
        return f"{self.url}/mcp"

    def app(self) -> Starlette:
        """The application."""
        answers: dict[str, Callable[[Request], Awaitable[Answer]]] = {
            "/.well-known/oauth-protected-resource/mcp": self._resource,
            "/.well-known/oauth-protected-resource": self._resource,
            "/.well-known/oauth-authorization-server": self._metadata,
            "/register": self._register,
            "/authorize": self._authorize,
            "/token": self._token,
            "/revoke": self._revoke,
            "/mcp": self.protected,
            "/{path:path}": _nowhere,
        }
        both = ["GET", "POST"]
        return Starlette(
            routes=[Route(path, self._guard(path, usual), methods=both) for path, usual in answers.items()]
        )

    def _guard(
        self, path: str, usual: Callable[[Request], Awaitable[Answer]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            found = await usual(request)
            return found if isinstance(found, Response) else JSONResponse(found)

        async def noted(request: Request) -> Response:
            self.asked.append(request.url.path)
            return await self.instead.get(request.url.path, answer)(request)

        self.usual[path] = answer
        return noted

    async def _resource(self, _: Request) -> Answer:
        told = {"resource": self.mcp, "authorization_servers": [self.url], "scopes_supported": ["files:read"]}
        return _over(told, self.resource)

    async def _metadata(self, _: Request) -> Answer:
        url = self.url
        told = {
            "issuer": url,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "registration_endpoint": f"{url}/register",
            "revocation_endpoint": f"{url}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": self.tells_issuer,
        }
        return _over(told, self.metadata)

    async def _register(self, request: Request) -> Answer:
        wanted = await request.json()
        id = f"client-{len(self.clients)}"
        self.clients[id] = wanted
        return JSONResponse({**wanted, "client_id": id}, 201)

    async def _authorize(self, request: Request) -> Answer:
        """Agree at once, as a person would after a look."""
        asked = dict(request.query_params)
        client = self.clients[asked["client_id"]]
        assert asked["redirect_uri"] in client["redirect_uris"]
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        back = {"state": asked["state"]}
        if self.denies:
            back["error"] = "access_denied"
        else:
            back["code"] = secrets.token_urlsafe(12)
            self.codes[back["code"]] = asked
        if self.tells_issuer or self.issuer:
            back["iss"] = self.issuer or self.url
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    async def _token(self, request: Request) -> Answer:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.forms.append(form)
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, 401)
        if form["grant_type"] == "refresh_token":
            return self._refresh(form)
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        fits = asked is not None and (
            asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            and asked["redirect_uri"] == form["redirect_uri"]
            and asked["client_id"] == form["client_id"]
            and asked["resource"] == form["resource"]
        )
        return self._grant(asked.get("scope", "")) if asked and fits else _bad("invalid_grant")

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        client = self.clients.get(form["client_id"])
        if client is None or "client_secret" not in client:
            return client is not None
        given = form.get("client_secret", "")
        header = request.headers.get("authorization", "")
        if header.startswith("Basic "):
            id, _, secret = base64.b64decode(header[6:]).decode().partition(":")
            given = unquote(secret) if unquote(id) == form["client_id"] else ""
        return bool(given == client["client_secret"])

    def _refresh(self, form: dict[str, str]) -> Answer:
        token = form["refresh_token"]
        self.used[token] += 1
        scope = self.refreshing.get(token)
        if scope is None:
            if self.used[token] > 1:  # somebody has stolen it, for all that is known
                self.tokens.clear()
                self.refreshing.clear()
            return _bad("invalid_grant")
        if self.rotates:
            del self.refreshing[token]
        return self._grant(scope, renewed=not self.rotates)

    def _grant(self, scope: str, *, renewed: bool = False) -> Answer:
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.tokens[access] = scope
        given: dict[str, Any] = {"access_token": access, "token_type": "bearer"}
        if not renewed:
            self.refreshing[refresh] = scope
            given["refresh_token"] = refresh
        if self.life is not None:
            given["expires_in"] = self.life
        if self.told_scope is not None:
            given["scope"] = self.told_scope
        return given

    async def _revoke(self, request: Request) -> Answer:
        form = parse_qs((await request.body()).decode())
        self.refreshing.pop(form["token"][0], None)
        self.tokens.clear()
        return {}

    async def protected(self, request: Request) -> Answer:
        """The resource: who may use it is told how its requests came."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        body = await request.body()
        message = json.loads(body) if body not in (b"", b"{}") else {}
        if message.get("method") in self.open:
            return _spoken(message, "nothing")
        if token not in self.tokens:
            return self.refusal(401)
        if not set(self.scopes.split()) <= set(self.tokens[token].split()):
            return self.refusal(403, error="insufficient_scope")
        if message:
            return _spoken(message, self.tokens[token])
        return {"scope": self.tokens[token]}

    def refusal(self, status: int, **more: str) -> Response:
        """How the resource asks for a token, or a better one."""
        told = {
            "resource_metadata": f"{self.url}/.well-known/oauth-protected-resource/mcp",
            "scope": self.scopes,
            **more,
        }
        header = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in told.items())
        return Response("no", status, headers={"WWW-Authenticate": header})


def _spoken(message: dict[str, Any], scope: str) -> Answer:
    """The resource as an MCP server of 2025 with one tool, which says whose token it was called with."""
    schema = {"type": "object", "properties": {}}
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            about = {"name": "files", "version": "1"}
            result: Any = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            result = {"tools": [{"name": "read_file", "inputSchema": schema}]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": f"read, with {scope}"}]}
        case _ if "id" not in message:
            return Response(status_code=202)
        case _:
            error = {"code": -32601, "message": "no such method"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


async def _nowhere(_: Request) -> Answer:
    return Response("no such place", 404)


def _over(told: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**told, **other}.items() if value is not None}


def _bad(error: str) -> Response:
    return JSONResponse({"error": error, "error_description": "secret words"}, 400)


@contextlib.asynccontextmanager
async def served(app: Any, port: int = 0) -> AsyncIterator[str]:
    """Serve an application on loopback while the block runs; gives its URL."""
    config = uvicorn.Config(app, port=port, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    task = asyncio.create_task(server.main_loop())
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        await server.shutdown()


@contextlib.asynccontextmanager
async def granting() -> AsyncIterator[Granting]:
    """Both servers, while the block runs."""
    found = Granting()
    async with served(found.app()) as url:
        found.url = url
        yield found


async def agree(url: str) -> dict[str, str]:
    """Open a consent URL as a browser does; gives what it is sent back with, and where to as ``to``."""
    async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False) as response:
        assert response.status == 302, await response.text()
        back = response.headers["Location"]
    told = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
    return {**told, "to": back.partition("?")[0]}
