"""A bridge of these tests: its server outlives processes, and each call finds its way on after a death."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tests.runtime.world import Fate, World
from torpor.core.messages import By, Text
from torpor.core.signals import RequestedSignal
from torpor.ports import Later
from torpor.runtime.roster import CallContext
from torpor.tools.functions import ResultParts
from torpor.tools.mcp.servers import McpServer
from torpor.wiring import Parts

LINES = McpServer("lines", command=["lines"])
PAUSE = 5.0
TOOLS = {"build": "keyed", "mail": "unsafe", "ask": "safe"}


def manifest(names: Sequence[str] = tuple(TOOLS)) -> bytes:
    tools = [
        {
            "name": name,
            "description": name,
            "inputSchema": {"type": "object"},
            "annotations": {"readOnly": TOOLS[name] == "safe", "idempotent": TOOLS[name] == "keyed"},
        }
        for name in names
    ]
    return json.dumps({"name": "lines", "endpoint": LINES.address, "tools": tools}).encode()


class Works:
    """What is done outside, whatever processes die."""

    def __init__(self) -> None:
        self.manifest = manifest()
        self.jobs: dict[str, int] = {}
        """How often each was asked for."""
        self.effects: list[str] = []
        self.runs: list[CallContext] = []
        self.cancelled: list[str] = []
        self.closed: list[str] = []
        self.forgotten: list[str] = []

    async def submit(self, key: str) -> None:
        if key not in self.jobs:
            self.jobs[key] = 0
            self.effects.append(key)

    async def mail(self, key: str) -> None:
        self.effects.append(key)

    async def look(self, key: str) -> bool:
        self.jobs[key] += 1
        return self.jobs[key] > 2


class Lines:
    """The bridge of one process."""

    def __init__(self, parts: Parts, fate: Fate, works: Works) -> None:
        self._parts = parts
        self._fate = fate
        self._works = works

    async def manifest(self, address: str, user: str = "") -> bytes:
        assert address == LINES.address
        return self._works.manifest

    def has_changed(self, address: str, hash: str, user: str = "") -> bool:
        return hashlib.sha256(self._works.manifest).hexdigest() != hash

    async def has_begun(self, context: CallContext) -> bool:
        return bool(await self._kept(context.thread, context.call))

    async def run(self, context: CallContext, arguments: dict[str, Any]) -> ResultParts | Later:
        self._works.runs.append(context)
        key, kept = f"{context.thread}/{context.call}", await self._kept(context.thread, context.call)
        if not kept:
            await self._parts.side.put("lines", key, b"begun")
        match context.name:
            case "build":
                return await self._build(key, begun=bool(kept))
            case "mail" if not kept:
                await self._fate.pass_through("mail", lambda: self._works.mail(key))
                return ResultParts((Text("mailed"),))
            case "mail":
                return ResultParts((Text("Error: unknown"),), is_error=True, cause="unknown")
            case _:
                return await self._ask(context, key, kept or b"begun")

    async def _build(self, key: str, *, begun: bool) -> ResultParts | Later:
        await self._fate.pass_through("submit", lambda: self._works.submit(key))
        if begun and await self._fate.pass_through("look", lambda: self._works.look(key)):
            return ResultParts((Text("built"),))
        return Later(self._parts.clock.now() + PAUSE)

    async def _ask(self, context: CallContext, key: str, kept: bytes) -> ResultParts | Later:
        if kept != b"begun":
            return ResultParts((Text(f"chosen: {kept.decode()}"),))
        signal = RequestedSignal(
            context.thread, f"{context.call}/choice", self._parts.clock.now(), By("tool", "lines"),
            call=context.call, prompt="Which?", choices=("red", "green"), default="1", url="q1",
        )  # fmt: skip
        posted = await self._parts.store.post([signal])
        if posted[0].outcome == "new":
            await self._parts.dispatcher.hasten(context.thread, context.call)
        return Later(self._parts.clock.now() + 1_000_000)

    async def forget(self, thread: str, call: str) -> None:
        self._works.forgotten.append(call)

    async def cancel(self, address: str, thread: str, call: str) -> None:
        self._works.cancelled.append(call)

    async def close_thread(self, thread: str) -> None:
        self._works.closed.append(thread)

    async def choose(self, thread: str, call: str, question: str, value: str) -> None:
        assert question == "q1"
        await self._parts.side.put("lines", f"{thread}/{call}", value.encode())
        await self._parts.dispatcher.hasten(thread, call)

    async def close(self) -> None:
        return None

    async def _kept(self, thread: str, call: str) -> bytes | None:
        return await self._parts.side.get("lines", f"{thread}/{call}")


class BridgedWorld(World):
    """A world whose agents have that server."""

    works: Works

    def parts(self, fate: Fate) -> Parts:
        if "works" not in vars(self):
            self.works = Works()
        parts = super().parts(fate)
        parts._bridge = Lines(parts, fate, self.works)
        return parts
