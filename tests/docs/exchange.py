"""The requests of ``docs/http.md``, asked of a real server.

``python -m tests.docs.exchange`` writes the answers anew. A block that begins with a method is a request, the
one after it is its answer. In requests THREAD is the thread started last, CALL is the call it waits for, WAIT
is what people are asked, and CALLBACK and TICKET are what was given for them. In answers the same words stand
for those values, ``…`` for other random ones, and every time is the same.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.docs.pages import ROOT, Block, page
from tests.protocol.tool_stub import ToolStub, tool_stub
from torpor import Agent, RapServer, Runtime, tool
from torpor.models import ScriptedModel, call, say

PAGE = "docs/http.md"
TOKEN = "a-token-for-the-documents"
DEADLINE = 10.0
TIME = 1_790_000_000.5
WIDTH = 100
SHOWN = ("Location", "Retry-After", "WWW-Authenticate")
METHODS = ("GET ", "POST ", "DELETE ")

_RANDOM = re.compile(r"[0-9a-f]{12,}|[A-Za-z0-9_-]{32,}")
_LASTING = re.compile(r"for \d+ s")


@tool(repeat="safe")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an invoice."""
    return f"paid {amount}"


def agents(url: str) -> list[Agent]:
    """One that adds, one whose tool takes its time, and one that asks before it pays."""
    adds = ScriptedModel([call("add", a=1, b=2), say("1 + 2 is 3."), say("You are welcome.")])
    builds = ScriptedModel([call("build", n=1), say("It is built.")])
    pays = ScriptedModel([call("pay", amount=120), say("It is paid.")])
    return [
        Agent("adder", model=adds, tools=[add]),
        Agent("builder", model=builds, tools=[RapServer(url)]),
        Agent("clerk", model=pays, tools=[pay]),
    ]


class Desk:
    """Asks a served runtime, and knows what the words of the page stand for."""

    def __init__(self, runtime: Runtime, tools: ToolStub, session: aiohttp.ClientSession) -> None:
        self._runtime = runtime
        self._tools = tools
        self._session = session
        self._words: dict[str, str] = {}

    async def ask(self, text: str) -> str:
        """The answer to a request, both as the page writes them."""
        head, _, body = text.partition("\n\n")
        first, *lines = head.strip().split("\n")
        method, path = self._meant(first).split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        if not path.startswith(("/callbacks/", "/healthz")):
            headers.setdefault("Authorization", f"Bearer {TOKEN}")
        await self._settled()
        async with self._session.request(
            method, self._runtime.url + path, data=self._meant(body) or None, headers=headers
        ) as response:
            if response.content_type == "text/event-stream":
                return await self._events(response)
            return await self._answer(response)

    async def _answer(self, response: aiohttp.ClientResponse) -> str:
        body = await response.read()
        lines = [f"HTTP/1.1 {response.status} {response.reason}"]
        found: Any = json.loads(body) if body else None
        self._learn(found)
        lines += [f"{name}: {response.headers[name]}" for name in SHOWN if name in response.headers]
        if body:
            lines += ["", pretty(found)]
        return self._told("\n".join(lines) + "\n")

    async def _events(self, response: aiohttp.ClientResponse) -> str:
        """The stream up to the thread's last message."""
        last = (await self._runtime.parts.threads.row(self._words["THREAD"])).length
        text = ""
        async with asyncio.timeout(DEADLINE):
            while f"id: {last}\n" not in text or not text.endswith("\n\n"):
                text += (await response.content.readany()).decode()
        kind = f"Content-Type: {response.headers['Content-Type']}"
        head = f"HTTP/1.1 {response.status} {response.reason}\n{kind}\n\n"
        return self._told(head + re.sub(r"data: (.*)", _data, text.rstrip("\n")) + "\n")

    async def _settled(self) -> None:
        """Wait until nothing goes on but calls of the tool server."""
        threads = self._runtime.parts.threads
        async with asyncio.timeout(DEADLINE):
            for row in await self._runtime.threads():
                while True:
                    found = await threads.explain(row.thread)
                    kept = [wait for wait in found.waits if wait.name == "build"]
                    asked = [wait.id for wait in found.waits if wait.kind == "approval"]
                    other = len(found.waits) - len(kept) - 2 * len(asked)  # a call and its approval
                    if not (found.received or other) and len(kept) <= len(self._tools.at("/invoke")):
                        break
                    await asyncio.sleep(0.005)
                for id in asked:
                    self._words["WAIT"] = id
                for wait in kept:
                    self._words |= {
                        "CALLBACK": self._runtime.parts.keys.mint(row.thread, wait.id),
                        "CALL": wait.id,
                    }

    def _learn(self, found: Any) -> None:
        if isinstance(found, dict) and "receipt" in found:
            self._words["THREAD"] = found["id"]
        if isinstance(found, dict) and "ticket" in found:
            self._words["TICKET"] = found["ticket"]

    def _meant(self, text: str) -> str:
        for word in ("WAIT", "CALLBACK", "THREAD", "CALL", "TICKET"):
            text = text.replace(word, self._words.get(word, word))
        return text

    def _told(self, text: str) -> str:
        for word in ("WAIT", "CALLBACK", "TICKET", "THREAD", "CALL"):
            if word in self._words:
                text = text.replace(self._words[word], word)
        return _LASTING.sub("for 0 s", _RANDOM.sub("…", text))


def _data(found: re.Match[str]) -> str:
    return f"data: {json.dumps(steady(json.loads(found[1])))}"


def steady(found: Any, name: str = "") -> Any:
    """A value with one time for all times, and nothing of this machine."""
    if isinstance(found, dict):
        return {key: steady(value, key) for key, value in found.items()}
    if isinstance(found, list):
        return [steady(value) for value in found]
    if isinstance(found, float) and found > 1e9:
        return TIME
    if name == "seconds" and found < 1:
        return 0.5
    return "host/1234" if name == "worker" else found


def pretty(found: Any) -> str:
    """JSON with what is short on one line."""
    return _pretty(steady(found), "")


def _pretty(found: Any, indent: str) -> str:
    flat = json.dumps(found, ensure_ascii=False)
    if not isinstance(found, dict | list) or len(indent) + len(flat) <= WIDTH:
        return flat
    deeper = indent + "  "
    if isinstance(found, dict):
        inner = [f"{deeper}{json.dumps(key)}: {_pretty(value, deeper)}" for key, value in found.items()]
    else:
        inner = [deeper + _pretty(value, deeper) for value in found]
    start, end = "{}" if isinstance(found, dict) else "[]"
    return f"{start}\n" + ",\n".join(inner) + f"\n{indent}{end}"


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    """A served runtime with a tool server that accepts calls and does not answer them."""
    described = {"name": "build", "description": "Build it.", "inputSchema": {"type": "object"}}
    async with (
        tool_stub(tools=[described]) as tools,
        Runtime("memory:", agents=agents(tools.url), token=TOKEN) as runtime,
        aiohttp.ClientSession() as session,
    ):
        yield Desk(runtime, tools, session)


def exchanges() -> list[tuple[Block, Block]]:
    """Each request of the page with its answer."""
    blocks = page(PAGE).blocks("http")
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert all(request.text.startswith(METHODS) for request, _ in pairs)
    return pairs


async def rewrite() -> None:
    """Put the real answers into the page."""
    text = page(PAGE).text
    lines = text.split("\n")
    async with desk() as asked:
        answers = [(answer, await asked.ask(request.text)) for request, answer in exchanges()]
    for answer, real in reversed(answers):
        lines[answer.line : answer.line + answer.text.count("\n")] = real.rstrip("\n").split("\n")
    (ROOT / PAGE).write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(rewrite())
