"""What SQLite's errors mean to a caller: one of our four, with what to do about it."""

import sqlite3

from torpor.core.errors import Broken, Refused, TorporError, Unavailable

_READ_ONLY = "The store {path} is read-only here. Make the file and its folder writable for this user."
_CANNOT_OPEN = (
    "The store {path} cannot be opened. Its folder must exist, this user must be allowed to write there, "
    "and its file system must not be read-only."
)
_NO_DATABASE = "{path} is no SQLite database. Name another file; this one was left as it is."
_FULL = "The disk that holds the store {path} is full. Free some space; nothing was half-written."
_BUSY = "Another process is writing the store {path}. Try again in a moment."
_DISK = "The disk that holds the store {path} fails ({code}). Nothing was half-written; try again."
_DAMAGED = (
    "The store {path} is damaged ({code}). Restore a copy, or ask SQLite's `.recover` for what is left."
)
_GONE = (
    "The file of the store {path} is gone, or another one is in its place. "
    "Put it back, or end all processes of this store and start them again."
)
_OURS = "The store {path} did not accept a statement ({code}: {error})."

_KINDS: dict[int, tuple[type[TorporError], str]] = {
    sqlite3.SQLITE_READONLY: (Refused, _READ_ONLY),
    sqlite3.SQLITE_PERM: (Refused, _CANNOT_OPEN),
    sqlite3.SQLITE_AUTH: (Refused, _CANNOT_OPEN),
    sqlite3.SQLITE_CANTOPEN: (Refused, _CANNOT_OPEN),
    sqlite3.SQLITE_NOTADB: (Refused, _NO_DATABASE),
    sqlite3.SQLITE_FULL: (Unavailable, _FULL),
    sqlite3.SQLITE_BUSY: (Unavailable, _BUSY),
    sqlite3.SQLITE_LOCKED: (Unavailable, _BUSY),
    sqlite3.SQLITE_IOERR: (Unavailable, _DISK),
    sqlite3.SQLITE_PROTOCOL: (Unavailable, _BUSY),
    sqlite3.SQLITE_CORRUPT: (Broken, _DAMAGED),
}


def fault(error: sqlite3.Error, path: str) -> TorporError:
    """Our error for one of SQLite's."""
    kind, text = _KINDS.get(primary_code(error), (Broken, _OURS))
    code = getattr(error, "sqlite_errorname", type(error).__name__)
    return kind(text.format(path=path, code=code, error=error))


def gone(path: str) -> Unavailable:
    """What is written to a file that is no longer in its place is lost with the process."""
    return Unavailable(_GONE.format(path=path))


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 where it gave none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def busy(error: sqlite3.Error) -> bool:
    """Somebody else holds the lock: the same statement may succeed in a moment."""
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
