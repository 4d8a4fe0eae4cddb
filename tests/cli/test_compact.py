"""``torpor compact``: a summary is asked for."""

import sqlite3
from pathlib import Path

from tests.cli.shell import Shell


def test_a_summary_is_asked_for(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    thread = shell.good("new", "echo", "one").strip()
    done = shell.run("compact", thread)
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, "received (compact)")
    file = sqlite3.connect(tmp_path / "threads.db")
    assert [kind for (kind,) in file.execute("SELECT kind FROM inbox ORDER BY number")] == ["said", "compact"]
    file.close()
    assert shell.run("compact", "nobody").returncode == 1
