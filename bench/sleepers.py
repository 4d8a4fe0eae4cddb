"""Threads with a history that sleep until their tool server calls back, and the process that serves them.

``python bench/sleepers.py STORE SLOTS`` serves a store: it says where it listens once it is ready, and ends
with its standard input, saying what it took. The tool server is a stand-in in its process; callbacks are not.

Histories are those of ``workload.py``, as many turns long as ``TURNS`` says, and then a call that is answered
some day. Threads of the same place in ``TURNS`` have the same texts.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec
from measuring import resident
from workload import ARGUMENTS, Texts

from torpor import Agent, RapServer, Runtime, ToolContext, tool
from torpor.core.chunks import AnyChunk, CallDelta, CallStart, Stop, TextDelta
from torpor.core.codec import decode_head
from torpor.core.messages import Usage
from torpor.core.request import Attempt, Request, ResultsItem
from torpor.wiring import Parts

AGENT = "sleeper"
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
TURNS = (1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 20)
"""Turns of the history of a thread, by the last digits of its name: many are short, a few long."""
PATIENCE = 60.0
AT_ONCE = 50
"""Threads that are put to sleep side by side on the ordinary way."""


class Ended(msgspec.Struct, frozen=True):
    """What a serving process took."""

    resident_bytes: int
    """At its end, at rest."""
    peak_bytes: int
    cpu_seconds: float
    seconds: float


class Silent:
    """A tool server that takes every call and says nothing."""

    async def discover(self, server: str) -> bytes:  # noqa: ARG002
        """What it offers."""
        return msgspec.json.encode(MANIFEST)

    async def invoke(self, *_: Any, **__: Any) -> None:
        """Take whatever comes."""

    cancel = close_thread = choose = migrate = invoke

    async def status(self, *_: Any, **__: Any) -> str:
        """All calls are at work."""
        return "alive"

    async def close(self) -> None:
        """Nothing is held."""


class Sleeping:
    """The scripted model: the turns of a thread's history, then calls of the tool server."""

    name = "scripted:sleepers"

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        """The ``Model`` port."""
        place = place_of(attempt.thread)
        for piece in self._texts.pieces(f"-{place}", attempt.ordinal):
            yield TextDelta(piece)
        sleeps = attempt.ordinal >= 2 * TURNS[place]
        if not sleeps and isinstance(request.items[-1], ResultsItem):
            yield Stop("end", Usage())
            return
        name, arguments = ("build", '{"what":"all"}') if sleeps else ("run_command", ARGUMENTS)
        yield CallStart(0, name, f"call-{attempt.ordinal}")
        yield CallDelta(0, arguments)
        yield Stop("calls", Usage())


def name_of(number: int) -> str:
    """The id of a thread: ids are equally long."""
    return f"sleeper-{number:08d}"


def place_of(thread: str) -> int:
    """Where in ``TURNS`` a thread stands."""
    return int(thread.rpartition("-")[2]) % len(TURNS)


def sleeper(texts: Texts) -> Agent:
    """The agent."""

    @tool(repeat="safe")
    async def run_command(command: str, context: ToolContext) -> str:  # noqa: ARG001
        """Run a command and give what it prints."""
        return texts.output(f"{place_of(context.thread)}")

    model: Any = Sleeping(texts)
    return Agent(AGENT, model=model, tools=[run_command, RapServer(TOOLS)])


def serving(store: str, slots: int, **options: Any) -> Runtime:
    """A runtime that serves sleepers on a free port."""
    given = {"listen": "127.0.0.1:0", "transport": Silent(), **options}
    return Runtime(store, agents=[sleeper(Texts("varied"))], workers=slots, owner_cap=1_000_000, **given)


async def put_to_sleep(runtime: Runtime, numbers: Iterable[int]) -> None:
    """Make threads on the ordinary way, and wait until each waits for its call and nothing else goes on."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await _put_to_sleep(runtime, number)

    async with asyncio.timeout(PATIENCE + 0.2 * len(numbers := list(numbers))):
        await asyncio.gather(*(one(number) for number in numbers))


async def _put_to_sleep(runtime: Runtime, number: int) -> None:
    texts, thread, place = Texts(), name_of(number), number % len(TURNS)
    handle = await runtime.start(AGENT, texts.said(place, 0), thread=thread)
    for turn in range(1, TURNS[place] + 1):
        await handle.reply(timeout=PATIENCE)
        await handle.send(texts.said(place, turn))
    while not await asleep(runtime.parts, thread):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.005)


async def asleep(parts: Parts, thread: str) -> bool:
    """Whether it waits for its call, and all else is done."""
    return bool(await call_of(parts, thread)) and not await parts.store.outbox(thread)


async def call_of(parts: Parts, thread: str) -> str:
    """The call of the tool server that a thread waits for; empty: none."""
    row = await parts.store.row(thread)
    if row is None:
        return ""
    pending = decode_head(row.head, row.shape).pending
    return next((id for id, call in pending.items() if call.server), "")


def peak() -> int:
    """The most bytes that were ever resident in this process."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class Served:
    """A process that serves a store. ``url``: where; ``ready_after``: seconds it took to start."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, ready_after: float) -> None:
        self._process = process
        self.url = url
        self.ready_after = ready_after
        self.ended: Ended | None = None

    async def end(self) -> None:
        """Let it end, and hear what it took."""
        out, _ = await self._process.communicate(b"")
        self.ended = msgspec.json.decode(out.splitlines()[-1], type=Ended)


@contextlib.asynccontextmanager
async def served(store: str, slots: int) -> AsyncIterator[Served]:
    """A serving process for a block."""
    pipe = asyncio.subprocess.PIPE
    begun = time.perf_counter()
    words = (str(Path(__file__)), store, str(slots))
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 600)).decode().split()
    if len(line) != 2 or line[0] != "ready":
        raise RuntimeError(f"the serving process did not start: {line}")
    there = Served(process, line[1], time.perf_counter() - begun)
    try:
        yield there
    finally:
        await there.end()


async def serve(store: str, slots: int) -> None:
    """Serve until the input ends."""
    loop = asyncio.get_running_loop()
    async with serving(store, slots) as runtime:
        print("ready", runtime.url, flush=True)
        wall, cpu = time.perf_counter(), time.process_time()
        await loop.run_in_executor(None, sys.stdin.read)
        took = time.process_time() - cpu, time.perf_counter() - wall
    ended = Ended(resident(), peak(), *took)
    print(msgspec.json.encode(ended).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
