"""The ``Store`` port over PostgreSQL.

Each verb is one statement, which is one transaction and one round trip, and holds a connection no longer than
that. More round trips are needed only where a verb fails: one more to tell why a slice could not be written.
``export`` reads several tables as of one instant, in two.
"""

import secrets
import time
from collections.abc import Sequence
from typing import Any, Unpack

from torpor.core.codec import decode_effect, decode_record, decode_signal, encode
from torpor.core.errors import Conflict, Refused
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal
from torpor.ports import (
    Asked,
    Clock,
    Commit,
    Exported,
    OutboxRow,
    Posted,
    Row,
    Snapshot,
    StoredMessage,
    Version,
)
from torpor.stores.columns import COLUMNS, row_of
from torpor.stores.postgres import moves
from torpor.stores.postgres.database import Database
from torpor.stores.postgres.faults import Ended
from torpor.stores.postgres.retention import PostgresRetention
from torpor.stores.postgres.rows import Given, columns_of, outbox_row, signal_of, signals_of
from torpor.stores.postgres.writes import commit_of
from torpor.stores.statements import statements

_THREADS = statements(__package__, "sql/threads.sql")
_INBOX = statements(__package__, "sql/inbox.sql")
_OUTBOX = statements(__package__, "sql/outbox.sql")

UNKNOWN = Posted("unknown")
NOBODY = Version(-1)
"""The version of no thread."""


class PostgresStore(PostgresRetention):
    """Threads in a PostgreSQL database: ``Store``, ``Side`` and ``Retention``. Closes the ``Database``."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._holder = secrets.token_urlsafe(9)

    @property
    def clock(self) -> Clock:
        """The clock of all who use this store."""
        return self.database.time

    async def create(self, row: Row, signals: Sequence[AnySignal] = (), *, effect: str = "") -> bool:
        if any(signal.thread != row.thread for signal in signals):
            raise Refused(f"A thread is created with signals to itself only; {row.thread} got others.")
        given = {**columns_of(row), **signals_of(signals), "effect": effect}
        try:
            return bool(await self._ask(_THREADS["create"], given, once=True))
        except Ended:
            return await self.row(row.thread) == row or bool(await self._ask(_THREADS["create"], given))

    async def post(self, signals: Sequence[AnySignal]) -> list[Posted]:
        if len(signals) == 1:
            found = await self._ask(_INBOX["post"], signal_of(signals[0]))
            return [_posted(found[0]) if found else UNKNOWN]
        if not signals:
            return []
        given = {"threads": [signal.thread for signal in signals], **signals_of(signals)}
        return [_posted(each) for each in await self._ask(_INBOX["post_many"], given)]

    async def finish(self, signal: AnySignal, effect: str) -> Posted:
        found = await self._ask(_INBOX["finish"], {**signal_of(signal), "effect": effect})
        return _posted(found[0]) if found else UNKNOWN

    async def load(self, thread: str, *, known: Version | None = None, limit: int = 100) -> Snapshot:
        known = known or NOBODY
        given: Given = {"known": known.counter, "known_id": known.commit_id, "limit": limit + 1}
        asked_at = time.monotonic()
        found = await self._of_thread(_THREADS["load"], thread, **given)
        snapshot = _snapshot(found[0], limit)
        self.database.server_time.hear(snapshot.now, asked_at, time.monotonic())
        return snapshot

    async def commit(self, commit: Commit) -> Version:
        statement, given = commit_of(commit, self._holder)
        moved = await self._ask(statement, given)
        if moved:
            return Version(moved[0][0], commit.commit_id)
        found = await self._ask(_THREADS["at"], {"thread": commit.thread})
        if not found:
            raise _missing(commit.thread)
        at = Version(*found[0])
        if at.commit_id != commit.commit_id:
            raise Conflict(f"Thread {commit.thread} has moved on to version {at.counter}.")
        return at

    async def postpone(
        self, thread: str, base: Version, attempt: int, not_before: float, *, state: str = ""
    ) -> None:
        at = {"thread": thread, "counter": base.counter, "commit_id": base.commit_id}
        change = {"attempt": attempt, "not_before": float(not_before), "state": state}
        await self._ask(_THREADS["postpone"], {**at, **change})

    async def claim(
        self, thread: str, ids: Sequence[str], until: float, *, holder: str = ""
    ) -> list[OutboxRow]:
        given: Given = {"ids": list(ids), "until": float(until), "holder": holder or self._holder}
        found = await self._of_thread(_OUTBOX["claim"], thread, **given)
        held = {
            id: OutboxRow(decode_effect(body), attempt, not_before, until)
            for _, id, body, attempt, not_before in found
            if id is not None
        }
        return [held[id] for id in ids if id in held]

    async def hold(self, thread: str, holder: str, until: float) -> float:
        ((_, held),) = await self._of_thread(_THREADS["hold"], thread, holder=holder, until=float(until))
        return float(held)

    async def delivered(self, thread: str, ids: Sequence[str]) -> None:
        await self._of_thread(_OUTBOX["delivered"], thread, ids=list(ids))

    async def release(
        self, thread: str, ids: Sequence[str], not_before: float, *, holder: str = "", begun: bool = True
    ) -> None:
        given: Given = {"ids": list(ids), "not_before": float(not_before), "holder": holder or self._holder}
        await self._of_thread(_OUTBOX["release"], thread, begun=begun, **given)

    async def hasten(self, thread: str, ids: Sequence[str]) -> None:
        await self._of_thread(_OUTBOX["hasten"], thread, ids=list(ids))

    async def read(self, thread: str, after: int = 0, limit: int = 1000) -> list[StoredMessage]:
        found = await self._of_thread(_THREADS["read"], thread, after=after, limit=limit)
        return [StoredMessage(position, body) for _, position, body in found if position is not None]

    async def row(self, thread: str) -> Row | None:
        found = await self._ask(_THREADS["one"], {"thread": thread})
        return row_of(found[0]) if found else None

    async def inbox(self, thread: str) -> list[AnySignal]:
        found = await self._of_thread(_INBOX["open"], thread)
        return [decode_signal(body) for _, body in found if body is not None]

    async def outbox(self, thread: str) -> list[OutboxRow]:
        found = await self._of_thread(_OUTBOX["all"], thread)
        return [outbox_row(values) for _, *values in found if values[0] is not None]

    async def threads(self, *, after: str = "", limit: int = 100, **asked: Unpack[Asked]) -> list[Row]:
        given: dict[str, Any] = {**dict.fromkeys(Asked.__annotations__), **asked}
        found = await self._ask(_THREADS[_listing(given)], {**given, "after": after, "limit": limit})
        return [row_of(values) for values in found]

    async def stranded(
        self, limit: int = 1000, *, ahead: float = 0.0, agents: Sequence[str] | None = None, skip: int = 0
    ) -> list[tuple[Row, float]]:
        chosen = None if agents is None else list(agents)
        given = {"ahead": float(ahead), "limit": limit, "skip": skip, "agents": chosen}
        found = await self._ask(_THREADS["stranded"], given)
        return [(row_of(values), values[COLUMNS]) for values in found]

    async def note(self, record: SliceRecord) -> None:
        given: Given = {"body": encode(record), "ended": float(record.committed_at)}
        try:
            await self._of_thread(_THREADS["note"], record.thread, once=True, **given)
        except Ended:
            await self._of_thread(_THREADS["note_once"], record.thread, **given)

    async def records(self, thread: str, after: int = 0, limit: int = 1000) -> list[SliceRecord]:
        found = await self._of_thread(_THREADS["records"], thread, after=after, limit=limit)
        return [decode_record(body) for _, body in found if body is not None]

    async def last_record(self, thread: str) -> SliceRecord | None:
        ((_, body),) = await self._of_thread(_THREADS["last_record"], thread)
        return None if body is None else decode_record(body)

    async def outcome(self, thread: str, signal: str) -> str | None:
        found = await self._ask(_INBOX["outcome"], {"thread": thread, "id": signal})
        return str(found[0][0]) if found else None

    async def seen(self, thread: str, signal: str) -> bool:
        return await self.outcome(thread, signal) is not None

    async def export(self, thread: str) -> Exported:
        return await moves.export(self.database, thread)

    async def take_in(self, exported: Exported) -> bool:
        return await moves.take_in(self.database, exported)

    async def now(self) -> float:
        return self.database.time.now()

    async def close(self) -> None:
        await self.database.close()

    async def _ask(self, statement: str, given: Given, *, once: bool = False) -> list[tuple[Any, ...]]:
        return await self.database.ask(statement, {**given, "now": self.database.given_now}, once=once)

    async def _of_thread(
        self, statement: str, thread: str, *, once: bool = False, **given: Any
    ) -> list[tuple[Any, ...]]:
        """Rows of a statement that has at least one, with its number first, for a thread that exists."""
        found = await self._ask(statement, {**given, "thread": thread}, once=once)
        if not found:
            raise _missing(thread)
        return found


def _missing(thread: str) -> Refused:
    return Refused(f"There is no thread {thread!r} in this store.")


def _posted(found: Sequence[Any]) -> Posted:
    agent, owner, tier, is_new = found
    return UNKNOWN if agent is None else Posted("new" if is_new else "repeat", agent, owner, tier)


def _snapshot(values: Sequence[Any], limit: int) -> Snapshot:
    row = row_of(values)
    now, history, due, next_due, outbox = values[COLUMNS:]
    free = [outbox_row(each) for each in outbox]
    later = [one.not_before for one in free if one.not_before > now]
    if next_due:
        later.append(next_due)
    return Snapshot(
        row=row,
        now=now,
        history=None if history is None else _messages(history, row.base),
        signals=tuple([decode_signal(body) for body in due[:limit]]),
        more=len(due) > limit,
        outbox=tuple([one for one in free if one.not_before <= now]),
        next_due=min(later, default=0.0),
    )


def _messages(bodies: Sequence[bytes], after: int) -> tuple[StoredMessage, ...]:
    return tuple([StoredMessage(position, body) for position, body in enumerate(bodies, after + 1)])


def _listing(asked: dict[str, Any]) -> str:
    """The statement whose index leaves the fewest rows to look at."""
    if asked["parent"]:
        return "list_of_parent"
    if asked["root"] is not None:
        return "list_of_root"
    if asked["owner"] is not None:
        return "list_of_owner"
    if asked["state"] not in (None, "open"):
        return "list_not_open"
    return "list_all" if asked["agent"] is None else "list_of_agent"
