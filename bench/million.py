"""A million threads that sleep in one SQLite file, woken at random: `python bench/million.py --json`.

Threads are made as ``bulk.py`` says. Then a process serves the store and callbacks wake threads at random; it
is measured how much memory it takes, how long it takes to start, how long wakes take, and how long commands
take beside it and without it. ``--keep PATH`` makes the file once and uses it again.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from bulk import filled
from measuring import machine
from placing import PAGE, placed, told_of
from sleepers import TURNS, name_of, served
from wake import SETTLING, chosen, loaded

from torpor.wiring import open_parts

COMMANDS = {
    "threads": ("threads", "--json"),
    "explain": ("explain", name_of(7)),
    "doctor": ("doctor",),
}
WORTH = 30_000
"""Bytes of disk of a thread, about: a run that would fill the disk is refused."""
BARS = {"peak_bytes": 1e9, "ready_s": 2.0, "asked_p99_ms": 10.0, "command_s": 1.0}


async def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Fill the store, serve it, wake threads, and ask commands."""
    store = f"sqlite:///{path}"
    begun = time.perf_counter()
    await filled(store, options.threads)
    made = time.perf_counter() - begun
    disk = _bytes_of(path)
    alone = {name: await _asked(store, words) for name, words in COMMANDS.items()}
    async with open_parts(store) as parts, served(store, options.slots) as there:
        await asyncio.sleep(SETTLING)
        beside = {name: await _asked(store, words) for name, words in COMMANDS.items()}
        many = max(20, round(options.rate * options.seconds))
        numbers = chosen(options.threads, min(many, options.threads))
        load, _ = await loaded(parts, there.url, numbers, options.rate)
    assert there.ended is not None
    return {
        "threads": options.threads,
        "messages_per_thread": round(sum(4 * turns + 4 for turns in TURNS) / len(TURNS), 1),
        "made_s": round(made, 1),
        "disk_bytes_per_thread": round(disk / options.threads),
        "ready_s": round(there.ready_after, 2),
        "resident_bytes": there.ended.resident_bytes,
        "peak_bytes": there.ended.peak_bytes,
        "cpu_share": round(there.ended.cpu_seconds / there.ended.seconds, 3),
        "commands_alone_s": alone,
        "commands_beside_s": beside,
        "load": msgspec.to_builtins(msgspec.structs.replace(load, sleeping=options.threads)),
        "machine": msgspec.to_builtins(machine()),
        "busy": round(os.getloadavg()[0], 1),
    }


def _bytes_of(path: Path) -> int:
    return path.stat().st_size


async def _asked(store: str, words: tuple[str, ...]) -> float:
    """Seconds that a command takes, its interpreter's start included."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "torpor", *words, "--store", store,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    if process.returncode not in (0, 1) or b"Traceback" in said:
        raise RuntimeError(f"torpor {words[0]} failed: {said.decode()}")
    return round(time.perf_counter() - begun, 2)


def missed(told: dict[str, Any]) -> list[str]:
    """The bars that were not reached."""
    slowest = max([*told["commands_alone_s"].values(), *told["commands_beside_s"].values()])
    reached = {
        "peak_bytes": told["peak_bytes"],
        "ready_s": told["ready_s"],
        "asked_p99_ms": told["load"]["asked"]["p99"],
        "command_s": slowest,
    }
    return [f"{name}: {reached[name]:,} of {bar:,}" for name, bar in BARS.items() if reached[name] > bar]


@contextmanager
def place(keep: str, threads: int) -> Iterator[Path]:
    """Where the file goes. A full disk is an error before, not after."""
    if keep:
        _check_room(Path(keep).absolute().parent, threads if not Path(keep).exists() else 0)
        yield Path(keep).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="million-") as folder:
        _check_room(Path(folder), threads)
        yield Path(folder) / "million.db"


def _check_room(folder: Path, threads: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < threads * WORTH:
        raise SystemExit(f"{threads:,} threads need {threads * WORTH:,} bytes; {folder} has {free:,}.")


def table(told: dict[str, Any]) -> list[str]:
    """The figures as a table."""
    load = told["load"]
    slowest = {
        name: max(told["commands_alone_s"][name], told["commands_beside_s"][name]) for name in COMMANDS
    }
    rows = [
        ("threads that sleep", f"{told['threads']:,}"),
        ("memory of the serving process, at its most", f"{told['peak_bytes'] / 1e6:,.0f} MB"),
        ("disk of a thread", f"{told['disk_bytes_per_thread']:,} B"),
        ("start-up, the interpreter's included", f"{told['ready_s']:.1f} s"),
        (f"callback sent to model asked, at {load['per_s']:g} a second, p50", f"{load['asked']['p50']} ms"),
        ("the same, p99", f"{load['asked']['p99']} ms"),
        *((f"`torpor {name}`, at its slowest", f"{seconds} s") for name, seconds in slowest.items()),
    ]
    lost = "; ".join(missed(told)) or "all reached"
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), "", f"Bars: {lost}."]


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--threads", type=int, default=1_000_000)
    add("--rate", type=float, default=100.0, help="callbacks a second")
    add("--seconds", type=float, default=30.0, help="for which threads are woken")
    add("--slots", type=int, default=16, help="slices side by side")
    add("--keep", default="", help="the file, which is used again if it is there")
    add("--json", action="store_true")
    add("--write", action="store_true", help="into docs/performance.md")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    with place(options.keep, options.threads) as path:
        told = asyncio.run(measure(path, options))
    if options.write:
        placed(PAGE, "million", [told_of(told["machine"]), "", *table(told)])
    print(json.dumps(told, indent=1) if options.json else "\n".join(table(told)))


if __name__ == "__main__":
    main()
