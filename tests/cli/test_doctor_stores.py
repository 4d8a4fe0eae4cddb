"""``torpor doctor`` on stores and servers as they are, on SQLite and PostgreSQL."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.shell import Ended, Shell, until
from tests.postgres import PASSWORD, Cluster, bouncer
from torpor.stores.postgres import Database
from torpor.stores.postgres.schema import LOCK, migrations
from torpor.stores.sqlite import checkup


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    if request.param == "sqlite":
        yield Shell(tmp_path)
    else:
        yield Shell(tmp_path, TORPOR_STORE=request.getfixturevalue("postgres_url"))


def levels(done: Ended) -> dict[str, str]:
    """The worst level of each kind of finding."""
    worst: dict[str, str] = {}
    for finding in json.loads(done.stdout)["findings"]:
        about, level = finding["about"], finding["level"]
        worst[about] = max(worst.get(about, "fine"), level, key=("fine", "note", "wrong").index)
    return worst


def found(done: Ended, about: str) -> str:
    return " ".join(one["found"] for one in json.loads(done.stdout)["findings"] if one["about"] == about)


def examined(shell: Shell) -> Ended:
    return shell.run("doctor", "--json")


def test_work_that_is_under_way_is_not_wrong(shell: Shell) -> None:
    shell.good("new", "fetcher", "go")
    nobody = examined(shell)
    assert (nobody.returncode, levels(nobody)["threads"]) == (1, "wrong")
    with shell.running("worker"):
        until((shell.folder / "started").exists)
        for _ in range(3):
            shell.good("new", "echo", "hi")
            busy = examined(shell)
            assert (busy.returncode, json.loads(busy.stdout)["well"]) == (0, True), busy.stdout
            assert {levels(busy)[about] for about in ("threads", "effects", "workers")} == {"fine"}
        (shell.folder / "gate").write_text("open")
    assert "none waits" in found(examined(shell), "effects")


def test_a_server_with_its_worker_is_well_and_people_read_it_so(shell: Shell) -> None:
    with shell.serving() as url:
        thread = shell.good("new", "echo", "hi", "--wait").split()[0]
        told = shell.good("doctor")
        assert f"✓ server    answers at {url}" in told
        assert f"✓ callbacks are taken at {url}" in told
        assert not {"✗", "!"} & {line[:1] for line in told.splitlines() if "postgres" not in line}
        until(lambda: "sweep" in levels(examined(shell)))
        assert levels(examined(shell))["sweep"] == "fine"
        assert thread not in told


def test_parked_threads_and_a_server_of_another_store(shell: Shell, tmp_path: Path) -> None:
    text = (shell.folder / "bots.py").read_text()
    (shell.folder / "mute.py").write_text(text + '\nmute = Agent("mute", model=ScriptedModel([]))\n')
    shell.environment["TORPOR_AGENTS"] = "mute:mute"
    shell.good("new", "mute", "hi")
    assert shell.process("worker", "--until-idle", "--soon", "0").returncode == 0
    parked = examined(shell)
    assert (parked.returncode, levels(parked)["parked"]) == (0, "note")
    (tmp_path / "other").mkdir()
    other = Shell(tmp_path / "other")
    with other.serving() as url:
        shell.environment["TORPOR_PUBLIC_URL"] = url
        with shell.serving():
            taken = examined(shell)
    assert (taken.returncode, levels(taken)["callbacks"]) == (1, "wrong")
    assert "a server of another store answers" in found(taken, "callbacks")


def test_an_address_of_one_machine_that_workers_of_others_give_out(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shell.serving():
        monkeypatch.setattr("torpor.cli.doctor_address.socket.gethostname", lambda: "elsewhere.example")
        assert levels(examined(shell))["callbacks"] == "note"
        text = (shell.folder / "bots.py").read_text()
        tools = 'RapServer("http://127.0.0.1:9/tools")'
        text += f"\nfrom torpor import RapServer\nfar = Agent('far', model=echo.model, tools=[{tools}])\n"
        (shell.folder / "bots_far.py").write_text(text)
        shell.environment["TORPOR_AGENTS"] = "bots_far:far"
        seen = examined(shell)
    assert (seen.returncode, levels(seen)["callbacks"]) == (1, "wrong")
    assert "set public_url" in found(seen, "callbacks")


def test_mcp_servers_are_named(shell: Shell) -> None:
    with (shell.folder / "torpor.toml").open("a") as file:
        file.write('[mcp.files]\ncommand = "files"\n')
    assert "configured: files; `torpor mcp check`" in found(examined(shell), "mcp")
    shell.environment["TORPOR_MCP_SERVERS"] = "absent.json"
    absent = examined(shell)
    assert (absent.returncode, levels(absent)["mcp"]) == (1, "wrong")


def test_a_file_that_is_not_as_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell, path = Shell(tmp_path), tmp_path / "threads.db"
    shell.good("new", "echo", "hi")
    assert (levels(examined(shell))["store"], levels(examined(shell))["disk"]) == ("fine", "fine")
    path.chmod(0o644)
    assert "chmod 600 threads.db" in found(examined(shell), "store")
    path.chmod(0o600)
    usage = shutil.disk_usage(tmp_path)
    for free, level in ((checkup.LITTLE - 1, "note"), (checkup.HARDLY - 1, "wrong")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        assert levels(examined(shell))["disk"] == level
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/x / ext4 rw 0 0\nhost:/x {tmp_path.parent} nfs4 rw 0 0\n")
    monkeypatch.setattr(checkup, "MOUNTS", mounts)
    assert "a network file system (nfs4)" in found(examined(shell), "store")
    monkeypatch.undo()
    monkeypatch.setattr(checkup, "LONG_LOG", -1)
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA wal_checkpoint")
        (tmp_path / "threads.db-wal").touch()
        assert "some program holds an old state" in found(examined(shell), "store")
        file.execute("PRAGMA journal_mode = DELETE")
    assert "its journal mode is delete" in found(examined(shell), "store")


@pytest.mark.parametrize("version", [1, 999])
def test_a_file_of_another_release_is_left_alone(tmp_path: Path, version: int) -> None:
    shell, path = Shell(tmp_path), tmp_path / "threads.db"
    shell.good("new", "echo", "hi")
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    done = examined(shell)
    assert levels(done)["store"] == ("note" if version == 1 else "wrong")
    assert ("once this release is started" in done.stdout) == (version == 1)
    assert path.read_bytes() == before


def test_a_database_of_another_release_is_left_alone(empty_postgres_url: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, TORPOR_STORE=empty_postgres_url)
    assert "there are no tables yet" in found(examined(shell), "store")
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        assert connection.execute("SELECT to_regnamespace('torpor')").fetchone() == (None,)
        Database.open(empty_postgres_url)
        known = migrations()[-1].number
        connection.execute("DELETE FROM torpor.migrations WHERE number = %s", (known,))
        pending = examined(shell)
        assert (pending.returncode, levels(pending)["store"]) == (0, "note")
        assert f"and {known} once this release is started" in found(pending, "store")
        assert connection.execute("SELECT max(number) FROM torpor.migrations").fetchone() == (known - 1,)
        connection.execute("INSERT INTO torpor.migrations VALUES (%s, 1), (%s, 1)", (known, known + 1))
        newer = examined(shell)
        assert (newer.returncode, levels(newer)["store"]) == (0, "note")
        assert "still works with this one" in found(newer, "store")
        assert levels(newer)["threads"] == "fine"
        connection.execute("UPDATE torpor.migrations SET serves = %s", (known + 1,))
        refused = examined(shell)
        assert (refused.returncode, levels(refused)["store"]) == (1, "wrong")


def test_a_proxy_is_told_and_passwords_are_not(
    postgres_cluster: Cluster, postgres_url: str, tmp_path: Path
) -> None:
    Database.open(postgres_url)
    with bouncer(postgres_cluster, postgres_url) as url:
        shell = Shell(tmp_path, TORPOR_STORE=url.replace("torpor@", f"torpor:{PASSWORD}@"))
        done = examined(shell)
    assert (done.returncode, levels(done)["postgres"]) == (0, "note"), done.stdout
    assert "hands each transaction to another session" in found(done, "postgres")
    assert "wait without end" in found(done, "postgres")
    assert PASSWORD not in done.stdout + done.stderr


def test_settings_of_the_server_that_hurt(postgres_url: str, tmp_path: Path) -> None:
    Database.open(postgres_url)
    options = "-c%20synchronous_commit%3Doff%20-c%20idle_session_timeout%3D5s"
    done = examined(Shell(tmp_path, TORPOR_STORE=f"{postgres_url}?options={options}"))
    assert (done.returncode, levels(done)["postgres"]) == (1, "wrong")
    assert "turn synchronous_commit on" in found(done, "postgres")
    assert "idle_session_timeout is 5 s" in found(done, "postgres")


def test_a_transaction_that_stays_open_and_connections_that_run_out(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torpor.stores.postgres import checkup as looked

    Database.open(postgres_url)
    shell = Shell(tmp_path, TORPOR_STORE=postgres_url)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK + 1,))
        monkeypatch.setattr(looked, "LONG", -1.0)
        assert "a transaction has been open" in found(examined(shell), "postgres")
    for few, almost, level in ((10_000, 2.0, "wrong"), (0, 0.0, "note")):
        monkeypatch.setattr(looked, "FEW", few)
        monkeypatch.setattr(looked, "ALMOST", almost)
        done = examined(shell)
        assert (levels(done)["postgres"], "connections are in use" in found(done, "postgres")) == (
            level,
            True,
        )


def test_effects_that_a_dead_process_left(shell: Shell) -> None:
    shell.good("new", "fetcher", "go")
    with shell.running("worker") as process:
        until((shell.folder / "started").exists)
        process.kill()
    run_on(shell, "DELETE FROM {}rings")
    later = "UPDATE {}outbox SET claimed_until = 1, not_before = 0"
    run_on(shell, later)
    left = examined(shell)
    assert (left.returncode, levels(left)["effects"]) == (1, "wrong"), left.stdout
    assert "1 were left by who performed them" in found(left, "effects")


def run_on(shell: Shell, statement: str) -> Any:
    url = shell.environment.get("TORPOR_STORE")
    if url:
        with psycopg.connect(url) as connection:
            connection.execute(statement.format("torpor.").encode())
    else:
        with sqlite3.connect(shell.folder / "threads.db") as file:
            file.execute(statement.format(""))
