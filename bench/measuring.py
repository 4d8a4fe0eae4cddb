"""What a run used: CPU time of all threads, memory at rest, the machine."""

import ctypes
import gc
import os
import platform
import time
from pathlib import Path
from typing import Self

import msgspec


class Span:
    """Wall and CPU seconds of this process, all its threads, since it was made or set going again."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self._from = (0.0, 0.0)

    def __enter__(self) -> Self:
        self._from = (time.perf_counter(), time.process_time())
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._from[0]
        self.cpu += time.process_time() - self._from[1]


def resident() -> int:
    """Bytes resident at rest: after a full collection, and with free heap given back."""
    gc.collect()
    if hasattr(_libc := ctypes.CDLL(None), "malloc_trim"):
        _libc.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def slope(points: list[tuple[int, int]]) -> float:
    """Bytes an agent, by least squares over (agents, bytes).

    The first wave also fills caches and pools once and for all; where there are others, it is left out.
    """
    if len(points) > 2:
        points = points[1:]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    across = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / across if across else 0.0


class Machine(msgspec.Struct, frozen=True):
    """Where it ran."""

    cpu: str
    cores: int
    system: str
    python: str
    sqlite: str


def machine() -> Machine:
    """The machine, without any name of its own."""
    import sqlite3

    return Machine(
        _cpu(),
        os.cpu_count() or 1,
        f"{platform.system()} {platform.machine()}",
        platform.python_version(),
        sqlite3.sqlite_version,
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
