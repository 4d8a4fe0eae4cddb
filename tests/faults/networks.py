"""A PostgreSQL server behind a cable of its own that can be pulled: in another network namespace."""

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from torpor.testing.postgres import CONFIGURATION, USER, as_account, initialised, programs, until_up

PORT = 5432
_NUMBERS = itertools.count(1)


class Cable:
    """What joins this machine's network to the server's."""

    def __init__(self, name: str, network: str) -> None:
        self.name = name
        self.here, self.there = f"{network}.1", f"{network}.2"

    def pull(self) -> None:
        """Nothing passes, and nobody is told."""
        _ip("-n", self.name, "link", "set", "far", "down")

    def plug(self) -> None:
        """All passes again."""
        _ip("-n", self.name, "link", "set", "far", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextmanager
def cable() -> Iterator[Cable]:
    """A namespace and its cable; skips the test, with the reason, where this machine allows none."""
    number = next(_NUMBERS)
    name = f"torpor-{os.getpid()}-{number}"
    near = f"tp{os.getpid() % 1_000_000}x{number}"
    found = Cable(name, f"10.{211 + number % 40}.{os.getpid() % 251}")
    if shutil.which("ip") is None:
        pytest.skip("the program `ip` is not installed (Debian: apt-get install iproute2)")
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
    try:
        _ip("link", "add", near, "type", "veth", "peer", "name", "far", "netns", name)
        _ip("addr", "add", f"{found.here}/24", "dev", near)
        _ip("-n", name, "addr", "add", f"{found.there}/24", "dev", "far")
        _ip("link", "set", near, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        found.plug()
        yield found
    finally:
        _ip("netns", "del", name)


@contextmanager
def server_behind(joined: Cable, folder: Path) -> Iterator[str]:
    """A server at the far end; gives the URL of its database."""
    place = initialised(folder)
    with (place / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {joined.here}/32 trust\n")
    given = {
        **CONFIGURATION,
        "listen_addresses": joined.there,
        "port": str(PORT),
        "unix_socket_directories": str(folder),
    }
    options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
    program = ["ip", "netns", "exec", joined.name, *as_account(), str(programs() / "postgres")]
    running = subprocess.Popen([*program, "-D", str(place), *options], cwd=folder)
    url = f"postgresql://{USER}@{joined.there}:{PORT}/postgres"
    try:
        until_up(url, running)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE far")
        yield url.replace("/postgres", "/far")
    finally:
        running.send_signal(signal.SIGQUIT)  # it waits for nobody, since some may be cut off
        running.wait()
