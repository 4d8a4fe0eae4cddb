"""A store on a disk that loses its power: ``python -m tests.faults.power FOLDER SYNCHRONOUS LOG``.

SQLite's own calls for writing, cutting and syncing files are recorded on their way, with what callers were
told in between. From that record follows what may be on the disk at any moment: all that was synced, and of
what was written since then anything, in sectors.
"""

import asyncio
import ctypes
import os
import random
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.samples import commit_on, said, thread_row

THREADS, COMMITS = 4, 25
CHECKPOINT = 30
"""Pages after which the log is written back into the file: soon, so that this is cut off, too."""
SECTOR = 512
FILES = ("store.db", "store.db-wal")
"""What is there once the tables are made; what processes share in memory ends with the power."""
FILE_POINTER, JOURNAL_POINTER = 7, 28
"""``SQLITE_FCNTL_…``: an open database's file, and its log."""
Table = Any
"""SQLite's methods for one kind of files: pointers to functions."""


class Event(msgspec.Struct, array_like=True):
    """``write``, ``cut`` (to a size), ``sync``, or ``told`` (a caller, that a thread's commit is durable)."""

    kind: str
    name: str
    offset: int = 0
    body: bytes = b""


_Write = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_Cut = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class File(ctypes.Structure):
    """How an open file of SQLite's begins: its methods, and three words later its descriptor."""

    _fields_ = (
        ("methods", ctypes.POINTER(ctypes.c_void_p)),
        ("vfs", ctypes.c_void_p),
        ("inode", ctypes.c_void_p),
        ("descriptor", ctypes.c_int),
    )


class Recorder:
    """Stands in SQLite's tables of methods, in the places of write (3), truncate (4) and sync (5)."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self._lock = threading.Lock()
        self._kept: list[Any] = []
        tables = {ctypes.addressof(table.contents): table for table in _methods(folder)}
        for address, table in tables.items():
            _allow_writing(address)
            self._stand_in(table)

    def _stand_in(self, table: Table) -> None:
        write, cut, sync = _Write(table[3]), _Cut(table[4]), _Sync(table[5])

        def written(file: int, body: int, size: int, offset: int) -> int:
            self.add(Event("write", _name(file), offset, ctypes.string_at(body, size)))
            return int(write(file, body, size, offset))

        def was_cut(file: int, size: int) -> int:
            self.add(Event("cut", _name(file), size))
            return int(cut(file, size))

        def synced(file: int, flags: int) -> int:
            code = int(sync(file, flags))
            self.add(Event("sync", _name(file)))
            return code

        methods = (_Write(written), _Cut(was_cut), _Sync(synced))
        self._kept += methods
        for place, method in zip((3, 4, 5), methods, strict=True):
            table[place] = ctypes.cast(method, ctypes.c_void_p).value

    def add(self, event: Event) -> None:
        """Something happened."""
        with self._lock:
            self.events.append(event)


def _methods(folder: Path) -> list[Table]:
    library = ctypes.CDLL("libsqlite3.so.0")
    database = ctypes.c_void_p()
    if library.sqlite3_open(os.fsencode(folder / "probe.db"), ctypes.byref(database)):
        raise OSError("SQLite opens no file")
    words = b"PRAGMA journal_mode = WAL; CREATE TABLE probe (a)"
    if library.sqlite3_exec(database, words, None, None, None):
        raise OSError("SQLite writes no file")
    control = library.sqlite3_file_control
    control.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    tables = []
    for which in (FILE_POINTER, JOURNAL_POINTER):
        found = ctypes.POINTER(File)()
        if control(database, b"main", which, ctypes.byref(found)):
            raise OSError("SQLite shows no file")
        tables.append(found.contents.methods)
    return tables


def _allow_writing(address: int) -> None:
    size = os.sysconf("SC_PAGE_SIZE")
    begin = address - address % size
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(begin), 2 * size, 3):
        raise OSError(ctypes.get_errno(), "the table of methods cannot be written")


def _name(file: int) -> str:
    descriptor = ctypes.cast(file, ctypes.POINTER(File)).contents.descriptor
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


async def work(folder: Path, synchronous: Any) -> list[Event]:
    """Commit to several threads at once; all that happened to the files, and what was told."""
    recorder = Recorder(folder)
    database = Database.open(folder / "store.db", synchronous=synchronous)
    writer: Any = database._writer
    writer._connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
    store = SqliteStore(database)

    async def one(name: str) -> None:
        row = thread_row(name)
        await store.create(row, [said(name)])
        recorder.add(Event("told", name, 0))
        for number in range(1, COMMITS + 1):
            await store.commit(commit_on(await store.load(name), f"{number} {'x' * 700}"))
            recorder.add(Event("told", name, number))

    await asyncio.gather(*(one(f"t{number}") for number in range(THREADS)))
    await store.close()
    return recorder.events


class Remains:
    """What is on the disk when the power goes after so many events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.told: dict[str, int] = {}
        """By thread, the last commit that a caller was told to be durable."""
        self._synced: dict[str, bytearray] = defaultdict(bytearray)
        self._since: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.kind == "told":
                self.told[event.name] = event.offset
            elif event.kind == "sync":
                _apply(self._synced[event.name], self._since.pop(event.name, []))
            else:
                self._since[event.name].append(event)

    def lay(self, folder: Path, chance: random.Random) -> None:
        """Put into a folder what may be left of the files; of what was not synced, some sectors."""
        share = chance.choice((0.0, 0.3, 0.7, 1.0))
        for name in FILES:
            content = bytearray(self._synced[name])
            torn = [part for event in self._since[name] for part in _sectors(event)]
            _apply(content, [part for part in torn if chance.random() < share])
            (folder / name).write_bytes(content)


def _sectors(event: Event) -> list[Event]:
    if event.kind == "cut":
        return [event]
    cuts = range(0, len(event.body), SECTOR)
    return [Event("write", event.name, event.offset + at, event.body[at : at + SECTOR]) for at in cuts]


def _apply(content: bytearray, events: Sequence[Event]) -> None:
    for event in events:
        if event.kind == "cut":
            del content[event.offset :]
        else:
            content.extend(bytes(max(0, event.offset - len(content))))
            content[event.offset : event.offset + len(event.body)] = event.body


if __name__ == "__main__":
    happened = asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
    Path(sys.argv[3]).write_bytes(msgspec.msgpack.encode(happened))
