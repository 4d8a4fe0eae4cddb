"""What PostgreSQL's errors mean to a caller: one of our four, with what to do about it."""

import re

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from torpor.core.errors import Broken, Conflict, Refused, TorporError, Unavailable

_AWAY = "The PostgreSQL server of {place} does not answer ({why}). Try again; nothing was half-written."
_ENDED = "The connection to {place} was lost ({why}). Try again; nothing was half-written."
_CROWDED = (
    "No connection to {place} came free in time: the server is away, or all of them are busy. "
    "Try again; if this lasts, look at the server, or let the URL name a larger ?pool=."
)
_READ_ONLY = "The PostgreSQL server of {place} is read-only: a replica, perhaps. Try again once it is not."
_FULL = "The PostgreSQL server of {place} has no room ({why}). Free some; nothing was half-written."
_SLOW = "The PostgreSQL server of {place} took too long ({why}). Try again; nothing was half-written."
_RACED = "Others were quicker at {place}, several times over ({why}). Try again; nothing was half-written."
_NOT_LET_IN = "The PostgreSQL server of {place} does not let this user in ({why}). Check the URL."
_NO_DATABASE = "There is no such database: {place} ({why}). Create it (`createdb`), or name another one."
_NOT_ALLOWED = (
    "This user may not do what is needed at {place} ({why}). "
    "Grant it CREATE on the database, or let its owner start torpor once."
)
_NO_TABLES = "The tables of {place} are gone ({why}). Start torpor again to make them anew."
_DAMAGED = "The store {place} is damaged ({why}). Restore a backup."
_OURS = "The store {place} did not accept a statement ({code}: {why})."

_TAKEN = "Somebody has written there already, at {place} ({why})."

_KINDS: dict[str, tuple[type[TorporError], str]] = {
    "23505": (Conflict, _TAKEN),
    "28": (Refused, _NOT_LET_IN),
    "3D000": (Refused, _NO_DATABASE),
    "40": (Unavailable, _RACED),
    "42501": (Refused, _NOT_ALLOWED),
    "3F000": (Refused, _NO_TABLES),
    "42P01": (Refused, _NO_TABLES),
    "53": (Unavailable, _FULL),
    "53300": (Unavailable, _AWAY),
    "55P03": (Unavailable, _SLOW),
    "57014": (Unavailable, _SLOW),
    "58": (Unavailable, _FULL),
    "XX": (Broken, _DAMAGED),
}
_AT_THE_DOOR = (
    (
        re.compile(r"password|pg_hba|role .* does not exist"),
        _NOT_LET_IN,
    ),
    (re.compile(r"database .* does not exist"), _NO_DATABASE),
    (re.compile(r"read-only|hot standby"), _READ_ONLY),
)
"""What a server says as it turns somebody away, where no code comes along."""

_RACES = ("40001", "40P01")
_UNPREPARED = ("26000", "42P05", "0A000")


class Ended(Unavailable):
    """The connection was lost: what was asked for may have been done."""


def fault(error: psycopg.Error, place: object) -> TorporError:
    """Our error for one of PostgreSQL's."""
    if isinstance(error, PoolClosed):
        return Refused(f"The store {place} was closed. Open it again to go on.")
    if isinstance(error, PoolTimeout | TooManyRequests):
        return Unavailable(_CROWDED.format(place=place))
    code, why = error.sqlstate or "", _why(error)
    if lost(error):
        return Ended((_READ_ONLY if code == "25006" else _ENDED).format(place=place, why=why))
    kind, text = _KINDS.get(code) or _KINDS.get(code[:2]) or (Broken, _OURS)
    return kind(text.format(place=place, why=why, code=code or type(error).__name__))


def turned_away(error: psycopg.Error, place: object) -> TorporError:
    """Our error for a connection that could not be made."""
    if error.sqlstate:
        return fault(error, place)
    why = _why(error)
    for words, text in _AT_THE_DOOR:
        if words.search(str(error)):
            kind = Unavailable if text is _READ_ONLY else Refused
            return kind(text.format(place=place, why=why))
    return Unavailable(_AWAY.format(place=place, why=why))


def lost(error: psycopg.Error) -> bool:
    """The session has ended, or is of no use: another one may do better."""
    if isinstance(error, PoolTimeout | PoolClosed | TooManyRequests):
        return False
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError)
    return code[:2] == "08" or (code[:2] == "57" and code != "57014") or code in ("25006", "25P03")


def raced(error: psycopg.Error) -> bool:
    """The transaction lost against others and was undone whole."""
    return error.sqlstate in _RACES


def unprepared(error: psycopg.Error) -> bool:
    """A statement that was prepared is not what it was: somebody hands our transactions to other sessions."""
    return error.sqlstate in _UNPREPARED


def _why(error: psycopg.Error) -> str:
    """The server's word for it, on one line."""
    said = error.diag.message_primary or str(error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    word = (lines[-1] if lines else type(error).__name__).rpartition("FATAL:")[2]
    return word.strip()[:300].rstrip(".")
