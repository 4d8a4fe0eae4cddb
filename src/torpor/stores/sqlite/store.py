"""The ``Store`` port over a SQLite file."""

import json
import secrets
from collections.abc import Sequence
from typing import Unpack

import msgspec

from torpor.core.errors import Refused
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal
from torpor.ports import Asked, Commit, Exported, OutboxRow, Posted, Row, Snapshot, StoredMessage, Version
from torpor.stores.sqlite import moves, reads, writes
from torpor.stores.sqlite.database import Database
from torpor.stores.sqlite.kept import Kept
from torpor.stores.sqlite.retention import SqliteRetention
from torpor.stores.sqlite.side import HEAVY


class SqliteStore(SqliteRetention):
    """Threads in a SQLite file; ``Store``, ``Side`` and ``Retention``. Closing it closes the ``Database``."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._holder = secrets.token_urlsafe(9)
        self._kept = Kept()

    async def create(self, row: Row, signals: Sequence[AnySignal] = (), *, effect: str = "") -> bool:
        if any(signal.thread != row.thread for signal in signals):
            raise Refused(f"A thread is created with signals to itself only; {row.thread} got others.")
        now = self.database.now()
        return await self.database.write(
            lambda connection: writes.create(connection, row, signals, effect, now)
        )

    async def post(self, signals: Sequence[AnySignal]) -> list[Posted]:
        now = self.database.now()
        return await self.database.write(lambda connection: writes.post(connection, signals, now))

    async def finish(self, signal: AnySignal, effect: str) -> Posted:
        now = self.database.now()
        return await self.database.write(lambda connection: writes.finish(connection, signal, effect, now))

    async def load(self, thread: str, *, known: Version | None = None, limit: int = 100) -> Snapshot:
        now = self.database.now()
        row = self._kept.at(thread, known)
        if row is not None:
            seen = await self.database.look(lambda connection: reads.glance(connection, row, limit, now))
            if seen is not None:
                return seen
        number, snapshot = self.database.read(
            lambda connection: reads.load(connection, thread, known, limit, now)
        )
        self._kept.keep(number, snapshot.row)
        return snapshot

    async def commit(self, commit: Commit) -> Version:
        now, holder = self.database.now(), self._holder
        heavy = sum([len(message.body) for message in commit.messages]) >= HEAVY
        known = self._kept.at(commit.thread, commit.base)
        number, version = await self.database.write(
            lambda connection: writes.commit(connection, commit, known, now, holder), heavy=heavy
        )
        self._kept.keep(number, msgspec.structs.replace(commit.row, version=version))
        return version

    async def postpone(
        self, thread: str, base: Version, attempt: int, not_before: float, *, state: str = ""
    ) -> None:
        rest = (not_before, state)
        await self.database.write(lambda connection: writes.postpone(connection, thread, base, attempt, rest))

    async def claim(
        self, thread: str, ids: Sequence[str], until: float, *, holder: str = ""
    ) -> list[OutboxRow]:
        claimer = writes.Claimer(holder or self._holder, self.database.now(), until)
        return await self.database.write(lambda connection: writes.claim(connection, thread, ids, claimer))

    async def hold(self, thread: str, holder: str, until: float) -> float:
        now = self.database.now()
        return await self.database.write(
            lambda connection: writes.hold(connection, thread, holder, until, now)
        )

    async def delivered(self, thread: str, ids: Sequence[str]) -> None:
        await self.database.write(lambda connection: writes.delivered(connection, thread, ids))

    async def release(
        self, thread: str, ids: Sequence[str], not_before: float, *, holder: str = "", begun: bool = True
    ) -> None:
        releaser: dict[str, str | float] = {
            "not_before": not_before,
            "holder": holder or self._holder,
            "now": self.database.now(),
            "begun": begun,
        }
        await self.database.write(lambda connection: writes.release(connection, thread, ids, releaser))

    async def hasten(self, thread: str, ids: Sequence[str]) -> None:
        await self.database.write(lambda connection: writes.hasten(connection, thread, ids))

    async def read(self, thread: str, after: int = 0, limit: int = 1000) -> list[StoredMessage]:
        return self.database.read(lambda connection: reads.read(connection, thread, after, limit))

    async def row(self, thread: str) -> Row | None:
        return await self.database.look(lambda connection: reads.one(connection, thread))

    async def inbox(self, thread: str) -> list[AnySignal]:
        return self.database.read(lambda connection: reads.inbox(connection, thread))

    async def outbox(self, thread: str) -> list[OutboxRow]:
        return self.database.read(lambda connection: reads.outbox(connection, thread))

    async def threads(self, *, after: str = "", limit: int = 100, **asked: Unpack[Asked]) -> list[Row]:
        nothing = dict.fromkeys(Asked.__annotations__)
        given = {**nothing, **asked, "after": after, "limit": limit}
        return await self.database.listing(lambda connection: reads.threads(connection, given))

    async def stranded(
        self, limit: int = 1000, *, ahead: float = 0.0, agents: Sequence[str] | None = None, skip: int = 0
    ) -> list[tuple[Row, float]]:
        given = {
            "now": self.database.now(),
            "ahead": ahead,
            "limit": limit,
            "skip": skip,
            "agents": None if agents is None else json.dumps(list(agents)),
        }
        return await self.database.listing(lambda connection: reads.stranded(connection, given))

    async def note(self, record: SliceRecord) -> None:
        await self.database.write(lambda connection: writes.note(connection, record))

    async def records(self, thread: str, after: int = 0, limit: int = 1000) -> list[SliceRecord]:
        return await self.database.listing(lambda connection: reads.records(connection, thread, after, limit))

    async def last_record(self, thread: str) -> SliceRecord | None:
        return self.database.read(lambda connection: reads.last_record(connection, thread))

    async def outcome(self, thread: str, signal: str) -> str | None:
        return self.database.read(lambda connection: reads.outcome(connection, thread, signal))

    async def export(self, thread: str) -> Exported:
        return await self.database.listing(lambda connection: moves.export(connection, thread))

    async def take_in(self, exported: Exported) -> bool:
        now = self.database.now()
        return await self.database.write(
            lambda connection: moves.take_in(connection, exported, now), heavy=True
        )

    async def now(self) -> float:
        return self.database.now()

    async def close(self) -> None:
        await self.database.close()
