"""One long conversation, to be held over any store with any number of workers, in this process or in others.

``python -m tests.runtime.conversation STORE FOLDER TOOLS WORKERS`` is so many worker processes.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from torpor import Agent, Limits, RapServer, tool
from torpor.core.chunks import AnyChunk
from torpor.core.request import Attempt, Request
from torpor.models import ScriptedModel, call, say
from torpor.runtime.sweep import sweep_always
from torpor.tools.server import ToolCall, ToolServer
from torpor.wiring import Parts

FIRST = [("look", "a"), ("hold", "b"), ("look", "c"), ("hold", "d")]
"""Of two results at once, a slice takes both or one, as they come: what is held keeps them apart."""

SCRIPT: list[Any] = [
    [say("I look."), *(call(kind, what=what) for kind, what in FIRST)],
    say("I saw all four."),
    call("hold", what="x"),
    say("It is still held."),
    say("x is there."),
    call("hold", what="y"),
    say("y is there."),
    call("sleep", seconds=0.1),
    say("Rested."),
    [call("hold", what="z"), call("look", what="z")],
    say("Left."),
    call("watch", what="door"),
    say("I watch."),
    say("It opened."),
    say("It closed."),
    [call("look", what="e"), call("nothing")],
    call("look", what="f"),
    call("look", what="g"),
    say("Enough."),
]
LAST = len(SCRIPT) - 1


class Noting:
    """The scripted model; it leaves what it was shown in a folder, by the number of the completion."""

    def __init__(self, folder: Path) -> None:
        self._model = ScriptedModel(SCRIPT)
        self._folder = folder
        self.name = self._model.name

    def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        shown = {"items": request.items, "tools": request.tools, "instructions": request.instructions}
        (self._folder / f"request {attempt.ordinal}").write_bytes(msgspec.json.encode(shown))
        return self._model.stream(request, attempt)


def agent(folder: Path, tools: str) -> Agent:
    @tool(repeat="safe")
    def look(what: str) -> str:
        """Look at something."""
        return f"saw {what}"

    @tool(repeat="safe")
    async def hold(what: str) -> str:
        """Hold something until it is let go."""
        while not (folder / f"go {what}").exists():
            await asyncio.sleep(0.01)
        return f"held {what}"

    return Agent(
        "talker",
        model=Noting(folder),
        instructions="Do as you are told.",
        tools=[look, hold, RapServer(tools)],
        limits=Limits(parallel=2, completions=3),
    )


def tool_server(outbox: Path, news: dict[str, "asyncio.Queue[str]"]) -> ToolServer:
    """A subscription whose events are put into a queue, by the thread."""
    server = ToolServer("doors", outbox=outbox)

    @server.tool(idempotent=True)
    async def watch(call: ToolCall, what: str) -> None:
        """Watch something."""
        await call.subscribe(f"Watching {what}.")
        while not call.finished:
            text = await news[call.thread].get()
            await call.event(text, associative=True, final=text.startswith("last"))

    return server


def normal(body: bytes) -> Any:
    """JSON without what differs from run to run: ids by their first appearance, and no times or addresses."""
    names: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        return names.setdefault(match.group(), f"id{len(names)}")

    text = re.sub(r"c[0-9a-f]{16}-\d+", named, body.decode())
    text = re.sub(r"http://127\.0\.0\.1:\d+", "http://server", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "hash", text)
    text = re.sub(r"after \d+ seconds", "after N seconds", text)
    text = re.sub(r'"(at|since|seconds)":[0-9.e+-]+', r'"\1":0', text)
    text = re.sub(r"It happened at [^ \x22]+", "It happened at some time.", text)
    return json.loads(text)


def requests(folder: Path) -> list[Any]:
    """What was shown, by completion."""
    return [normal((folder / f"request {ordinal}").read_bytes()) for ordinal in range(len(SCRIPT))]


async def work(store: str, folder: Path, tools: str) -> None:
    """Run slices until the folder says stop."""
    async with Parts(store, [agent(folder, tools)]) as parts:
        worker = parts.worker(1)
        worker.start()
        sweeping = asyncio.create_task(
            sweep_always(parts.store, parts.queue, parts.clock, parts.roster.names)
        )
        while not (folder / "stop").exists():
            await asyncio.sleep(0.05)
        sweeping.cancel()
        await worker.stop(1.0)
        await parts.dispatcher.drain(0)


if __name__ == "__main__":
    where, place, url, number = sys.argv[1:]
    children = [0] * (int(number) - 1)
    for child in range(len(children)):
        children[child] = os.fork()
        if not children[child]:
            break
    asyncio.run(work(where, Path(place), url))
    if all(children):
        for process in children:
            os.waitpid(process, 0)
