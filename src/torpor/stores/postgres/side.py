"""Blobs and small values in the same database."""

from typing import Any

from torpor.stores.postgres.database import Database
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/side.sql")


class PostgresSide:
    """The ``Side`` port over a ``Database``, without ``forget`` and ``seen``. One round trip a verb."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def put_blob(self, thread: str, hash: str, body: bytes) -> None:
        await self._side("put_blob", thread=thread, hash=hash, body=body)

    async def get_blob(self, thread: str, hash: str, start: int = 0, size: int = -1) -> bytes | None:
        place = {"thread": thread, "hash": hash, "from": start + 1}
        found = await (
            self._side("blob", **place) if size < 0 else self._side("blob_part", size=size, **place)
        )
        return found[0][0] if found else None

    async def put(self, space: str, key: str, value: bytes) -> None:
        await self._side("put", space=space, key=key, value=value)

    async def put_new(self, space: str, key: str, value: bytes) -> bytes:
        found: list[tuple[Any, ...]] = []
        while not found:  # nothing is found while somebody else's value is new to this statement
            found = await self._side("put_new", space=space, key=key, value=value)
        kept: bytes = found[0][0]
        return kept

    async def get(self, space: str, key: str) -> bytes | None:
        found = await self._side("get", space=space, key=key)
        return found[0][0] if found else None

    async def entries(self, space: str) -> dict[str, bytes]:
        return dict(await self._side("entries", space=space))

    async def _side(self, statement: str, **given: Any) -> list[tuple[Any, ...]]:
        return await self.database.ask(_SQL[statement], {**given, "now": self.database.given_now})
