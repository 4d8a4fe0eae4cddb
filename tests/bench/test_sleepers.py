"""Threads that are copied are those of the ordinary way; the benchmarks about sleep and growth run."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from torpor.runtime.resting import pack
from torpor.stores import packing

BENCH = Path(__file__).parent.parent.parent / "bench"
TABLES = {
    "threads": "number",
    "messages": "thread",
    "inbox": "thread",
    "absorbed": "thread",
    "outbox": "thread",
    "records": "thread",
    "segments": "thread",
}
YEAR_2020 = 1.5e9


def run(name: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(BENCH / name), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def plain(value: Any) -> Any:
    """A value without what differs from run to run: instants, random ids, and hashes of what has ids."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return 0.0 if value > YEAR_2020 else value
    if isinstance(value, bytes):
        try:
            return plain(msgspec.msgpack.decode(value))
        except msgspec.DecodeError:
            return value
    return value


def rows_of(path: Path, thread: str) -> dict[str, list[Any]]:
    """All that is stored of a thread, by table and column."""
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        (number,) = connection.execute("SELECT number FROM threads WHERE thread = ?", (thread,)).fetchone()
        found = {}
        for table, column in TABLES.items():
            rows = connection.execute(f"SELECT * FROM {table} WHERE {column} = ?", (number,))
            found[table] = [dict(row) for row in rows]
        for row in found["segments"]:
            row["body"] = packing.unpack(row["body"], list[bytes])
        found["small"] = [
            dict(row) for row in connection.execute("SELECT * FROM small WHERE key GLOB ?", (f"{thread}*",))
        ]
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads 0 to 19 and 20 on the ordinary way; 40 is a copy of 0."""
    sys.path.insert(0, str(BENCH))
    try:
        bulk, sleepers = import_module("bulk"), import_module("sleepers")
    finally:
        sys.path.remove(str(BENCH))
    path = tmp_path_factory.mktemp("sleepers") / "sleepers.db"

    async def fill() -> None:
        async with sleepers.serving(f"sqlite:///{path}", 4) as runtime:
            await sleepers.put_to_sleep(runtime, range(21))
            await pack(runtime.parts.backend, time.time() + 1)

    asyncio.run(fill())
    bulk.copy(path, 21, 41)
    return path


def test_a_copy_has_the_rows_of_the_ordinary_way(store: Path) -> None:
    ordinary, copied = rows_of(store, "sleeper-00000020"), rows_of(store, "sleeper-00000040")
    again = rows_of(store, "sleeper-00000000")
    assert {table: len(rows) for table, rows in copied.items()} == {
        table: len(rows) for table, rows in ordinary.items()
    }
    assert [(row["kind"], row["count"]) for row in copied["segments"]] == [(0, 2 + 4 + 2), (1, 3)]
    assert not copied["messages"]
    assert not copied["records"]
    assert [row["kind"] for row in copied["inbox"]] == ["due"]  # when the tool server is asked about its call
    assert not copied["outbox"]
    for table, rows in copied.items():
        for row, same, model in zip(rows, ordinary[table], again[table], strict=True):
            assert row.keys() == same.keys()
            renamed = shown(model).replace("sleeper-00000000", "sleeper-00000040")
            assert shown(row) == renamed
            assert sizes(row) == sizes(same)


def shown(row: dict[str, Any]) -> str:
    return repr(plain({key: value for key, value in row.items() if key not in ("number", "thread")}))


def sizes(row: dict[str, Any]) -> dict[str, Any]:
    """How long each cell is: what the disk sees."""
    return {
        key: len(value) if isinstance(value, str | bytes) else type(value).__name__
        for key, value in row.items()
    }


def test_a_copy_is_woken_like_any_other() -> None:
    told = run("wake.py", "--sleeping", "0", "30", "--rates", "40", "--seconds", "0.5")
    assert [load["sleeping"] for load in told["loads"]] == [0, 30]
    for load in told["loads"]:
        assert load["wakes"] == 20
        assert 0 < load["durable"]["p50"] <= load["durable"]["p99"] <= load["durable"]["p99.9"]
        assert load["started"]["p50"] <= load["asked"]["p50"]
    assert all(0 < one["resident_bytes"] <= one["peak_bytes"] for one in told["processes"])


def test_wakes_on_postgresql(postgres_url: str) -> None:
    told = run("wake.py", "--store", postgres_url, "--sleeping", "0", "--rates", "40", "--seconds", "0.5")
    assert told["loads"][0]["wakes"] == 20


def test_a_small_million() -> None:
    told = run("million.py", "--threads", "60", "--rate", "20", "--seconds", "1")
    assert told["threads"] == 60
    assert told["load"]["wakes"] == 20
    assert told["disk_bytes_per_thread"] > 5_000
    assert 0 < told["resident_bytes"] <= told["peak_bytes"] < 1e9
    assert set(told["commands_alone_s"]) == set(told["commands_beside_s"]) == {"threads", "explain", "doctor"}


def test_growth_of_all_kinds() -> None:
    sizes = ("--messages", "20", "60", "--children", "50", "100", "--signals", "5", "10")
    told = run("growth.py", "--store", "memory:", "--count", "2", *sizes)
    assert [(cost["of"], cost["size"], cost["state"]) for cost in told["costs"]] == [
        ("history", 20, "warm"),
        ("history", 20, "cold"),
        ("history", 60, "warm"),
        ("history", 60, "cold"),
        ("children", 50, "warm"),
        ("children", 50, "cold"),
        ("children", 100, "warm"),
        ("children", 100, "cold"),
        ("inbox", 5, "warm"),
        ("inbox", 10, "warm"),
    ]
    assert all(cost["us"] > 0 for cost in told["costs"])
    assert set(told["rises"]) == {
        "history, warm",
        "history, cold",
        "children, warm",
        "children, cold",
        "inbox, warm",
    }
