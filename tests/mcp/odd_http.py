"""An MCP server of 2025 over HTTP, by hand, which misbehaves as it is told."""

import asyncio
import gzip
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

Answer = Callable[[Any, dict[str, Any]], Any]


def result(id: Any, value: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def said(id: Any, text: str) -> dict[str, Any]:
    return result(id, {"content": [{"type": "text", "text": text}]})


def event(message: Any, id: str = "", retry: int | None = None) -> bytes:
    lines = [f"id: {id}" if id else "", f"retry: {retry}" if retry is not None else ""]
    lines.append(f"data: {json.dumps(message)}" if message is not None else "data: ")
    return ("\n".join(filter(None, lines)) + "\n\n").encode()


class OddServer:
    """Requests by what they were, and what is done about them."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.seen: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.wrong = ""
        self.listening = 0
        self.held: dict[str, Any] = {}
        self.app = Starlette(
            routes=[
                Route("/mcp", self.mcp, methods=["GET", "POST", "DELETE"]),
                Route("/moved", self.moved, methods=["GET", "POST", "DELETE"]),
                Route("/away", self.away, methods=["POST"]),
                Route("/compressed", self.compressed, methods=["POST"]),
            ]
        )

    async def moved(self, request: Request) -> Response:
        return RedirectResponse("/mcp", 307)

    async def away(self, request: Request) -> Response:
        return RedirectResponse("https://elsewhere.test/mcp", 307)

    async def compressed(self, request: Request) -> Response:
        body = gzip.compress(json.dumps(said(1, "x" * 10_000_000)).encode())
        return Response(body, headers={"content-encoding": "gzip"}, media_type="application/json")

    async def mcp(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        if request.method == "GET":
            return await self.get(request)
        if request.method == "DELETE":
            self.seen.append("DELETE")
            self.sessions.discard(request.headers.get("mcp-session-id", ""))
            return Response(status_code=204)
        message = json.loads(await request.body())
        method, id = message.get("method", "answer"), message.get("id")
        self.seen.append(method)
        if self.wrong == "nothing":
            return Response("nothing here", 404)
        if self.wrong == "sign in" and not request.headers.get("authorization", "").startswith("Token "):
            return Response("who are you?", 401, headers={"www-authenticate": "Bearer"})
        if method == "initialize":
            return self.introduced(id)
        if method == "server/discover":
            return Response("no session", 400)
        if self.wrong != "stateless" and request.headers.get("mcp-session-id") not in self.sessions:
            return Response("no such session", 404)
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", *self.tools)]
            return JSONResponse(result(id, {"tools": tools}))
        if method == "tools/call":
            name = message["params"]["name"]
            self.seen[-1] = name
            return await self.tools.get(name, OddServer.echo)(self, id, message["params"])
        if method == "notifications/cancelled":
            self.seen[-1] = f"cancelled {message['params']['requestId']}"
        if method == "answer":
            self.held["answer"].set_result(message["result"])
        return Response(status_code=202)

    def introduced(self, id: Any) -> Response:
        session = (
            self.wrong.removeprefix("session:") if self.wrong.startswith("session:") else uuid.uuid4().hex
        )
        self.sessions.add(session)
        headers = {} if self.wrong == "stateless" else {"mcp-session-id": session}
        told = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }
        return JSONResponse(result(id, told), headers=headers)

    async def get(self, request: Request) -> Response:
        """What a server says by itself, or the rest of a broken stream."""
        last = request.headers.get("last-event-id")
        if last is not None:
            self.seen.append(f"again from {last}")
            return self.events(event(said(self.held["id"], f"resumed after {last}"), "e9"))
        self.listening += 1
        return self.events() if self.wrong == "closes" else Response(status_code=405)

    def events(self, *parts: bytes) -> Response:
        async def body() -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        return StreamingResponse(body(), media_type="text/event-stream")

    # -------------------------------------------------------------- tools

    async def echo(self, id: Any, params: dict[str, Any]) -> Response:
        return JSONResponse(said(id, json.dumps(params.get("arguments"))))

    async def busy(self, id: Any, params: dict[str, Any]) -> Response:
        return Response("slow down", 429, headers={"retry-after": "7"})

    async def broken(self, id: Any, params: dict[str, Any]) -> Response:
        return Response("oh no", 500)

    async def taken(self, id: Any, params: dict[str, Any]) -> Response:
        return Response(status_code=202)

    async def page(self, id: Any, params: dict[str, Any]) -> Response:
        return Response("<html>", media_type="text/html")

    async def declined(self, id: Any, params: dict[str, Any]) -> Response:
        error = {"code": -32602, "message": "wrong arguments"}
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)

    async def large(self, id: Any, params: dict[str, Any]) -> Response:
        return JSONResponse(said(id, "x" * 300_000))

    async def large_event(self, id: Any, params: dict[str, Any]) -> Response:
        return self.events(event(said(id, "x" * 300_000)))

    async def other_id(self, id: Any, params: dict[str, Any]) -> Response:
        return JSONResponse(said("another", "mine"))

    async def cut_off(self, id: Any, params: dict[str, Any]) -> Response:
        return self.events(event({"jsonrpc": "2.0", "method": "notifications/x"}))

    async def resumed(self, id: Any, params: dict[str, Any]) -> Response:
        self.held["id"] = id
        return self.events(event(None, "e1", retry=10))

    async def noise(self, id: Any, params: dict[str, Any]) -> Response:
        return self.events(b": comment\n\ndata: not json\n\n", event(said(id, "after noise")))

    async def silent(self, id: Any, params: dict[str, Any]) -> Response:
        await asyncio.sleep(600)
        return Response(status_code=500)

    async def ask(self, id: Any, params: dict[str, Any]) -> Response:
        answer = self.held["answer"] = asyncio.get_running_loop().create_future()
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        asked = {"message": "Your name?", "requestedSchema": schema}

        async def body() -> AsyncIterator[bytes]:
            yield event({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": asked})
            yield event(said(id, json.dumps(await answer)))

        return StreamingResponse(body(), media_type="text/event-stream")

    tools = {
        "busy": busy, "broken": broken, "taken": taken, "page": page, "declined": declined, "large": large,
        "large_event": large_event, "other_id": other_id, "cut_off": cut_off, "resumed": resumed,
        "noise": noise, "silent": silent, "ask": ask,
    }  # fmt: skip


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """An application on a free port of this machine; gives its URL."""
    config = uvicorn.Config(app, port=0, log_level="warning", lifespan="auto", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task
