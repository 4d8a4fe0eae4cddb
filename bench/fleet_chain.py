"""Completions a second of several worker processes, and what each slice asks of the server."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psycopg
from fleet_process import AGENT, AnyLine, Done, Ended, opened
from workload import Texts

from torpor.core.codec import decode_head
from torpor.core.messages import Text
from torpor.wiring import Parts

PATIENCE = 300.0
SETTLING = 1.0
_decoder = msgspec.json.Decoder(AnyLine)
Process = asyncio.subprocess.Process


class Chain(msgspec.Struct, frozen=True):
    """One run: what the workers did, and what each completion took."""

    store: str
    workers: int
    slots: int
    threads: int
    completions: int
    seconds: float
    completions_per_s: float
    worker_cpu_ms: float
    """CPU of the worker processes, for each completion."""
    trips: float = 0.0
    """Round trips to the server, each a transaction, for each completion."""
    wal_bytes: float = 0.0
    conflicts: int = 0


class Spent(msgspec.Struct, frozen=True):
    """What a server has done so far."""

    transactions: int
    wal_bytes: int


def spent(store: str) -> Spent:
    """What the server has done; sessions tell now and then, and as they end."""
    if not store.startswith("postgresql:"):
        return Spent(0, 0)
    with psycopg.connect(store, autocommit=True) as connection:
        found = connection.execute(
            "SELECT xact_commit + xact_rollback, pg_current_wal_lsn() - '0/0'::pg_lsn "
            "FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert found is not None
    return Spent(int(found[0]), int(found[1]))


class Crew:
    """Worker processes, and a task that hears each."""

    def __init__(self, hear: Callable[[AnyLine], None]) -> None:
        self._hear = hear
        self._processes: list[Process] = []
        self._ears: list[asyncio.Task[None]] = []
        self.ended: list[Ended] = []

    async def begin(self, store: str, kind: str, workers: int, slots: int, completions: int) -> None:
        """Start them; they wait for the word."""
        program = str(Path(__file__).with_name("fleet_process.py"))
        words = (program, store, kind, str(slots), str(completions))
        pipe = asyncio.subprocess.PIPE
        for _ in range(workers):
            process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
            self._processes.append(process)
        for process in self._processes:
            assert process.stdout is not None
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            if line != b"ready\n":
                raise RuntimeError("a worker did not start")

    def go(self) -> None:
        """Let them work."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            self._ears.append(asyncio.create_task(self._listen(process)))

    async def end(self) -> list[Ended]:
        """Let them end, and hear what they say at last."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        await asyncio.gather(*self._ears)
        for process in self._processes:
            await process.wait()
        return self.ended

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        async for text in process.stdout:
            line = _decoder.decode(text)
            if isinstance(line, Ended):
                self.ended.append(line)
            else:
                self._hear(line)


@asynccontextmanager
async def crew(hear: Callable[[AnyLine], None], *of: object) -> AsyncIterator[Crew]:
    """Worker processes for a block, begun as ``Crew.begin`` says."""
    found = Crew(hear)
    try:
        await found.begin(*of)  # type: ignore[arg-type]
        yield found
    finally:
        await found.end()


async def chain(store: str, workers: int, slots: int, threads: int, completions: int) -> Chain:
    """Let workers do all the completions of so many threads, which nobody speaks to meanwhile."""
    done: set[str] = set()
    finished = asyncio.Event()

    def hear(line: AnyLine) -> None:
        if isinstance(line, Done):
            done.add(line.thread)
            if len(done) == threads:
                finished.set()

    async with opened(store, "chain", completions) as parts:
        await begun(parts, threads)
    # What a session has done is counted for certain once it has ended.
    async with crew(hear, store, "chain", workers, slots, completions) as running:
        await asyncio.sleep(SETTLING)
        before, began = spent(store), time.perf_counter()
        running.go()
        await asyncio.wait_for(finished.wait(), PATIENCE)
        seconds = time.perf_counter() - began
        ended = await running.end()
    await asyncio.sleep(SETTLING)
    after = spent(store)
    async with opened(store, "chain", completions) as parts:
        conflicts = await verified(parts, threads, completions)
    total = threads * completions
    return Chain(
        store=store.partition(":")[0],
        workers=workers,
        slots=slots,
        threads=threads,
        completions=total,
        seconds=round(seconds, 2),
        completions_per_s=round(total / seconds, 1),
        worker_cpu_ms=round(1e3 * sum(one.cpu_seconds for one in ended) / total, 3),
        trips=round((after.transactions - before.transactions) / total, 2),
        wal_bytes=round((after.wal_bytes - before.wal_bytes) / total),
        conflicts=conflicts,
    )


async def begun(parts: Parts, threads: int) -> None:
    """Speak to each thread once."""
    texts = Texts()

    async def send(numbers: range) -> None:
        for number in numbers:
            words = [Text(texts.said(number, 0))]
            await parts.threads.start(AGENT, words, thread=f"agent-{number}")

    await asyncio.gather(*(send(range(first, threads, 8)) for first in range(8)))


async def verified(parts: Parts, threads: int, completions: int) -> int:
    """Look whether every thread has done all; how many slices lost a race."""
    conflicts = 0
    for number in range(threads):
        row = await parts.store.row(f"agent-{number}")
        assert row is not None
        head = decode_head(row.head, row.shape)
        if head.ordinal != completions or head.pending or row.length != 2 * completions + 1:
            raise RuntimeError(f"agent-{number} is not at its end: {head}")
        ends = [record.yielded for record in await parts.store.records(row.thread)]
        conflicts += ends.count("conflict")
    return conflicts
