"""What is asked of a file with a million threads must not read all of them: the plans say so."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from torpor.ports import Row
from torpor.stores.sqlite import Database, SqliteStore, checkup
from torpor.stores.statements import statements

THREADS = statements("torpor.stores.sqlite", "sql/threads.sql")
CHECKUP = statements("torpor.stores.sqlite", "sql/checkup.sql")
RETENTION = statements("torpor.stores.sqlite", "sql/retention.sql")
QUEUE = statements("torpor.queues", "sqlite.sql")
ASKED: dict[str, Any] = dict.fromkeys(("owner", "agent", "state", "root", "parent", "purpose"))
LISTED = {**ASKED, "after": "", "limit": 50}
STRANDED = {"now": 1.0, "ahead": 0.0, "limit": 1000, "skip": 0, "agents": '["a"]'}


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A file with three agents' threads, of which one agent's are all closed."""
    found = tmp_path / "torpor.db"
    store = SqliteStore(Database.open(found))
    for number, (agent, state) in enumerate([("a", "open"), ("a", "closed"), ("b", "closed"), ("c", "open")]):
        await store.create(Row(thread=f"t{number}", agent=agent, state=state, updated=float(number)))
    await store.close()
    return found


@pytest.fixture
def file(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        (THREADS["list_all"], LISTED),
        (THREADS["list_of_owner"], {**LISTED, "owner": "o"}),
        (THREADS["list_of_agent"], {**LISTED, "agent": "a"}),
        (THREADS["list_of_purpose"], {**LISTED, "purpose": "child"}),
        (THREADS["list_not_open"], {**LISTED, "state": "parked"}),
        (THREADS["stranded"], STRANDED),
        (RETENTION["closed"], {"before": 1.0, "after": "", "limit": 10}),
        (RETENTION["deleted"], (10,)),
        (RETENTION["old_ids"], {"before": 1.0, "thread": 0, "id": "", "limit": 10}),
        (CHECKUP["agents"], {}),
        (CHECKUP["due"], {"now": 1.0}),
        (QUEUE["promote"], {"now": 1.0}),
        (QUEUE["next_change"], {"agents": None, "mark": "|", "tiers": 7}),
    ],
)
def test_no_table_of_threads_is_read_through(
    file: sqlite3.Connection, sql: str, given: dict[str, Any] | tuple[Any, ...]
) -> None:
    plan = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    assert plan
    for table in ("threads", "inbox", "messages", "absorbed", "segments"):
        assert not any(step.startswith(f"SCAN {table}") for step in plan), plan


def test_the_plans_would_show_it(file: sqlite3.Connection) -> None:
    plan = [row[3] for row in file.execute("EXPLAIN QUERY PLAN SELECT DISTINCT state FROM threads")]
    assert any(step.startswith("SCAN threads") for step in plan)


def test_agents_with_threads_that_are_not_over(file: sqlite3.Connection) -> None:
    assert file.execute(CHECKUP["agents"]).fetchall() == [("a",), ("c",)]


def test_a_large_file_is_not_read_all_through(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Listening(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            asked.append(sql)
            return super().execute(sql, *given)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **options: connect(*given, factory=Listening, **options)
    )
    small = checkup.checkup(path)
    assert "is whole" in small.findings[0].found
    assert any("quick_check" in sql for sql in asked)
    asked.clear()
    monkeypatch.setattr(checkup, "LOOKED_THROUGH", path.stat().st_size - 1)
    large = checkup.checkup(path)
    assert "too large to be read all through" in large.findings[0].found
    assert large.findings[0].level == "fine"
    assert not any("quick_check" in sql for sql in asked)
    assert large.survey is not None
    assert abs(large.survey.now - time.time()) < 60
