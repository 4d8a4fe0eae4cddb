"""Many sleeping threads in little time.

Over SQLite, a few threads are put to sleep on the ordinary way, and their rows are written again under other
ids: all rows of a thread, in every table, just as they are, but for its id and its inner number. That takes
the same disk and the same indexes as a million runs of the ordinary way would, which take hours;
``tests/bench/test_sleepers.py`` compares both, row by row. Over PostgreSQL all take the ordinary way.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sleepers import TURNS, name_of, put_to_sleep, serving

from torpor.runtime.resting import pack
from torpor.stores import packing
from torpor.stores.sqlite.database import path_of

BY_NUMBER = ("messages", "inbox", "absorbed", "outbox", "records", "segments")
BY_ID = (("blobs", "thread"), ("small", "key"))
STEP = 5_000
"""Threads of one transaction."""

Cells = tuple[tuple[Any, ...], tuple[int, ...]]
"""A row, and which of its cells name its thread."""


async def filled(store: str, count: int, slots: int = 8) -> None:
    """See that the first ``count`` threads are there and sleep."""
    there = await _counted(store)
    ordinary = count if not store.startswith("sqlite:") else min(count, len(TURNS))
    if there < ordinary:
        async with serving(store, slots) as runtime:
            await put_to_sleep(runtime, range(there, ordinary))
            await pack(runtime.parts.backend, time.time() + 1)
    if count > ordinary:
        copy(Path(path_of(store)), max(there, ordinary), count)


async def _counted(store: str) -> int:
    """How many are there, without a gap."""
    from torpor.wiring import open_parts

    async with open_parts(store) as parts:
        low, high = 0, 1
        while await parts.store.row(name_of(high - 1)) is not None:
            low, high = high, high * 2
        while low + 1 < high:
            middle = (low + high) // 2
            is_there = await parts.store.row(name_of(middle - 1)) is not None
            low, high = (middle, high) if is_there else (low, middle)
        return low


def copy(path: Path, first: int, end: int) -> None:
    """Write threads ``first`` to ``end`` like those of the same place in ``TURNS`` that are there already."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -262144")
        models = [Model(connection, name_of(place)) for place in range(len(TURNS))]
        number = connection.execute("SELECT max(number) FROM threads").fetchone()[0]
        for begin in range(first, end, STEP):
            connection.execute("BEGIN")
            for one in range(begin, min(end, begin + STEP)):
                number += 1
                models[one % len(TURNS)].write(connection, name_of(one), number)
            connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class Model:
    """All rows of one thread."""

    def __init__(self, connection: sqlite3.Connection, thread: str) -> None:
        self._name = thread
        (number,) = connection.execute("SELECT number FROM threads WHERE thread = ?", (thread,)).fetchone()
        self._rows: list[tuple[str, int, list[Cells]]] = []
        self._take(connection, "threads", "number", number)
        for table in BY_NUMBER:
            self._take(connection, table, "thread", number)
        for table, column in BY_ID:
            self._take(connection, table, column, thread, like=f"{thread}/*")

    def _take(
        self, connection: sqlite3.Connection, table: str, column: str, value: Any, like: str = ""
    ) -> None:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if table != "threads" and "number" in names:
            names.remove("number")
        where = f"{column} = ? OR {column} GLOB ?" if like else f"{column} = ?"
        sql = f"SELECT {', '.join(names)} FROM {table} WHERE {where} ORDER BY rowid"  # noqa: S608
        if table == "absorbed":
            sql = sql.replace("rowid", "id")
        rows = connection.execute(sql, (value, like) if like else (value,)).fetchall()
        if rows:
            cells = [self._naming(row, table == "segments") for row in rows]
            marks = ", ".join("?" * len(names))
            insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
            inner = {"threads": "number"}.get(table, "thread" if table in BY_NUMBER else "")
            self._rows.append((insert, names.index(inner) if inner else -1, cells))

    def _naming(self, row: tuple[Any, ...], packed: bool) -> Cells:
        """A row with its cells that name the thread; of packed entries, if one does, as a list of them."""
        cells, places = list(row), []
        for place, cell in enumerate(row):
            bodies = packing.unpack(cell, list[bytes]) if packed and isinstance(cell, bytes) else [cell]
            if any(body != _replaced(body, self._name, "") for body in bodies):
                places.append(place)
                cells[place] = bodies if packed else cell
        return tuple(cells), tuple(places)

    def write(self, connection: sqlite3.Connection, thread: str, number: int) -> None:
        """Write them as those of another thread."""
        for insert, inner, rows in self._rows:
            connection.executemany(insert, self._renamed(rows, inner, thread, number))

    def _renamed(self, rows: list[Cells], inner: int, thread: str, number: int) -> Iterator[list[Any]]:
        for row, named in rows:
            cells = list(row)
            for place in named:
                cells[place] = _replaced(cells[place], self._name, thread)
            if inner >= 0:
                cells[inner] = number
            yield cells


def _replaced(cell: Any, old: str, new: str) -> Any:
    """A cell under another id, which is as long: what is encoded stays whole."""
    if isinstance(cell, list):
        return packing.pack([body.replace(old.encode(), new.encode()) for body in cell])
    if isinstance(cell, bytes):
        return cell.replace(old.encode(), new.encode())
    return cell.replace(old, new) if isinstance(cell, str) else cell
