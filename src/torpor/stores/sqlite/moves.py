"""A thread as a whole: read out for another store, and taken in from one."""

import sqlite3

from torpor.core.codec import decode_signal, encode
from torpor.core.errors import Refused
from torpor.core.signals import kind_of
from torpor.core.views import views_space
from torpor.ports import Commit, Exported, Row, Version
from torpor.stores.sqlite import reads
from torpor.stores.sqlite.rows import advance_of, columns_of, fixed_of
from torpor.stores.sqlite.writes import number_of, outbox_row
from torpor.stores.statements import statements

_SQL = statements(__package__, "sql/moves.sql")
_THREADS = statements(__package__, "sql/threads.sql")
_HISTORY = statements(__package__, "sql/history.sql")
_INBOX = statements(__package__, "sql/inbox.sql")
_SIDE = statements(__package__, "sql/side.sql")

_WHOLE = -1
"""No limit, to SQLite."""


def export(connection: sqlite3.Connection, thread: str) -> Exported:
    """All that is kept of a thread."""
    row = reads.one(connection, thread)
    if row is None:
        raise Refused(f"There is no thread {thread!r} in this store.")
    given = (number_of(connection, thread),)
    ask = connection.execute
    return Exported(
        row=row,
        messages=tuple(reads.read(connection, thread, 0, _WHOLE)),
        inbox=tuple([(decode_signal(body), arrived) for body, arrived in ask(_SQL["inbox"], given)]),
        absorbed=tuple(ask(_SQL["absorbed"], given)),
        outbox=tuple([(outbox_row(values), at) for *values, at in ask(_SQL["outbox"], given)]),
        records=tuple(reads.records(connection, thread, 0, _WHOLE)),
        blobs=dict(ask(_SQL["blobs"], (thread,)).fetchall()),
        views=dict(ask(_SIDE["entries"], (views_space(thread),)).fetchall()),
    )


def take_in(connection: sqlite3.Connection, exported: Exported, now: float) -> bool:
    """Add a thread with all that was kept of it, unless it exists and is more than an older copy."""
    number = _added(connection, exported.row)
    if number is None:
        return False
    _add_rows(connection, number, exported)
    _add_small(connection, exported, now)
    return True


def _added(connection: sqlite3.Connection, row: Row) -> int | None:
    """Add the row alone, in the place of a copy that has not lived; gives its inner number."""
    added = connection.execute(_THREADS["add"], columns_of(row))
    if added.rowcount:
        return added.lastrowid
    found = connection.execute(_SQL["copy"], (row.thread, row.version.counter)).fetchone()
    if found is None:
        return None
    number: int = found[0]
    for table in ("messages", "inbox", "absorbed", "outbox", "records", "segments"):
        connection.execute(_SQL[f"drop_{table}"], found)
    connection.execute(_SQL["drop_blobs"], (row.thread,))
    connection.execute(_SQL["drop_views"], (views_space(row.thread),))
    before = Version(row.version.counter - 1)
    change = Commit(thread=row.thread, base=before, commit_id=row.version.commit_id, row=row)
    connection.execute(_THREADS["advance"], advance_of(change, number))
    connection.execute(_THREADS["rewrite"], (*fixed_of(row), number))
    return number


def _add_rows(connection: sqlite3.Connection, number: int, exported: Exported) -> None:
    add = connection.executemany
    add(_HISTORY["add"], [(number, each.position, each.body) for each in exported.messages])
    add(_INBOX["absorb"], [(number, *each) for each in exported.absorbed])
    signals = [
        (number, signal.id, kind_of(signal), signal.due, arrived, encode(signal))
        for signal, arrived in exported.inbox
    ]
    add(_INBOX["add"], signals)
    effects = [
        (number, row.effect.id, row.attempt, row.not_before, created, encode(row.effect))
        for row, created in exported.outbox
    ]
    add(_SQL["add_effect"], effects)
    add(_THREADS["add_record"], [(number, encode(record)) for record in exported.records])


def _add_small(connection: sqlite3.Connection, exported: Exported, now: float) -> None:
    thread = exported.row.thread
    connection.executemany(_SIDE["add_blob"], [(thread, *each, now) for each in exported.blobs.items()])
    views = [(views_space(thread), key, value, now) for key, value in exported.views.items()]
    connection.executemany(_SIDE["put"], views)
