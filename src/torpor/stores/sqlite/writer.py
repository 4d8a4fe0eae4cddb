"""One writer for many callers: what they ask for at once becomes durable in one transaction.

Statements run on the event loop, where nobody contends for the interpreter; the commit, which waits for the
disk, runs in a thread of its own. Where another process holds the file, or an operation moves many bytes,
the whole transaction runs in the thread.
"""

import asyncio
import logging
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from torpor.stores.sqlite.faults import busy, fault, gone

log = logging.getLogger("torpor.sqlite")

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

TOGETHER = 256
"""Operations in one transaction, at most: it bounds how long the loop is kept."""

GATHERING = 2
"""Turns of the event loop for which a transaction waits for company."""

PATIENCE = 30.0
"""Seconds to wait for other processes' transactions."""


class Job:
    """An operation, and who waits for it or what follows it."""

    __slots__ = ("error", "future", "heavy", "operation", "then", "value")

    def __init__(
        self,
        operation: Operation[Any],
        future: asyncio.Future[Any] | None = None,
        heavy: bool = False,
        then: Callable[[Any], None] | None = None,
    ) -> None:
        self.operation = operation
        self.future = future
        self.heavy = heavy
        self.then = then
        self.value: Any = None
        self.error: Exception | None = None

    def run(self, connection: sqlite3.Connection) -> bool:
        """Do it. False: it failed after it had written something, which must be undone."""
        if self.future is not None and self.future.cancelled():
            return True
        before = connection.total_changes
        try:
            self.value, self.error = self.operation(connection), None
        except Exception as error:  # noqa: BLE001 - it belongs to the caller, who is told
            self.error = error
            return connection.in_transaction and connection.total_changes == before
        return True

    def tell(self, failure: Exception | None) -> None:
        """Give the caller what came of it."""
        future, error = self.future, failure or self.error
        if future is None:
            self._follow(error)
        elif future.done():
            return
        elif error is None:
            future.set_result(self.value)
        else:
            future.set_exception(error)

    def _follow(self, error: Exception | None) -> None:
        if error is not None:
            log.warning("What nobody waited for was not written: %s", error)
        elif self.then is not None:
            self.then(self.value)


class Writer(Protocol):
    """Runs operations, each wholly or not at all."""

    async def write(self, operation: Operation[T], *, heavy: bool = False) -> T:
        """What the operation gives, once it is durable."""

    def leave(self, operation: Operation[T], then: Callable[[T], None]) -> None:
        """Run the operation after those asked for before; ``then`` gets what it gives, once it is durable."""

    async def settled(self) -> None:
        """Wait until what was asked for before is done."""

    async def close(self) -> None:
        """Finish what was begun and let go."""


class InlineWriter:
    """One transaction an operation, in the caller's own thread: always the same order."""

    def __init__(self, connection: sqlite3.Connection, path: str, there: Callable[[], bool]) -> None:
        self._connection = connection
        self._path = path
        self._there = there

    async def write(self, operation: Operation[T], *, heavy: bool = False) -> T:  # noqa: ARG002
        if not self._there():
            raise gone(self._path)
        job = Job(operation)
        failure = transact(self._connection, self._path, [job])
        if error := failure or job.error:
            raise error
        value: T = job.value
        return value

    def leave(self, operation: Operation[T], then: Callable[[T], None]) -> None:
        job = Job(operation, then=then)
        there = self._there()
        job.tell(transact(self._connection, self._path, [job]) if there else gone(self._path))

    async def settled(self) -> None:
        """Nothing is ever left."""

    async def close(self) -> None:
        self._connection.close()


class GroupWriter:
    """Gathers what is asked for while a transaction is being committed into the next one."""

    def __init__(self, connection: sqlite3.Connection, path: str, there: Callable[[], bool]) -> None:
        self._connection = connection
        self._path = path
        self._there = there
        self._asked: list[Job] = []
        self._busy = False
        self._thread = _Thread()
        self._idle: asyncio.Future[None] | None = None

    async def write(self, operation: Operation[T], *, heavy: bool = False) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._ask(Job(operation, future, heavy), loop)
        return await future

    def leave(self, operation: Operation[T], then: Callable[[T], None]) -> None:
        self._ask(Job(operation, then=then), asyncio.get_running_loop())

    def _ask(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self._asked.append(job)
        if not self._busy:
            self._busy = True
            loop.call_soon(self._gather, loop, GATHERING)

    async def settled(self) -> None:
        if self._busy:
            await self.write(_nothing)

    async def close(self) -> None:
        if self._busy:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        self._thread.stop()
        self._connection.close()

    def _gather(self, loop: asyncio.AbstractEventLoop, turns: int) -> None:
        """Let those who have just been told go on, so that what they ask for next comes along."""
        if turns and len(self._asked) < TOGETHER:
            loop.call_soon(self._gather, loop, turns - 1)
        else:
            self._begin(loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs, self._asked = self._asked[:TOGETHER], self._asked[TOGETHER:]
        if not self._there():
            self._end(loop, jobs, gone(self._path))
            return
        if any(job.heavy for job in jobs) or not self._entered():
            self._thread.run(loop, lambda: transact(self._connection, self._path, jobs), self._end, jobs)
            return
        changes = self._connection.total_changes
        if not run_all(self._connection, self._path, jobs):
            self._thread.run(loop, lambda: one_by_one(self._connection, self._path, jobs), self._end, jobs)
        elif self._connection.total_changes == changes:
            self._end(loop, jobs, finish(self._connection, self._path))
        else:
            self._thread.run(loop, lambda: finish(self._connection, self._path), self._end, jobs)

    def _entered(self) -> bool:
        """Whether the write lock was free."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            return False
        return True

    def _end(self, loop: asyncio.AbstractEventLoop, jobs: list[Job], failure: Exception | None) -> None:
        for job in jobs:
            job.tell(failure)
        if self._asked:
            loop.call_soon(self._gather, loop, GATHERING)
            return
        self._busy = False
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)


def _nothing(_: sqlite3.Connection) -> None:
    """It is only waited for."""


class _Thread:
    """Runs one thing after another beside the event loop; begins with the first."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[], Exception | None],
        then: Callable[[asyncio.AbstractEventLoop, list[Job], Exception | None], None],
        jobs: list[Job],
    ) -> None:
        """Do ``work`` there and then ``then`` on the loop."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="torpor-writer", daemon=True)
            self._thread.start()
        self._tasks.put(lambda: _report(loop, then, jobs, _outcome(work)))

    def stop(self) -> None:
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


def _outcome(work: Callable[[], Exception | None]) -> Exception | None:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - callers wait; they are told
        return error


def _report(
    loop: asyncio.AbstractEventLoop,
    then: Callable[[asyncio.AbstractEventLoop, list[Job], Exception | None], None],
    jobs: list[Job],
    failure: Exception | None,
) -> None:
    try:
        loop.call_soon_threadsafe(then, loop, jobs, failure)
    except RuntimeError:  # the loop has ended; nobody waits any more
        return


def transact(connection: sqlite3.Connection, path: str, jobs: list[Job]) -> Exception | None:
    """A whole transaction. Gives what made all of it fail, if anything did."""
    try:
        enter(connection)
    except sqlite3.Error as error:
        return fault(error, path)
    if run_all(connection, path, jobs):
        return finish(connection, path)
    if len(jobs) > 1:
        one_by_one(connection, path, jobs)
    return None


def enter(connection: sqlite3.Connection) -> None:
    """Begin to write, waiting for other processes. Raises SQLite's own error when patience ends."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if not busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.0005, 0.005))  # noqa: S311 - spreads processes, guards nothing
        else:
            return


def run_all(connection: sqlite3.Connection, path: str, jobs: list[Job]) -> bool:
    """Run the operations inside the open transaction.

    Nearly all that fail do so before they write. False: one did not, and everything has been undone. That is
    cheaper than a savepoint for each, which would copy every page it touches.
    """
    for job in jobs:
        clean = job.run(connection)
        if isinstance(job.error, sqlite3.Error):
            job.error = fault(job.error, path)
        if not clean:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return False
    return True


def run_apart(connection: sqlite3.Connection, path: str, readings: list[Job]) -> None:
    """Run readings, of which each may fail for itself."""
    for job in readings:
        job.run(connection)
        if isinstance(job.error, sqlite3.Error):
            job.error = fault(job.error, path)


def one_by_one(connection: sqlite3.Connection, path: str, jobs: list[Job]) -> None:
    """Run the operations again, each in its own transaction, so that the one that fails fails alone."""
    for job in jobs:
        job.error = transact(connection, path, [job]) or job.error


def finish(connection: sqlite3.Connection, path: str) -> Exception | None:
    """Make the open transaction durable; a failure undoes all of it."""
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return fault(error, path)
    return None
