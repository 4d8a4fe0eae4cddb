"""A private PostgreSQL server, in a temporary folder on a free port of this machine, from Debian's packages.

As a program, ``python -m torpor.testing.postgres``, it prints the URL of a database and serves it until its
standard input ends or it is asked to stop.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

USER = "torpor"
"""The superuser of such a server. Whoever is on this machine may be that."""

CONFIGURATION = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "1h",
    "deadlock_timeout": "200ms",
    "jit": "off",
    "log_min_messages": "warning",
}
PATIENCE = 60.0
"""Seconds for which a server may take to come up."""


class Missing(Exception):
    """There is no PostgreSQL on this machine."""


def programs() -> Path:
    """The folder of the newest server programs."""
    found = {
        int(path.parts[-3]): path.parent for path in Path("/usr/lib/postgresql").glob("[0-9]*/bin/postgres")
    }
    if found:
        return found[max(found)]
    elsewhere = shutil.which("initdb")
    if elsewhere is None:
        raise Missing("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return Path(elsewhere).resolve().parent


class Server:
    """A server that may be stopped, at once and without a last word, and started again."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = settings or {}
        self._place = initialised(folder)
        self.port = free_port()
        self.start()

    @property
    def process(self) -> int:
        """The server's process id."""
        return self._running.pid

    def url(self, database: str = "postgres", user: str = USER) -> str:
        """Where a database of it is."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Run it, and wait until it takes connections."""
        self._running = serve(self._place, self._folder, self.port, self._settings)
        until_up(self.url(), self._running)

    def stop(self) -> None:
        """End it as a crash would. Idempotent."""
        self._running.send_signal(signal.SIGQUIT)
        self._running.wait()

    def recover(self) -> None:
        """Wait until it takes connections again after a crash; start it if that has ended it."""
        try:
            until_up(self.url(), self._running)
        except psycopg.OperationalError:
            self.start()


@contextmanager
def server(settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server while the block runs; ``settings`` beside ``CONFIGURATION``. ``Missing`` if there is none."""
    programs()
    with private_folder() as folder:
        running = Server(folder, settings)
        try:
            yield running
        finally:
            running.stop()


def account() -> pwd.struct_passwd | None:
    """Whose server it is: it refuses to be root's."""
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else None


def as_account() -> list[str]:
    """The words in front of a program that shall be the account's, and end with whoever started it."""
    words, whose = ["setpriv", "--pdeathsig", "QUIT"], account()
    if whose is not None:
        words += [f"--reuid={whose.pw_uid}", f"--regid={whose.pw_gid}", "--clear-groups"]
    return words


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def initialised(folder: Path) -> Path:
    """The folder of a new cluster, below one of the account's."""
    place = folder / "cluster"
    tool = [*as_account(), str(programs() / "initdb"), "-D", str(place), "-U", USER, "-A", "trust"]
    options = ["-E", "UTF8", "--no-locale", "--no-sync"]
    subprocess.run([*tool, *options], check=True, stdout=subprocess.DEVNULL, cwd=folder)  # noqa: S603
    return place


def serve(
    place: Path, folder: Path, port: int, settings: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Run the server of a cluster until it is told to stop, or its parent dies."""
    options = {**CONFIGURATION, "port": str(port), "unix_socket_directories": str(folder), **(settings or {})}
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    program = [*as_account(), str(programs() / "postgres"), "-D", str(place)]
    return subprocess.Popen([*program, *words], cwd=folder)  # noqa: S603


def until_up(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a server takes connections."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of the account that servers run as."""
    folder, whose = Path(tempfile.mkdtemp(prefix="torpor-postgres-")), account()
    try:
        if whose is not None:
            os.chown(folder, whose.pw_uid, whose.pw_gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Serve until nobody wants it any more."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        with server() as running:
            sys.stdout.write(f"{running.url()}\n")
            sys.stdout.flush()
            sys.stdin.read()
    except Missing as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
