"""What the store reads: each function is one reading, as of one instant."""

import sqlite3
from typing import Any

from torpor.core.codec import decode_record, decode_signal
from torpor.core.errors import Refused
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal
from torpor.ports import LOADED, OutboxRow, Row, Snapshot, StoredMessage, Version
from torpor.stores.columns import COLUMNS, row_of
from torpor.stores.sqlite import segments
from torpor.stores.sqlite.kept import Known
from torpor.stores.sqlite.writes import number_of, outbox_row
from torpor.stores.statements import statements

_THREADS = statements(__package__, "sql/threads.sql")
_HISTORY = statements(__package__, "sql/history.sql")
_INBOX = statements(__package__, "sql/inbox.sql")
_OUTBOX = statements(__package__, "sql/outbox.sql")

_ONE, _GLANCE = _THREADS["one"], _THREADS["glance"]
_STRANDED, _RECORDS = _THREADS["stranded"], _THREADS["records"]
_SINCE, _AFTER = _HISTORY["since"], _HISTORY["after"]
_SOME, _DUE, _NEXT_DUE, _OPEN = _INBOX["some"], _INBOX["due"], _INBOX["next_due"], _INBOX["open"]
_OUTCOME = _INBOX["outcome"]
_OF_THREAD, _ALL = _OUTBOX["of_thread"], _OUTBOX["all"]
_LAST_RECORD = _THREADS["last_record"]


def glance(connection: sqlite3.Connection, known: Known, limit: int, now: float) -> Snapshot | None:
    """What a slice needs of a thread whose row is known, in one statement; None if that is not enough.

    It is not where the thread was changed since, effects are to be taken, or the inbox is long.
    """
    row = known.row
    given = {"number": known.number, "thread": row.thread, "now": now, "limit": limit + 1}
    found = connection.execute(_GLANCE, given).fetchall()
    if len(found) > limit or not found:
        return None
    as_known = (row.version.counter, row.version.commit_id, row.attempt, row.not_before, row.state, 0)
    if found[0][:6] != as_known:
        return None
    waiting = [] if found[0][6] is None else sorted([signal[6:] for signal in found])
    return Snapshot(
        row=row,
        now=now,
        history=None,
        signals=tuple([decode_signal(body) for _, due, body in waiting if due <= now]),
        more=False,
        outbox=(),
        next_due=min([due for _, due, _ in waiting if due > now], default=0.0),
    )


def load(
    connection: sqlite3.Connection, thread: str, known: Version | None, limit: int, now: float
) -> tuple[int, Snapshot]:
    """All that a slice needs, and the thread's inner number."""
    values = connection.execute(_ONE, (thread,)).fetchone()
    if values is None:
        raise Refused(f"There is no thread {thread!r} in this store.")
    row, number = row_of(values), values[COLUMNS]
    is_apart = known == row.version or row.length - row.base > LOADED
    history = None if is_apart else tuple(_history(connection, number, row.base))
    due, more, signal_due = _inbox(connection, number, now, limit)
    outbox, effect_due = _outbox(connection, number, now)
    return number, Snapshot(
        row=row,
        now=now,
        history=history,
        signals=tuple([decode_signal(body) for body in due]),
        more=more,
        outbox=outbox,
        next_due=min(signal_due or effect_due, effect_due or signal_due),
    )


def _inbox(
    connection: sqlite3.Connection, number: int, now: float, limit: int
) -> tuple[list[bytes], bool, float]:
    """Due signals in order of arrival, whether more are left, and when the next one is due.

    Nearly always the whole inbox is a handful, which one statement gives faster than three.
    """
    found = connection.execute(_SOME, (number, limit + 1)).fetchall()
    if len(found) <= limit:
        due = sorted([(place, body) for place, at, body in found if at <= now])
        return [body for _, body in due], False, next((at for _, at, _ in found if at > now), 0.0)
    bodies = [body for (body,) in connection.execute(_DUE, (number, now, limit + 1))]
    next_due = connection.execute(_NEXT_DUE, (number, now)).fetchone()[0] or 0.0
    return bodies[:limit], len(bodies) > limit, next_due


def _history(connection: sqlite3.Connection, number: int, base: int) -> list[StoredMessage]:
    return [*segments.history(connection, number, base, -1), *_messages(connection, _SINCE, (number, base))]


def _messages(connection: sqlite3.Connection, sql: str, given: tuple[int, ...]) -> list[StoredMessage]:
    return [StoredMessage(position, body) for position, body in connection.execute(sql, given)]


def _outbox(connection: sqlite3.Connection, number: int, now: float) -> tuple[tuple[OutboxRow, ...], float]:
    """Effects to be taken, and when the next one that nobody holds may be."""
    due, later = [], 0.0
    for _, *values in sorted(connection.execute(_OF_THREAD, (number, now)).fetchall()):
        not_before = values[2]
        if not_before <= now:
            due.append(outbox_row(values))
        else:
            later = min(later or not_before, not_before)
    return tuple(due), later


def read(connection: sqlite3.Connection, thread: str, after: int, limit: int) -> list[StoredMessage]:
    """Messages after a position."""
    number = number_of(connection, thread)
    packed = segments.history(connection, number, after, limit)
    left = limit if limit < 0 else limit - len(packed)
    return [*packed, *_messages(connection, _AFTER, (number, after, left))] if left else packed


def one(connection: sqlite3.Connection, thread: str) -> Row | None:
    """A thread's row."""
    values = connection.execute(_ONE, (thread,)).fetchone()
    return None if values is None else row_of(values)


def inbox(connection: sqlite3.Connection, thread: str) -> list[AnySignal]:
    """Signals not yet absorbed."""
    found = connection.execute(_OPEN, (number_of(connection, thread),)).fetchall()
    return [decode_signal(body) for (body,) in found]


def outbox(connection: sqlite3.Connection, thread: str) -> list[OutboxRow]:
    """Effects not yet acknowledged."""
    return [outbox_row(values) for values in connection.execute(_ALL, (number_of(connection, thread),))]


def threads(connection: sqlite3.Connection, given: dict[str, Any]) -> list[Row]:
    """Rows by thread id, by whichever index leaves the fewest to look at."""
    if given["parent"]:
        sql = _THREADS["list_of_parent"]
    elif given["root"] is not None:
        sql = _THREADS["list_of_root"]
    elif given["owner"] is not None:
        sql = _THREADS["list_of_owner"]
    elif given["state"] not in (None, "open"):
        sql = _THREADS["list_not_open"]
    elif given["purpose"] not in (None, "root"):
        sql = _THREADS["list_of_purpose"]
    elif given["agent"] is not None:
        sql = _THREADS["list_of_agent"]
    else:
        sql = _THREADS["list_all"]
    return [row_of(values) for values in connection.execute(sql, given)]


def stranded(connection: sqlite3.Connection, given: dict[str, Any]) -> list[tuple[Row, float]]:
    """Threads that something should have woken, and since when."""
    found = connection.execute(_STRANDED, given)
    return [(row_of(values), values[COLUMNS + 1]) for values in found]


def records(connection: sqlite3.Connection, thread: str, after: int, limit: int) -> list[SliceRecord]:
    """Records of a thread's slices. ``limit`` below 0: all."""
    number = number_of(connection, thread)
    packed = segments.records(connection, number)
    found = packed[after:] if limit < 0 else packed[after : after + limit]
    given = (number, limit if limit < 0 else limit - len(found), max(0, after - len(packed)))
    found += [body for (body,) in connection.execute(_RECORDS, given)]
    return [decode_record(body) for body in found]


def last_record(connection: sqlite3.Connection, thread: str) -> SliceRecord | None:
    """The record of the latest slice."""
    number = number_of(connection, thread)
    found = connection.execute(_LAST_RECORD, (number,)).fetchone()
    bodies = segments.records(connection, number) if found is None else found
    return decode_record(bodies[-1]) if bodies else None


def outcome(connection: sqlite3.Connection, thread: str, signal: str) -> str | None:
    """What became of a signal."""
    found = connection.execute(_OUTCOME, (thread, signal)).fetchone()
    return None if found is None else str(found[0])
