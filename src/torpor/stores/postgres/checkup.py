"""A look at a database without changing anything: what is wrong with it, in words for people."""

import time
from collections.abc import Iterator
from typing import Any

import psycopg

from torpor.core.errors import TorporError
from torpor.ports.checkup import Checkup, Due, Finding, Level, Survey
from torpor.stores.postgres.database import OLDEST, STALE, connected
from torpor.stores.postgres.faults import fault
from torpor.stores.postgres.place import LOCK_SECONDS, STATEMENT_SECONDS, Place
from torpor.stores.postgres.schema import applied, migrations
from torpor.stores.postgres.texts import adapt
from torpor.stores.statements import statements

Connection = psycopg.Connection[Any]

_SQL = statements(__package__, "sql/checkup.sql")

LISTENING = 2
"""Connections of a process beside its pool: it listens for rings, and for live events."""
ALMOST = 0.8
"""Share of the server's connections in use above which there are few left."""
FEW = 3
"""Connections below which hardly anybody else comes in."""
LONG = 600.0
"""Seconds after which an open transaction keeps the server from cleaning up."""

_TIMEOUTS = (
    "statements may wait without end, as what is in front of the server takes no options: ALTER ROLE ... SET "
    f"statement_timeout = '{STATEMENT_SECONDS}s', and lock_timeout = '{LOCK_SECONDS}s'"
)
_BETWEEN = (
    "a proxy hands each transaction to another session: nothing is heard from other processes, so that their "
    "news is found by looking, within 2.5 s, and live events stay in the process that makes them. Name the "
    "server itself, or a pool in session mode, if that is too slow"
)
_LOSES = "a crash of the server may lose what was written: turn {} on, for all or for this user and database"


class Server:
    """What the server says of itself."""

    def __init__(self, connection: Connection) -> None:
        asked_at = time.time()
        (found,) = connection.execute(_SQL["server"].encode()).fetchall()
        self.version, self.now, self.size, self.used, self.most, self.session, self.longest = found
        self.ahead = self.now - (asked_at + time.time()) / 2
        self.is_direct = self.session == connection.info.backend_pid
        self.settings = dict(connection.execute(_SQL["settings"].encode()).fetchall())

    def is_off(self, name: str) -> bool:
        return self.settings.get(name) == "off"

    def is_endless(self, name: str) -> bool:
        return self.settings.get(name) == "0"


def checkup(url: str) -> Checkup:
    """What there is to say of the database, and how much waits in it."""
    try:
        place = Place(url)
        with connected(place) as connection:
            try:
                return _checkup(connection, place)
            except psycopg.Error as error:
                raise fault(error, place) from error
    except TorporError as error:
        return Checkup((Finding("wrong", "store", str(error)),))


def is_there(url: str) -> bool:
    """Whether a database has our tables."""
    place = Place(url)
    with connected(place) as connection:
        try:
            return applied(connection)[0] > 0
        except psycopg.Error as error:
            raise fault(error, place) from error


def _checkup(connection: Connection, place: Place) -> Checkup:
    server = Server(connection)
    age: Level = "fine" if connection.info.server_version >= OLDEST else "wrong"
    first = Finding(age, "store", f"{place}: PostgreSQL {server.version}, {server.size:,} bytes")
    findings = [first, _schema(connection), *_server(server)]
    if age != "fine" or not _is_known(connection):
        return Checkup(tuple(findings))
    adapt(connection.adapters)
    return Checkup(tuple(findings), _survey(connection, place, server))


def _is_known(connection: Connection) -> bool:
    version, serves = applied(connection)
    return version >= migrations()[-1].number >= serves


def _server(server: Server) -> Iterator[Finding]:
    lossy = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if server.is_off(name)]
    if lossy:
        yield Finding("wrong", "postgres", _LOSES.format(" and ".join(lossy)))
    if server.is_off("autovacuum"):
        yield Finding(
            "wrong", "postgres", "autovacuum is off: tables that are written all the time only grow"
        )
    if server.is_endless("statement_timeout") or server.is_endless("lock_timeout"):
        yield Finding("note", "postgres", _TIMEOUTS)
    if not server.is_direct:
        yield Finding("note", "postgres", _BETWEEN)
    idle = float(server.settings.get("idle_session_timeout", 0)) / 1_000
    if 0 < idle < STALE:
        told = f"idle_session_timeout is {idle:g} s: who listens is cut off all the time. Make it 0 or longer"
        yield Finding("note", "postgres", told)
    if server.longest > LONG:
        told = (
            f"a transaction has been open for {server.longest / 60:.0f} min: nothing is cleaned up meanwhile"
        )
        yield Finding("note", "postgres", f"{told}. Find it in pg_stat_activity")
    yield from _connections(server)


def _connections(server: Server) -> Iterator[Finding]:
    left = server.most - server.used
    told = f"{server.used} of {server.most} connections are in use: raise max_connections, or lower ?pool="
    if left < FEW:
        yield Finding("wrong", "postgres", told)
    elif server.used > server.most * ALMOST:
        yield Finding("note", "postgres", told)


def _schema(connection: Connection) -> Finding:
    version, serves = applied(connection)
    known = migrations()[-1].number
    if serves > known:
        told = f"schema {version} needs a newer release than this one (it knows {known}): upgrade"
        return Finding("wrong", "store", told)
    if not version:
        return Finding("wrong", "store", "there are no tables yet; `torpor new` or `torpor serve` makes them")
    if version < known:
        told = f"schema {version}, and {known} once this release is started on it; it was not looked into"
        return Finding("note", "store", told)
    newer = ", made by a newer release that still works with this one" if version > known else ""
    return Finding("note" if newer else "fine", "store", f"schema {version}{newer}")


def _survey(connection: Connection, place: Place, server: Server) -> Survey:
    given = {"now": server.now}

    def ask(name: str) -> list[Any]:
        return connection.execute(_SQL[name].encode(), given).fetchall()

    ((newest, parked, agents),) = ask("threads")
    ((leased, ready, ready_since),) = ask("rings")
    ((effects, left, left_since),) = ask("effects")
    return Survey(
        now=server.now, ahead=server.ahead, newest=newest, parked=parked, agents=tuple(agents),
        due=tuple(Due(*row) for row in ask("due")), leased=leased, ready=ready, ready_since=ready_since,
        effects=effects, left=left, left_since=left_since,
        per_process=place.pool + LISTENING, connections=server.most,
    )  # fmt: skip
