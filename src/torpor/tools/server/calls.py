"""The calls that a tool server has accepted, as rows of its outbox."""

import sqlite3
import time
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from torpor.tools.server import wire

Taken = Literal["new", "repeat", "clash"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A call as the outbox remembers it."""

    seq: int
    invocation: wire.Invocation
    state: str
    cancelled: bool
    memory: Any


def accept(db: sqlite3.Connection, invocation: wire.Invocation, private: bool) -> tuple[int | None, Taken]:
    """Record a call unless it repeats a known one; gives its number and how it was taken."""
    digest = invocation.digest()
    known = by_pair(db, invocation.thread, invocation.id)
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


def by_seq(db: sqlite3.Connection, seq: int) -> sqlite3.Row:
    """Give a call by its number."""
    row: sqlite3.Row = db.execute("SELECT * FROM calls WHERE seq = ?", (seq,)).fetchone()
    return row


def by_pair(db: sqlite3.Connection, thread: str, ident: str) -> sqlite3.Row | None:
    """Give a call by the ids that its runtime knows it by."""
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


def kept_of(row: sqlite3.Row) -> Kept:
    """Read a row."""
    memory = None if row["memory"] is None else msgspec.json.decode(row["memory"])
    invocation = msgspec.json.decode(row["invocation"], type=wire.Invocation)
    return Kept(row["seq"], invocation, row["state"], bool(row["cancelled"]), memory)


def remember(db: sqlite3.Connection, seq: int, memory: Any) -> None:
    """Keep a JSON value with a call."""
    if memory is not msgspec.UNSET:
        db.execute("UPDATE calls SET memory = ? WHERE seq = ?", (msgspec.json.encode(memory), seq))


def origins(db: sqlite3.Connection, thread: str, ident: str) -> list[int]:
    """Give the number of the call that does the work for this one: itself, unless it is a repeat."""
    row = by_pair(db, thread, ident)
    if row is None:
        return []
    return [row["seq"] if row["origin"] is None else row["origin"]]
