"""What all peers share: the work as ``run.py`` wrote it, its waves, what it took. Standard library only."""

import asyncio
import ctypes
import gc
import json
import os
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ARGUMENTS = '{"command":"cargo test --workspace"}'


class Work:
    """The texts, and how much of it there is. ``folder`` is where a peer may keep files."""

    def __init__(self, path: str) -> None:
        given: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
        self.agents: int = given["agents"]
        self.turns: int = given["turns"]
        self.wave: int = given["wave"]
        self.folder = Path(path).parent
        self.completions = 0
        self._said: str = given["said"]
        self._pieces: list[list[str]] = given["pieces"]
        self._outputs: list[str] = given["outputs"]
        self._ran = 0

    def said(self, agent: int, turn: int) -> str:
        """What a person says."""
        return self._said.replace("{turn}", str(turn)).replace("{agent}", f"agent-{agent}")

    def pieces(self) -> list[str]:
        """The pieces of the next completion, which is counted."""
        self.completions += 1
        return self._pieces[self.completions % len(self._pieces)]

    def call_id(self) -> str:
        """An id for the call of the completion that was counted last."""
        return f"call-{self.completions:031d}"

    def output(self) -> str:
        """What the tool prints next."""
        self._ran += 1
        return self._outputs[self._ran % len(self._outputs)]


class Histories:
    """One row of text an agent in a SQLite file, for peers that leave storing to their user."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = NORMAL")
        self._file.execute("CREATE TABLE IF NOT EXISTS histories (agent TEXT PRIMARY KEY, body BLOB)")

    def get(self, agent: str) -> bytes | None:
        """What is kept; None: nothing yet."""
        found = self._file.execute("SELECT body FROM histories WHERE agent = ?", (agent,)).fetchone()
        return None if found is None else found[0]

    def put(self, agent: str, body: bytes | str) -> None:
        """Keep it, durably."""
        self._file.execute("INSERT OR REPLACE INTO histories VALUES (?, ?)", (agent, body))


def resident() -> int:
    """Bytes resident at rest."""
    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def waves(work: Work, turn: Callable[[int, int], Awaitable[None]]) -> dict[str, Any]:
    """Do the work: ``turn`` says the words of that number to an agent, and returns when it has answered."""
    points, wall, cpu = [(0, resident())], 0.0, 0.0
    for first in range(0, work.agents, work.wave):
        agents = range(first, min(work.agents, first + work.wave))
        begun = time.perf_counter(), time.process_time()
        for number in range(work.turns):
            await asyncio.gather(*(turn(agent, number) for agent in agents))
        wall, cpu = wall + time.perf_counter() - begun[0], cpu + time.process_time() - begun[1]
        points.append((agents.stop, resident()))
    wanted = 2 * work.agents * work.turns
    if work.completions != wanted:
        raise SystemExit(f"{work.completions} completions instead of {wanted}")
    return {"completions": wanted, "seconds": wall, "cpu_seconds": cpu, "rss_bytes": points}


def _at_rest(path: Path) -> int:
    """Bytes of a SQLite file once its log is written back."""
    file = sqlite3.connect(path)
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    return path.stat().st_size


def main(run: Callable[[Work], Awaitable[dict[str, Any]]]) -> None:
    """Run a peer: ``python PEER.py WORK.json`` prints its figures."""
    work = Work(sys.argv[1])
    figures = asyncio.run(run(work))  # type: ignore[arg-type]
    figures["disk_bytes"] = sum(_at_rest(path) for path in work.folder.glob("*.db"))
    print(json.dumps(figures))
