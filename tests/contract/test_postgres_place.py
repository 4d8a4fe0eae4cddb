"""What a PostgreSQL URL says, what is said when it leads nowhere, and that its password is never said."""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres import LOCKED, PASSWORD, Cluster
from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.ports.checkup import Finding
from torpor.settings import Settings, check_store, shown_store
from torpor.stores.postgres import Database, PostgresStore
from torpor.stores.postgres.checkup import checkup
from torpor.stores.postgres.place import Place
from torpor.stores.postgres.server_time import ServerTime
from torpor.testing.clock import FakeClock
from torpor.testing.samples import commit_on, ids, invoke, said, thread_row
from torpor.wiring import Parts

SECRET = "pa%40ss%3A%2Fw0rd"
PLAIN = "pa@ss:/w0rd"
URL = f"postgresql://me:{SECRET}@db.example:6543/agents"


def test_a_url_is_shown_without_its_password() -> None:
    place = Place(f"{URL}?pool=3&application_name=mine")
    assert (str(place), place.pool) == ("postgresql://me@db.example:6543/agents", 3)
    assert "w0rd" not in repr(place)
    assert PLAIN in place.conninfo.replace("\\", "")
    assert "application_name=mine" in place.conninfo
    assert shown_store(f"{URL}?password={SECRET}") == "postgresql://me@db.example:6543/agents"
    assert shown_store("sqlite:///a.db") == "sqlite:///a.db"
    assert "w0rd" not in repr(Settings(store=URL))
    assert str(Settings(store=URL).token_path) == "torpor.token"


def test_options_of_the_url_come_after_ours() -> None:
    conninfo = Place(f"{URL}?options=-c%20lock_timeout%3D1s").conninfo
    assert conninfo.index("lock_timeout=10s") < conninfo.index("lock_timeout=1s")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"postgresql://me:{SECRET}@db:port/x", "no URL of a PostgreSQL database"),
        (f"postgresql://me:{SECRET}%zz@db/x", "no URL of a PostgreSQL database"),
        (f"{URL}?colour=red", "no URL of a PostgreSQL database"),
        (f"{URL}?pool=many", "from 1 to 500, not 'many'"),
        (f"{URL}?pool=0", "from 1 to 500"),
        (f"{URL}?pool", "cannot be read"),
    ],
)
def test_urls_that_say_nothing(url: str, says: str) -> None:
    with pytest.raises(Refused, match=says) as refused:
        Database.open(url)
    assert "w0rd" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (lambda url: url.replace("torpor@", f"{LOCKED}:{SECRET}@"), Refused, "does not let this user in"),
        (lambda url: url.replace("torpor@", f"nobody:{SECRET}@"), Refused, "does not let this user in"),
        (lambda url: f"{url}x", Refused, "There is no such database"),
        (lambda url: url.replace("torpor@", f"{LOCKED}:{PASSWORD}@"), Refused, "may not do what is needed"),
        (lambda url: f"postgresql://me:{SECRET}@127.0.0.1:1/x", Unavailable, "does not answer"),
        (lambda url: f"{url}?options=-c%20default_transaction_read_only%3Don", Unavailable, "is read-only"),
    ],
)
def test_where_no_store_can_be_had(
    empty_postgres_url: str,
    change: Callable[[str], str],
    kind: type[TorporError],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = change(empty_postgres_url)
    with caplog.at_level(logging.DEBUG), pytest.raises(kind, match=says) as refused:
        Database.open(url)
    (wrong,) = [each for each in checkup(url).findings if each.level == "wrong"]
    told = f"{refused.value}{refused.value.__cause__!r}{caplog.text}{wrong.found}"
    assert "w0rd" not in told
    assert PASSWORD not in told


async def test_the_password_of_a_store_at_work_is_never_shown(
    postgres_cluster: Cluster, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await Database.open(postgres_url).close()
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA torpor TO {LOCKED}")
        connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA torpor TO {LOCKED}")
        connection.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA torpor TO {LOCKED}")
    url = postgres_url.replace("torpor@", f"{LOCKED}:{PASSWORD}@")
    with caplog.at_level(logging.DEBUG):
        store = PostgresStore(Database.open(url))
        row = thread_row()
        await store.create(row)
        postgres_cluster.terminate(postgres_url)
        assert await store.row(row.thread) == row
        with pytest.raises(TorporError) as failed:
            await store.database.ask("SELECT nothing")
        shown = f"{failed.value} {failed.value.__cause__!r} {store.database!r} {store.database.place!r}"
        await store.close()
        with pytest.raises(Refused, match="was closed"):
            await store.row(row.thread)
    assert PASSWORD not in caplog.text + shown


def test_a_checkup_says_what_is_wrong(empty_postgres_url: str) -> None:
    made = "there are no tables yet; `torpor new` or `torpor serve` makes them"
    assert Finding("wrong", "store", made) in checkup(empty_postgres_url).findings
    assert checkup(empty_postgres_url).survey is None
    Database.open(empty_postgres_url)
    fine = checkup(empty_postgres_url)
    lossy = "fsync"  # the tests' server is not asked to survive a crash
    assert [one.about for one in fine.findings if lossy not in one.found] == ["store", "store"]
    assert fine.survey is not None
    slack = f"{empty_postgres_url}?options=-c%20synchronous_commit%3Doff%20-c%20statement_timeout%3D0"
    bad = [each for each in checkup(slack).findings if each.about == "postgres"]
    assert [each.level for each in bad] == ["wrong", "note"]
    assert "may lose what was written: turn" in bad[0].found
    assert "synchronous_commit on" in bad[0].found
    assert "wait without end" in bad[1].found


def test_settings_take_the_url() -> None:
    check_store("postgres://db/x")
    with pytest.raises(Refused, match="is named postgresql://"):
        check_store("postgresql:db")


NASTY = "a\0b\x1a0c\x1a\x1a\ud800\U0001f600\\u0000"


async def test_wir_11_texts_that_postgresql_does_not_hold(postgres_url: str) -> None:
    """NUL comes back as it was, in every place; a lone surrogate as U+FFFD; what looks like one stays."""
    store = PostgresStore(Database.open(postgres_url))
    kept = NASTY.replace("\ud800", "\ufffd")
    row = thread_row(title=NASTY, owner=NASTY, context=NASTY, user_id=NASTY, agent=NASTY)
    first, second = said(row.thread, "x\0", id=kept), said(row.thread, "y", id=f"{kept}2")
    assert await store.create(row, [first])
    found = await store.row(row.thread)
    assert found is not None
    assert {found.title, found.owner, found.context, found.user_id, found.agent} == {kept}
    assert [one.thread for one in await store.threads(owner=NASTY)] == [row.thread]
    posted = await store.post([first, second])
    assert [(one.outcome, one.owner) for one in posted] == [("repeat", kept), ("new", kept)]
    snapshot = await store.load(row.thread)
    assert snapshot.signals == (first, second)
    outcomes = {first.id: NASTY, second.id: "absorbed"}
    await store.commit(commit_on(snapshot, "a\0", absorbed=outcomes, effects=(invoke(kept, "\0"),)))
    assert await store.outcome(row.thread, kept) == kept
    (held,) = await store.claim(row.thread, [kept], await store.now() + 9)
    assert held.effect == invoke(kept, "\0")
    assert [one.thread for one, _ in await store.stranded(ahead=99, agents=[NASTY])] == [row.thread]
    await store.put(f"s{kept}", kept, b"\0")
    assert await store.entries(f"s{kept}") == {kept: b"\0"}
    given = await store.export(row.thread)
    assert await store.delete([row.thread]) == 1
    while await store.erase(row.thread):
        pass
    assert await store.take_in(given)
    assert ids(await store.inbox(row.thread)) == []
    assert await store.export(row.thread) == given.__class__(
        **{name: getattr(given, name) for name in given.__struct_fields__}
    )
    await store.close()


async def test_infinite_times_are_kept_and_nan_harms_nobody(postgres_url: str) -> None:
    store = PostgresStore(Database.open(postgres_url))
    row = thread_row()
    await store.create(row, [said(row.thread, id="never", due=float("inf")), said(row.thread, id="now")])
    snapshot = await store.load(row.thread)
    assert (ids(snapshot.signals), snapshot.next_due) == (["now"], float("inf"))
    await store.post([said(row.thread, id="nan", due=float("nan"))])
    assert ids((await store.load(row.thread)).signals) == ["now"]
    assert len(await store.inbox(row.thread)) == 3
    await store.close()


def test_the_servers_time_is_told_from_what_it_said() -> None:
    import time

    now = time.monotonic()
    clock = ServerTime(5_000.0, now, now + 0.2)
    assert abs(clock.now() - 5_000.0 + 0.1) < 0.5
    before = clock.now() - time.monotonic()
    clock.hear(5_010.0, now + 10, now + 10.2)
    assert abs(clock.now() - time.monotonic() - before) < 1e-3
    clock.hear(6_000.0, now + 20, now + 20.1)
    assert abs(clock.now() - time.monotonic() - (6_000.0 - now - 20.05)) < 1e-3


async def test_the_servers_clock_is_everybodys(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import time

    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real - 86_400)
    async with Parts(postgres_url) as parts:
        assert abs(parts.clock.now() - real) < 60
        row = thread_row()
        await parts.store.create(row)
        loaded = await parts.store.load(row.thread)
        assert abs(loaded.now - real) < 60
        assert abs(await parts.store.now() - loaded.now) < 1
    async with Parts(postgres_url, clock=FakeClock(77.0)) as parts:
        assert (parts.clock.now(), (await parts.store.load(row.thread)).now) == (77.0, 77.0)


async def test_a_sweep_at_rest_reads_no_sleeping_thread(postgres_url: str) -> None:
    """Those that wait for a timer cost the sweep nothing: it looks only at what is due."""
    store = PostgresStore(Database.open(postgres_url))
    row = thread_row()
    await store.create(row, [said(row.thread, due=2e9)])
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        _multiply(connection, 20_000)
        plan = _explained(connection, "stranded", {"agents": None, "ahead": 0.0, "limit": 1000, "skip": 0})
        load = _explained(
            connection, "load", {"thread": row.thread, "known": -1, "known_id": "", "limit": 101}
        )
    assert "Seq Scan on threads" not in plan + load
    assert "Seq Scan on signals" not in plan + load
    assert "signals_by_due" in plan
    assert await store.stranded() == []
    await store.close()


def _multiply(connection: psycopg.Connection[Any], number: int) -> None:
    columns = [
        name
        for (name,) in connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'torpor'"
            " AND table_name = 'threads' AND column_name NOT IN ('number', 'thread')"
        ).fetchall()
    ]
    names = ", ".join(columns)
    connection.execute(
        f"INSERT INTO torpor.threads (thread, {names}) SELECT 'copy' || n, {names}"
        f" FROM torpor.threads, generate_series(1, {number}) AS n".encode()
    )
    connection.execute(
        b"INSERT INTO torpor.signals (thread, id, kind, due, arrived, body)"
        b" SELECT number, 'x', 'due', 2e9, 0, '' FROM torpor.threads"
    )
    connection.execute("ANALYZE")


def _explained(connection: psycopg.Connection[Any], name: str, given: dict[str, Any]) -> str:
    from torpor.stores.postgres.store import _THREADS

    rows = connection.execute(f"EXPLAIN {_THREADS[name]}".encode(), {**given, "now": None}).fetchall()
    return "\n".join(line for (line,) in rows)


def test_a_database_that_does_not_hold_every_text_is_refused(postgres_cluster: Cluster) -> None:
    """LATIN1 would take bytes for letters; SQL_ASCII, the default of bare systems, takes them as they are."""
    postgres_cluster.execute(
        "CREATE DATABASE western TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    postgres_cluster.execute(
        "CREATE DATABASE bare TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        with pytest.raises(Refused, match=r"is in LATIN1, .*--encoding=UTF8"):
            Database.open(postgres_cluster.url("western"))
        assert "is in LATIN1" in str(checkup(postgres_cluster.url("western")))
        Database.open(postgres_cluster.url("bare"))
    finally:
        postgres_cluster.drop("western")
        postgres_cluster.drop("bare")


async def test_settings_of_a_database_change_no_text_and_no_number(
    postgres_cluster: Cluster, empty_postgres_url: str
) -> None:
    name = empty_postgres_url.rpartition("/")[2]
    for setting in ("client_encoding = 'LATIN1'", "extra_float_digits = -15"):
        postgres_cluster.execute(f"ALTER DATABASE {name} SET {setting}")
    database = Database.open(empty_postgres_url)
    try:
        assert abs(database.time.now() - time.time()) < 5
        assert await database.ask("SELECT current_setting('client_encoding')") == [("UTF8",)]
    finally:
        await database.close()
