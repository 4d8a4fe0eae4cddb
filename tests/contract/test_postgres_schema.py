"""How the tables of a PostgreSQL database come to be, and to be newer, while others are at work."""

import asyncio
import sys
import threading
import time
from asyncio.subprocess import PIPE
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from torpor.core.errors import Refused
from torpor.stores.postgres import Database, PostgresStore, schema
from torpor.stores.postgres.schema import Migration, migrate, migrations
from torpor.testing.samples import commit_on, ids, invoke, said, texts, thread_row

FIRST = Path(__file__).parents[1] / "golden" / "postgres" / "0001.sql"
"""A database as the first release left it."""


def connected(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


def steps_of(url: str) -> list[int]:
    with closing(connected(url)) as connection:
        found = connection.execute("SELECT number FROM torpor.migrations ORDER BY number").fetchall()
    return [number for (number,) in found]


async def test_a_new_database_gets_all_tables(empty_postgres_url: str) -> None:
    await Database.open(empty_postgres_url).close()
    await Database.open(empty_postgres_url).close()
    assert steps_of(empty_postgres_url) == [step.number for step in migrations()]
    assert steps_of(empty_postgres_url) == list(range(1, len(migrations()) + 1))


async def test_many_processes_open_a_new_database_at_once(empty_postgres_url: str) -> None:
    program = "import sys; from torpor.stores.postgres import Database; Database.open(sys.argv[1])"
    words = ("-c", program, empty_postgres_url)
    started = [await asyncio.create_subprocess_exec(sys.executable, *words, stderr=PIPE) for _ in range(6)]
    said_ = [(await process.communicate())[1] for process in started]
    assert [process.returncode for process in started] == [0] * 6, said_
    assert steps_of(empty_postgres_url) == [step.number for step in migrations()]


async def test_a_database_of_the_first_release_is_brought_up_to_date(empty_postgres_url: str) -> None:
    with closing(connected(empty_postgres_url)) as connection:
        connection.execute(FIRST.read_bytes())
    assert steps_of(empty_postgres_url) == [1]
    store = PostgresStore(Database.open(empty_postgres_url))
    assert steps_of(empty_postgres_url) == [step.number for step in migrations()]
    snapshot = await store.load("thread00000000000001")
    assert (snapshot.row.title, texts(snapshot.history)) == ("old\0", ["a", "b"])
    assert ids(snapshot.signals) == ["two"]
    assert [row.effect for row in snapshot.outbox] == [invoke("e")]
    posted = await store.post([said(snapshot.row.thread, id=id) for id in ("one", "three")])
    assert [one.outcome for one in posted] == ["repeat", "new"]
    assert await store.get_blob(snapshot.row.thread, "h") == b"blob"
    assert await store.get("keys", "k") == b"v"
    version = await store.commit(commit_on(await store.load(snapshot.row.thread), "c"))
    assert version.counter == snapshot.row.version.counter + 1
    await store.close()


async def test_two_migrate_at_once_while_an_old_worker_is_at_work(postgres_url: str) -> None:
    """Whoever migrates waits for the old worker's locks, and the old worker never waits long for it."""
    store = PostgresStore(Database.open(postgres_url))
    row = thread_row()
    await store.create(row, [said(row.thread)])
    last = migrations()[-1].number
    more = Migration(last + 1, last, "ALTER TABLE torpor.threads ADD COLUMN tried text NOT NULL DEFAULT ''")
    steps, done = [*migrations(), more], list[str]()

    def migrates() -> None:
        with closing(connected(postgres_url)) as connection:
            migrate(connection, "there", steps)
            done.append("one")

    with closing(psycopg.connect(postgres_url)) as slice_:
        slice_.execute("SELECT FROM torpor.threads")
        threads = [threading.Thread(target=migrates) for _ in range(2)]
        for thread in threads:
            thread.start()
        await asyncio.sleep(0.3)
        began = time.monotonic()
        await store.commit(commit_on(await store.load(row.thread), "a"))
        assert time.monotonic() - began < 5
        slice_.commit()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert (len(done), steps_of(postgres_url)) == (2, [step.number for step in steps])
    await store.commit(commit_on(await store.load(row.thread), "b"))
    assert texts(await store.read(row.thread)) == ["a", "b"]
    await store.close()
    await Database.open(postgres_url).close()  # an old process that starts again
    with closing(connected(postgres_url)) as connection:
        connection.execute("ALTER TABLE torpor.threads DROP COLUMN tried")
        connection.execute("DELETE FROM torpor.migrations WHERE number = %s", (more.number,))


def test_what_only_newer_releases_can_work_with_is_refused(empty_postgres_url: str) -> None:
    last = migrations()[-1].number
    newer = [*migrations(), Migration(last + 1, last + 1, "DROP TABLE torpor.small")]
    with closing(connected(empty_postgres_url)) as connection:
        migrate(connection, "there", newer)
    with pytest.raises(Refused, match=f"schema {last + 1}.*Upgrade torpor"):
        Database.open(empty_postgres_url)


def test_a_migration_that_fails_leaves_nothing(empty_postgres_url: str) -> None:
    half = [*migrations(), Migration(99, 99, "CREATE TABLE torpor.half (); SELECT 1 / 0")]
    with closing(connected(empty_postgres_url)) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate(connection, "there", half)
        assert connection.execute("SELECT to_regclass('torpor.half')").fetchone() == (None,)
    assert steps_of(empty_postgres_url) == [step.number for step in migrations()]


def test_locks_that_are_never_free_are_given_up(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "TRIES", 1)
    Database.open(postgres_url)
    more = Migration(98, 1, "ALTER TABLE torpor.small ADD COLUMN tried text")
    with closing(psycopg.connect(postgres_url)) as other, closing(connected(postgres_url)) as connection:
        other.execute("SELECT FROM torpor.small")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            migrate(connection, "there", [*migrations(), more])
