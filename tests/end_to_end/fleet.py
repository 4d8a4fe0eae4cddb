"""A fleet of worker processes: ``python -m tests.end_to_end.fleet`` forks one for each line that it reads."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from torpor import Agent, RapServer, Runtime, ToolContext, tool
from torpor.cli.demo_audit import Audit, audit
from torpor.core import codec
from torpor.models import ScriptedModel, call, say
from torpor.runtime import slice as slices
from torpor.tools.server import ToolCall, ToolServer
from torpor.wiring import open_parts

ROOT = Path(__file__).resolve().parents[2]
LEASE, CLAIM = 2.0, 3.0
SENDERS = 32
PATIENCE = 240.0
NEWER = codec.SHAPE + 1


class Order(msgspec.Struct, frozen=True):
    """How a worker is to be."""

    store: str
    folder: str
    tools: str
    agents: tuple[str, ...] = ("porter",)
    slots: int = 8
    thinking: float = 0.0
    """Seconds that the model takes, and each function."""
    skew: float = 0.0
    """Seconds by which its clock is wrong."""
    newer: bool = False
    """It is of a release that stores another shape."""


def agents(order: Order) -> list[Agent]:
    """Five turns of each agent: four calls, three of functions and one of a tool server, and an answer."""

    def effect(kind: str, id: str) -> None:
        place = os.open(Path(order.folder) / kind, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(place, f"{id}\n".encode())
        os.close(place)

    @tool(repeat="keyed")
    async def book(what: str, context: ToolContext) -> str:
        """Book something, once for each key."""
        await asyncio.sleep(order.thinking)
        effect("book", context.call)
        return f"booked {what}"

    @tool(repeat="safe")
    async def peek(what: str, context: ToolContext) -> str:
        """Look at something."""
        effect("peek", context.call)
        return f"saw {what}"

    def thinks(*words: Any) -> Any:
        async def reply(_: Any) -> Any:
            await asyncio.sleep(order.thinking)
            return list(words)

        return reply

    script = [
        thinks(call("book", what="a")),
        thinks(call("weigh", what="b")),
        thinks(call("peek", what="c")),
        thinks(call("book", what="d")),
        *[thinks(say("Done."))] * 3,
    ]
    tools: list[Any] = [book, peek, RapServer(order.tools)]
    return [Agent(name, model=ScriptedModel(script), tools=tools) for name in order.agents]


async def work(order: Order) -> None:
    """Run slices until asked to stop."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    parts = open_parts(order.store, agents(order), lease=LEASE, claim=CLAIM)
    async with parts, parts.working(order.slots):
        await stop.wait()


def born(order: Order) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if order.skew:
        right = time.time
        time.time = lambda: right() + order.skew
    if order.newer:
        for module in (codec, slices):
            vars(module)["SHAPE"] = NEWER
    asyncio.run(work(order))


def main() -> None:
    """Fork a worker for each order, and end them all at the end of the input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                born(msgspec.json.decode(line, type=Order))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
        print(child, flush=True)
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


class Fleet:
    """Workers on one store, and this process, which speaks to agents, takes callbacks and serves a tool."""

    def __init__(self, runtime: Runtime, order: Order, maker: asyncio.subprocess.Process) -> None:
        self.runtime = runtime
        self.order = order
        self._maker = maker
        self.workers: list[int] = []
        """Process ids of those that live, as far as is known here."""
        self.threads: list[str] = []
        self.weighed: Counter[str] = Counter()

    async def add(self, **changes: Any) -> int:
        """Start another worker."""
        order = msgspec.structs.replace(self.order, **changes)
        assert self._maker.stdin is not None
        assert self._maker.stdout is not None
        self._maker.stdin.write(msgspec.json.encode(order) + b"\n")
        child = int(await asyncio.wait_for(self._maker.stdout.readline(), 20.0))
        self.workers.append(child)
        return child

    def kill(self, worker: int) -> None:
        """End a worker without a word."""
        self.workers.remove(worker)
        os.kill(worker, signal.SIGKILL)

    async def ask_to_stop(self, worker: int) -> None:
        """End a worker in order."""
        self.workers.remove(worker)
        os.kill(worker, signal.SIGTERM)
        async with asyncio.timeout(60):
            while not gone(worker):
                await asyncio.sleep(0.05)

    async def speak(self, count: int, agent: str = "porter", *, first: int = 0) -> None:
        """Give so many agents work; every tenth is told something more, twice under one key."""
        threads = [f"{agent}-{number:04}" for number in range(first, first + count)]
        self.threads += threads

        async def send(mine: list[str]) -> None:
            for thread in mine:
                handle = await self.runtime.start(agent, "Carry all of it.", thread=thread)
                if thread.endswith("0"):
                    await handle.send("Hurry.", key="hurry")
                    await handle.send("Hurry.", key="hurry")

        await asyncio.gather(*(send(threads[place::SENDERS]) for place in range(SENDERS)))

    async def finished(self) -> int:
        """How many threads have come to their end."""
        found = await asyncio.to_thread(_ask, self.order.store, _FINISHED)
        return int(found[0][0])

    async def messages(self) -> int:
        """How many messages all threads have."""
        found = await asyncio.to_thread(_ask, self.order.store, _MESSAGES)
        return int(found[0][0])

    async def end(self, seconds: float = PATIENCE) -> None:
        """Wait until all have come to their end."""
        async with asyncio.timeout(seconds):
            while await self.finished() < len(self.threads):
                await asyncio.sleep(0.25)

    async def audited(self) -> Audit:
        """What became of all threads, with nothing lost and nothing done twice but under its own id."""
        folder = Path(self.order.folder)
        kinds = {kind: Counter((folder / kind).read_text().splitlines()) for kind in ("book", "peek")}
        found = await audit(self.runtime.parts.store, self.threads, {**kinds, "weigh": self.weighed})
        assert found.faults == []
        assert found.threads == len(self.threads)
        assert found.turns >= 5 * len(self.threads)
        return found


_FINISHED = """
SELECT count(*) FROM torpor.threads WHERE purpose = 'root' AND length > 10 AND waits = 0 AND NOT owes
    AND NOT EXISTS (SELECT 1 FROM torpor.signals WHERE signals.thread = threads.number AND outcome IS NULL)
    AND NOT EXISTS (SELECT 1 FROM torpor.outbox WHERE outbox.thread = threads.number)
"""
_MESSAGES = "SELECT coalesce(sum(length), 0) FROM torpor.threads"


def _ask(store: str, statement: str) -> list[tuple[Any, ...]]:
    try:
        with psycopg.connect(store, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()
    except psycopg.OperationalError:
        return [(0,)]


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Look again and again until a condition holds; ``TimeoutError`` after a while."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


def gone(process: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@contextlib.asynccontextmanager
async def fleet(store: str, folder: Path, **order: Any) -> AsyncIterator[Fleet]:
    """A fleet without workers as yet."""
    scales = ToolServer("scales", outbox=":memory:")

    @scales.tool(idempotent=True)
    async def weigh(call: ToolCall, what: str) -> str:
        """Weigh something."""
        made.weighed[call.id] += 1
        return f"{what} is light"

    maker = await asyncio.create_subprocess_exec(
        sys.executable, *("-m", "tests.end_to_end.fleet"), cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with scales.listening() as tools:
            asked = Order(store, str(folder), tools, **order)
            async with Runtime(store, agents=agents(asked), workers=0) as runtime:
                made = Fleet(runtime, asked, maker)
                yield made
    finally:
        assert maker.stdin is not None
        maker.stdin.close()
        await maker.wait()


@contextlib.contextmanager
def paused(worker: int) -> Iterator[None]:
    """A worker that is stopped while the block runs."""
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


if __name__ == "__main__":
    main()
