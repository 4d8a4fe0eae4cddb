"""The SQLite file that a store and a queue of one process share."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, TypeVar

from torpor.core.errors import Refused
from torpor.ports import Clock
from torpor.stores.sqlite.faults import busy, fault
from torpor.stores.sqlite.schema import migrate
from torpor.stores.sqlite.writer import (
    PATIENCE,
    GroupWriter,
    InlineWriter,
    Job,
    Operation,
    Writer,
    enter,
    run_apart,
)
from torpor.stores.statements import statements

T = TypeVar("T")

OLDEST = (3, 35, 0)
"""The first SQLite that can do all that is asked of it (``RETURNING``)."""

Synchronous = Literal["FULL", "NORMAL"]
WriterKind = Literal["thread", "inline"]


class Database:
    """One file, one writer and a few readers, for the event loop that uses it. Make it with ``open``."""

    def __init__(
        self, path: str, connect: Callable[[], sqlite3.Connection], writer: Writer, clock: Clock | None
    ):
        self.path = path
        self.clock = clock
        self.now: Callable[[], float] = clock.now if clock else time.time
        self._connect = connect
        self._writer = writer
        self._reader: sqlite3.Connection | None = None
        self._spare: list[sqlite3.Connection] = []
        self._closed = False
        self._looks: list[Job] = []

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        synchronous: Synchronous = "FULL",
        writer: WriterKind = "thread",
    ) -> "Database":
        """Open or make the file and bring its tables up to date.

        ``url``: a path, ``sqlite:///relative/path`` or ``sqlite:////absolute/path``. ``synchronous="FULL"``:
        what was acknowledged survives a power cut; ``"NORMAL"``: a crash of the process only.
        ``writer="inline"`` commits each operation by itself in the caller's thread, for determinism.
        ``Refused`` says what is wrong with the file, ``Unavailable`` that it may pass.
        """
        path = path_of(os.fspath(url))

        def connect() -> sqlite3.Connection:
            return _connected(path, synchronous)

        try:
            connection = _made(path, connect)
        except sqlite3.Error as error:
            raise fault(error, path) from error
        kind = GroupWriter if writer == "thread" else InlineWriter
        made: Writer = kind(connection, path, _there(path))
        return cls(path, connect, made, clock)

    def write(self, operation: Operation[T], *, heavy: bool = False) -> Coroutine[Any, Any, T]:
        """Run an operation in a transaction: wholly or not at all, durable when this returns.

        ``Unavailable`` if the file is no longer there: what is written to it then is lost with this process.
        It must neither commit nor keep a cursor. ``heavy``: it moves many bytes; keep it off the event loop.
        """
        self._check_open()
        return self._writer.write(operation, heavy=heavy)

    def leave(self, operation: Operation[T], then: Callable[[T], None]) -> None:
        """Run an operation after those asked for before, and wait for nothing.

        ``then`` gets what it gives, once it is durable. Where it cannot be written, only the log is told: it
        is for what may be lost.
        """
        self._check_open()
        self._writer.leave(operation, then)

    async def settled(self) -> None:
        """Wait until what was left to be written is; ``Unavailable`` if it cannot be."""
        self._check_open()
        await self._writer.settled()

    def read(self, reading: Operation[T]) -> T:
        """Run a short reading at once, as of one instant. It must exhaust its cursors."""
        self._check_open()
        return self._read_here(reading)

    async def look(self, reading: Operation[T]) -> T:
        """Run a short reading with all that are asked for in this turn of the event loop, as of one instant.

        One right after the other they find everything at hand: a twentieth of the CPU time of a slice.
        """
        self._check_open()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if not self._looks:
            loop.call_soon(self._look_together)
        self._looks.append(Job(reading, future))
        return await future

    async def listing(self, reading: Operation[T]) -> T:
        """Run a long reading beside the event loop, as of one instant."""
        self._check_open()
        return await asyncio.to_thread(self._read_aside, reading)

    async def apart(self, work: Operation[T]) -> T:
        """Run work beside the event loop, on a connection of its own and in no transaction."""
        self._check_open()
        return await asyncio.to_thread(self._work_apart, work)

    async def close(self) -> None:
        """Finish what was asked for and let go of the file. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._look_together()
        await self._writer.close()
        if self._reader is not None:
            self._reader.close()
        while self._spare:
            self._spare.pop().close()

    def statements(self, package: str, path: str) -> dict[str, str]:
        """The named statements of a package's .sql file."""
        return statements(package, path)

    def _check_open(self) -> None:
        if self._closed:
            raise Refused(f"The store {self.path} was closed. Open it again to go on.")

    def _connected(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.Error as error:
            raise fault(error, self.path) from error

    def _look_together(self) -> None:
        looks, self._looks = self._looks, []
        failure = None
        try:
            if looks:
                self._read_here(lambda connection: run_apart(connection, self.path, looks))
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            failure = error
        for look in looks:
            look.tell(failure)

    def _read_here(self, reading: Operation[T]) -> T:
        if self._reader is None:
            self._reader = self._connected()
        return self._read(self._reader, reading)

    def _read_aside(self, reading: Operation[T]) -> T:
        connection = self._spare.pop() if self._spare else self._connected()
        try:
            return self._read(connection, reading)
        finally:
            if self._closed:
                connection.close()
            else:
                self._spare.append(connection)

    def _work_apart(self, work: Operation[T]) -> T:
        connection = self._connected()
        try:
            return work(connection)
        except sqlite3.Error as error:
            raise fault(error, self.path) from error
        finally:
            connection.close()

    def _read(self, connection: sqlite3.Connection, reading: Operation[T]) -> T:
        try:
            connection.execute("BEGIN")
            try:
                return reading(connection)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise fault(error, self.path) from error


def _there(path: str) -> Callable[[], bool]:
    """Tells whether the file is still where it is now, and still the same."""
    place = os.fspath(Path(path).absolute())
    at_first = _identity(place)
    return lambda: _identity(place) == at_first


def _identity(place: str) -> tuple[int, int] | None:
    """Which file is there, whatever its name; None if none is."""
    try:
        found = os.stat(place)  # noqa: PTH116 - once a transaction, at half the cost of Path.stat
    except OSError:
        return None
    return found.st_dev, found.st_ino


def path_of(url: str) -> str:
    """The path that a store URL names."""
    scheme, colon, rest = url.partition("://")
    if not colon:
        return url
    if scheme != "sqlite" or not rest.startswith("/") or len(rest) == 1 or "?" in rest:
        raise Refused(
            f"{url!r} names no SQLite file. Write sqlite:///relative/path or sqlite:////absolute/path."
        )
    return rest[1:]


def _made(path: str, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """The writer's connection to an up-to-date file."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise Refused(f"SQLite {sqlite3.sqlite_version} is too old: {'.'.join(map(str, OLDEST))} is needed.")
    _reserve(path)
    connection = connect()
    try:
        _migrated(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _reserve(path: str) -> None:
    """Make the file readable for its owner only: it holds conversations and keys."""
    if path in ("", ":memory:"):
        raise Refused("A store that lives in memory is named memory: and needs no SQLite file.")
    if os.path.isdir(path):  # noqa: PTH112 - what may not be looked at, SQLite will say
        raise Refused(f"The store {path} is a folder. Name a file in it.")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return  # it exists, or SQLite will say what is wrong


def _connected(path: str, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("PRAGMA cache_size = -16384")
    return connection


def _migrated(connection: sqlite3.Connection, path: str) -> None:
    enter(connection)
    try:
        migrate(connection, path)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    _write_ahead(connection)
    # A lock that is taken is seen at once and waited for in the writer's thread, never on the event loop.
    connection.execute("PRAGMA busy_timeout = 0")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the write-ahead log on; SQLite does not wait for others by itself here."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.Error as error:
            if not busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            if mode != "wal":
                raise Refused(
                    "The store's file system cannot hold a write-ahead log. Put the file on a local disk."
                )
            return
