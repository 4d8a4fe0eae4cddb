"""``torpor delete`` and ``torpor prune``."""

import json
import os
import pty
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell

SECRET = "the-eagle-has-landed"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def bytes_of(shell: Shell) -> bytes:
    """All that stands in the store's files."""
    return b"".join(file.read_bytes() for file in shell.folder.glob("threads.db*") if file.suffix != ".token")


def test_what_is_deleted_is_not_in_the_file_any_more(shell: Shell) -> None:
    thread, other = (shell.good("new", "echo", text).strip() for text in (SECRET, "stays"))
    assert shell.run("worker", "--until-idle").returncode == 0
    assert SECRET.encode() in bytes_of(shell)
    refused = shell.run("delete", thread)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Say --yes" in refused.stderr
    done = shell.run("delete", thread, "--yes", "--scrub")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("erased 1 thread: messages 3, ")
    assert "a search for its ids found nothing more" in done.stdout
    found = bytes_of(shell)
    assert (SECRET.encode() in found, thread.encode() in found, other.encode() in found) == (
        False,
        False,
        True,
    )
    gone = shell.run("show", thread)
    assert (gone.returncode, "no thread" in gone.stderr) == (1, True)
    assert "echo stays" in shell.good("show", other)
    again = shell.run("delete", thread, "--yes")
    assert (again.returncode, "no thread" in again.stderr) == (1, True)


def test_forks_are_named_and_taken_along(shell: Shell) -> None:
    thread = shell.good("new", "echo", "hello").strip()
    shell.run("worker", "--until-idle")
    fork = shell.good("fork", thread).strip()
    refused = shell.run("delete", thread, "--yes")
    assert refused.returncode == 1
    assert fork in refused.stderr
    assert "--with-forks" in refused.stderr
    done = json.loads(shell.good("delete", thread, "--yes", "--with-forks", "--json"))
    assert (done["threads"], done["forks"], done["left"]) == (2, [fork], {})
    assert json.loads(shell.good("threads", "--json")) == []


def test_a_person_at_a_terminal_is_asked(shell: Shell) -> None:
    thread = shell.good("new", "echo", "hello").strip()
    for said, code in (("n\n", 1), ("y\n", 0)):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "torpor", "delete", thread],
            stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=shell.folder, env=shell.environment,
        ) as process:  # fmt: skip
            os.close(theirs)
            os.write(ours, said.encode())
            _, err = process.communicate(timeout=60)
        os.close(ours)
        assert f"Erase {thread} (echo, open: hello) for good?" in err
        assert process.returncode == code


def test_what_is_old_is_pruned(shell: Shell) -> None:
    closed, open_ = (shell.good("new", "echo", text).strip() for text in ("over", "goes on"))
    shell.run("worker", "--until-idle")
    shell.run("close", closed)
    shell.run("worker", "--until-idle")
    assert shell.good("prune").startswith("erased 0 closed threads; nothing")
    with sqlite3.connect(shell.folder / "threads.db") as file:
        file.execute("UPDATE threads SET updated = updated - 10 * 86400")
        file.execute("UPDATE absorbed SET at = at - 10 * 86400")
    file.close()
    assert shell.good("prune", "--closed", "30", "--dry-run") == "would erase 0 closed threads; nothing\n"
    dry = shell.good("prune", "--closed", "5", "--dry-run").splitlines()
    assert dry[0] == closed
    assert dry[1].startswith("would erase 1 closed thread; messages 4, ")
    pruned = json.loads(shell.good("prune", "--closed", "5", "--json"))
    assert (pruned["threads"], pruned["rows"]["threads"], pruned["rows"]["ids"]) == ([closed], 1, 1)
    assert [one["id"] for one in json.loads(shell.good("threads", "--json"))] == [open_]
    refused = shell.run("prune", "--ids", "0.5")
    assert (refused.returncode, "keep_ids_days" in refused.stderr) == (1, True)
