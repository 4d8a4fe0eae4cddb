"""Deletion and forgetting in PostgreSQL, each step in a short transaction of its own."""

import secrets
from collections.abc import Mapping, Sequence

import msgspec

from torpor.core.errors import Conflict, Refused
from torpor.ports import BY_THREAD, DELETED, NAMING, Version
from torpor.stores.postgres.rows import Given
from torpor.stores.postgres.side import PostgresSide
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/retention.sql")

STEP = 5_000
"""Rows that one transaction forgets."""

_OF_NUMBER = ("messages", "inbox", "absorbed", "outbox", "records")
_OF_ID = ("blobs", "small", "rings")


class PostgresRetention(PostgresSide):
    """The ``Retention`` port over a ``Database``, and ``forget`` of ``Side``."""

    async def closed(self, before: float, *, after: str = "", limit: int = 1000) -> list[str]:
        return await self._names("closed", {"before": float(before), "after": after, "limit": limit})

    async def heirs(self, threads: Sequence[str]) -> dict[str, str]:
        return dict(await self.database.ask(_SQL["heirs"], {"threads": list(threads)}))

    async def delete(
        self,
        threads: Sequence[str],
        *,
        closed_before: float = 0.0,
        versions: Mapping[str, Version] | None = None,
    ) -> int:
        if not threads:
            return 0
        at = versions or {}
        given = {
            "threads": list(threads),
            "before": float(closed_before),
            "commit_id": secrets.token_hex(8),
            "known": list(at),
            "counters": [one.counter for one in at.values()],
            "commit_ids": [one.commit_id for one in at.values()],
        }
        steps = [(_SQL[name], given) for name in ("lock", "staying", "not_over", "elsewhere", "delete")]
        _, staying, not_over, elsewhere, gone = await self.database.together(
            steps, isolation="READ COMMITTED"
        )
        if staying:
            raise Conflict("The thread {} comes of {} and stays.".format(*staying[0]))
        if not_over:
            raise Conflict(f"The thread {not_over[0][0]} has moved on, or still has something to tell.")
        if elsewhere:
            raise Conflict(f"The thread {elsewhere[0][0]} has moved on.")
        return int(gone[0][0])

    async def deleted(self, limit: int = 1000) -> list[str]:
        return await self._names("deleted", {"limit": limit})

    async def orphans(self, before: float, limit: int = 1000) -> list[str]:
        given = {"before": float(before), "spaces": list(BY_THREAD), "limit": limit}
        return await self._names("orphans", given)

    async def erase(self, thread: str, limit: int = 1000) -> dict[str, int]:
        given = _given(thread)
        found = await self.database.ask(_SQL["place"], given)
        number, state, parent = found[0] if found else (None, DELETED, "-")
        if state != DELETED:
            raise Refused(f"The thread {thread!r} is there. Delete it first.")
        given["number"] = number
        erased = await self._erase_some(given, limit)
        if sum(erased.values()) < limit and number is not None:
            if not parent:
                erased["small"] = erased.get("small", 0) + await self._count("naming", given)
            erased["threads"] = await self._count("threads", given)
        return {kind: count for kind, count in erased.items() if count}

    async def _erase_some(self, given: Given, limit: int) -> dict[str, int]:
        erased: dict[str, int] = {}
        kinds = _OF_ID if given["number"] is None else (*_OF_NUMBER, *_OF_ID)
        for kind in kinds:
            left = limit - sum(erased.values())
            erased[kind] = await self._count(kind, {**given, "limit": left}) if left else 0
        return erased

    async def footprint(self, thread: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for kind, count in await self.database.ask(_SQL["footprint"], _given(thread)):
            if count:
                found[kind] = found.get(kind, 0) + count
        return found

    async def prune(self, before: float) -> int:
        ((oldest,),) = await self.database.ask(_SQL["oldest_effect"])
        return await self._drop("prune", {"before": min(float(before), oldest)})

    async def forget_records(self, before: float) -> int:
        return await self._drop("forget_records", {"before": float(before)})

    async def forget(self, space: str, before: float) -> int:
        return await self._drop("forget", {"space": space, "before": float(before)})

    async def pack(self, before: float, limit: int = 1000) -> int:  # noqa: ARG002
        return 0  # PostgreSQL compresses long values itself

    async def scrub(self) -> None:
        await self.database.apart(_SQL["scrub"])

    async def _drop(self, statement: str, given: Given) -> int:
        """Run a statement until it finds less than it may take away, and say how much that was in all."""
        dropped = 0
        while True:
            gone = await self._count(statement, {**given, "limit": STEP})
            dropped += gone
            if gone < STEP:
                return dropped

    async def _count(self, statement: str, given: Given) -> int:
        ((count,),) = await self.database.ask(_SQL[statement], given)
        return int(count)

    async def _names(self, statement: str, given: Given) -> list[str]:
        return [name for (name,) in await self.database.ask(_SQL[statement], given)]


def _given(thread: str) -> Given:
    """What statements take to find what is kept of a thread."""
    named = msgspec.msgpack.encode(thread)
    return {"thread": thread, "spaces": list(BY_THREAD), "naming": list(NAMING), "named": named}
