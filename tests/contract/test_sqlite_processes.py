"""Several processes on one SQLite file, and what a killed one leaves behind."""

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from torpor.queues.sqlite import SqliteQueue
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import FakeClock
from torpor.testing.samples import texts, thread_row

PROCESS = Path(__file__).with_name("process.py")
PATIENCE = 60.0

pytestmark = pytest.mark.slow


@asynccontextmanager
async def opened(file: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(Database.open(file))
    try:
        yield store
    finally:
        await store.close()


async def begin(role: str, file: Path, *arguments: object) -> Process:
    words = [str(PROCESS), role, str(file), *map(str, arguments)]
    return await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE, stderr=PIPE)


async def finish(*processes: Process) -> list[str]:
    """What they said, once all have ended well."""
    async with asyncio.timeout(PATIENCE):
        said = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return [out.decode() for out, _ in said]


async def created(store: SqliteStore, number: int = 1) -> list[str]:
    rows = [thread_row() for _ in range(number)]
    for row in rows:
        assert await store.create(row)
    return [row.thread for row in rows]


async def test_four_writers_and_four_readers(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    async with opened(file) as store:
        (thread,) = await created(store)
        writers = [await begin("post", file, thread, f"writer{place}", 500) for place in range(4)]
        readers = [await begin("read", file, thread, 2000) for _ in range(4)]
        await finish(*writers, *readers)
        found = await store.inbox(thread)
    assert sorted(one.id for one in found) == sorted(f"writer{w}/{n}" for w in range(4) for n in range(500))


async def test_two_processes_extend_one_history(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    async with opened(file) as store:
        (thread,) = await created(store)
        await finish(*[await begin("append", file, thread, name, 40) for name in ("a", "b")])
        after = await store.load(thread)
    written = texts(after.history)
    assert after.row.version.counter == len(written) == 80
    for name in ("a", "b"):
        assert [text for text in written if text.startswith(name)] == [f"{name}/{n}" for n in range(40)]


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    async with opened(tmp_path / "other.db") as other:
        (thread,) = await created(other)
    processes = [await begin("show", tmp_path / "other.db", thread) for _ in range(2)]
    processes += [await begin("post", file, "nobody", "x", 1) for _ in range(6)]
    await finish(*processes)


@pytest.mark.parametrize("acknowledged", [1, 20, 150])
async def test_a_killed_writer_leaves_whole_commits(tmp_path: Path, acknowledged: int) -> None:
    file = tmp_path / "store.db"
    async with opened(file) as store:
        threads = await created(store, 8)
    process = await begin("write_for_ever", file, *threads)
    last = dict.fromkeys(threads, -1)
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        for _ in range(acknowledged):
            thread, place = (await process.stdout.readline()).decode().split()
            last[thread] = int(place)
        process.send_signal(signal.SIGKILL)
        rest = (await process.stdout.read()).decode().splitlines(keepends=True)
        await process.wait()
    for line in rest:
        if line.endswith("\n"):
            thread, place = line.split()
            last[thread] = int(place)
    async with opened(file) as store:
        for thread in threads:
            after = await store.load(thread)
            commits = after.row.version.counter
            assert commits >= last[thread] + 1
            assert texts(after.history) == [f"{n}{part}" for n in range(commits) for part in "ab"]
            absorbed = [await store.outcome(thread, f"{thread}/{n}") for n in range(commits)]
            assert absorbed == ["absorbed"] * commits
            assert len(after.signals) in (0, 1)


async def test_a_killed_workers_lease_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    clock = FakeClock(time.time())
    database = Database.open(file, clock=clock)
    queue = SqliteQueue(database)
    process = await begin("lease", file, "t")
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert (await process.stdout.readline()).decode().strip() == "t", await process.communicate()
        process.send_signal(signal.SIGKILL)
        await process.wait()
    clock.advance(time.time() - clock.now())
    assert await queue.next("live") == []
    clock.advance(16)
    (lease,) = await queue.next("live")
    assert (lease.thread, lease.attempt) == ("t", 1)
    await queue.done(lease)
    assert await queue.size() == 0
    await queue.close()
    await database.close()
