"""The power goes while SQLite writes: what was told to be durable is there, and the file is whole."""

import random
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.faults.power import COMMITS, THREADS, Event, Remains
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.samples import texts

ROOT = Path(__file__).resolve().parents[2]
CUTS = 120
pytestmark = pytest.mark.slow


def recorded(folder: Path, synchronous: str) -> list[Event]:
    """What happened to the files of a store in another process."""
    (folder / "disk").mkdir()
    words = ["-m", "tests.faults.power", str(folder / "disk"), synchronous, str(folder / "log")]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if "libsqlite3" in done.stderr and "OSError" in done.stderr:
        pytest.skip(f"SQLite's calls cannot be watched here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return msgspec.msgpack.decode((folder / "log").read_bytes(), type=list[Event])


async def lost(folder: Path, remains: Remains) -> int:
    """Open what is left; how many commits that were told to be durable are not there."""
    missing = 0
    store = SqliteStore(Database.open(folder / "store.db"))
    try:
        for thread, number in remains.told.items():
            row = await store.row(thread)
            found = texts(await store.read(thread)) if row is not None else []
            assert [text.split()[0] for text in found] == [str(n + 1) for n in range(len(found))]
            assert row is None or row.length == len(found)
            missing += max(0, number - len(found)) if row is not None else number + 1
    finally:
        await store.close()
    with sqlite3.connect(folder / "store.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return missing


async def lost_in_all(tmp_path: Path, events: list[Event]) -> int:
    """Cut the power at many moments."""
    chance = random.Random(5)
    first = next(place for place, event in enumerate(events) if event.kind == "told")
    missing = 0
    for number in range(CUTS):
        remains = Remains(events[: chance.randint(first, len(events))])
        folder = tmp_path / str(number)
        folder.mkdir()
        remains.lay(folder, chance)
        missing += await lost(folder, remains)
    return missing


def counted(events: list[Event]) -> Counter[str]:
    return Counter(event.kind for event in events)


async def test_with_full_nothing_that_was_told_is_lost(tmp_path: Path) -> None:
    events = recorded(tmp_path, "FULL")
    kinds = counted(events)
    assert kinds["told"] == THREADS * (COMMITS + 1)
    assert kinds["sync"] >= COMMITS, "each group of commits is synced before anybody is told"
    assert {event.name for event in events if event.kind == "sync"} >= {"store.db", "store.db-wal"}
    assert await lost_in_all(tmp_path, events) == 0


async def test_with_normal_the_file_stays_whole(tmp_path: Path) -> None:
    """What was told may be lost: so this model of a disk can lose something."""
    events = recorded(tmp_path, "NORMAL")
    assert counted(events)["told"] == THREADS * (COMMITS + 1)
    assert await lost_in_all(tmp_path, events) > 0
