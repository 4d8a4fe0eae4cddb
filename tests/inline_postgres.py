"""A PostgreSQL store whose statements run at once, in the caller's turn of the event loop."""

import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from tests.postgres import Cluster, wiping
from torpor.ports import Clock
from torpor.stores.postgres import Database
from torpor.stores.postgres.place import Place
from torpor.stores.postgres.server_time import ServerTime
from torpor.stores.postgres.texts import adapt


class Bench:
    """A database and a connection to it, for one store after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.url = cluster.url(cluster.create())
        Database.open(self.url)
        self._connection = psycopg.connect(self.url, autocommit=True, prepare_threshold=1)
        self._connection.execute("SET synchronous_commit = off")
        adapt(self._connection.adapters)
        self._user: weakref.ref[object] | None = None

    @property
    def is_free(self) -> bool:
        return self._user is None or self._user() is None

    def lend(self, clock: Clock | None) -> "InlineDatabase":
        self._connection.execute(wiping(self._connection))
        database = InlineDatabase(Place(self.url), clock, self._connection)
        self._user = weakref.ref(database)
        return database

    def take_back(self) -> None:
        self._user = None

    def close(self) -> None:
        self._connection.close()


class InlineDatabase(Database):
    """Each statement at once, in the caller's turn of the event loop: for tests that decide on every turn."""

    def __init__(
        self, place: Place, clock: Clock | None, connection: psycopg.Connection[tuple[Any, ...]]
    ) -> None:
        now = time.monotonic()
        super().__init__(place, clock, ServerTime(time.time(), now, now), prepares=True)
        self._connection = connection

    async def _ask(self, statement: str, given: Mapping[str, Any] | None) -> list[tuple[Any, ...]]:
        return self._run(statement, given)

    async def _ask_together(
        self, asked: Sequence[tuple[str, Mapping[str, Any]]], isolation: str
    ) -> list[list[tuple[Any, ...]]]:
        self._run(f"BEGIN ISOLATION LEVEL {isolation}", None)
        try:
            found = [self._run(statement, given) for statement, given in asked]
        except psycopg.Error:
            self._run("ROLLBACK", None)
            raise
        self._run("COMMIT", None)
        return found

    def _run(self, statement: str, given: Mapping[str, Any] | None) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor(binary=True)
        cursor.execute(statement.encode(), given)
        return cursor.fetchall() if cursor.description else []
