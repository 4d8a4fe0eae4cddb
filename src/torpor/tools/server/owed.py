"""The callbacks that a tool server owes, as rows of its outbox."""

import sqlite3
import time
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

MOST_QUEUED_EVENTS = 1000
PASSING = ("event", "final", "view")
"""Kinds of callbacks that are worth less the later they come."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How callbacks are retried; all in seconds. Events and views are of use for a shorter time."""

    first: float = 0.5
    longest: float = 60.0
    results_for: float = 86_400.0
    events_for: float = 3_600.0


@dataclass(frozen=True, slots=True)
class Callback:
    """A message that is owed to a runtime. `id` is its event id, the same at each attempt."""

    seq: int
    call: int | None
    kind: str
    id: str
    url: str
    private: bool
    attempt: int
    not_before: float
    give_up_at: float


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A callback to queue. Those of one `lane` are sent one after the other (None: on its own).

    `until`: Unix seconds after which it is not sent any more; 0: as long as its kind is.
    """

    kind: str
    id: str
    body: bytes
    url: str
    private: bool
    call: int | None = None
    lane: str | None = None
    until: float = 0.0


def of_call(row: sqlite3.Row, kind: str, id: str, body: bytes, until: float = 0.0) -> Letter:
    """Address a callback to whoever made a call, behind what is sent for the call already."""
    return Letter(
        kind=kind,
        id=id,
        body=body,
        url=row["url"],
        private=bool(row["private"]),
        call=row["seq"],
        lane=f"call {row['seq']}",
        until=until,
    )


def queue(db: sqlite3.Connection, letter: Letter, retry: Retry) -> None:
    """Keep a callback until it is taken, refused, or too old."""
    now = time.time()
    lasting = retry.events_for if letter.kind in PASSING else retry.results_for
    db.execute(
        "INSERT INTO callbacks (kind, id, body, call, lane, url, private, not_before, give_up_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            letter.kind,
            letter.id,
            letter.body,
            letter.call,
            letter.lane,
            letter.url,
            letter.private,
            now,
            letter.until or now + lasting,
        ),
    )


def delete(db: sqlite3.Connection, seq: int) -> None:
    """Forget a callback."""
    db.execute("DELETE FROM callbacks WHERE seq = ?", (seq,))


def delete_oldest_events(db: sqlite3.Connection, call: int) -> None:
    """Keep the queue of one subscription bounded; the numbers of the events tell the reader of the gap."""
    db.execute(
        "DELETE FROM callbacks WHERE seq IN (SELECT seq FROM callbacks WHERE call = ? AND kind = 'event'"
        " ORDER BY seq DESC LIMIT -1 OFFSET ?)",
        (call, MOST_QUEUED_EVENTS - 1),
    )


_HEADS = (
    "SELECT seq, call, kind, id, url, private, attempt, not_before, give_up_at FROM callbacks AS one"
    " WHERE NOT EXISTS (SELECT 1 FROM callbacks AS two WHERE two.lane = one.lane AND two.seq < one.seq)"
)


def due(db: sqlite3.Connection, busy: Collection[int], most: int) -> tuple[list[Callback], float | None]:
    """Give callbacks to send now, the oldest of each lane only, and when the next will be due."""
    now = time.time()
    rows = db.execute(f"{_HEADS} ORDER BY not_before LIMIT ?", (most + len(busy) + 1,)).fetchall()
    free = [_callback(row) for row in rows if row["seq"] not in busy]
    ready = [callback for callback in free if callback.not_before <= now][:most]
    later = [callback.not_before for callback in free if callback.not_before > now]
    return ready, min(later, default=None)


def _callback(row: sqlite3.Row) -> Callback:
    return Callback(
        row["seq"],
        row["call"],
        row["kind"],
        row["id"],
        row["url"],
        bool(row["private"]),
        row["attempt"],
        row["not_before"],
        row["give_up_at"],
    )
