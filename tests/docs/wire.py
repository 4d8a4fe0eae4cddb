"""What goes over the wire in ``docs/protocol.md``, taken from a live run of the server on that page.

``python -m tests.docs.wire`` writes it anew. Random characters are shown as ``…``, every time is the same,
the server is at port 8400, and CALLBACK stands for the callback URL.
"""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.docs.exchange import pretty
from tests.docs.pages import ROOT, page
from tests.protocol.stubs import Peer, Received, StubRuntime, stub_runtime
from torpor.tools.server import ToolServer

PAGE = "docs/protocol.md"
BASE = "http://127.0.0.1:8400"
SHOWN = ("webhook-id", "webhook-timestamp", "webhook-signature")
THREAD = "th-51"

_RANDOM = re.compile(r"[0-9a-f]{32}|(?<=/)[A-Za-z0-9_-]{32}|(?<=v1,)[A-Za-z0-9+/=]{44}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_STAMP = re.compile(r"(?<=webhook-timestamp: )\d+")


class Wire:
    """A runtime at the other end of the wire that writes down what it sees."""

    def __init__(self, peer: Peer, stub: StubRuntime) -> None:
        self.blocks: list[str] = []
        self.base = peer.base
        self._peer = peer
        self._stub = stub
        self._read: dict[str, int] = {}

    async def get(self, path: str) -> None:
        """Ask for something."""
        async with self._peer.http.get(f"{self._peer.base}{path}") as answer:
            self._write(f"GET {path}", None, f"HTTP/1.1 {answer.status} OK", await answer.read())

    async def post(self, path: str, body: dict[str, Any]) -> None:
        """Send something."""
        status, answer = await self._peer.post(path, body)
        assert status == 200
        self._write(f"POST {path}", json.dumps(body).encode(), "HTTP/1.1 200 OK", answer)

    async def call(self, tool: str, ident: str, **arguments: Any) -> None:
        """Call a tool."""
        more = {"idempotency_key": f"{THREAD}/{ident}", "features": ["rap-ext/1"]}
        await self.post("/invoke", self._peer.invocation(tool, arguments, ident, **more))

    async def came(self, kind: str, *, signed: bool = False) -> dict[str, Any]:
        """Wait for the next callback of a kind."""

        def these() -> list[Received]:
            return [one for one in self._stub.received if one.body["type"] == kind]

        number = self._read.get(kind, 0)
        self._read[kind] = number + 1
        await self._stub.until(lambda _: len(these()) > number)
        one = these()[number]
        headers = [f"{name}: {one.headers[name]}" for name in SHOWN] if signed else []
        self._write("\n".join(["POST CALLBACK", *headers]), one.raw, "HTTP/1.1 200 OK", b"")
        return one.body

    def _write(self, head: str, body: bytes | None, status: str, answer: bytes) -> None:
        said = [head, *([pretty(json.loads(body))] if body else []), status]
        said += [pretty(json.loads(answer))] if answer else []
        text = "\n\n".join(said) + "\n"
        text = text.replace(self._stub.url, "CALLBACK").replace(self._peer.base, BASE)
        self.blocks.append(
            _STAMP.sub("1790000000", _TIME.sub("2026-09-21T14:13:20.000Z", _RANDOM.sub("…", text)))
        )


async def conversation(server: ToolServer) -> list[str]:
    """All exchanges of the page, in its order."""
    async with wire(server) as at:
        await at.get("/.well-known/rap-toolset")
        await at.call("stock_level", "tc-1", part="bolt")
        await at.came("tool_result", signed=True)
        await at.call("stock_level", "tc-2", part="screw")
        await at.came("tool_result")
        await at.call("reorder", "tc-3", part="bolt", units=500)
        question = await at.came("user_choice")
        await at.post(question["response_url"].removeprefix(at.base), {"id": "tc-3", "selected": 0})
        await at.came("view_update")
        await at.came("view_update")
        await at.came("tool_result")
        await at.call("watch_stock", "tc-4", part="nut", below=100)
        await at.came("tool_result")
        await at.came("subscription_event")
        await at.call("watch_stock", "tc-5", part="nut", below=10)
        await at.came("tool_result")
        await at.post("/tool_call_status", {"thread_id": THREAD, "tool_call_id": "tc-5"})
        await at.post("/cancel_tool_call", {"thread_id": THREAD, "tool_call_id": "tc-5"})
        await at.post("/tool_call_status", {"thread_id": THREAD, "tool_call_id": "tc-5"})
        await at.post("/close_thread", {"thread_id": THREAD})
        return at.blocks


@asynccontextmanager
async def wire(server: ToolServer) -> AsyncIterator[Wire]:
    """The two ends."""
    async with stub_runtime() as stub, server.listening() as url, aiohttp.ClientSession() as http:
        yield Wire(Peer(url, http, stub.url, THREAD), stub)


def server_of_the_page() -> ToolServer:
    """The server that the first block of the page defines; its outbox is in the current directory."""
    names: dict[str, Any] = {"__name__": "depots"}
    exec(page(PAGE).blocks("python")[0].text, names)
    server: ToolServer = names["depots"]
    return server


def rewrite() -> None:
    """Put what goes over the wire into the page."""
    blocks = page(PAGE).blocks("http")
    lines = page(PAGE).text.split("\n")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        texts = asyncio.run(conversation(server_of_the_page()))
        os.chdir(ROOT)
    for block, text in reversed(list(zip(blocks, texts, strict=True))):
        end = lines.index("```", block.line)
        lines[block.line : end] = text.rstrip("\n").split("\n")
    (ROOT / PAGE).write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
