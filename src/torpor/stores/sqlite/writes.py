"""What the store writes: each function is one operation inside the writer's transaction."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core.codec import decode_effect, encode
from torpor.core.effects import Effect
from torpor.core.errors import Conflict, Refused
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal, kind_of
from torpor.ports import Commit, OutboxRow, Posted, Row, Version
from torpor.stores.sqlite.kept import Known
from torpor.stores.sqlite.rows import advance_of, columns_of, fixed_of
from torpor.stores.statements import statements

_THREADS = statements(__package__, "sql/threads.sql")
_HISTORY = statements(__package__, "sql/history.sql")
_INBOX = statements(__package__, "sql/inbox.sql")
_OUTBOX = statements(__package__, "sql/outbox.sql")

_ADD_THREAD, _ADDRESS, _NUMBER = _THREADS["add"], _THREADS["address"], _THREADS["number"]
_GUARDED, _REWRITE = _THREADS["guarded"], _THREADS["rewrite"]
_ADVANCE, _ADVANCE_KNOWN = _THREADS["advance"], _THREADS["advance_known"]
_POSTPONE, _ADD_RECORD = _THREADS["postpone"], _THREADS["add_record"]
_ADD_MESSAGE = _HISTORY["add"]
_ADD_SIGNAL, _TAKE, _ABSORB = _INBOX["add"], _INBOX["take"], _INBOX["absorb"]
_HOLD, _HELD, _HAS_EFFECT = _THREADS["hold"], _THREADS["held"], _THREADS["has_effect"]
_ADD_EFFECT, _ONE_EFFECT, _DELIVERED = _OUTBOX["add"], _OUTBOX["one"], _OUTBOX["delivered"]
_CLAIM, _RELEASE, _HASTEN = _OUTBOX["claim"], _OUTBOX["release"], _OUTBOX["hasten"]

UNKNOWN = Posted("unknown")


class Claimer(msgspec.Struct, frozen=True):
    """Who claims effects, when, and until when."""

    holder: str
    now: float
    until: float


def number_of(connection: sqlite3.Connection, thread: str) -> int:
    """The inner number of a thread. ``Refused`` if there is none of that id."""
    found = connection.execute(_NUMBER, (thread,)).fetchone()
    if found is None:
        raise Refused(f"There is no thread {thread!r} in this store.")
    number: int = found[0]
    return number


def create(
    connection: sqlite3.Connection, row: Row, signals: Sequence[AnySignal], effect: str, now: float
) -> bool:
    """Add a thread with its first signals, unless it exists, or what it comes of does not."""
    if row.source and connection.execute(_NUMBER, (row.source,)).fetchone() is None:
        return False
    if effect and connection.execute(_HAS_EFFECT, (effect, row.parent)).fetchone() is None:
        return False
    added = connection.execute(_ADD_THREAD, columns_of(row))
    if not added.rowcount:
        return False
    number = added.lastrowid
    connection.executemany(_ADD_SIGNAL, [_signal(number, signal, now) for signal in signals])
    return True


def post(connection: sqlite3.Connection, signals: Sequence[AnySignal], now: float) -> list[Posted]:
    """Put signals into their threads' inboxes, each once."""
    known: dict[str, tuple[int, str, str, str] | None] = {}
    posted = []
    for signal in signals:
        if signal.thread not in known:
            known[signal.thread] = connection.execute(_ADDRESS, (signal.thread,)).fetchone()
        address = known[signal.thread]
        if address is None:
            posted.append(UNKNOWN)
            continue
        number, agent, owner, tier = address
        added = connection.execute(_ADD_SIGNAL, _signal(number, signal, now)).rowcount
        posted.append(Posted("new" if added else "repeat", agent, owner, tier))
    return posted


def finish(connection: sqlite3.Connection, signal: AnySignal, effect: str, now: float) -> Posted:
    """Put what came of an effect into its thread's inbox, and take the effect out."""
    address = connection.execute(_ADDRESS, (signal.thread,)).fetchone()
    if address is None:
        return UNKNOWN
    number, agent, owner, tier = address
    added = connection.execute(_ADD_SIGNAL, _signal(number, signal, now)).rowcount
    connection.execute(_DELIVERED, (number, effect))
    return Posted("new" if added else "repeat", agent, owner, tier)


def _signal(
    number: int | None, signal: AnySignal, now: float
) -> tuple[int | None, str, str, float, float, bytes]:
    kind = kind_of(signal)
    return number, signal.id, kind, signal.due, now, encode(signal)


def commit(
    connection: sqlite3.Connection, change: Commit, known: Known | None, now: float, holder: str
) -> tuple[int, Version]:
    """Write a slice, guarded by the version it read; gives the thread's inner number too."""
    number = _advanced(connection, change, known)
    if number is None:
        return _repeated(connection, change)
    _append(connection, number, change)
    _settle(connection, number, change, now)
    if change.effects:
        holder = change.holder or holder
        connection.executemany(
            _ADD_EFFECT,
            [_effect(number, effect, change.claimed_until, holder, now) for effect in change.effects],
        )
    if change.record is not None:
        connection.execute(_ADD_RECORD, (number, encode(change.record)))
    return number, Version(change.base.counter + 1, change.commit_id)


def _advanced(connection: sqlite3.Connection, change: Commit, known: Known | None) -> int | None:
    """Write the row, if it is still where the slice began; gives its inner number."""
    base = change.base
    fixed = fixed_of(change.row)
    if known is not None and fixed_of(known.row) == fixed:
        row = (*advance_of(change, known.number), base.counter, base.commit_id, change.thread)
        return known.number if connection.execute(_ADVANCE_KNOWN, row).rowcount else None
    found = connection.execute(_GUARDED, (change.thread,)).fetchone()
    if found is None or (found[1], found[2]) != (base.counter, base.commit_id):
        return None
    number: int = found[0]
    connection.execute(_ADVANCE, advance_of(change, number))
    if list(found[3:]) != fixed:
        connection.execute(_REWRITE, (*fixed, number))
    return number


def _repeated(connection: sqlite3.Connection, change: Commit) -> tuple[int, Version]:
    """The thread is not where the slice began: this commit has happened already, or another one."""
    found = connection.execute(_GUARDED, (change.thread,)).fetchone()
    if found is None:
        raise Refused(f"There is no thread {change.thread!r} in this store.")
    number, counter, commit_id, *_ = found
    if commit_id != change.commit_id:
        raise Conflict(f"Thread {change.thread} has moved on to version {counter}.")
    return number, Version(counter, commit_id)


def _append(connection: sqlite3.Connection, number: int, change: Commit) -> None:
    try:
        connection.executemany(
            _ADD_MESSAGE, [(number, message.position, message.body) for message in change.messages]
        )
    except sqlite3.IntegrityError as error:
        raise Conflict(f"Thread {change.thread} already has a message at such a position.") from error


def _settle(connection: sqlite3.Connection, number: int, change: Commit, now: float) -> None:
    for signal, outcome in change.absorbed.items():
        if connection.execute(_TAKE, (number, signal)).rowcount:
            connection.execute(_ABSORB, (number, signal, now, outcome))
    for timer in change.cancelled:
        connection.execute(_TAKE, (number, timer))
    for due in change.timers:
        connection.execute(_ADD_SIGNAL, _signal(number, due, now))


def _effect(
    number: int, effect: Effect, claimed_until: float, holder: str, now: float
) -> tuple[int, str, int, float, str, float, bytes]:
    claimed = claimed_until > 0
    return number, effect.id, int(claimed), claimed_until, holder if claimed else "", now, encode(effect)


def postpone(
    connection: sqlite3.Connection, thread: str, base: Version, attempt: int, rest: tuple[float, str]
) -> None:
    """Note a failed try on the row, if the thread is where it was. ``rest``: until when, and a state."""
    until, state = rest
    connection.execute(_POSTPONE, (attempt, until, state, thread, base.counter, base.commit_id))


def claim(
    connection: sqlite3.Connection, thread: str, ids: Sequence[str], claimer: Claimer
) -> list[OutboxRow]:
    """Take or renew effects; those that the claimer has now."""
    number = number_of(connection, thread)
    held: list[OutboxRow] = []
    for id in ids:
        found = connection.execute(_ONE_EFFECT, (number, id)).fetchone()
        if found is None:
            continue
        body, attempt, not_before, claimed_until, holder = found
        if claimed_until > claimer.now:
            if holder != claimer.holder:
                continue
        elif not_before > claimer.now:
            continue
        else:
            attempt, not_before = attempt + 1, max(0.0, not_before)
        connection.execute(_CLAIM, (attempt, not_before, claimer.until, claimer.holder, number, id))
        held.append(OutboxRow(decode_effect(body), attempt, not_before, claimer.until))
    return held


def outbox_row(values: Sequence[Any]) -> OutboxRow:
    """An outbox row from the columns that ``outbox.sql`` gives."""
    body, attempt, not_before, claimed_until = values
    return OutboxRow(decode_effect(body), attempt, not_before, claimed_until)


def delivered(connection: sqlite3.Connection, thread: str, ids: Sequence[str]) -> None:
    """Take acknowledged effects out."""
    number = number_of(connection, thread)
    connection.executemany(_DELIVERED, [(number, id) for id in ids])


def release(
    connection: sqlite3.Connection, thread: str, ids: Sequence[str], releaser: dict[str, str | float]
) -> None:
    """Give effects back (``not_before``, ``holder``, ``now``, ``begun``), unless others took them since."""
    given = {**releaser, "thread": number_of(connection, thread)}
    connection.executemany(_RELEASE, [{**given, "id": id} for id in ids])


def hasten(connection: sqlite3.Connection, thread: str, ids: Sequence[str]) -> None:
    """Make effects due now; one that is held keeps the mark (a time below 0) until it is given back."""
    number = number_of(connection, thread)
    connection.executemany(_HASTEN, [(number, id) for id in ids])


def note(connection: sqlite3.Connection, record: SliceRecord) -> None:
    """Append the record of a slice that committed nothing."""
    connection.execute(_ADD_RECORD, (number_of(connection, record.thread), encode(record)))


def hold(connection: sqlite3.Connection, thread: str, holder: str, until: float, now: float) -> float:
    """Take the right to work on a thread, unless somebody else has it; then until when."""
    given = {"thread": thread, "holder": holder, "until": until, "now": now}
    if connection.execute(_HOLD, given).rowcount:
        return 0.0
    found = connection.execute(_HELD, (thread,)).fetchone()
    if found is None:
        raise Refused(f"There is no thread {thread!r} in this store.")
    held: float = found[0]
    return held
