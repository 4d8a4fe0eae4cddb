"""A doorbell in the SQLite file that also holds the threads; other processes may ring it."""

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec

from torpor.core.errors import TorporError
from torpor.ports import Clock, Lease, Ring
from torpor.queues.bell import NEVER, Bell
from torpor.queues.ranks import TIER_NAMES, fixed, mask, rank
from torpor.queues.together import Together

T = TypeVar("T")
Row = tuple[str, float, float, int, str, str, int]
"""Thread, ring_at, start_by, tier, owner, agent, attempt."""

POLL = 0.05
"""Seconds between two looks at what other processes did, while somebody waits here."""

MARK = "\x1f"
"""Stands between agents' names, which cannot contain it."""

FRESH = 2 / 3
"""A lease with more than this share of its time left is not written again."""


class SharedFile(Protocol):
    """What the queue needs of the ``Database`` that it shares with the store."""

    clock: Clock | None

    def statements(self, package: str, path: str) -> dict[str, str]:
        """Named statements of a package's .sql file."""

    def write(self, operation: Callable[[sqlite3.Connection], T]) -> Coroutine[Any, Any, T]:
        """Run an operation in a transaction, durable when this returns."""

    def leave(self, operation: Callable[[sqlite3.Connection], T], then: Callable[[T], None]) -> None:
        """Run an operation after those asked for before; ``then`` gets what it gives, once it is durable."""

    async def settled(self) -> None:
        """Wait until what was left to be written is."""

    def read(self, reading: Callable[[sqlite3.Connection], T]) -> T:
        """Run a short reading."""


class Wanted(msgspec.Struct, frozen=True):
    """Who asks for leases, and of which threads."""

    worker: str
    agents: str | None
    tiers: int
    cap: int = 0
    """How many threads of one owner may be leased at once; 0: any number."""

    @property
    def given(self) -> dict[str, Any]:
        """What the statements take for this choice."""
        return {"mark": MARK, "agents": self.agents, "tiers": self.tiers}


ANY = Wanted("", None, -1)
"""Work of every agent and tier."""


class Fair:
    """Looks for what may be leased for a choice of threads, under its cap."""

    def __init__(self, connection: sqlite3.Connection, sql: dict[str, str], wanted: Wanted) -> None:
        self._connection = connection
        self._sql = sql
        self._wanted = wanted

    def most_urgent(self, limit: int) -> list[Row]:
        """Ready threads in the order of urgency; none too many of one owner."""
        given, cap = {**self._wanted.given, "limit": limit}, self._wanted.cap
        rows: list[Row] = self._connection.execute(self._sql["ready"], given).fetchall()
        if not rows or not cap:
            return rows
        running: dict[str, int] = dict(self._connection.execute(self._sql["in_flight"]).fetchall())
        fitting = _within(rows, running, cap, limit)
        if len(fitting) == len(rows) or len(rows) < limit:
            return fitting
        return _within(self._of_each_owner(given, running), running, cap, limit)

    def _of_each_owner(self, given: dict[str, Any], running: dict[str, int]) -> list[Row]:
        """Where many threads of a busy owner come first, the others' are not looked for behind them."""
        found: list[Row] = []
        for (owner,) in self._connection.execute(self._sql["owners"]).fetchall():
            if not owner or running.get(owner, 0) < self._wanted.cap:
                found += self._connection.execute(self._sql["ready_of_owner"], {**given, "owner": owner})
        return sorted(found, key=lambda row: (row[3], row[2]))


def _within(rows: Sequence[Row], running: dict[str, int], cap: int, limit: int) -> list[Row]:
    """The first of these rows, as far as their owners may have so many leases."""
    counts = dict(running)
    found: list[Row] = []
    for row in rows:
        count = counts.get(row[4], 0)
        if (count < cap or not row[4]) and len(found) < limit:
            counts[row[4]] = count + 1
            found.append(row)
    return found


class SqliteQueue:
    """The ``Queue`` port in a SQLite file. ``lease``: seconds for which a thread is leased.

    A lease is renewed in the file only when a third of its time is gone, so that watching for cuts is a
    reading. Rings and leases that are given back are written in order with all else, and nobody waits for the
    disk: the sweep finds what a lost ring was for, and a lease that was not given back runs out. Closing the
    queue leaves the file to its owner.
    """

    def __init__(self, database: SharedFile, *, lease: float = 15.0) -> None:
        self._database = database
        self._sql = database.statements(__package__, "sqlite.sql")
        self._bell = Bell(database.clock)
        self._now = self._bell.now
        self._seconds = lease
        self._poll: asyncio.TimerHandle | None = None
        self._seen_version = -1
        self._together = Together(self._take, self._put_back)

    async def ring(self, rings: Sequence[Ring]) -> None:
        now = self._now()
        rows = [_columns(ring, now) for ring in rings]
        sql = self._sql["ring"]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(sql, rows)

        def strike(_: None) -> None:
            for ring in rings:
                self._bell.strike(ring.agent, ring.tier, ring.not_before)

        self._database.leave(write, strike)

    async def next(
        self,
        worker: str,
        *,
        wait: float = 0.0,
        agents: Sequence[str] | None = None,
        tiers: Sequence[str] | None = None,
        limit: int = 1,
        owner_cap: int = 0,
    ) -> list[Lease]:
        wanted = _wanted(worker, fixed(agents), fixed(tiers), owner_cap)
        leases = await self._together.ask(wanted, limit)
        deadline = self._now() + wait
        while not leases and self._now() < deadline:
            self._keep_polling()
            await self._bell.wait(min(deadline, self._work_from(wanted)), agents, tiers)
            if self._work_from(wanted) <= self._now():
                leases = await self._together.ask(wanted, limit)
        return leases

    async def _take(self, wanted: Wanted, limit: int) -> list[Lease]:
        now, token = self._now(), f"{wanted.worker}/{secrets.token_urlsafe(9)}"
        until = now + self._seconds
        sql = self._sql

        def write(connection: sqlite3.Connection) -> list[Row]:
            connection.execute(sql["promote"], {"now": now})
            rows = Fair(connection, sql, wanted).most_urgent(limit)
            connection.executemany(sql["take"], [(until, token, row[6], row[0]) for row in rows])
            return rows

        return [
            Lease(thread, token, until, ring_at, start_by, TIER_NAMES[tier], owner, agent, attempt)
            for thread, ring_at, start_by, tier, owner, agent, attempt in await self._database.write(write)
        ]

    def _put_back(self, leases: Sequence[Lease]) -> None:
        """Nobody got to know that these were leased."""
        rows = [(lease.thread, lease.token) for lease in leases]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(self._sql["put_back"], rows)

        self._database.leave(write, lambda _: None)

    async def extend(self, leases: Sequence[Lease]) -> tuple[list[Lease], set[str]]:
        await self._database.settled()
        now = self._now()
        found = self._database.read(lambda connection: self._held(connection, leases))
        if all(row is not None and not row[1] and row[0] - now > self._seconds * FRESH for row in found):
            return list(leases), set()
        until = now + self._seconds

        def write(connection: sqlite3.Connection) -> list[tuple[float, int] | None]:
            held = self._held(connection, leases)
            connection.executemany(self._sql["extend"], [(until, one.thread, one.token) for one in leases])
            return held

        held = list(zip(leases, await self._database.write(write), strict=True))
        extended = [msgspec.structs.replace(lease, until=until) for lease, row in held if row is not None]
        return extended, {lease.thread for lease, row in held if row is not None and row[1]}

    def _held(
        self, connection: sqlite3.Connection, leases: Sequence[Lease]
    ) -> list[tuple[float, int] | None]:
        sql = self._sql["held"]
        return [connection.execute(sql, (lease.thread, lease.token)).fetchone() for lease in leases]

    async def done(self, lease: Lease, *, again_at: float = 0.0) -> None:
        await self._give_back(lease, start_by=again_at, at=again_at, finished=True)

    async def retry(self, lease: Lease, at: float) -> None:
        await self._give_back(lease, start_by=lease.start_by, at=at, finished=False)

    async def _give_back(self, lease: Lease, *, start_by: float, at: float, finished: bool) -> None:
        given = {
            "thread": lease.thread,
            "token": lease.token,
            "now": self._now(),
            "start_by": start_by,
            "at": at,
            "finished": finished,
        }
        sql = self._sql

        def write(connection: sqlite3.Connection) -> tuple[str, int, float] | None:
            if at <= 0 and connection.execute(sql["leave"], given).rowcount:
                return None
            if not connection.execute(sql["give_back"], given).rowcount:
                return None
            kept: tuple[str, int, float] = connection.execute(sql["given_back"], (lease.thread,)).fetchone()
            return kept

        def strike(kept: tuple[str, int, float] | None) -> None:
            if kept is not None:
                self._bell.strike(kept[0], TIER_NAMES[kept[1]], kept[2])
            if self._bell.waiting and self._database.read(waits):
                self._bell.strike_all()  # one more of its owner's threads may run

        def waits(connection: sqlite3.Connection) -> bool:
            return connection.execute(sql["owner_waits"], (lease.owner,)).fetchone() is not None

        self._database.leave(write, strike)

    async def size(self) -> int:
        await self._database.settled()
        found = self._database.read(lambda connection: connection.execute(self._sql["size"]).fetchone())
        return int(found[0])

    async def next_at(self, agents: Sequence[str] | None = None) -> float:
        await self._database.settled()
        given = {"mark": MARK, "agents": _marked(agents)}
        found = self._database.read(
            lambda connection: connection.execute(self._sql["next_at"], given).fetchone()
        )
        return found[0] or 0.0

    async def close(self) -> None:
        self._bell.close()
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None
        with suppress(TorporError):
            await self._database.settled()

    def _work_from(self, wanted: Wanted) -> float:
        """From when on there is such work: often somebody else was quicker, and the lock is left alone."""
        return self._database.read(lambda connection: self._work_from_in(connection, wanted))

    def _work_from_in(self, connection: sqlite3.Connection, wanted: Wanted) -> float:
        if Fair(connection, self._sql, wanted).most_urgent(1):
            return 0.0
        found = connection.execute(self._sql["next_change"], wanted.given).fetchone()
        return NEVER if found is None else float(found[0])

    def _keep_polling(self) -> None:
        if self._poll is None:
            self._poll = asyncio.get_running_loop().call_later(POLL, self._look)

    def _look(self) -> None:
        """Has another process rung? Costs a few microseconds while nothing happens."""
        self._poll = None
        if not self._bell.waiting:
            return
        self._keep_polling()
        try:
            self._bell.strike_all(self._changed())
        except TorporError:
            self._bell.strike_all(0.0)  # those who wait will meet the same error, and report it

    def _changed(self) -> float:
        """From when on there is work, if the file has changed since the last look."""

        def look(connection: sqlite3.Connection) -> float:
            version = connection.execute(self._sql["file_version"]).fetchone()[0]
            if version == self._seen_version:
                return NEVER
            self._seen_version = version
            return self._work_from_in(connection, ANY)

        return self._database.read(look)


@lru_cache
def _wanted(worker: str, agents: tuple[str, ...] | None, tiers: tuple[str, ...] | None, cap: int) -> Wanted:
    return Wanted(worker, _marked(agents), mask(tiers), cap)


def _marked(agents: Sequence[str] | None) -> str | None:
    """The names of a choice of agents between marks, as the statements take them."""
    return None if agents is None else MARK + MARK.join(agents) + MARK


def _columns(ring: Ring, now: float) -> dict[str, Any]:
    return {
        "thread": ring.thread,
        "agent": ring.agent,
        "owner": ring.owner,
        "tier": rank(ring.tier),
        "ring_at": max(now, ring.not_before),
        "start_by": ring.start_by,
        "not_before": ring.not_before,
        "ready": ring.not_before <= now,
        "cut": ring.cut,
    }
