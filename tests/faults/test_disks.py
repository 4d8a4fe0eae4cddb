"""The disk is full in the middle of work, or read-only: it is said so, nothing is lost, and all goes on."""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.fleet import Fleet, fleet, until
from tests.faults.disks import Disk, small_disk
from tests.postgres import OwnCluster, required
from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.postgres import Missing, account, private_folder, programs
from torpor.testing.samples import commit_on, said, texts, thread_row

WORKERS, THREADS = 3, 120
MEETING = 3.0
"""Seconds for which workers meet the full disk."""
pytestmark = pytest.mark.slow


async def hits(running: Fleet) -> TorporError:
    """Write until that fails."""
    async with asyncio.timeout(60):
        while True:
            body = secrets.token_bytes(100_000)
            try:
                await running.runtime.parts.side.put_blob("nobody", hashlib.sha256(body).hexdigest(), body)
            except TorporError as error:
                return error


async def worked_through(
    running: Fleet, disk: Disk, finished: Callable[[], Awaitable[int]], mended: Callable[[], None]
) -> TorporError:
    """Agents work, amid which the disk is full for a while; what was said of that."""
    for _ in range(WORKERS):
        await running.add()
    await running.speak(THREADS)

    async def amid() -> bool:
        return await finished() >= THREADS // 10

    async def over() -> bool:
        return await finished() == THREADS

    await until(amid, 120)
    disk.fill()
    assert await finished() < THREADS, "all of it was done before the disk was full"
    said = await hits(running)
    await asyncio.sleep(MEETING)
    disk.free()
    await asyncio.to_thread(mended)
    await until(over, 240)
    await running.audited()
    return said


@contextmanager
def postgres_on(folder: Path) -> Iterator[OwnCluster]:
    try:
        programs()
    except Missing as reason:
        if required():
            raise
        pytest.skip(str(reason))
    found = OwnCluster(folder, {"max_wal_size": "64MB", "min_wal_size": "32MB", "log_min_messages": "panic"})
    try:
        yield found
    finally:
        found.stop()


def owned(path: Path) -> Path:
    """A folder of the account that the server runs as."""
    whose = account()
    path.mkdir(exist_ok=True)
    if whose is not None:
        os.chown(path, whose.pw_uid, whose.pw_gid)
    return path


async def test_postgresql_has_no_room_for_rows(tmp_path: Path) -> None:
    """The tables are on the full disk, the log is not: statements fail, the server goes on."""
    with (
        private_folder() as folder,
        small_disk(folder / "disk", 48) as disk,
        postgres_on(folder) as cluster,
    ):
        place = owned(disk.path / "space")
        cluster.execute(f"CREATE TABLESPACE small LOCATION '{place}'".encode())
        cluster.execute(b"CREATE DATABASE small TABLESPACE small")
        async with fleet(cluster.url("small"), tmp_path, thinking=0.02) as running:
            told = await worked_through(running, disk, running.finished, lambda: None)
    assert isinstance(told, Unavailable)
    assert "has no room" in str(told)


async def test_postgresql_has_no_room_for_its_log(tmp_path: Path) -> None:
    """All of the server is on the full disk: it breaks down, and recovers or is started again."""
    with (
        private_folder() as folder,
        small_disk(folder / "disk", 256) as disk,
        postgres_on(owned(disk.path / "server")) as cluster,
    ):
        cluster.execute(b"CREATE DATABASE small")
        async with fleet(cluster.url("small"), tmp_path, thinking=0.02) as running:
            told = await worked_through(running, disk, running.finished, cluster.recover)
    assert isinstance(told, Unavailable)


async def finished(running: Fleet) -> int:
    """How many threads have come to their end, read from the store itself."""
    store = running.runtime.parts.store
    rows = [await store.row(thread) for thread in running.threads]
    ended = [row for row in rows if row and row.length > 10 and not row.owes and not row.waits]
    return len(ended) if not await store.stranded(1) else min(len(ended), len(rows) - 1)


async def test_sqlite_has_no_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 48) as disk:
        store = f"sqlite:///{disk.path / 'store.db'}"
        async with fleet(store, tmp_path, thinking=0.1) as running:
            told = await worked_through(running, disk, lambda: finished(running), lambda: None)
    assert isinstance(told, Unavailable)
    assert "Free some space" in str(told)


async def test_sqlite_has_no_room_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    """One write is larger than what is free, and spills over before it ends; those beside it are written."""
    with small_disk(tmp_path / "disk", 64) as disk:
        store = SqliteStore(Database.open(disk.path / "store.db"))
        row = thread_row()
        await store.create(row)
        disk.fill(leave=16 << 20)
        snapshot = await store.load(row.thread)
        small = [store.post([said(row.thread, f"{number}", id=f"s{number}")]) for number in range(10)]
        large = commit_on(snapshot, "x" * (40 << 20))
        found = await asyncio.gather(*small[:5], store.commit(large), *small[5:], return_exceptions=True)
        assert isinstance(found.pop(5), Unavailable)
        outcomes = [posted.outcome for one in found if isinstance(one, list) for posted in one]
        assert outcomes == ["new"] * 10
        assert (await store.load(row.thread)).row.version == snapshot.row.version
        disk.free()
        await store.commit(commit_on(snapshot, "y"))
        await store.close()
        store = SqliteStore(Database.open(disk.path / "store.db"))
        assert texts(await store.read(row.thread)) == ["y"]
        assert len(await store.inbox(row.thread)) == 10
        await store.close()


async def test_sqlite_on_a_file_system_that_became_read_only(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16) as disk:
        file = disk.path / "store.db"
        store, row = SqliteStore(Database.open(file)), thread_row()
        await store.create(row)
        await store.close()
        before = file.read_bytes()
        disk.remount("ro")
        with pytest.raises(Refused, match="must not be read-only"):
            Database.open(file)
        with pytest.raises(Refused, match="must not be read-only"):
            Database.open(disk.path / "new.db")
        assert file.read_bytes() == before
        disk.remount("rw")
        store = SqliteStore(Database.open(file))
        assert await store.row(row.thread) is not None
        await store.close()
