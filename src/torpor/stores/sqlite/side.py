"""Blobs and small values in the same file."""

import sqlite3

from torpor.stores.sqlite import reads
from torpor.stores.sqlite.database import Database
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/side.sql")

HEAVY = 128 * 1024
"""Bytes from which on a write leaves the event loop."""


class SqliteSide:
    """The ``Side`` port over a ``Database``."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def put_blob(self, thread: str, hash: str, body: bytes) -> None:
        now = self.database.now()

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_SQL["add_blob"], (thread, hash, body, now))

        await self.database.write(write, heavy=len(body) >= HEAVY)

    async def get_blob(self, thread: str, hash: str, start: int = 0, size: int = -1) -> bytes | None:
        return await self.database.listing(lambda connection: _blob(connection, thread, hash, start, size))

    async def put(self, space: str, key: str, value: bytes) -> None:
        now = self.database.now()

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_SQL["put"], (space, key, value, now))

        await self.database.write(write, heavy=len(value) >= HEAVY)

    async def put_new(self, space: str, key: str, value: bytes) -> bytes:
        now = self.database.now()

        def write(connection: sqlite3.Connection) -> bytes:
            connection.execute(_SQL["put_new"], (space, key, value, now))
            kept: bytes = connection.execute(_SQL["get"], (space, key)).fetchone()[0]
            return kept

        return await self.database.write(write, heavy=len(value) >= HEAVY)

    async def get(self, space: str, key: str) -> bytes | None:
        found = self.database.read(
            lambda connection: connection.execute(_SQL["get"], (space, key)).fetchone()
        )
        return None if found is None else found[0]

    async def entries(self, space: str) -> dict[str, bytes]:
        return await self.database.listing(
            lambda connection: dict(connection.execute(_SQL["entries"], (space,)).fetchall())
        )

    async def seen(self, thread: str, signal: str) -> bool:
        return self.database.read(lambda connection: reads.outcome(connection, thread, signal)) is not None


def _blob(connection: sqlite3.Connection, thread: str, hash: str, start: int, size: int) -> bytes | None:
    found = connection.execute(_SQL["blob"], (thread, hash)).fetchone()
    if found is None:
        return None
    with connection.blobopen("blobs", "body", found[0], readonly=True) as blob:
        blob.seek(min(start, len(blob)))
        return blob.read(size)
