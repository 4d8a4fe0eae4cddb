"""A look at a database without changing anything: what is wrong with it, in words for people."""

import time
from collections.abc import Iterator
from typing import Any

import psycopg

from torpor.core.errors import TorporError
from torpor.stores.postgres.database import OLDEST, connected
from torpor.stores.postgres.faults import fault
from torpor.stores.postgres.place import LOCK_SECONDS, STATEMENT_SECONDS, Place
from torpor.stores.postgres.schema import applied, migrations
from torpor.stores.statements import statements

Finding = tuple[bool, str]

_SQL = statements(__package__, "sql/checkup.sql")

SKEW = 2.0
"""Seconds by which this machine's clock may differ from the server's before that is worth a word."""
ALMOST = 0.8
"""Share of the server's connections in use above which there are few left."""


def checkup(url: str) -> list[Finding]:
    """What there is to say, each with whether it is fine."""
    try:
        place = Place(url)
        with connected(place) as connection:
            try:
                return list(_findings(connection, place))
            except psycopg.Error as error:
                raise fault(error, place) from error
    except TorporError as error:
        return [(False, str(error))]


def _findings(connection: psycopg.Connection[Any], place: Place) -> Iterator[Finding]:
    asked_at = time.time()
    found = connection.execute(_SQL["server"].encode()).fetchall()
    ((version, now, fsync, durable, statement, lock, used, most, vacuum, size),) = found
    yield connection.info.server_version >= OLDEST, f"{place}: PostgreSQL {version}, {size:,} bytes"
    yield _schema(connection)
    if fsync != "on" or durable == "off":
        yield False, "a crash of the server may lose what was written: turn fsync and synchronous_commit on"
    if statement == "0" or lock == "0":
        yield False, _TIMEOUTS
    if used > most * ALMOST:
        yield False, f"{used} of {most} connections are in use: raise max_connections, or lower ?pool="
    if vacuum != "on":
        yield False, "autovacuum is off: tables that are written all the time will only grow"
    if abs(now - asked_at) > SKEW:
        yield True, f"the server's clock is {now - asked_at:+.1f} s from this machine's; the server's counts"


_TIMEOUTS = (
    "statements may wait without end, as what is in front of the server takes no options: ALTER ROLE ... SET "
    f"statement_timeout = '{STATEMENT_SECONDS}s', and lock_timeout = '{LOCK_SECONDS}s'"
)


def _schema(connection: psycopg.Connection[Any]) -> Finding:
    version, serves = applied(connection)
    known = migrations()[-1].number
    if serves > known:
        return False, f"schema {version} needs a newer release than this one (it knows {known}): upgrade"
    if not version:
        return False, "there are no tables yet; `torpor new` or `torpor serve` makes them"
    if version < known:
        return True, f"schema {version}, and {known} once this release is started on it"
    return True, f"schema {version}"
