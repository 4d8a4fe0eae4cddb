"""A tool server that keeps the protocol, written for this; broken ones are a few lines over it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

TOKEN = "sesame"
OBJECT = {"type": "object", "properties": {}, "additionalProperties": False}
WORDS = {
    "type": "object",
    "properties": {"words": {"type": "string", "minLength": 1}},
    "required": ["words"],
    "additionalProperties": False,
}


def tool(name: str, schema: dict[str, Any] = OBJECT, **annotations: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "inputSchema": schema, "annotations": annotations}


class GoodServer:
    """Five tools, all endpoints, a token; retries of callbacks with growing pauses."""

    pause = 0.1
    tools: tuple[dict[str, Any], ...] = (
        tool("echo", WORDS, readOnly=True, **{"x-test-cost": 1}),
        tool("slow", readOnly=True, longRunning=True),
        tool("watch", readOnly=True, longRunning=True),
        tool("pick", readOnly=True),
        tool("login", requiresAuth="depot"),
    )

    def __init__(self) -> None:
        self.url = ""
        self.http: aiohttp.ClientSession
        self.calls: dict[tuple[str, str], dict[str, Any]] = {}
        """Calls at work or subscribed, by thread and id."""
        self.sessions: dict[str, list[str]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.choices: dict[str, asyncio.Future[Any]] = {}

    # -------------------------------------------------------- what is asked

    def manifest(self) -> dict[str, Any]:
        return {
            "name": "good",
            "endpoint": f"{self.url}/invoke",
            "tools": list(self.tools),
            "needsMigration": True,
        }

    def admits(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {TOKEN}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/.well-known/rap-toolset":
            return web.json_response(self.manifest())
        if not self.admits(request):
            return web.Response(status=401)
        try:
            body = json.loads(await request.read())
        except ValueError:
            return web.Response(status=400)
        match request.path:
            case "/invoke":
                return await self.invoke(request, body)
            case "/cancel_tool_call":
                return self.cancel(body)
            case "/close_thread":
                return self.close(body)
            case "/tool_call_status":
                return web.json_response(self.status(body))
            case "/migrate":
                return await self.migrate(body)
            case "/choice":
                return self.chosen(body)
        return web.Response(status=404)

    async def invoke(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        self.calls[body["group_id"], body["id"]] = body
        self.sessions.setdefault(body["group_id"], []).append(body["id"])
        answer = web.Response(status=200)
        await answer.prepare(request)
        await answer.write_eof()
        self.begin(body)
        return answer

    def begin(self, body: dict[str, Any]) -> None:
        task = asyncio.create_task(self.work(body))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def cancel(self, body: dict[str, Any]) -> web.Response:
        self.calls.pop((body["thread_id"], body["tool_call_id"]), None)
        return web.Response()

    def close(self, body: dict[str, Any]) -> web.Response:
        for thread, id in list(self.calls):
            if thread == body.get("thread_id"):
                del self.calls[thread, id]
        return web.Response()

    def status(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"alive": (body["thread_id"], body["tool_call_id"]) in self.calls}

    async def migrate(self, body: dict[str, Any]) -> web.Response:
        if "destination_url" not in body:
            return web.Response(status=400, text="where to?")
        session, there = body["session_id"], body["destination_url"]
        if session not in self.sessions:
            return web.Response()
        status = await self.hand_over(there, self.kept_of(session))
        return web.Response() if status == 200 else web.Response(status=502, text=f"it answered {status}")

    def kept_of(self, session: str) -> dict[str, Any]:
        return {"session": session, "calls": self.sessions[session]}

    async def hand_over(self, there: str, kept: dict[str, Any]) -> int:
        """The status of the other end; 599: nobody is there."""
        try:
            async with self.http.get(f"{there}/.well-known/rap-toolset") as found:
                if found.status != 200:
                    return found.status
        except aiohttp.ClientError:
            return 599
        return await self.post(f"{there}/import", json.dumps(kept).encode())

    def chosen(self, body: dict[str, Any]) -> web.Response:
        waiting = self.choices.pop(body["id"], None)
        if waiting is not None:
            waiting.set_result(body["selected"])
        return web.Response()

    # ----------------------------------------------------------- what is done

    def refusal(self, body: dict[str, Any]) -> str:
        name, arguments = body.get("operation"), body.get("arguments")
        if name not in {one["name"] for one in self.tools}:
            return f"Error: unknown operation {name!r}."
        if not isinstance(arguments, dict):
            return "Error: arguments must be an object."
        words = arguments.get("words")
        wanted = {"words"} if name == "echo" else set()
        if set(arguments) != wanted or (name == "echo" and (not isinstance(words, str) or not words)):
            return "Error: the arguments do not fit the schema of the tool."
        return ""

    async def work(self, body: dict[str, Any]) -> None:
        refusal = self.refusal(body)
        if refusal:
            await self.result(body, refusal)
        else:
            await getattr(self, str(body["operation"]))(body)

    async def echo(self, body: dict[str, Any]) -> None:
        await self.result(body, json.dumps({"words": body["arguments"]["words"]}))

    async def slow(self, body: dict[str, Any]) -> None:
        while self.is_live(body):
            await asyncio.sleep(0.01)

    async def watch(self, body: dict[str, Any]) -> None:
        await self.send(body, self.confirmation(body))
        for number in range(8):
            await asyncio.sleep(0.06)
            if self.is_live(body):
                await self.send(body, self.event(body, json.dumps({"number": number})))
        if self.is_live(body):
            await self.send(body, self.event(body, "over", final=True))
        self.forget(body)

    async def pick(self, body: dict[str, Any]) -> None:
        waiting = self.choices[body["id"]] = asyncio.get_running_loop().create_future()
        await self.send(body, self.prompt(body))
        selected = await waiting
        if type(selected) is int and 0 <= selected < 2:
            await self.result(body, f"you took {selected}")
        else:
            await self.result(body, "Error: that is no choice. Choose 0 or 1.")

    async def login(self, body: dict[str, Any]) -> None:
        url = "https://id.example.test/authorize?client_id=a&state=b&redirect_uri=c"
        await self.send(body, {**self.head(body, "oauth"), "auth_url": url})

    # ----------------------------------------------------------- what is sent

    def head(self, body: dict[str, Any], type: str) -> dict[str, Any]:
        echoed = {"call_id": body["call_id"]} if body.get("call_id") is not None else {}
        return {"type": type, "group_id": body["group_id"], "id": body["id"], **echoed}

    def members(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        return {**self.head(body, "tool_result"), "text": text}

    def confirmation(self, body: dict[str, Any]) -> dict[str, Any]:
        text = f"Watching. Subscription ID: {body['id']}"
        return {**self.members(body, text), "subscription": True}

    def event(self, body: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
        ids = {"group_id": body["group_id"], "tool_call_id": body["id"]}
        return {"type": "subscription_event", **ids, "text": text, **more}

    def prompt(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            **self.head(body, "user_choice"),
            "prompt": "This or that?",
            "choices": ["this", "that"],
            "default": 1,
            "response_url": f"{self.url}/choice",
        }

    def is_live(self, body: dict[str, Any]) -> bool:
        return (body["group_id"], body["id"]) in self.calls

    def forget(self, body: dict[str, Any]) -> None:
        self.calls.pop((body["group_id"], body["id"]), None)

    async def result(self, body: dict[str, Any], text: str) -> None:
        await self.send(body, self.members(body, text), last=True)
        self.forget(body)

    async def send(self, body: dict[str, Any], members: dict[str, Any], *, last: bool = False) -> None:
        """POST until it is taken or refused; a cancelled call sends only its result."""
        for attempt in range(8):
            status = await self.post(body["callback_url"], json.dumps(members).encode())
            if not self.goes_on(status):
                return
            await asyncio.sleep(self.pause * 2**attempt)
            if not last and not self.is_live(body):
                return

    def goes_on(self, status: int) -> bool:
        return status >= 500

    async def post(self, url: str, raw: bytes) -> int:
        try:
            headers = {"Content-Type": "application/json"}
            async with self.http.post(URL(url, encoded=True), data=raw, headers=headers) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 599


@asynccontextmanager
async def serving(server: GoodServer) -> AsyncIterator[str]:
    """Serve on loopback; gives the base URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession() as server.http:
        try:
            yield server.url
        finally:
            for task in server.tasks:
                task.cancel()
            await asyncio.gather(*server.tasks, return_exceptions=True)
            await runner.cleanup()
