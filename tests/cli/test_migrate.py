"""``torpor migrate``: from one store to another, in files."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.shell import Shell

THERE = "sqlite:///there.db"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def there(shell: Shell) -> str:
    """Another store, with a thread of its own."""
    return shell.good("new", "echo", "hello", "--store", THERE).strip()


def states(shell: Shell, *arguments: str) -> dict[str, str]:
    rows = json.loads(shell.good("threads", "--json", *arguments))
    return {row["id"]: row["state"] for row in rows}


def test_a_thread_moves_with_what_was_said_to_it(shell: Shell, there: str) -> None:
    thread = shell.good("new", "echo", "one").strip()
    done = shell.run("migrate", thread, THERE)
    told, warning = done.stderr.splitlines()
    assert (done.returncode, told) == (0, f"moved 1 thread to {THERE}")
    assert "No worker runs 'echo' there now" in warning
    assert states(shell) == {thread: "moved"}
    assert states(shell, "--store", THERE) == {thread: "open", there: "open"}
    assert f"goes on in {THERE}, and ended here" in shell.good("show", thread)
    assert "came from sqlite:///threads.db" in shell.good("show", thread, "--store", THERE)
    refused = shell.run("say", thread, "two")
    assert (refused.returncode, f"It was moved to {THERE}." in refused.stderr) == (1, True)
    again = shell.run("migrate", thread, THERE)
    assert (again.returncode, "was moved to" in again.stderr) == (1, True)
    assert json.loads(shell.good("migrate", thread, "sqlite:///threads.db", "--store", THERE, "--json")) == [
        thread
    ]
    assert states(shell)[thread] == "open"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Say which store"),
        (("nowhere",), "names no kind of store"),
        (("sqlite:///nowhere.db",), "There is no store nowhere.db yet. Is it another one? Else say --create"),
        (("memory:",), "where no command reaches it"),
        (("sqlite:///threads.db",), "not to its own"),
        ((THERE, "--server", "http://old"), "OLD=NEW"),
        ((THERE, "--server", "http://old=http://new"), "uses a tool server 'http://old'"),
        (("--abort",), "is not moving"),
    ],
)
def test_what_cannot_be_is_refused(shell: Shell, there: str, arguments: tuple[str, ...], told: str) -> None:
    thread = shell.good("new", "echo", "one").strip()
    done = shell.run("migrate", thread, *arguments)
    assert done.returncode == 1
    assert told in done.stderr
    assert states(shell) == {thread: "open"}


def test_a_move_that_was_interrupted_is_given_up_or_completed(shell: Shell, there: str) -> None:
    thread = shell.good("new", "echo", "one").strip()
    file = sqlite3.connect(shell.folder / "threads.db")
    plan = json.dumps({"to": THERE}).encode()
    for words in (("--abort",), (THERE,)):
        with file:
            file.execute("UPDATE threads SET state = 'moving', counter = counter + 1")
            file.execute(
                "INSERT OR REPLACE INTO small (space, key, value, at) VALUES ('moves', ?, ?, 0)",
                (thread, plan),
            )
        busy = shell.run("say", thread, "two")
        assert (busy.returncode, "is moving to another store" in busy.stderr) == (1, True)
        assert shell.run("migrate", thread, *words).returncode == 0
    file.close()
    assert states(shell) == {thread: "moved"}
    assert states(shell, "--store", THERE)[thread] == "open"
