"""A thread that waits is rows and nothing else: ten thousand hold no task, timer, thread or connection."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.protocol.tool_stub import ToolStub, tool_stub
from torpor import Agent, RapServer
from torpor.core.messages import Text
from torpor.core.request import Request
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Words
from torpor.runtime.worker import Worker
from torpor.wiring import Parts, open_parts

THREADS = 10_000
DATABASE = "idle.db"
CONNECTIONS = min(32, (os.cpu_count() or 1) + 4) + 2
"""Connections to the file: one for each thread that reads beside the loop, one on it, and the writer's."""
CALLING = 500
"""Those of them that wait for a tool server; the others sleep or have nothing to do."""
PASSING = 4
"""Files and sockets that come and go: threads are packed, servers asked, stores listened to."""
SENDERS = 64
CLAIM = 0.3
LINGERING = 2 * CLAIM
"""The task that renews claims ends so long after the last effect at most."""


class Held(msgspec.Struct, frozen=True):
    """What a process holds apart from rows."""

    tasks: int
    timers: int
    threads: int
    files: int
    """Open files and sockets, those of the database left out: they are a pool, see ``of_database``."""

    @classmethod
    def now(cls) -> "Held":
        loop = asyncio.get_running_loop()
        scheduled = loop._scheduled  # type: ignore[attr-defined]  # what nothing public tells
        return cls(
            tasks=len(asyncio.all_tasks()),
            timers=sum(not timer.cancelled() for timer in scheduled),
            threads=threading.active_count(),
            files=sum(DATABASE not in file for file in open_files()),
        )


def open_files() -> list[str]:
    """What this process has open, by name."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(handle.readlink()))
    return found


def of_database() -> int:
    """Handles on the database: its file, its log and its index, for each connection."""
    return sum(DATABASE in file for file in open_files())


def respond(request: Request) -> Words:
    """Do what one is told: call the tool server, sleep, or answer."""
    if request.results or request.text not in ("call", "sleep"):
        return say("Done.")
    return call("ping", n=1) if request.text == "call" else call("sleep", seconds=86_400)


@asynccontextmanager
async def working(url: str) -> AsyncIterator[tuple[Parts, Worker, ToolStub]]:
    async with tool_stub() as stub:
        model = ScriptedModel(respond)
        agents = [Agent("idler", model=model), Agent("caller", model=model, tools=[RapServer(stub.url)])]
        parts = open_parts(url, agents, public_url="http://127.0.0.1:9", claim=CLAIM, synchronous="NORMAL")
        async with parts:
            worker = parts.worker(SENDERS)
            worker.start()
            try:
                yield parts, worker, stub
            finally:
                await worker.stop(5.0)
                await parts.dispatcher.drain(5.0)


async def start(parts: Parts, worker: Worker, prefix: str, texts: list[str]) -> None:
    """Start a thread for each text, many at once, and wait until all of them wait."""

    async def some(first: int) -> None:
        for number in range(first, len(texts), SENDERS):
            agent = "caller" if texts[number] == "call" else "idler"
            await parts.threads.start(agent, (Text(texts[number]),), thread=f"{prefix}-{number}")

    enough = worker.slices + len(texts)
    await asyncio.gather(*(some(first) for first in range(SENDERS)))
    async with asyncio.timeout(300):
        while worker.slices < enough or parts.dispatcher.busy:
            await asyncio.sleep(0.05)
        while await waiting(parts, prefix) < len(texts):
            await asyncio.sleep(0.05)


async def waiting(parts: Parts, prefix: str) -> int:
    """How many threads have answered, or wait for what they called."""
    rows = await parts.store.threads(after=f"{prefix}-", limit=THREADS)
    asked = [row for row in rows if row.thread.startswith(prefix) and row.length > 1]
    return sum(not row.owes for row in asked)


async def surplus(before: Held) -> dict[str, int]:
    """What is held beyond ``before`` once all has gone that only lingers."""
    more: dict[str, int] = {}
    for _ in range(400):
        now = msgspec.structs.asdict(Held.now())
        more = {
            what: now[what] - had for what, had in msgspec.structs.asdict(before).items() if now[what] > had
        }
        if not more:
            break
        await asyncio.sleep(0.05)
    return more


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_ten_thousand_waiting_threads_hold_nothing(kind: str, tmp_path: Path) -> None:
    url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/{DATABASE}"
    async with working(url) as (parts, worker, stub):
        await start(parts, worker, "first", ["call", "sleep", "idle"])
        for number in range(3):
            await parts.threads.close(f"first-{number}")
        none = await at_rest(parts)
        texts = ["call"] * CALLING + ["sleep", "idle"] * ((THREADS - CALLING) // 2)
        await start(parts, worker, "idle", texts)
        assert len(stub.at("/invoke")) == 1 + CALLING
        rows = await parts.store.threads(after="idle-", limit=THREADS)
        assert sum(row.waits for row in rows) == CALLING + (THREADS - CALLING) // 2
        assert worker.busy == 0
        more = await surplus(none)
        assert more.pop("files", 0) <= PASSING, open_files()
        assert more == {}
        assert of_database() <= 3 * CONNECTIONS


async def at_rest(parts: Parts) -> Held:
    """The most that is held at any moment when no thread is open."""
    # Readings beside the loop use a pool of threads that grows to its bound and stays.
    await asyncio.gather(*(parts.store.threads(limit=1) for _ in range(64)))
    async with asyncio.timeout(120):
        while parts.dispatcher.busy or await parts.store.threads(state="open"):
            await asyncio.sleep(0.05)
    await asyncio.sleep(LINGERING)
    looks = []
    for _ in range(20):
        await asyncio.sleep(0.013)
        looks.append(msgspec.structs.astuple(Held.now()))
    return Held(*(max(counts) for counts in zip(*looks, strict=True)))
