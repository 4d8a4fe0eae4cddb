"""The PostgreSQL database that a store and a queue of one process share."""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Self, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from torpor.core.errors import Refused
from torpor.ports import Clock
from torpor.stores.postgres.faults import fault, lost, raced, turned_away, unprepared
from torpor.stores.postgres.place import STATEMENT_SECONDS, Place
from torpor.stores.postgres.schema import migrate
from torpor.stores.postgres.server_time import ServerTime
from torpor.stores.postgres.texts import adapt
from torpor.stores.statements import statements

log = logging.getLogger("torpor.postgres")
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # what it warns of, callers are told

OLDEST = 130_000
"""The first PostgreSQL that this is written for, as ``server_version_num`` says it."""

ENCODINGS = ("UTF8", "SQL_ASCII")
"""Of databases that hold any text as it is."""

PATIENCE = 10.0
"""Seconds for which a verb waits for a connection."""
SILENCE = STATEMENT_SECONDS + 5.0
"""Seconds after which nobody answers any more: a server ends what takes longer, and would have said so."""
STALE = 30.0
"""Seconds after which a connection that nobody used may have been dropped by something on the way."""
LIFE = 3_600.0
"""Seconds after which a connection is replaced: what it has gathered at the server goes with it."""
TRIES = 5
PAUSE = 0.01
"""Seconds before the second try of a statement that lost a race; doubled with each."""

T = TypeVar("T")
Row = tuple[Any, ...]


class Connection(psycopg.AsyncConnection[Row]):
    """A session with the server, when it began, and when it last answered."""

    born = 0.0
    used = 0.0


class Database:
    """A database and some connections to it, for the event loop that uses it first. Make it with ``open``."""

    def __init__(self, place: Place, clock: Clock | None, server_time: ServerTime, *, prepares: bool):
        self.place = place
        self.clock = clock
        self.server_time = server_time
        self._prepare = 1 if prepares else None
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._suspect = 0.0
        """Connections that were used before this instant may be dead."""
        self._closed = False
        self._places = asyncio.Semaphore(place.pool)
        self._spare: list[Connection] = []
        """Connections at rest, the one that was used last at the end.

        Most statements take one from here and not from the pool, whose locks and queue cost more: a worker
        with more slots than connections spends a fifth less CPU on a statement, 7 % less on all of a
        slice; with fewer, 4 to 10 % of a statement. The pool makes, replaces and ends them.
        """

    @classmethod
    def open(cls, url: str, *, clock: Clock | None = None) -> Self:
        """Look whether the database is there, and bring its tables up to date.

        ``url``: ``postgresql://user:password@host:port/database``, with libpq's parameters and ``pool``, the
        largest number of connections. ``clock`` stands in for the server's. ``Refused`` says what is wrong
        with the URL or the database, ``Unavailable`` that it may pass.
        """
        place = Place(url)
        with connected(place) as connection:
            try:
                _check_age(connection, place)
                migrate(connection, place)
                prepares = _is_direct(connection)
                server_time = _server_time(connection)
            except psycopg.Error as error:
                raise fault(error, place) from error
        return cls(place, clock, server_time, prepares=prepares)

    @property
    def time(self) -> Clock:
        """The clock of all who use this database."""
        return self.clock or self.server_time

    @property
    def given_now(self) -> float | None:
        """The time, where it is not the server's."""
        return self.clock.now() if self.clock else None

    def statements(self, package: str, path: str) -> dict[str, str]:
        """The named statements of a package's .sql file."""
        return statements(package, path)

    async def ask(
        self, statement: str, given: Mapping[str, Any] | None = None, *, once: bool = False
    ) -> list[Row]:
        """Run one statement, as a transaction of its own and in one round trip, and give its rows.

        One that lost a race is run again, and so is one whose connection was lost: unless ``once``, it must
        not matter that it may have been run before. ``Unavailable`` if that does not help.
        """
        return await self._persist(lambda: self._ask(statement, given), once=once)

    async def together(
        self, asked: Sequence[tuple[str, Mapping[str, Any]]], *, isolation: str = "REPEATABLE READ"
    ) -> list[list[Row]]:
        """Run statements in one transaction, by default all as of one instant, and give the rows of each.

        Sent one after the other without waiting. Repeated as by ``ask``, each time from the beginning.
        """
        return await self._persist(lambda: self._ask_together(asked, isolation), once=False)

    async def apart(self, statement: str) -> None:
        """Run one statement on a connection of its own, however long it takes, outside any transaction."""
        try:
            connection = await Connection.connect(self.place.conninfo, autocommit=True)
            async with connection:
                await connection.execute("SET statement_timeout = 0")
                await connection.execute(statement.encode())
        except psycopg.Error as error:
            raise fault(error, self.place) from error

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection that commits each statement by itself, or what is done in its ``transaction()``.

        What PostgreSQL raises inside comes out as one of our errors.
        """
        try:
            async with self._lent() as connection:
                yield connection
        except psycopg.Error as error:
            raise fault(error, self.place) from error

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            while self._spare:
                await pool.putconn(self._spare.pop())
            await pool.close()

    async def _persist(self, asking: Callable[[], Awaitable[T]], *, once: bool) -> T:
        for tried in count(1):
            try:
                return await asking()
            except psycopg.Error as error:
                if tried == TRIES or not self._is_worth_another(error, once):
                    raise fault(error, self.place) from error
            await asyncio.sleep(PAUSE * 2 ** (tried - 1) * (1 + secrets.randbelow(100) / 100))
        raise AssertionError("count ends")

    async def _ask(self, statement: str, given: Mapping[str, Any] | None) -> list[Row]:
        async with self._lent() as connection:
            cursor = connection.cursor(binary=True)
            await cursor.execute(statement.encode(), given)
            return await _rows(cursor)

    async def _ask_together(
        self, asked: Sequence[tuple[str, Mapping[str, Any]]], isolation: str
    ) -> list[list[Row]]:
        async with self._lent() as connection:
            async with connection.pipeline():
                await connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
                cursors = [connection.cursor(binary=True) for _ in asked]
                for cursor, (statement, given) in zip(cursors, asked, strict=True):
                    await cursor.execute(statement.encode(), given)
                await connection.execute("COMMIT")
            return [await _rows(cursor) for cursor in cursors]

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
        pool, until = await self._opened(), time.monotonic() + PATIENCE
        await self._place()
        try:
            connection = await self._fresh(pool, until)
            watch = asyncio.get_running_loop().call_later(SILENCE, _hang_up, connection)
            try:
                yield connection
                connection.used = time.monotonic()
            except psycopg.Error as error:
                if lost(error):
                    self._suspect = time.monotonic()
                    await connection.close()
                raise
            finally:
                watch.cancel()
                await self._keep(pool, connection)
        finally:
            self._places.release()

    async def _place(self) -> None:
        """Wait until fewer statements are under way than there may be connections."""
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._places.acquire()
        except TimeoutError:
            raise PoolTimeout from None

    async def _fresh(self, pool: AsyncConnectionPool[Connection], until: float) -> Connection:
        """A connection that can be trusted to be one still: asking would cost as much as a statement."""
        while True:
            if self._spare:
                connection = self._spare.pop()
            else:
                connection = await pool.getconn(max(0.0, until - time.monotonic()))
            if connection.used > max(self._suspect, time.monotonic() - STALE):
                connection.prepare_threshold = self._prepare
                return connection
            await connection.close()
            await pool.putconn(connection)

    async def _keep(self, pool: AsyncConnectionPool[Connection], connection: Connection) -> None:
        """Have it at hand for the next statement; the pool takes what is of no use, too old or too many."""
        now = time.monotonic()
        if self._pool is pool and connection.born > now - LIFE and _is_at_rest(connection):
            self._spare.append(connection)
            if self._spare[0].used > now - STALE:
                return
            connection = self._spare.pop(0)
        await pool.putconn(connection)

    async def _opened(self) -> AsyncConnectionPool[Connection]:
        if self._closed:
            raise Refused(f"The store {self.place} was closed. Open it again to go on.")
        if self._pool is None:
            self._pool = AsyncConnectionPool(
                self.place.conninfo,
                connection_class=Connection,
                kwargs={"autocommit": True, "prepare_threshold": self._prepare},
                configure=_configured,
                min_size=1,
                max_size=self.place.pool,
                max_lifetime=LIFE,
                max_idle=STALE,
                open=False,
                name="torpor",
                timeout=PATIENCE,
                reconnect_timeout=60.0,
            )
            await self._pool.open()
        return self._pool

    def _is_worth_another(self, error: psycopg.Error, once: bool) -> bool:
        if unprepared(error) and self._prepare is not None:
            self._prepare = None
            log.warning("Statements are no longer prepared at %s: sessions change in between", self.place)
            return True
        return raced(error) or (lost(error) and not once)


async def _rows(cursor: psycopg.AsyncCursor[Row]) -> list[Row]:
    """What a statement gave, if it gives rows; ``description`` says so too, and costs more than the rows."""
    result = cursor.pgresult
    return await cursor.fetchall() if result is not None and result.nfields else []


async def _configured(connection: Connection) -> None:
    adapt(connection.adapters)
    connection.born = connection.used = time.monotonic()


def _hang_up(connection: Connection) -> None:
    """Have whoever waits for an answer find the connection lost, whatever is on the way to the server."""
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as other, suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


def _is_at_rest(connection: Connection) -> bool:
    """It lives, nothing is under way on it, and no transaction was left open."""
    return not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE


def connected(place: Place) -> psycopg.Connection[Row]:
    """A connection of its own, whatever is on the way, to a database that can hold any text."""
    try:
        connection = psycopg.connect(place.conninfo, autocommit=True, prepare_threshold=None)
        return _of_any_text(connection, place)
    except psycopg.Error as error:
        if place.plain or "startup parameter" not in str(error):
            raise turned_away(error, place) from error
    place.plain = True
    log.warning(
        "What is in front of %s takes no options: set statement_timeout, lock_timeout and "
        "idle_in_transaction_session_timeout for the database user instead (ALTER ROLE ... SET)",
        place,
    )
    return connected(place)


def _check_age(connection: psycopg.Connection[Row], place: Place) -> None:
    if connection.info.server_version < OLDEST:
        raise Refused(
            f"The PostgreSQL server of {place} is too old: version {OLDEST // 10_000} or later is needed."
        )


def _of_any_text(connection: psycopg.Connection[Row], place: Place) -> psycopg.Connection[Row]:
    found = connection.info.parameter_status("server_encoding")
    if found is not None and found not in ENCODINGS:
        connection.close()
        raise Refused(
            f"The database {place} is in {found}, which does not hold every text: "
            "create one in UTF8 (`createdb --encoding=UTF8 --template=template0`)."
        )
    return connection


def _is_direct(connection: psycopg.Connection[Row]) -> bool:
    """Whether this is one session of the server: a proxy makes up the number that it greets with.

    Behind one, a statement that was prepared may be another session's, or of another text.
    """
    found: Sequence[Any] | None = connection.execute("SELECT pg_backend_pid()").fetchone()
    return found is not None and found[0] == connection.info.backend_pid


def _server_time(connection: psycopg.Connection[Row]) -> ServerTime:
    asked_at = time.monotonic()
    found = connection.execute("SELECT extract(epoch FROM statement_timestamp())::float8").fetchone()
    assert found is not None
    return ServerTime(found[0], asked_at, time.monotonic())
