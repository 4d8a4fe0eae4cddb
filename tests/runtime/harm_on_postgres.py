"""Harm to what a test keeps, done to a PostgreSQL database in the place of memory or a file."""

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from tests.runtime.world import World
from torpor import Runtime
from torpor.core.codec import decode_effect, encode
from torpor.core.effects import Invoke
from torpor.stores.postgres import PostgresStore
from torpor.stores.postgres.texts import adapt

_REFUSE = """
CREATE FUNCTION torpor.refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = TG_ARGV[0], MESSAGE = TG_ARGV[1]; END $$
"""
_HARM = """
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON torpor.{}
EXECUTE FUNCTION torpor.refuse({}, {})
"""
_WRITTEN = ["messages", "outbox", "records", "rings", "signals", "threads"]
"""Tables that threads write as they run."""


def opened(store: object) -> psycopg.Connection[Any]:
    """A connection of its own to the store's database."""
    assert isinstance(store, PostgresStore)
    connection = psycopg.connect(store.database.place.conninfo, autocommit=True)
    adapt(connection.adapters)
    return connection


def alter(world: World, change: Callable[[Invoke], Invoke]) -> None:
    """Somebody writes into the store's outbox."""
    with opened(world.store) as connection:
        found = connection.cursor(binary=True).execute("SELECT number, body FROM torpor.outbox").fetchall()
        assert found
        for number, body in found:
            effect = decode_effect(body)
            assert isinstance(effect, Invoke)
            changed = (encode(change(effect)), number)
            connection.execute("UPDATE torpor.outbox SET body = %s WHERE number = %s", changed)


def spoil(world: World, thread: str) -> None:
    """A thread's row becomes one that cannot be read."""
    with opened(world.store) as connection:
        changed = connection.execute(
            "UPDATE torpor.threads SET head = %s WHERE thread = %s", (b"\xc1", thread)
        )
        assert changed.rowcount == 1


class Disk:
    """The server says what it says where its disk is full, or it is a replica, for a while."""

    def __init__(self, runtime: Runtime) -> None:
        self._store = runtime.parts.store

    def fill(self) -> None:
        self._harm("53100", "could not extend a file: the disk is full")

    def lock(self) -> None:
        self._harm("25006", "cannot execute this in a read-only transaction")

    def mend(self) -> None:
        with opened(self._store) as connection:
            connection.execute("DROP FUNCTION torpor.refuse() CASCADE")

    def _harm(self, code: str, words: str) -> None:
        with opened(self._store) as connection:
            connection.execute(_REFUSE)
            for table in _WRITTEN:
                connection.execute(sql.SQL(_HARM).format(sql.Identifier(table), code, words))
