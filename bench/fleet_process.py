"""One process of a fleet: ``python bench/fleet_process.py STORE KIND SLOTS COMPLETIONS``.

``KIND`` ``receive`` takes callbacks and runs no slices.

It says ``ready``, begins to run slices when its standard input says ``go``, and ends with it. Meanwhile it
says one line for each thread done, model asked and call sent that is of interest; instants are of the clock
that all processes of a machine share. ``KIND`` is ``chain`` (each completion calls a function, the last one
ends) or ``wakes`` (each completion calls a tool server, for ever).
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request as Posted
from starlette.responses import Response
from workload import ARGUMENTS, Texts

from torpor import Agent, RapServer, Runtime, ToolContext, tool
from torpor.core.chunks import AnyChunk, CallDelta, CallStart, Stop, TextDelta
from torpor.core.messages import Usage
from torpor.core.request import Attempt, Request
from torpor.web import app
from torpor.web.callbacks import CallbackWeb
from torpor.wiring import Parts, open_parts

AGENT = "fleet"
TOOLS = "http://127.0.0.1:1"
MANIFEST = {
    "name": "tools",
    "endpoint": f"{TOOLS}/call",
    "tools": [
        {
            "name": "build",
            "description": "Build something, in a while.",
            "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
        }
    ],
}


class Line(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """What a process says; see the subclasses."""


class Asked(Line, frozen=True):
    """A model was asked for a thread."""

    thread: str
    at: float


class Sent(Line, frozen=True):
    """A call was sent to a tool server."""

    thread: str
    call: str
    callback: str


class Received(Line, frozen=True):
    """A callback has come, and will be answered."""

    token: str
    at: float


class Done(Line, frozen=True):
    """A thread's last completion has come."""

    thread: str


class Ended(Line, frozen=True):
    """The process is at its end: what it ran and the CPU it took since it began to work."""

    slices: int
    cpu_seconds: float


AnyLine = Asked | Sent | Received | Done | Ended
_encoder = msgspec.json.Encoder()


def tell(line: AnyLine) -> None:
    """Say it to whoever started this process."""
    sys.stdout.write(_encoder.encode(line).decode() + "\n")
    sys.stdout.flush()


class Chained:
    """Twelve pieces of text and a call of a function; the last one without a call."""

    name = "scripted:fleet"

    def __init__(self, texts: Texts, completions: int) -> None:
        self._pieces = [TextDelta(piece) for piece in texts.pieces("agent-0", 0)]
        self._completions = completions

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:  # noqa: ARG002
        """The ``Model`` port."""
        for piece in self._pieces:
            yield piece
        if attempt.ordinal == self._completions - 1:
            tell(Done(attempt.thread))
            yield Stop("end", Usage())
            return
        yield CallStart(0, "run_command", "")
        yield CallDelta(0, ARGUMENTS)
        yield Stop("calls", Usage())


class Waking:
    """Calls a tool server in each completion, and says when it was asked."""

    name = "scripted:wakes"

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:  # noqa: ARG002
        """The ``Model`` port."""
        tell(Asked(attempt.thread, time.monotonic()))
        yield CallStart(0, "build", "")
        yield CallDelta(0, '{"what":"x"}')
        yield Stop("calls", Usage())


class Told:
    """A tool server that says which calls it got, and does nothing."""

    async def discover(self, server: str) -> bytes:  # noqa: ARG002
        """What it offers."""
        return msgspec.json.encode(MANIFEST)

    async def invoke(self, server: str, endpoint: str, body: Any, key: str) -> None:  # noqa: ARG002
        """Take a call."""
        tell(Sent(body["thread"], body["call"], body["callback"]))

    async def cancel(self, *_: Any, **__: Any) -> None:
        """Nothing runs."""

    close_thread = choose = migrate = cancel

    async def status(self, *_: Any, **__: Any) -> str:
        """All calls are at work."""
        return "alive"

    async def close(self) -> None:
        """Nothing is held."""


def agent(kind: str, completions: int, texts: Texts) -> Agent:
    """The agent of a kind of work."""

    @tool(repeat="safe")
    async def run_command(command: str, context: ToolContext) -> str:  # noqa: ARG001
        """Run a command and give what it prints."""
        return texts.output(context.call)

    if kind == "wakes":
        return Agent(AGENT, model=Waking(), tools=[RapServer(TOOLS)])
    return Agent(AGENT, model=Chained(texts, completions), tools=[run_command])


def opened(store: str, kind: str, completions: int) -> Parts:
    """The parts of one process."""
    options: dict[str, Any] = {"transport": Told()} if kind == "wakes" else {}
    return open_parts(store, [agent(kind, completions, Texts())], owner_cap=1_000_000, **options)


async def work(store: str, kind: str, slots: int, completions: int) -> None:
    """Run slices from the word to go until the input ends."""
    loop = asyncio.get_running_loop()
    async with opened(store, kind, completions) as parts:
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        began = time.process_time()
        async with parts.working(slots) as worker:
            await loop.run_in_executor(None, sys.stdin.readline)
            ended = Ended(worker.slices, time.process_time() - began)
    tell(ended)


class Heard(CallbackWeb):
    """Says when each callback came, after it was answered."""

    async def receive(self, request: Posted) -> Response:
        """The way in."""
        at = time.monotonic()
        answer = await super().receive(request)
        tell(Received(request.path_params["token"], at))
        return answer


async def receive(store: str) -> None:
    """Take callbacks until the input ends; calls name this process as the one to be called back."""
    app.CallbackWeb = Heard  # type: ignore[misc]
    loop = asyncio.get_running_loop()
    async with Runtime(store, listen="127.0.0.1:0", workers=0):
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
    tell(Ended(0, time.process_time()))


if __name__ == "__main__":
    if sys.argv[2] == "receive":
        asyncio.run(receive(sys.argv[1]))
    else:
        asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
