"""One run of the workload, through the runtime or through a lean loop, and what it took."""

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from lean import GROUP, Blobs, Kept, Message, Rows, run_lean
from measuring import Machine, Span, machine, resident, slope
from scripted import AGENT, Observer, bencher
from verifying import verify, verify_lean
from workload import Texts

from torpor.core.messages import Text
from torpor.runtime.resting import pack
from torpor.wiring import Parts, open_parts

T = TypeVar("T")

PAGES = ("page_count", "freelist_count", "page_size")
SLOTS = {"memory": 8, "sqlite": 64, "postgresql": 64}
"""Slices side by side. On disk, company is what group commit lives on; the lean loop groups 64 too."""
SENDERS = 64
"""Senders side by side: what comes at once is made durable at once."""
PATIENCE = 120.0
"""Seconds a turn of a wave may take before the run fails."""


class Options(msgspec.Struct, frozen=True):
    """What is run."""

    agents: int
    turns: int
    wave: int
    store: str = "memory:"
    text: str = "same"
    synchronous: str = "FULL"
    slots: int = 0
    loop: str = "asyncio"
    pack: bool = True
    """Threads are packed once their wave is at rest, within the time that is measured."""
    lean: str = ""
    """Empty: the runtime. ``one``: the lean loop, a commit a slice; ``group``: with group commit."""

    @property
    def backend(self) -> str:
        """``memory``, ``sqlite`` or ``postgresql``."""
        return self.store.partition(":")[0]


class Figures(msgspec.Struct, frozen=True):
    """What came of it. Bytes an agent are of agents at rest, after all their turns."""

    completions_per_s: float
    completions_per_cpu_s: float
    cpu_us_per_completion: float
    rss_bytes_per_agent: int
    disk_bytes_per_agent: int
    completions: int
    seconds: float
    cpu_seconds: float
    rss_bytes: list[tuple[int, int]]
    """Agents so far, and bytes resident at rest, before the first wave and after each."""
    events: int
    agents: int
    turns: int
    wave: int
    store: str
    synchronous: str
    text: str
    slots: int
    loop: str
    kind: str
    """``runtime``, ``lean one`` or ``lean group``."""
    machine: Machine
    python: str


class Run:
    """The state of one run: its spans and what was measured between them."""

    def __init__(self, options: Options, span: Span | None = None) -> None:
        self.options = options
        self.texts = Texts(options.text)
        self.span = span or Span()
        self.points = [(0, resident())]
        self.completions = 0
        self.events = 0
        self.disk = 0
        self.disk_before = _disk(options.store) if options.backend == "postgresql" else 0

    def waves(self) -> list[range]:
        """Agents, wave by wave."""
        step, last = self.options.wave, self.options.agents
        return [range(first, min(first + step, last)) for first in range(0, last, step)]

    def figures(self) -> Figures:
        """All of it."""
        options, span = self.options, self.span
        here = machine()
        return Figures(
            completions_per_s=round(self.completions / span.wall, 1),
            completions_per_cpu_s=round(self.completions / span.cpu, 1),
            cpu_us_per_completion=round(1e6 * span.cpu / self.completions, 1),
            rss_bytes_per_agent=round(slope(self.points)),
            disk_bytes_per_agent=round(self.disk / options.agents),
            completions=self.completions,
            seconds=round(span.wall, 3),
            cpu_seconds=round(span.cpu, 3),
            rss_bytes=self.points,
            events=self.events,
            agents=options.agents,
            turns=options.turns,
            wave=options.wave,
            store=options.backend,
            synchronous=options.synchronous if options.backend == "sqlite" else "",
            text=options.text,
            slots=options.slots or SLOTS[options.backend],
            loop=options.loop,
            kind=f"lean {options.lean}" if options.lean else "runtime",
            machine=here,
            python=here.python,
        )


def run(options: Options, span: Span | None = None) -> Figures:
    """Run it in this process, which should be a fresh one: memory is measured. ``span`` measures time."""
    with tempfile.TemporaryDirectory(prefix="agent_scale-") as folder:
        if options.store in ("sqlite:", "sqlite://"):
            options = msgspec.structs.replace(options, store=f"sqlite:///{folder}/agents.db")
        measured = Run(options, span)
        looped(options.loop)(_lean(measured) if options.lean else through_runtime(measured))
        return measured.figures()


def looped(loop: str) -> Callable[[Coroutine[Any, Any, T]], T]:
    """What runs a coroutine on the event loop of that name."""
    if loop == "uvloop":
        import uvloop

        return uvloop.run
    return asyncio.run


async def through_runtime(run: Run) -> None:
    """Do the work through the runtime, and check all of it."""
    options = run.options
    observer = Observer()
    async with _worked(options, run.texts, observer) as parts:
        for wave in run.waves():
            with run.span:
                for turn in range(options.turns):
                    await _turn(parts, observer, run.texts, wave, turn)
                await _settled(parts)
                if options.pack:
                    await pack(parts.backend, await parts.store.now() + 1.0)  # as workers do after a minute
            parts.kit.hot.clear()  # a bounded cache, and no agent's own: it would hide what rows at rest take
            run.points.append((wave.stop, resident()))
        run.completions = observer.commits
        run.events = observer.events
        await verify(parts, run.texts, options.agents, options.turns)
    run.disk = _disk(options.store) - run.disk_before


@asynccontextmanager
async def _worked(options: Options, texts: Texts, observer: Observer) -> AsyncIterator[Parts]:
    """The real parts, with a worker at work."""
    parts = open_parts(options.store, [bencher(texts)], synchronous=options.synchronous)
    parts.live = observer
    async with parts:
        worker = parts.worker(options.slots or SLOTS[options.backend])
        worker.start()
        try:
            yield parts
        finally:
            await worker.stop(5.0)
            await parts.dispatcher.drain(5.0)


async def _turn(parts: Parts, observer: Observer, texts: Texts, wave: range, turn: int) -> None:
    """Say something to each agent of the wave, and wait for two completions of each."""
    observer.expect(2 * len(wave))

    async def send(agents: range) -> None:
        for agent in agents:
            words = (Text(texts.said(agent, turn)),)
            if turn:
                await parts.threads.say(f"agent-{agent}", words)
            else:
                await parts.threads.start(AGENT, words, thread=f"agent-{agent}")

    await asyncio.gather(*(send(wave[first::SENDERS]) for first in range(SENDERS)))
    await observer.reached(PATIENCE)


async def _settled(parts: Parts) -> None:
    """Wait until the last leases are given back and the last effects acknowledged."""
    async with asyncio.timeout(PATIENCE):
        while parts.dispatcher.busy or await parts.queue.size():  # noqa: ASYNC110 - neither part tells
            await asyncio.sleep(0.002)


async def _lean(run: Run) -> None:
    options = run.options
    path = Path(options.store.removeprefix("sqlite:///"))
    kept: Kept = Blobs() if options.backend == "memory" else Rows(path, options.synchronous)
    group = GROUP if options.lean == "group" else 1

    for wave in run.waves():
        with run.span:
            run.completions += await run_lean(kept, run.texts, wave, options.turns, group)
        run.points.append((wave.stop, resident()))
    histories: dict[int, list[Message]] = {agent: kept.history(agent) for agent in range(options.agents)}
    verify_lean(histories, run.texts, options.turns)
    kept.close()
    run.disk = _disk(options.store)


def _disk(store: str) -> int:
    """Bytes of the file once it is closed, but for pages that are free for what comes next; 0 in memory.

    Of PostgreSQL, all that the database takes.
    """
    if store.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(store) as connection:
            found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(found[0]) if found else 0
    if not store.startswith("sqlite:///"):
        return 0
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as file:
        pages, free, size = [file.execute(f"PRAGMA {what}").fetchone()[0] for what in PAGES]
    return int((pages - free) * size)
