"""Messages and records of threads at rest, many in one row; read as if each had its own.

Measured in the agent_scale workload, varied text: less than a third of the bytes on disk.
"""

import sqlite3
from collections.abc import Iterator, Sequence

import msgspec

from torpor.core.codec import decode_record
from torpor.ports import StoredMessage
from torpor.stores.packing import pack, unpack
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/segments.sql")

MESSAGES, RECORDS = 0, 1
FULL = 256
"""Entries from which on a segment is left alone; shorter ones take in what comes after them."""
NEVER = 1e18
"""``since`` of a segment in which nothing may be forgotten."""


class Segment(msgspec.Struct, frozen=True):
    """Entries of one kind, packed, in the place of their rows and of an earlier segment (0: of none)."""

    kind: int
    first: int
    count: int
    since: float
    body: bytes
    instead: int = 0


class Packed(msgspec.Struct, frozen=True):
    """A thread at rest as of one version: its segments, and the rows that they stand for."""

    number: int
    counter: int
    messages: int
    records: int
    segments: tuple[Segment, ...]


def history(connection: sqlite3.Connection, number: int, after: int, limit: int) -> list[StoredMessage]:
    """Packed messages after a position, at most ``limit``; below 0: all."""
    found: list[StoredMessage] = []
    for first, body in connection.execute(_SQL["after"], (number, after)):
        bodies: list[bytes] = unpack(body, list[bytes])
        found += [StoredMessage(at, one) for at, one in enumerate(bodies, first) if at > after]
        if 0 <= limit <= len(found):
            return found[:limit]
    return found


def records(connection: sqlite3.Connection, number: int) -> list[bytes]:
    """Packed records of slices, oldest first."""
    return [one for (body,) in connection.execute(_SQL["records"], (number,)) for one in _bodies(body)]


def resting(connection: sqlite3.Connection, before: float, limit: int) -> list[tuple[int, int]]:
    """Numbers and versions of threads that are not packed and have not changed since an instant."""
    return connection.execute(_SQL["resting"], (before, limit)).fetchall()


def packed(connection: sqlite3.Connection, thread: tuple[int, int]) -> Packed:
    """A thread, packed; nothing is written yet."""
    number, counter = thread
    messages = connection.execute(_SQL["messages"], (number,)).fetchall()
    slices = connection.execute(_SQL["slices"], (number,)).fetchall()
    segments = [
        _segment(connection, number, kind, rows)
        for kind, rows in ((MESSAGES, messages), (RECORDS, slices))
        if rows
    ]
    return Packed(number, counter, len(messages), len(slices), tuple(segments))


def _segment(
    connection: sqlite3.Connection, number: int, kind: int, rows: Sequence[tuple[int, bytes]]
) -> Segment:
    """Rows as a segment, with those of the last one if that is short."""
    bodies = [body for _, body in rows]
    before = connection.execute(_SQL["last"], (number, kind, FULL)).fetchone()
    instead, first = 0, rows[0][0] if kind == MESSAGES else 1
    if before is not None:
        last, at, count, body = before
        if body is not None:
            instead, bodies = last, [*_bodies(body), *bodies]
        first = at if instead else at + count
    return Segment(
        kind, first, len(bodies), NEVER if kind == MESSAGES else _since(bodies), pack(bodies), instead
    )


def keep(connection: sqlite3.Connection, threads: Sequence[Packed]) -> int:
    """Write segments in the place of rows, of threads that are as they were; gives how many."""
    return sum([_keep(connection, thread) for thread in threads])


def _keep(connection: sqlite3.Connection, thread: Packed) -> bool:
    number = thread.number
    as_read = (number, thread.counter, thread.messages, thread.records)
    if connection.execute(_SQL["unchanged"], as_read).fetchone() is None:
        return False
    connection.execute(_SQL["drop_messages"], (number,))
    connection.execute(_SQL["drop_records"], (number,))
    for one in thread.segments:
        if one.instead:
            connection.execute(_SQL["replace"], (one.instead, number, one.kind))
        connection.execute(_SQL["add"], (number, one.kind, one.first, one.count, one.since, one.body))
    return True


def forget_records(connection: sqlite3.Connection, before: float, limit: int) -> tuple[int, bool]:
    """Forget packed records of slices that ended before an instant, but the last of each thread.

    In some segments at once; gives how many, and whether there may be more.
    """
    old = connection.execute(_SQL["old"], (before, limit)).fetchall()
    return sum([_forget(connection, segment, before) for segment in old]), len(old) == limit


def _forget(connection: sqlite3.Connection, segment: tuple[int, int, int, bytes], before: float) -> int:
    number, thread, first, body = segment
    bodies = _bodies(body)
    (has_later,) = connection.execute(_SQL["has_later"], (thread, first)).fetchone()
    last = [] if has_later else bodies[-1:]
    young = [one for one in bodies[: len(bodies) - len(last)] if _ended(one) >= before]
    left = [*young, *last]
    if left:
        since = _since(young) if young else NEVER
        connection.execute(_SQL["rewrite"], (len(left), since, pack(left), number))
    else:
        connection.execute(_SQL["drop"], (number,))
    return len(bodies) - len(left)


def _bodies(body: bytes) -> list[bytes]:
    bodies: list[bytes] = unpack(body, list[bytes])
    return bodies


def _since(bodies: Sequence[bytes]) -> float:
    return min(map(_ended, bodies))


def _ended(body: bytes) -> float:
    return decode_record(body).committed_at


def in_parts(threads: Sequence[tuple[int, int]], size: int) -> Iterator[Sequence[tuple[int, int]]]:
    """Some threads at a time."""
    return (threads[first : first + size] for first in range(0, len(threads), size))
