"""``torpor migrate``: from one store to another, in files."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from torpor.runtime.moving import Mover
from torpor.runtime.moving_plan import name_of
from torpor.wiring import is_there, open_parts

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
    assert shell.process("worker", "--until-idle").returncode == 0
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


def test_a_store_that_is_not_there_is_made_on_request_only(shell: Shell) -> None:
    thread = shell.good("new", "echo", "one").strip()
    refused = shell.run("migrate", thread, THERE)
    assert (refused.returncode, "Else say --create" in refused.stderr) == (1, True)
    assert not (shell.folder / "there.db").exists()
    assert shell.run("migrate", thread, THERE, "--create").returncode == 0
    assert states(shell, "--store", THERE) == {thread: "open"}


def test_an_empty_database_is_no_store_either(shell: Shell, empty_postgres_url: str) -> None:
    thread = shell.good("new", "echo", "one").strip()
    for arguments in (("migrate", thread, empty_postgres_url), ("threads", "--store", empty_postgres_url)):
        refused = shell.run(*arguments)
        assert refused.returncode == 1
        assert "There is no store in the database postgresql://" in refused.stderr
    assert not is_there(empty_postgres_url)
    done = shell.run("migrate", thread, empty_postgres_url, "--create")
    assert done.returncode == 0, done.stderr
    assert is_there(empty_postgres_url)
    assert states(shell, "--store", empty_postgres_url) == {thread: "open"}
    shown = name_of(empty_postgres_url)
    assert "@" in shown, "the user is part of it"
    assert f"It was moved to {shown}." in shell.run("say", thread, "two").stderr
    other = empty_postgres_url.replace("://", "://somebody:secret@").replace("torpor@", "", 1)
    again = shell.run("migrate", thread, other)
    assert "secret" not in again.stderr


def test_what_was_copied_is_taken_back(shell: Shell, there: str) -> None:
    """A move that died, given up by a command: no copy is left, or it is said where."""
    threads = [shell.good("new", "echo", text).strip() for text in ("one", "two")]
    for thread in threads:
        asyncio.run(dies(shell.folder, thread))
    assert states(shell) == dict.fromkeys(threads, "moving")
    assert states(shell, "--store", THERE)[threads[0]] == "arriving"
    done = shell.run("migrate", threads[0], "--abort")
    assert (done.returncode, done.stderr) == (0, "stays here\n")
    assert states(shell, "--store", THERE) == {there: "open", threads[1]: "arriving"}

    (shell.folder / "there.db").rename(shell.folder / "away.db")
    refused = shell.run("migrate", threads[1], "sqlite:///other.db", "--abort")
    assert refused.returncode == 1
    done = shell.run("migrate", threads[1], "--abort")
    assert (done.returncode, "copies may be left" in done.stderr) == (0, True)
    assert states(shell) == dict.fromkeys(threads, "open")
    away = ("--store", "sqlite:///away.db")
    assert states(shell, *away) == {there: "open", threads[1]: "arriving"}
    assert shell.good("delete", threads[1], "--yes", *away).startswith("erased 1 thread: signals 1,")
    assert states(shell, *away) == {there: "open"}


async def dies(folder: Path, thread: str) -> None:
    """A move whose process is gone once it has copied."""

    async def gone(_: object) -> None:
        raise Died

    urls = [f"sqlite:///{folder / name}" for name in ("threads.db", "there.db")]
    async with open_parts(urls[0]) as here, open_parts(urls[1]) as there:
        there.url = THERE
        there.store.commit = gone  # type: ignore[assignment, method-assign]
        with pytest.raises(Died):
            await Mover(here, there, here.messenger, here.clock, here.ids).move(thread)


class Died(BaseException):
    """The process is gone."""
