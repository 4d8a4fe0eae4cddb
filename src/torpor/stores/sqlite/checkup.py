"""A look at a file without changing anything: what is wrong with it, in words for people."""

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from torpor.ports.checkup import Checkup, Due, Finding, Survey
from torpor.stores.sqlite.schema import migrations
from torpor.stores.statements import statements

LITTLE, HARDLY = 1 << 30, 64 << 20
"""Bytes of free disk below which there is a word to say, and below which writes will soon fail."""
LONG_LOG = 512 << 20
"""Bytes of a write-ahead log that somebody keeps from being written back."""
LOOKED_THROUGH = 256 << 20
"""Bytes of a file that is read all through: about a second. Larger ones would keep whoever asks waiting."""
FAR = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "afs")
"""File systems on which several machines do not agree about locks."""
MOUNTS = Path("/proc/mounts")

_SQL = statements(__package__, "sql/checkup.sql")


def checkup(path: Path) -> Checkup:
    """What there is to say of the file, and how much waits in it."""
    if not path.exists():
        return _wrong(f"there is no file {path} yet; `torpor new` or `torpor serve` makes it")
    if not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return _wrong(f"{path} is read-only: make the file and its folder writable for this user")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as file:
            return _checkup(path, file)
    except sqlite3.Error as error:
        return _wrong(f"{path} cannot be read: {error}")


def _wrong(found: str) -> Checkup:
    return Checkup((Finding("wrong", "store", found),))


def _checkup(path: Path, file: sqlite3.Connection) -> Checkup:
    size = path.stat().st_size
    damage = [row[0] for row in file.execute("PRAGMA quick_check(3)")] if size <= LOOKED_THROUGH else ["ok"]
    if damage != ["ok"]:
        return _wrong(f"{path} is damaged: {'; '.join(damage)}. Restore a copy.")
    version = file.execute("PRAGMA user_version").fetchone()[0]
    known = migrations()[-1][0]
    whole = Finding("fine", "store", f"{path} {_read(size)}, {size:,} bytes, schema {version}")
    if version > known:
        return _wrong(f"schema {version} is of a newer release than this one (it knows {known}): upgrade")
    if version < known:
        told = f"schema {version}, and {known} once this release is started on it; it was not looked into"
        return Checkup((whole, Finding("note", "store", told), *_around(path)))
    return Checkup((whole, *_file(path, file), *_around(path)), _survey(file))


def _read(size: int) -> str:
    """How far a file of so many bytes was read."""
    if size <= LOOKED_THROUGH:
        return "is whole"
    return "can be read (it is too large to be read all through here; PRAGMA quick_check does that)"


def _file(path: Path, file: sqlite3.Connection) -> Iterator[Finding]:
    mode = file.execute("PRAGMA journal_mode").fetchone()[0]
    if mode != "wal":
        told = (
            f"its journal mode is {mode}: readers and writers wait for each other until torpor opens it again"
        )
        yield Finding("note", "store", told)
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size > LONG_LOG:
        told = f"{log} has {log.stat().st_size:,} bytes: some program holds an old state of the file open"
        yield Finding("note", "store", told)


def _around(path: Path) -> Iterator[Finding]:
    if os.name == "posix" and path.stat().st_mode & 0o077:
        told = f"others may read {path}, which holds conversations and keys. Run: chmod 600 {path}"
        yield Finding("note", "store", told)
    system = _file_system(path.absolute())
    if system in FAR:
        told = (
            f"{path} is on a network file system ({system}): its locks cannot be relied on, use a local disk"
        )
        yield Finding("wrong", "store", told)
    free = shutil.disk_usage(path.absolute().parent).free
    if free < LITTLE:
        told = f"{free:,} bytes are free on its disk: writes fail when it is full. Free some space"
        yield Finding("wrong" if free < HARDLY else "note", "disk", told)
    else:
        yield Finding("fine", "disk", f"{free / (1 << 30):,.0f} GB free")


def _file_system(path: Path) -> str:
    """The kind of file system that a file is on; empty where that is not told."""
    try:
        mounts = [line.split(" ")[1:3] for line in MOUNTS.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return ""
    above = [(len(place), kind) for place, kind in mounts if path.is_relative_to(place)]
    return max(above, default=(0, ""))[1]


def _survey(file: sqlite3.Connection) -> Survey:
    now = time.time()
    given = {"now": now}
    file.execute("BEGIN")
    newest, parked = file.execute(_SQL["threads"]).fetchone()
    leased, ready, ready_since = file.execute(_SQL["rings"], given).fetchone()
    effects, left, left_since = file.execute(_SQL["effects"], given).fetchone()
    agents = tuple(agent for (agent,) in file.execute(_SQL["agents"]))
    due = tuple(Due(*row) for row in file.execute(_SQL["due"], given))
    return Survey(
        now=now, newest=newest, parked=parked, agents=agents, due=due, leased=leased, ready=ready,
        ready_since=ready_since, effects=effects, left=left, left_since=left_since,
    )  # fmt: skip
