"""A private PostgreSQL for tests: one cluster for all workers of a run, an empty database for each test.

Run as a program, it is the cluster's keeper: it starts the server, and stops it when nobody is left who uses
it, however they ended.
"""

import fcntl
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from torpor.testing.postgres import (
    PATIENCE,
    USER,
    Missing,
    Server,
    as_account,
    free_port,
    initialised,
    private_folder,
    programs,
    serve,
    until_up,
)

LOCKED, PASSWORD = "locked", "the-secret"
"""A role that must give a password."""

_BOUNCER = """
[databases]
* = host=127.0.0.1 port={server} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
"""
IDLE = 0.25
"""Seconds between the keeper's looks whether anybody is left."""

LEDGER = "migrations"
"""The table that says which migrations were run."""

_KEEPERS: "list[subprocess.Popen[bytes]]" = []
"""They outlive who started them."""

_LEAVE_ALONE = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_TABLES = f"SELECT tablename FROM pg_tables WHERE schemaname = 'torpor' AND tablename <> '{LEDGER}'"


def required() -> bool:
    """Nothing may be skipped for want of a program."""
    return os.environ.get("TORPOR_ALL") == "1"


class Cluster:
    """A running server as tests use it; ``clean`` databases are kept for the next test that asks."""

    def __init__(self, port: int, process: int) -> None:
        self.port = port
        self.process = process
        """The server's process id."""
        self._free: list[str] = []
        self._numbers = itertools.count(1)

    def url(self, database: str, user: str = USER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a database without rows. Its tables may be there already, from a test before."""
        name = self._free.pop() if self._free else self.create()
        try:
            yield self.url(name)
        finally:
            if self.wipe(name):
                self._free.append(name)
            else:
                self.drop(name)

    @contextmanager
    def empty_database(self) -> Iterator[str]:
        """The URL of a database without tables."""
        name = self.create()
        try:
            yield self.url(name)
        finally:
            self.drop(name)

    def create(self) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return name

    def drop(self, name: str) -> None:
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def wipe(self, name: str) -> bool:
        """Take all rows out and all connections away; False if the database has to go instead."""
        try:
            with psycopg.connect(self.url(name), autocommit=True) as connection:
                connection.execute(_LEAVE_ALONE)
                connection.execute(wiping(connection))
        except psycopg.Error:
            return False
        return True

    def execute(self, statement: Any, database: str = "postgres") -> None:
        """Run one statement as the superuser, in a database."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def terminate(self, url: str) -> int:
        """Close all connections to a database, as the server would; says how many there were."""
        name = url.rpartition("/")[2].partition("?")[0]
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            found = connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
            ).fetchall()
        return len(found)


def wiping(connection: psycopg.Connection[Any]) -> sql.Composed:
    """What takes all rows out of our tables, at once."""
    tables = connection.execute(_TABLES).fetchall()
    names = [sql.Identifier("torpor", table) for (table,) in tables]
    return sql.SQL("; ").join([sql.SQL("DELETE FROM {}").format(name) for name in names])


@contextmanager
def cluster(place: Path) -> Iterator[Cluster]:
    """The cluster of all that name the same folder; ``Missing`` if there is no PostgreSQL.

    It is started by whoever comes first, and stops soon after the last one has left or died.
    """
    programs()
    place.mkdir(parents=True, exist_ok=True)
    with (place / "users").open("w") as users:
        # Shared for as long as this process lives: the keeper waits until nobody holds it.
        fcntl.flock(users, fcntl.LOCK_SH)
        with (place / "start").open("w") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            if not (place / "running").exists():
                _begin(place)
        running = json.loads((place / "running").read_text())
        yield Cluster(running["port"], running["process"])


def _begin(place: Path) -> None:
    """Start a keeper, and wait until its server runs."""
    log = place / "log"
    with log.open("ab") as output:
        keeper = subprocess.Popen(
            [sys.executable, __file__, str(place)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _KEEPERS.append(keeper)
    deadline = time.monotonic() + PATIENCE
    while not (place / "running").exists():
        if keeper.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.02)


def _initialised(folder: Path) -> Path:
    """The folder of a new cluster; whoever is on this machine may connect, but ``locked``."""
    place = initialised(folder)
    rules = place / "pg_hba.conf"
    rules.write_text(f"host all {LOCKED} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    return place


def _keep(place: Path) -> None:
    """Start a server, say so, and stop it once nobody uses it."""
    with private_folder() as folder:
        server, port = _initialised(folder), free_port()
        process = serve(server, folder, port)
        try:
            found = Cluster(port, process.pid)
            until_up(found.url("postgres"), process)
            found.execute(f"CREATE ROLE {LOCKED} LOGIN PASSWORD '{PASSWORD}'")
            _say(place / "running", {"port": port, "process": process.pid})
            _wait_for_users(place, lambda: process.poll() is None)
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()


def _say(file: Path, word: dict[str, int]) -> None:
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(word))
    draft.rename(file)


def _wait_for_users(place: Path, alive: Callable[[], bool]) -> None:
    """Return once nobody is left; whoever comes then waits, and starts another server."""
    users = (place / "users").open("w")
    while alive():
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(IDLE)
        else:
            break
    (place / "running").unlink()


class OwnCluster(Cluster):
    """A server of one test alone, which it may stop."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._server = Server(folder, settings)
        super().__init__(self._server.port, self._server.process)

    def start(self) -> None:
        self._server.start()
        self.process = self._server.process

    def stop(self) -> None:
        self._server.stop()

    def recover(self) -> None:
        self._server.recover()
        self.process = self._server.process


@contextmanager
def own_cluster() -> Iterator[OwnCluster]:
    """A server apart from all others."""
    with private_folder() as folder:
        found = OwnCluster(folder)
        try:
            yield found
        finally:
            found.stop()


@contextmanager
def bouncer(cluster: Cluster, url: str) -> Iterator[str]:
    """The URL of the same database behind a proxy that hands each transaction to another session."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH')}:/usr/sbin")
    if program is None:
        if required():
            raise Missing("pgbouncer is not installed")
        pytest.skip("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
    with private_folder() as folder:
        port = free_port()
        file = folder / "pgbouncer.ini"
        file.write_text(_BOUNCER.format(server=cluster.port, user=USER, port=port))
        process = subprocess.Popen([*as_account(), program, "-q", str(file)], cwd=folder)
        there = url.replace(f":{cluster.port}/", f":{port}/")
        try:
            until_up(there, process)
            yield there
        finally:
            process.terminate()
            process.wait()


def shared_place(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a run share."""
    own = factory.getbasetemp()
    return (own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own) / "postgres"


@contextmanager
def found_or_skipped(factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of a run; without PostgreSQL tests are skipped, or fail where nothing may be."""
    try:
        programs()
    except Missing as reason:
        if required():
            raise
        pytest.skip(str(reason))
    with cluster(shared_place(factory)) as found:
        yield found


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
