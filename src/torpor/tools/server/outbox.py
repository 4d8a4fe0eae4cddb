"""What a tool server must not forget: the calls it accepted and the callbacks it still owes."""

import sqlite3
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from torpor.tools.server import wire
from torpor.tools.server.database import Database

Taken = Literal["new", "repeat", "clash"]
# Statuses of a callback after which its thread will take nothing more.
GONE = frozenset({401, 403, 404, 410})
MOST_QUEUED_EVENTS = 1000
CLASH = "Error: this call id or idempotency key belongs to a different call. Use a new one for new work."


@dataclass(frozen=True, slots=True)
class Retry:
    """How callbacks are retried; all in seconds."""

    first: float = 0.5
    longest: float = 60.0
    results_for: float = 86_400.0
    events_for: float = 3_600.0


@dataclass(frozen=True, slots=True)
class Kept:
    """A call as the outbox remembers it."""

    seq: int
    invocation: wire.Invocation
    state: str
    cancelled: bool
    memory: Any


@dataclass(frozen=True, slots=True)
class Callback:
    """A message that is owed to a runtime."""

    seq: int
    call: int | None
    kind: str
    url: str
    private: bool
    attempt: int
    not_before: float
    give_up_at: float


class Outbox:
    """Calls and callbacks in a SQLite file. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database, retry: Retry) -> None:
        self._do = database.do
        self._retry = retry

    async def accept(self, invocation: wire.Invocation, *, private: bool) -> tuple[int | None, Taken]:
        """Record a call unless it repeats a known one; gives its number and how it was taken."""
        return await self._do(lambda db: _accept(db, invocation, private))

    async def live(self) -> list[Kept]:
        """Give all calls that were at work or subscribed."""
        rows = "SELECT * FROM calls WHERE state IN ('accepted', 'running', 'subscribed') ORDER BY seq"
        return await self._do(lambda db: [_kept(row) for row in db.execute(rows)])

    async def begin(self, seq: int) -> bool:
        """Note that a call's function is about to start; False if it was cancelled before."""
        start = "UPDATE calls SET state = 'running' WHERE seq = ? AND state = 'accepted' AND NOT cancelled"
        return await self._do(lambda db: db.execute(start, (seq,)).rowcount == 1)

    async def settle(self, seq: int, members: Mapping[str, Any], *, subscribed: bool = False) -> bool:
        """Keep a call's one result and queue it; False if it has one, or is cancelled and would subscribe."""
        return await self._do(lambda db: self._settle(db, seq, members, subscribed))

    async def again(self, seq: int) -> None:
        """Queue a settled call's result once more, as a repeat of its invocation asks for."""
        await self._do(lambda db: self._again(db, seq))

    async def clash(self, invocation: wire.Invocation, *, private: bool) -> None:
        """Queue the answer to a call that takes another's id."""
        members = wire.result_members({"text": CLASH}, failed=True, subscription=False)
        body = wire.result_body(invocation.thread, invocation.id, invocation.call_id, members)
        await self._do(lambda db: self._queue(db, "again", body, (None, invocation.callback_url, private)))

    async def event(self, seq: int, members: Mapping[str, Any], memory: Any = msgspec.UNSET) -> bool:
        """Queue the next event of a subscription, with what it is to remember; False if it has ended."""
        return await self._do(lambda db: self._event(db, seq, members, memory))

    async def remember(self, seq: int, memory: Any) -> None:
        """Keep a JSON value with a call for after a restart."""
        await self._do(lambda db: _remember(db, seq, memory))

    async def cancel(self, thread: str, ident: str) -> list[int]:
        """Mark a call cancelled, end its subscription and drop its queued events; gives the call's number."""
        return await self._do(lambda db: _cancel(db, _origins(db, thread, ident)))

    async def close(self, thread: str) -> list[int]:
        """Cancel all that a thread has at work; gives the numbers of the calls."""
        live = "SELECT seq FROM calls WHERE thread = ? AND state IN ('accepted', 'running', 'subscribed')"
        return await self._do(lambda db: _cancel(db, [row["seq"] for row in db.execute(live, (thread,))]))

    async def alive(self, thread: str, ident: str) -> bool:
        """Say whether a call is at work, subscribed, or has callbacks still to come."""
        return await self._do(lambda db: _alive(db, thread, ident))

    async def due(self, busy: Collection[int], most: int) -> tuple[list[Callback], float | None]:
        """Give callbacks to send now, the oldest of each call only, and when the next will be due."""
        return await self._do(lambda db: _due(db, busy, most))

    async def body(self, callback: Callback) -> bytes | None:
        """Give what a callback says, or None if it has been dropped meanwhile."""
        body = "SELECT body FROM callbacks WHERE seq = ?"
        row = await self._do(lambda db: db.execute(body, (callback.seq,)).fetchone())
        return None if row is None else row["body"]

    async def delivered(self, callback: Callback) -> None:
        """Forget a callback that arrived."""
        await self._do(lambda db: _delete(db, callback.seq))

    async def retry(self, callback: Callback, not_before: float) -> None:
        """Keep a callback for another attempt at `not_before` (Unix seconds)."""
        change = "UPDATE callbacks SET attempt = attempt + 1, not_before = ? WHERE seq = ?"
        await self._do(lambda db: db.execute(change, (not_before, callback.seq)))

    async def give_up(self, callback: Callback, status: int | None) -> list[int]:
        """Forget a callback that will not arrive; gives the numbers of subscriptions that end with it."""
        return await self._do(lambda db: _give_up(db, callback, status))

    async def prune(self, older_than: float) -> None:
        """Forget calls that ended before a Unix time and owe nothing."""
        stale = (
            "DELETE FROM calls WHERE ended_at < ? AND state IN ('ended', 'repeat')"
            " AND NOT EXISTS (SELECT 1 FROM callbacks WHERE callbacks.call = calls.seq)"
        )
        await self._do(lambda db: db.execute(stale, (older_than,)))

    def _settle(self, db: sqlite3.Connection, seq: int, members: Mapping[str, Any], subscribed: bool) -> bool:
        row = _by_seq(db, seq)
        if row["state"] not in ("accepted", "running") or (subscribed and row["cancelled"]):
            return False
        db.execute(
            "UPDATE calls SET state = ?, result = ?, ended_at = ? WHERE seq = ?",
            ("subscribed" if subscribed else "ended", msgspec.json.encode(members), time.time(), seq),
        )
        kind = "confirmation" if subscribed else "result"
        self._address(db, row, kind, members)
        for repeat in db.execute("SELECT * FROM calls WHERE origin = ?", (seq,)).fetchall():
            self._address(db, repeat, "again", members)
        return True

    def _again(self, db: sqlite3.Connection, seq: int) -> None:
        row = _by_seq(db, seq)
        settled = row if row["origin"] is None else _by_seq(db, row["origin"])
        if settled["result"] is None:
            return
        waiting = db.execute(
            "UPDATE callbacks SET not_before = ? WHERE call = ? AND url = ?"
            " AND kind IN ('result', 'confirmation', 'again')",
            (time.time(), seq, row["url"]),
        )
        if waiting.rowcount == 0:
            self._address(db, row, "again", msgspec.json.decode(settled["result"]))

    def _address(
        self, db: sqlite3.Connection, row: sqlite3.Row, kind: str, members: Mapping[str, Any]
    ) -> None:
        body = wire.result_body(row["thread"], row["id"], row["call_id"], members)
        self._queue(db, kind, body, (row["seq"], row["url"], bool(row["private"])))

    def _event(self, db: sqlite3.Connection, seq: int, members: Mapping[str, Any], memory: Any) -> bool:
        row = _by_seq(db, seq)
        if row["state"] != "subscribed":
            return False
        final = bool(members.get("final"))
        _drop_oldest(db, seq)
        body = wire.event_body(row["thread"], row["id"], row["events"] + 1, members)
        self._queue(db, "final" if final else "event", body, (seq, row["url"], bool(row["private"])))
        db.execute(
            "UPDATE calls SET events = events + 1, state = ?, ended_at = ? WHERE seq = ?",
            ("ended" if final else "subscribed", time.time() if final else None, seq),
        )
        _remember(db, seq, memory)
        return True

    def _queue(
        self, db: sqlite3.Connection, kind: str, body: bytes, to: tuple[int | None, str, bool]
    ) -> None:
        now = time.time()
        lasting = self._retry.events_for if kind in ("event", "final") else self._retry.results_for
        db.execute(
            "INSERT INTO callbacks (kind, body, call, url, private, not_before, give_up_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (kind, body, *to, now, now + lasting),
        )


def _accept(db: sqlite3.Connection, invocation: wire.Invocation, private: bool) -> tuple[int | None, Taken]:
    digest = invocation.digest()
    known = _by_pair(db, invocation.thread, invocation.id)
    if known is not None:
        if digest == known["digest"]:
            db.execute(
                "UPDATE calls SET url = ?, private = ? WHERE seq = ?",
                (invocation.callback_url, private, known["seq"]),
            )
            return known["seq"], "repeat"
        return (known["seq"], "repeat") if invocation.callback_url == known["url"] else (None, "clash")
    known = _by_key(db, invocation)
    if known is None:
        return _insert(db, invocation, digest, private, None), "new"
    if digest != known["digest"]:
        return None, "clash"
    return _insert(db, invocation, digest, private, known["seq"]), "repeat"


def _insert(
    db: sqlite3.Connection, invocation: wire.Invocation, digest: str, private: bool, origin: int | None
) -> int:
    now = time.time()
    added = db.execute(
        "INSERT INTO calls (thread, id, key, digest, invocation, call_id, url, private, state, origin,"
        " accepted_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            invocation.thread,
            invocation.id,
            invocation.key,
            digest,
            msgspec.json.encode(msgspec.structs.replace(invocation, callback_url="")),
            invocation.call_id,
            invocation.callback_url,
            private,
            "accepted" if origin is None else "repeat",
            origin,
            now,
            None if origin is None else now,
        ),
    )
    assert added.lastrowid is not None
    return added.lastrowid


def _by_seq(db: sqlite3.Connection, seq: int) -> sqlite3.Row:
    row: sqlite3.Row = db.execute("SELECT * FROM calls WHERE seq = ?", (seq,)).fetchone()
    return row


def _by_pair(db: sqlite3.Connection, thread: str, ident: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM calls WHERE thread = ? AND id = ?", (thread, ident)
    ).fetchone()
    return row


def _by_key(db: sqlite3.Connection, invocation: wire.Invocation) -> sqlite3.Row | None:
    """The call a key belongs to. Keys count within their thread, so that none reads another's result."""
    if invocation.key is None:
        return None
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM calls WHERE thread = ? AND key = ? AND origin IS NULL ORDER BY seq LIMIT 1",
        (invocation.thread, invocation.key),
    ).fetchone()
    return row


def _kept(row: sqlite3.Row) -> Kept:
    memory = None if row["memory"] is None else msgspec.json.decode(row["memory"])
    invocation = msgspec.json.decode(row["invocation"], type=wire.Invocation)
    return Kept(row["seq"], invocation, row["state"], bool(row["cancelled"]), memory)


def _remember(db: sqlite3.Connection, seq: int, memory: Any) -> None:
    if memory is not msgspec.UNSET:
        db.execute("UPDATE calls SET memory = ? WHERE seq = ?", (msgspec.json.encode(memory), seq))


def _origins(db: sqlite3.Connection, thread: str, ident: str) -> list[int]:
    row = _by_pair(db, thread, ident)
    if row is None:
        return []
    return [row["seq"] if row["origin"] is None else row["origin"]]


def _cancel(db: sqlite3.Connection, seqs: list[int]) -> list[int]:
    for seq in seqs:
        db.execute(
            "UPDATE calls SET cancelled = 1 WHERE seq = ? AND state IN ('accepted', 'running')", (seq,)
        )
        _end_subscription(db, seq)
    return seqs


def _end_subscription(db: sqlite3.Connection, seq: int) -> None:
    db.execute(
        "UPDATE calls SET state = 'ended', ended_at = ? WHERE seq = ? AND state = 'subscribed'",
        (time.time(), seq),
    )
    db.execute("DELETE FROM callbacks WHERE call = ? AND kind IN ('event', 'final')", (seq,))


def _alive(db: sqlite3.Connection, thread: str, ident: str) -> bool:
    row = _by_pair(db, thread, ident)
    if row is None:
        return False
    origin = row if row["origin"] is None else _by_seq(db, row["origin"])
    if origin["state"] in ("accepted", "running", "subscribed"):
        return True
    # A result that is still to be delivered counts as work: the runtime must go on waiting for it.
    owed = db.execute("SELECT 1 FROM callbacks WHERE call = ? LIMIT 1", (row["seq"],)).fetchone()
    return owed is not None


_HEADS = (
    "SELECT seq, call, kind, url, private, attempt, not_before, give_up_at FROM callbacks AS one"
    " WHERE NOT EXISTS (SELECT 1 FROM callbacks AS two WHERE two.call = one.call AND two.seq < one.seq)"
)


def _due(db: sqlite3.Connection, busy: Collection[int], most: int) -> tuple[list[Callback], float | None]:
    now = time.time()
    rows = db.execute(f"{_HEADS} ORDER BY not_before LIMIT ?", (most + len(busy) + 1,)).fetchall()
    free = [_callback(row) for row in rows if row["seq"] not in busy]
    due = [callback for callback in free if callback.not_before <= now][:most]
    later = [callback.not_before for callback in free if callback.not_before > now]
    return due, min(later, default=None)


def _callback(row: sqlite3.Row) -> Callback:
    return Callback(
        row["seq"],
        row["call"],
        row["kind"],
        row["url"],
        bool(row["private"]),
        row["attempt"],
        row["not_before"],
        row["give_up_at"],
    )


def _delete(db: sqlite3.Connection, seq: int) -> None:
    db.execute("DELETE FROM callbacks WHERE seq = ?", (seq,))


def _drop_oldest(db: sqlite3.Connection, seq: int) -> None:
    """Keep the queue of one subscription bounded; the numbers of the events tell the reader of the gap."""
    db.execute(
        "DELETE FROM callbacks WHERE seq IN (SELECT seq FROM callbacks WHERE call = ? AND kind = 'event'"
        " ORDER BY seq DESC LIMIT -1 OFFSET ?)",
        (seq, MOST_QUEUED_EVENTS - 1),
    )


def _give_up(db: sqlite3.Connection, callback: Callback, status: int | None) -> list[int]:
    _delete(db, callback.seq)
    if callback.call is None:
        return []
    unconfirmed = callback.kind == "confirmation"
    unwanted = callback.kind in ("event", "final") and status in GONE
    if not (unconfirmed or unwanted):
        return []
    _end_subscription(db, callback.call)
    return [callback.call]
