"""One SQLite file, written by one thread that commits whatever is waiting together."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

SCHEMAS = ("outbox.sql", "outbox-2.sql")
"""What makes each version of the file of the one before it."""
LARGEST_BATCH = 256
PATIENCE = 5.0  # seconds for a predecessor to let go of the file


class Database:
    """The file of an outbox, held by one process at a time. `:memory:` keeps it in memory.

    Everything asked of it is durable when the answer is there (WAL, synchronous FULL).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: list[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open or create the file. Raises ValueError if it is in use, or newer than this program."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="torpor-outbox")
        try:
            loop = asyncio.get_running_loop()
            self._connection = await loop.run_in_executor(self._thread, _connect, self.path)
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown(wait=False)
            raise ValueError(
                f"the outbox {self.path} cannot be opened ({error}); give each running server its own file"
            ) from error
        except ValueError:
            self._thread.shutdown(wait=False)
            raise

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction and return its value once it is durable; what it raises undoes it."""
        if self._connection is None:
            raise RuntimeError("the outbox is closed")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, answer))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_waiting())
        return await answer

    async def close(self) -> None:
        """Finish what is waiting and close the file."""
        while self._committing is not None:
            await asyncio.wait({self._committing})
        connection, self._connection = self._connection, None
        if connection is not None and self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, connection.close)
            self._thread.shutdown()

    async def _commit_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
                works = [work for work, _ in batch]
                outcomes = await loop.run_in_executor(self._thread, self._commit, works)
                for (_, answer), (value, error) in zip(batch, outcomes, strict=True):
                    if not answer.done():
                        answer.set_result(value) if error is None else answer.set_exception(error)
        finally:
            self._committing = None

    def _commit(self, works: list[Callable[[sqlite3.Connection], Any]]) -> list[tuple[Any, Exception | None]]:
        connection = self._connection
        assert connection is not None
        try:
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [_attempt(connection, work) for work in works]
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(works) == 1:
                return [(None, error)]
            # Each alone, so that one which cannot be kept fails no other.
            return [outcome for work in works for outcome in self._commit([work])]
        return outcomes


def _attempt(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Any]
) -> tuple[Any, Exception | None]:
    connection.execute("SAVEPOINT one")
    try:
        value = work(connection)
    except Exception as error:
        if not connection.in_transaction:
            # A full disk or the like has undone the whole batch already.
            raise
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return None, error
    connection.execute("RELEASE one")
    return value, None


def _connect(path: str) -> sqlite3.Connection:
    if path != ":memory:":
        # Callback URLs are secrets: the file is for its owner only; SQLite gives its journal the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(SCHEMAS):
        connection.execute("ROLLBACK")
        raise ValueError(f"the outbox {path} was written by a newer version of this program")
    for schema in SCHEMAS[version:]:
        text = files("torpor.tools.server").joinpath(schema).read_text("utf-8")
        for statement in text.split(";\n"):
            if statement.strip():
                connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(SCHEMAS)}")
    connection.execute("COMMIT")
