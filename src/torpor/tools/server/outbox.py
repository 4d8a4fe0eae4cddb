"""What a tool server must not forget: the calls it accepted and the callbacks it still owes."""

import sqlite3
import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from torpor.tools.server import asked, calls, owed, wire
from torpor.tools.server.asked import Question, Standing
from torpor.tools.server.calls import Kept, Taken
from torpor.tools.server.database import Database
from torpor.tools.server.owed import Callback, Letter, Retry

# Statuses of a callback after which its thread will take nothing more.
GONE = frozenset({401, 403, 404, 410})
VIEWS_NUMBERED = 366 * 86_400.0  # a number that began anew would be taken for an old one
CLASH = "Error: this call id or idempotency key belongs to a different call. Use a new one for new work."


class Outbox:
    """Calls and callbacks in a SQLite file. Every method is one transaction, durable when it returns."""

    def __init__(self, database: Database, retry: Retry) -> None:
        self._do = database.do
        self._retry = retry

    async def accept(self, invocation: wire.Invocation, *, private: bool) -> tuple[int | None, Taken]:
        """Record a call unless it repeats a known one; gives its number and how it was taken."""
        return await self._do(lambda db: calls.accept(db, invocation, private))

    async def live(self) -> list[Kept]:
        """Give all calls that were at work or subscribed."""
        rows = "SELECT * FROM calls WHERE state IN ('accepted', 'running', 'subscribed') ORDER BY seq"
        return await self._do(lambda db: [calls.kept_of(row) for row in db.execute(rows)])

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
        letter = Letter(
            kind="again",
            id=members["event_id"],
            body=wire.result_body(invocation.thread, invocation.id, invocation.call_id, members),
            url=invocation.callback_url,
            private=private,
        )
        await self._do(lambda db: owed.queue(db, letter, self._retry))

    async def event(self, seq: int, members: Mapping[str, Any], memory: Any = msgspec.UNSET) -> bool:
        """Queue the next event of a subscription, with what it is to remember; False if it has ended."""
        return await self._do(lambda db: self._event(db, seq, members, memory))

    async def remember(self, seq: int, memory: Any) -> None:
        """Keep a JSON value with a call for after a restart."""
        await self._do(lambda db: calls.remember(db, seq, memory))

    async def cancel(self, thread: str, ident: str) -> list[int]:
        """Mark a call cancelled, end its subscription and drop its queued events; gives the call's number."""
        return await self._do(lambda db: _cancel(db, calls.origins(db, thread, ident)))

    async def close(self, thread: str) -> list[int]:
        """Cancel all that a thread has at work; gives the numbers of the calls."""
        live = "SELECT seq FROM calls WHERE thread = ? AND state IN ('accepted', 'running', 'subscribed')"
        return await self._do(lambda db: _cancel(db, [row["seq"] for row in db.execute(live, (thread,))]))

    async def alive(self, thread: str, ident: str) -> bool:
        """Say whether a call is at work, subscribed, or has callbacks still to come."""
        return await self._do(lambda db: _alive(db, thread, ident))

    async def due(self, busy: Collection[int], most: int) -> tuple[list[Callback], float | None]:
        """Give callbacks to send now, the oldest of each lane only, and when the next will be due."""
        return await self._do(lambda db: owed.due(db, busy, most))

    async def body(self, callback: Callback) -> bytes | None:
        """Give what a callback says, or None if it has been dropped meanwhile."""
        body = "SELECT body FROM callbacks WHERE seq = ?"
        row = await self._do(lambda db: db.execute(body, (callback.seq,)).fetchone())
        return None if row is None else row["body"]

    async def delivered(self, callback: Callback) -> None:
        """Forget a callback that arrived."""
        await self._do(lambda db: owed.delete(db, callback.seq))

    async def retry(self, callback: Callback, not_before: float) -> None:
        """Keep a callback for another attempt at `not_before` (Unix seconds)."""
        change = "UPDATE callbacks SET attempt = attempt + 1, not_before = ? WHERE seq = ?"
        await self._do(lambda db: db.execute(change, (not_before, callback.seq)))

    async def give_up(self, callback: Callback, status: int | None) -> list[int]:
        """Forget a callback that will not arrive; gives the numbers of subscriptions that end with it.

        A refused question has failed; one that nobody took waits for its own end.
        """
        return await self._do(lambda db: _give_up(db, callback, status))

    async def ask(self, seq: int, question: Question) -> Standing | None:
        """Keep and queue a question of a call, or find it as it stands; None if nobody wants it any more."""
        return await self._do(lambda db: asked.ask(db, seq, question, self._retry))

    async def standing(self, token: str) -> Standing | None:
        """Say how a question stands, if it is known."""
        return await self._do(lambda db: asked.standing(db, token))

    async def answer(self, token: str, ident: str, selected: object) -> bool:
        """Take an answer to an open question of a call; False, and without effect, if there is none."""
        return await self._do(lambda db: asked.answer(db, token, ident, selected))

    async def authorized(self, token: str, problem: str) -> bool:
        """Note that a person has authorized, or what went wrong; False if nobody waits for that."""
        return await self._do(lambda db: asked.authorized(db, token, problem))

    async def expire_question(self, token: str) -> None:
        """Settle a question whose time is over, if it is open."""
        await self._do(lambda db: asked.settle(db, token, "expired"))

    async def view(self, seq: int, kind: str, content: Mapping[str, Any], *, numbered: bool) -> None:
        """Queue new content of a view of a call's thread, in place of what still waits to be sent of it."""
        await self._do(lambda db: self._view(db, seq, kind, content, numbered))

    async def prune(self, older_than: float) -> None:
        """Forget calls that ended before a Unix time and owe nothing."""
        await self._do(lambda db: _prune(db, older_than))

    def _view(
        self, db: sqlite3.Connection, seq: int, kind: str, content: Mapping[str, Any], numbered: bool
    ) -> None:
        row = calls.by_seq(db, seq)
        lane = f"view {kind} {row['thread']}"
        # The first of a lane may be under way: the others go when it has arrived.
        db.execute(
            "DELETE FROM callbacks WHERE lane = ? AND call = ?"
            " AND seq > (SELECT min(seq) FROM callbacks WHERE lane = ?)",
            (lane, seq, lane),
        )
        id = wire.new_event_id()
        number = _number_view(db, row["thread"], kind) if numbered else 0
        letter = owed.of_call(row, "view", id, wire.view_body(row["thread"], kind, content, id, number))
        owed.queue(db, msgspec.structs.replace(letter, lane=lane), self._retry)

    def _settle(self, db: sqlite3.Connection, seq: int, members: Mapping[str, Any], subscribed: bool) -> bool:
        row = calls.by_seq(db, seq)
        if row["state"] not in ("accepted", "running") or (subscribed and row["cancelled"]):
            return False
        db.execute(
            "UPDATE calls SET state = ?, result = ?, ended_at = ? WHERE seq = ?",
            ("subscribed" if subscribed else "ended", msgspec.json.encode(members), time.time(), seq),
        )
        asked.end(db, seq)
        kind = "confirmation" if subscribed else "result"
        self._address(db, row, kind, members)
        for repeat in db.execute("SELECT * FROM calls WHERE origin = ?", (seq,)).fetchall():
            self._address(db, repeat, "again", members)
        return True

    def _again(self, db: sqlite3.Connection, seq: int) -> None:
        row = calls.by_seq(db, seq)
        settled = row if row["origin"] is None else calls.by_seq(db, row["origin"])
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
        owed.queue(db, owed.of_call(row, kind, members.get("event_id", ""), body), self._retry)

    def _event(self, db: sqlite3.Connection, seq: int, members: Mapping[str, Any], memory: Any) -> bool:
        row = calls.by_seq(db, seq)
        if row["state"] != "subscribed":
            return False
        final = bool(members.get("final"))
        owed.delete_oldest_events(db, seq)
        body = wire.event_body(row["thread"], row["id"], row["events"] + 1, members)
        letter = owed.of_call(row, "final" if final else "event", members["event_id"], body)
        owed.queue(db, letter, self._retry)
        db.execute(
            "UPDATE calls SET events = events + 1, state = ?, ended_at = ? WHERE seq = ?",
            ("ended" if final else "subscribed", time.time() if final else None, seq),
        )
        calls.remember(db, seq, memory)
        return True


def _cancel(db: sqlite3.Connection, seqs: list[int]) -> list[int]:
    for seq in seqs:
        db.execute(
            "UPDATE calls SET cancelled = 1 WHERE seq = ? AND state IN ('accepted', 'running')", (seq,)
        )
        asked.end(db, seq)
        _end_subscription(db, seq)
    return seqs


def _number_view(db: sqlite3.Connection, thread: str, kind: str) -> int:
    row = db.execute(
        "INSERT INTO views (thread, type, seq, at) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (thread, type) DO UPDATE SET seq = seq + 1, at = excluded.at RETURNING seq",
        (thread, kind, time.time()),
    ).fetchone()
    number: int = row["seq"]
    return number


def _prune(db: sqlite3.Connection, older_than: float) -> None:
    db.execute(
        "DELETE FROM calls WHERE ended_at < ? AND state IN ('ended', 'repeat')"
        " AND NOT EXISTS (SELECT 1 FROM callbacks WHERE callbacks.call = calls.seq)",
        (older_than,),
    )
    asked.prune(db)
    db.execute("DELETE FROM views WHERE at < ?", (time.time() - VIEWS_NUMBERED,))


def _end_subscription(db: sqlite3.Connection, seq: int) -> None:
    db.execute(
        "UPDATE calls SET state = 'ended', ended_at = ? WHERE seq = ? AND state = 'subscribed'",
        (time.time(), seq),
    )
    db.execute("DELETE FROM callbacks WHERE call = ? AND kind IN ('event', 'final')", (seq,))


def _alive(db: sqlite3.Connection, thread: str, ident: str) -> bool:
    row = calls.by_pair(db, thread, ident)
    if row is None:
        return False
    origin = row if row["origin"] is None else calls.by_seq(db, row["origin"])
    if origin["state"] in ("accepted", "running", "subscribed"):
        return True
    # A result that is still to be delivered counts as work: the runtime must go on waiting for it.
    waiting = "SELECT 1 FROM callbacks WHERE call = ? AND kind <> 'view' LIMIT 1"
    return db.execute(waiting, (row["seq"],)).fetchone() is not None


def _give_up(db: sqlite3.Connection, callback: Callback, status: int | None) -> list[int]:
    owed.delete(db, callback.seq)
    if callback.call is None:
        return []
    if callback.kind in asked.KINDS and status is not None:
        asked.refuse(db, callback.call, callback.id)
    unconfirmed = callback.kind == "confirmation"
    unwanted = callback.kind in ("event", "final") and status in GONE
    if not (unconfirmed or unwanted):
        return []
    _end_subscription(db, callback.call)
    return [callback.call]
