"""The SQLite file itself: how it is opened, what is refused, and what a failing disk does."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from torpor.core.errors import Broken, Refused, Unavailable
from torpor.ports import Version
from torpor.stores.sqlite import Database, SqliteStore, database, writer
from torpor.stores.sqlite.database import path_of
from torpor.stores.sqlite.schema import APPLICATION_ID, migrations
from torpor.testing.samples import commit_on, fresh, invoke, message, said, texts, thread_row

NOBODY = 65534

OLD_COLUMNS = (
    *("thread", "agent", "owner", "user_id", "context", "tier", "purpose", "root", "parent", "lineage"),
    *("state", "owes", "waits", "attempt", "not_before", "created", "updated", "title", "trace", "length"),
    *("shape", "head"),
)
"""Of the table of threads, as all releases have had them."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def content(file: Path) -> bytes:
    return file.read_bytes()


def spoil(file: Path) -> None:
    """Overwrite the tables, and leave what says which tables there are."""
    whole, first, last = file.read_bytes(), 4096, 20 * 4096
    file.write_bytes(whole[:first] + b"\xff" * (last - first) + whole[last:])


def make_read_only(file: Path) -> None:
    """Others may reach the file and read it, nobody may write it."""
    file.chmod(0o444)
    for folder in file.parents:
        if "pytest" in str(folder):
            folder.chmod(0o755)


async def made(file: Path) -> None:
    await SqliteStore(Database.open(file)).close()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("agents.db", "agents.db"),
        ("/var/agents.db", "/var/agents.db"),
        ("sqlite:///agents.db", "agents.db"),
        ("sqlite:///some/agents.db", "some/agents.db"),
        ("sqlite:////var/agents.db", "/var/agents.db"),
    ],
)
def test_urls_name_paths(url: str, path: str) -> None:
    assert path_of(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://agents.db",
        "sqlite:///",
        "postgresql:///agents",
        "sqlite:///a.db?mode=ro",
        "",
        ":memory:",
        "sqlite:///:memory:",
    ],
)
def test_urls_that_name_none_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        Database.open(url)


async def test_a_new_file_is_its_owners_alone(file: Path) -> None:
    store = SqliteStore(Database.open(f"sqlite:///{file}"))
    await store.create(thread_row())
    modes = [stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()]
    await store.close()
    assert modes == [0o600] * 3


@pytest.mark.parametrize("synchronous", [("FULL", 2), ("NORMAL", 1)])
async def test_every_connection_is_set_up(file: Path, synchronous: tuple[str, int]) -> None:
    database = Database.open(file, synchronous=synchronous[0])  # type: ignore[arg-type]

    def settings(connection: sqlite3.Connection) -> tuple[str, int, int]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        mode, sync, keys = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
        return mode, sync, keys

    found = [await database.write(settings), database.read(settings), await database.listing(settings)]
    await database.close()
    assert found == [("wal", synchronous[1], 1)] * 3


async def test_reopening_changes_nothing(file: Path) -> None:
    await made(file)
    with sqlite3.connect(file) as connection:
        before = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    await made(file)
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall() == before
        assert connection.execute("PRAGMA user_version").fetchone() == (migrations()[-1][0],)
    connection.close()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def made_before(file: Path, release: int) -> None:
    """A file as an earlier release left it, with one thread of two messages."""
    connection = sqlite3.connect(file, isolation_level=None)
    for number, text in migrations():
        if number <= release:
            connection.executescript(text)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    connection.execute(f"PRAGMA user_version = {release:d}")
    row = thread_row("old", owner="ann", length=2, head=b"\x80")
    values = {name: getattr(row, name) for name in OLD_COLUMNS}
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(
        f"INSERT INTO threads (counter, commit_id, {names}) VALUES (1, 'c1', {marks})",
        tuple(values.values()),
    )
    for stored in (message(1, "one"), message(2, "two")):
        body = (stored.position, stored.body)
        connection.execute("INSERT INTO messages (thread, position, body) VALUES (1, ?, ?)", body)
    connection.close()


@pytest.mark.parametrize("release", [2, 3])
async def test_a_file_of_an_earlier_release_is_brought_up_to_date(file: Path, release: int) -> None:
    made_before(file, release)
    store = SqliteStore(Database.open(file))
    loaded = await store.load("old")
    assert loaded.row == thread_row("old", owner="ann", length=2, head=b"\x80", version=Version(1, "c1"))
    assert texts(loaded.history) == ["one", "two"]
    await store.commit(commit_on(loaded, "three", row={"base": 1}))
    assert texts((await store.load("old")).history) == ["two", "three"]
    assert await store.threads(owner="ann") == [(await store.load("old")).row]
    await store.close()


async def test_a_file_of_a_newer_release_is_refused_and_left_alone(file: Path) -> None:
    await made(file)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = content(file)
    with pytest.raises(Refused, match=r"newer release.*Upgrade"):
        Database.open(file)
    assert content(file) == before


@pytest.mark.parametrize(
    "mark", ["CREATE TABLE songs (title)", "PRAGMA user_version = 3", "PRAGMA application_id = 5"]
)
def test_another_programs_database_is_refused_and_left_alone(file: Path, mark: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(mark)
    connection.close()
    before = file.read_bytes()
    with pytest.raises(Refused, match="another program"):
        Database.open(file)
    assert file.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(file: Path) -> None:
    file.write_bytes(b"These are notes, not a database. " * 100)
    before = file.read_bytes()
    with pytest.raises(Refused, match="no SQLite database"):
        Database.open(file)
    assert file.read_bytes() == before


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="folder must exist"):
        Database.open(tmp_path / "nowhere" / "store.db")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is a folder"):
        Database.open(tmp_path)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write everything; be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_file_in_a_folder_that_is_closed_to_this_user_is_refused(file: Path) -> None:
    await made(file)
    file.parent.chmod(0)
    try:
        with unprivileged(), pytest.raises(Refused, match="must be allowed to write there"):
            Database.open(file)
    finally:
        file.parent.chmod(0o700)


async def test_a_read_only_file_is_refused(file: Path) -> None:
    await made(file)
    make_read_only(file)
    with unprivileged(), pytest.raises(Refused, match="is read-only here"):
        Database.open(file)


async def test_a_damaged_file_is_broken(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    rows = [thread_row(title="x" * 500) for _ in range(50)]
    for row in rows:
        await store.create(row)
    await store.close()
    spoil(file)
    store = SqliteStore(Database.open(file))
    with pytest.raises(Broken, match="damaged"):
        await store.row(rows[0].thread)
    with pytest.raises(Broken, match="damaged"):
        await store.create(rows[0])
    await store.close()


async def test_a_closed_store_is_refused(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    await store.close()
    for asking in (store.row("t"), store.threads(), store.create(thread_row())):
        with pytest.raises(Refused, match="closed"):
            await asking


async def test_closing_finishes_what_was_asked_for(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    rows = [thread_row() for _ in range(300)]
    tasks = [asyncio.create_task(store.create(row)) for row in rows]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*tasks) == [True] * 300
    store = SqliteStore(Database.open(file))
    assert len(await store.threads(limit=1000)) == 300
    await store.close()


async def test_what_is_asked_for_at_once_is_committed_at_once(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    watcher = sqlite3.connect(file)
    rows = [thread_row() for _ in range(100)]
    seen: list[int] = []

    async def create(place: int) -> None:
        await store.create(rows[place])
        seen.append(watcher.execute("SELECT count(*) FROM threads").fetchone()[0])

    await asyncio.gather(*(create(place) for place in range(100)))
    watcher.close()
    await store.close()
    assert len(seen) == 100
    assert len(set(seen)) == 1


async def test_an_operation_that_fails_undoes_only_itself(file: Path) -> None:
    database = Database.open(file)
    store = SqliteStore(database)

    def fails(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM threads")
        raise ZeroDivisionError

    def wrong(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM threads")
        connection.execute("INSERT INTO nowhere VALUES (1)")

    first, second = thread_row(), thread_row()
    results = await asyncio.gather(
        store.create(first),
        database.write(fails),
        database.write(wrong),
        store.create(second),
        return_exceptions=True,
    )
    assert results[0] is results[3] is True
    assert [type(result) for result in results[1:3]] == [ZeroDivisionError, Broken]
    assert len(await store.threads()) == 2
    await store.close()


async def test_a_result_that_cannot_be_acknowledged_is_not_posted(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    row = thread_row()
    await store.create(row)
    await store.commit(commit_on(await store.load(row.thread), effects=(invoke("a"),)))
    with sqlite3.connect(file) as other:
        other.execute("CREATE TRIGGER kept BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'kept'); END")
    other.close()
    with pytest.raises(Broken, match="kept"):
        await store.finish(said(row.thread), "a")
    assert await store.inbox(row.thread) == []
    assert [one.effect.id for one in await store.outbox(row.thread)] == ["a"]
    await store.close()


async def test_of_readings_at_once_one_fails_alone(file: Path) -> None:
    database = Database.open(file)
    store = SqliteStore(database)
    row = thread_row()
    await store.create(row)

    def wrong(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT 1 FROM nowhere")

    results = await asyncio.gather(
        store.row(row.thread), database.look(wrong), store.row("nobody"), return_exceptions=True
    )
    assert (results[0], type(results[1]), results[2]) == (row, Broken, None)
    await store.close()


async def test_readings_at_once_are_as_of_one_instant(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    row = thread_row()
    await store.create(row)
    other = sqlite3.connect(file, isolation_level=None)

    def count(connection: sqlite3.Connection) -> int:
        found: int = connection.execute("SELECT count(*) FROM inbox").fetchone()[0]
        return found

    def meanwhile(connection: sqlite3.Connection) -> int:
        found = count(connection)
        other.execute(
            "INSERT INTO inbox (thread, id, kind, due, arrived, body) VALUES (1, 'a', '', 0, 0, '')"
        )
        return found

    found = await asyncio.gather(store.database.look(meanwhile), store.database.look(count))
    assert list(found) == [0, 0]
    assert await store.database.look(count) == 1
    other.close()
    await store.close()


async def test_closing_answers_who_reads(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    row = thread_row()
    await store.create(row)
    reading = asyncio.create_task(store.row(row.thread))
    await asyncio.sleep(0)
    await store.close()
    assert await reading == row


async def test_a_paused_listing_keeps_nobody_waiting(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    row = thread_row()
    await store.create(row)
    await store.commit(commit_on(await store.load(row.thread), *map(str, range(50))))
    reader = sqlite3.connect(file)
    paused = reader.execute("SELECT body FROM messages")
    paused.fetchone()
    began = time.monotonic()
    await store.commit(commit_on(await store.load(row.thread), "more"))
    assert time.monotonic() - began < 0.1
    paused.close()
    reader.close()
    await store.close()


async def test_a_busy_file_is_waited_for_beside_the_loop(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    creating = asyncio.create_task(store.create(thread_row()))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not creating.done()
    other.execute("COMMIT")
    other.close()
    assert await creating
    await store.close()


async def test_a_file_busy_for_too_long_is_unavailable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PATIENCE", 0.05)
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    store = SqliteStore(Database.open(file))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="Another process"):
        await store.create(thread_row())
    with pytest.raises(Unavailable, match="Another process"):
        Database.open(file)
    other.execute("COMMIT")
    other.close()
    assert await store.create(thread_row())
    await store.close()


async def test_what_undoes_the_transaction_fails_alone(file: Path) -> None:
    database = Database.open(file)
    store = SqliteStore(database)

    def undo(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        connection.execute("INSERT INTO nowhere VALUES (1)")

    rows = [thread_row() for _ in range(4)]
    asked = [store.create(row) for row in rows]
    results = await asyncio.gather(*asked[:2], database.write(undo), *asked[2:], return_exceptions=True)
    assert results[0] is results[1] is results[3] is results[4] is True
    assert isinstance(results[2], Broken)
    assert [row.thread for row in await store.threads()] == [row.thread for row in rows]
    await store.close()


async def test_many_bytes_leave_the_loop_free(file: Path) -> None:
    store = SqliteStore(Database.open(file))
    row = thread_row()
    await store.create(row)
    text = "0123456789abcdef" * 640_000
    await store.commit(commit_on(await store.load(row.thread), text))
    assert texts((await store.load(row.thread)).history) == [text]
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB of which little is free until ``ballast`` is deleted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("Mounting a small disk needs root.")
    try:
        (place / "ballast").write_bytes(bytes(1_200_000))
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


async def fill(store: SqliteStore, thread: str, kept: list[str]) -> None:
    """Commit until the disk is full, keeping what was acknowledged."""
    for _ in range(500):
        added = [f"{fresh()}{'x' * 3000}" for _ in range(3)]
        await store.commit(commit_on(await store.load(thread), *added))
        kept += added


async def test_a_full_disk_is_told_and_nothing_is_half_done(small_disk: Path) -> None:
    store = SqliteStore(Database.open(small_disk / "store.db"))
    row = thread_row()
    await store.create(row)
    kept: list[str] = []
    with pytest.raises(Unavailable, match="Free some space"):
        await fill(store, row.thread, kept)
    assert kept
    after = await store.load(row.thread)
    assert (texts(after.history), after.row.version.counter) == (kept, len(kept) // 3)
    results = await asyncio.gather(
        *(store.post([said(row.thread, "y" * 5000, id=f"s{n}")]) for n in range(30)), return_exceptions=True
    )
    assert {type(result) for result in results} == {Unavailable}
    (small_disk / "ballast").unlink()
    assert [one.outcome for one in await store.post([said(row.thread, id="s0")])] == ["new"]
    await store.commit(commit_on(await store.load(row.thread), "more"))
    await store.close()
    store = SqliteStore(Database.open(small_disk / "store.db"))
    assert texts((await store.load(row.thread)).history) == [*kept, "more"]
    await store.close()
