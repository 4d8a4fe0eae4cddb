"""Deletion and forgetting in a SQLite file, each step in a short transaction of its own."""

import json
import secrets
import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from torpor.core.codec import decode_record
from torpor.core.errors import Conflict, Refused
from torpor.ports import BY_THREAD, DELETED, NAMING, Version
from torpor.stores.sqlite import segments
from torpor.stores.sqlite.side import SqliteSide
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/retention.sql")

STEP = 500
"""Rows that one transaction forgets: a few milliseconds for those who wait to write."""
PACKED = 16
"""Threads that one transaction packs, or segments that it forgets records in."""
WALK = 5_000
"""Rows that one reading looks through for what is old."""

_OF_NUMBER = ("messages", "inbox", "absorbed", "outbox", "records", "segments")
_OF_ID = ("blobs", "small", "rings")


class SqliteRetention(SqliteSide):
    """The ``Retention`` port over a ``Database``."""

    async def closed(self, before: float, *, after: str = "", limit: int = 1000) -> list[str]:
        given = {"before": before, "after": after, "limit": limit}
        return await self.database.listing(lambda connection: _names(connection, "closed", given))

    async def heirs(self, threads: Sequence[str]) -> dict[str, str]:
        given = {"threads": json.dumps(list(threads))}
        return await self.database.listing(
            lambda connection: dict(connection.execute(_SQL["heirs"], given).fetchall())
        )

    async def delete(
        self,
        threads: Sequence[str],
        *,
        closed_before: float = 0.0,
        versions: Mapping[str, Version] | None = None,
    ) -> int:
        return await self.database.write(
            lambda connection: delete(connection, threads, closed_before, versions or {}), heavy=True
        )

    async def deleted(self, limit: int = 1000) -> list[str]:
        return await self.database.listing(lambda connection: _names(connection, "deleted", (limit,)))

    async def orphans(self, before: float, limit: int = 1000) -> list[str]:
        given = {"before": before, "spaces": json.dumps(BY_THREAD), "limit": limit}
        return await self.database.listing(lambda connection: _names(connection, "orphans", given))

    async def erase(self, thread: str, limit: int = 1000) -> dict[str, int]:
        return await self.database.write(lambda connection: erase(connection, thread, limit), heavy=True)

    async def footprint(self, thread: str) -> dict[str, int]:
        return await self.database.listing(lambda connection: footprint(connection, thread))

    async def prune(self, before: float) -> int:
        limit = await self.database.listing(lambda connection: _prunable(connection, before))
        forgotten, place = 0, (0, "")
        while True:
            old, last = await self._walked(limit, place)
            forgotten += await self._forget("forget_id", old)
            if last is None:
                return forgotten
            place = last

    async def _walked(
        self, before: float, place: tuple[int, str]
    ) -> "tuple[list[tuple[int, str]], tuple[int, str] | None]":
        """Old ids behind a place, and the place up to where there are none; None: to the end."""
        given = {"before": before, "thread": place[0], "id": place[1], "limit": WALK}
        found = await self.database.listing(
            lambda connection: connection.execute(_SQL["old_ids"], given).fetchall()
        )
        old = [(thread, id) for thread, id, is_old in found if is_old]
        return old, found[-1][:2] if len(found) == WALK else None

    async def pack(self, before: float, limit: int = 1000) -> int:
        found = await self.database.listing(lambda connection: segments.resting(connection, before, limit))
        for some in segments.in_parts(found, PACKED):
            await self._pack(some)
        return len(found)

    async def _pack(self, threads: Sequence[tuple[int, int]]) -> int:
        """Pack threads beside the event loop, then write them; what has changed meanwhile is left."""
        packed = await self.database.listing(
            lambda connection: [segments.packed(connection, thread) for thread in threads]
        )
        return await self.database.write(lambda connection: segments.keep(connection, packed), heavy=True)

    async def forget_records(self, before: float) -> int:
        forgotten, after = await self._forget_packed(before), 0
        while True:
            old, last = await self._ended(before, after)
            forgotten += await self._forget("forget_record", old)
            if last is None:
                return forgotten
            after = last

    async def _forget_packed(self, before: float) -> int:
        forgotten, more = 0, True
        while more:
            some, more = await self.database.write(
                lambda connection: segments.forget_records(connection, before, PACKED), heavy=True
            )
            forgotten += some
        return forgotten

    async def _ended(self, before: float, after: int) -> "tuple[list[tuple[int]], int | None]":
        """Old records behind a number, and how far they were looked for; None: there are no more.

        They stand in the order in which they were written.
        """
        found = await self.database.listing(lambda connection: _records(connection, after))
        old = [(number,) for number, ended in found if ended < before]
        return old, found[-1][0] if old and len(found) == WALK else None

    async def forget(self, space: str, before: float) -> int:
        forgotten = 0
        while True:
            gone = await self._forget("forget_small", [(space, before, STEP)])
            forgotten += gone
            if gone < STEP:
                return forgotten

    async def _forget(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        """Run a statement for each row, some at a time, and say how much it took away."""
        gone = 0
        for first in range(0, len(rows), STEP):
            gone += await self._forget_some(statement, rows[first : first + STEP])
        return gone

    async def _forget_some(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        def write(connection: sqlite3.Connection) -> int:
            return connection.executemany(_SQL[statement], rows).rowcount

        return await self.database.write(write, heavy=True)

    async def scrub(self) -> None:
        await self.database.apart(_scrub)


def _names(
    connection: sqlite3.Connection, statement: str, given: "dict[str, object] | tuple[object, ...]"
) -> list[str]:
    return [name for (name,) in connection.execute(_SQL[statement], given)]


def delete(
    connection: sqlite3.Connection,
    threads: Sequence[str],
    closed_before: float,
    versions: Mapping[str, Version],
) -> int:
    """Take threads away, all or none."""
    given: dict[str, object] = {
        "threads": json.dumps(list(threads)),
        "before": closed_before,
        "commit_id": secrets.token_hex(8),
    }
    staying = connection.execute(_SQL["staying"], given).fetchone()
    if staying is not None:
        raise Conflict("The thread {} comes of {} and stays.".format(*staying))
    moved_on = connection.execute(_SQL["not_over"], given).fetchone() if closed_before else None
    if moved_on is not None:
        raise Conflict(f"The thread {moved_on[0]} has moved on, or still has something to tell.")
    given["versions"] = json.dumps([(id, one.counter, one.commit_id) for id, one in versions.items()])
    elsewhere = connection.execute(_SQL["elsewhere"], given).fetchone()
    if elsewhere is not None:
        raise Conflict(f"The thread {elsewhere[0]} has moved on.")
    return connection.execute(_SQL["delete"], given).rowcount


def erase(connection: sqlite3.Connection, thread: str, limit: int) -> dict[str, int]:
    """Erase some of what is left of a thread, its row last; what is taken out is overwritten."""
    number, state, parent = connection.execute(_SQL["place"], (thread,)).fetchone() or (None, DELETED, "-")
    if state != DELETED:
        raise Refused(f"The thread {thread!r} is there. Delete it first.")
    connection.execute("PRAGMA secure_delete = ON")
    try:
        erased = _erased(connection, {**_given(thread), "number": number}, limit)
        if sum(erased.values()) < limit and number is not None:
            if not parent:
                named = connection.execute(_SQL["naming"], _given(thread)).rowcount
                erased["small"] = erased.get("small", 0) + named
            erased["threads"] = connection.execute(_SQL["threads"], {"number": number}).rowcount
    finally:
        connection.execute("PRAGMA secure_delete = OFF")
    return {kind: count for kind, count in erased.items() if count}


def _erased(connection: sqlite3.Connection, given: dict[str, object], limit: int) -> dict[str, int]:
    erased: dict[str, int] = {}
    kinds = _OF_ID if given["number"] is None else (*_OF_NUMBER, *_OF_ID)
    for kind in kinds:
        left = limit - sum(erased.values())
        erased[kind] = connection.execute(_SQL[kind], {**given, "limit": left}).rowcount if left else 0
    return erased


def footprint(connection: sqlite3.Connection, thread: str) -> dict[str, int]:
    """How much is kept under an id, by kind."""
    number, *_ = connection.execute(_SQL["place"], (thread,)).fetchone() or (None,)
    found: dict[str, int] = {}
    for kind, count in connection.execute(_SQL["footprint"], {**_given(thread), "number": number}):
        if count:
            found[kind] = found.get(kind, 0) + count
    return found


def _given(thread: str) -> dict[str, object]:
    """What statements take to find the small values of a thread."""
    named = msgspec.msgpack.encode(thread)
    spaces, naming = json.dumps(BY_THREAD), json.dumps(NAMING)
    return {"thread": thread, "spaces": spaces, "naming": naming, "named": named}


def _prunable(connection: sqlite3.Connection, before: float) -> float:
    """Up to when ids may be forgotten: what is in an outbox may still be performed again."""
    oldest: float | None = connection.execute(_SQL["oldest_effect"]).fetchone()[0]
    return before if oldest is None else min(before, oldest)


def _records(connection: sqlite3.Connection, after: int) -> list[tuple[int, float]]:
    """When slices ended, by the number of their record."""
    found = connection.execute(_SQL["some_records"], (after, WALK))
    return [(number, decode_record(body).committed_at) for number, body in found]


def _scrub(connection: sqlite3.Connection) -> None:
    """Write the file anew, without its free pages, and empty the write-ahead log."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
