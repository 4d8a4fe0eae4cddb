"""What a soak samples: memory, handles, threads and tasks of its processes, rows and bytes of its store."""

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psycopg

MIB = 1024 * 1024
BOUNDS = {"MiB": 6.0, "handles": 3.0, "threads": 2.0, "tasks": 6.0, "rows": 120.0, "MiB on disk": 6.0}
"""Growth an hour, by unit, that is no leak even where it is more than chance."""
_TICKS = os.sysconf("SC_CLK_TCK")
_TABLES = """
SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname = 'torpor' AND relkind IN ('r', 'p') AND NOT relispartition
"""


class Sample(msgspec.Struct, frozen=True):
    """All values at one instant, by unit and name."""

    at: float
    values: dict[str, dict[str, float]]
    cpu: float
    """Seconds of CPU of all processes so far."""
    load: float


class Watch:
    """Samples processes and the store."""

    def __init__(self, store: str, folder: Path, server: int = 0) -> None:
        self.samples: list[Sample] = []
        self._store = store
        self._folder = folder
        self._server = server
        """PostgreSQL's process."""
        self._gone: dict[int, float] = {}
        """CPU of all processes that were seen."""

    def look(self, processes: Mapping[str, int], lasting: set[str]) -> Sample:
        """Take a sample. ``lasting``: names of the processes that live from the beginning to the end."""
        values: dict[str, dict[str, float]] = defaultdict(dict)
        for name, process in processes.items():
            for unit, value in self._process(process).items() if name in lasting else ():
                values[unit][name] = value
            self._spend(process)
        for unit, value in self._of_server().items() if self._server else ():
            values[unit]["PostgreSQL"] = value
        values["rows"] = self._rows()
        values["MiB on disk"] = {name: size / MIB for name, size in self._disk().items()}
        sample = Sample(time.monotonic(), values, sum(self._gone.values()), os.getloadavg()[0])
        self.samples.append(sample)
        return sample

    def _process(self, process: int) -> dict[str, float]:
        found = _status(process)
        if not found:
            return {}
        said = {"MiB": found["VmRSS"] / 1024, "threads": found["Threads"], "handles": _handles(process)}
        pulse = self._folder / "pulse" / str(process)
        words = pulse.read_text() if pulse.exists() else ""
        return said | ({"tasks": float(words)} if words else {})

    def _of_server(self) -> dict[str, float]:
        """Memory of all processes of PostgreSQL, what they share left out."""
        members = [self._server, *_children(self._server)]
        for member in members:
            self._spend(member)
        found = [_status(member) for member in members]
        return {
            "MiB": sum(one.get("RssAnon", 0.0) for one in found) / 1024,
            "processes": len(members),
        }

    def _spend(self, process: int) -> None:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            return
        self._gone[process] = (int(fields[11]) + int(fields[12])) / _TICKS

    def _rows(self) -> dict[str, float]:
        counts = _postgres(self._store) if self._server else _sqlite(self._store)
        return {table: float(count) for table, count in counts.items()}

    def _disk(self) -> dict[str, float]:
        sizes = {path.stem: _size(path) for path in self._folder.glob("*.outbox.db")}
        if self._server:
            with psycopg.connect(self._store, autocommit=True) as connection:
                found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            return sizes | {"store": float(found[0] if found else 0)}
        return sizes | {"store": _size(Path(self._store.removeprefix("sqlite:///")))}


def _status(process: int) -> dict[str, float]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    wanted = ("VmRSS", "RssAnon", "Threads")
    return {name: float(fields[name].split()[0]) for name in wanted if name in fields}


def _handles(process: int) -> float:
    try:
        return float(len(list(Path(f"/proc/{process}/fd").iterdir())))
    except OSError:
        return 0.0


def _children(process: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _size(path: Path) -> float:
    return float(sum(each.stat().st_size for each in (path, Path(f"{path}-wal")) if each.exists()))


def _sqlite(store: str) -> dict[str, int]:
    path = store.removeprefix("sqlite:///")
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)
    try:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        named = [name for (name,) in tables if not name.startswith("sqlite_")]
        return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in named}  # noqa: S608
    finally:
        connection.close()


def _postgres(store: str) -> dict[str, int]:
    with psycopg.connect(store, autocommit=True) as connection:
        named = [name for (name,) in connection.execute(_TABLES).fetchall()]
        counts = {}
        for name in named:
            found = connection.execute(f'SELECT count(*) FROM torpor."{name}"'.encode()).fetchone()  # noqa: S608
            counts[name] = int(found[0]) if found else 0
        return counts
