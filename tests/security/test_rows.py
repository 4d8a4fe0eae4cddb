"""Stored rows that are damaged: an error that says so, never a crash, and nothing is written over them."""

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from torpor import Agent, Runtime
from torpor.core.errors import Broken, TorporError
from torpor.models import ScriptedModel, call, say
from torpor.public import Thread
from torpor.stores.packing import WIDEST, pack, unpack
from torpor.tools.functions import tool

TRIES = 40
SEED = 20_261_201


@tool(repeat="safe")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent() -> Agent:
    """One that adds once, and then talks."""
    model = ScriptedModel(lambda request: say("Fine.") if request.results else call("add", a=1, b=2))
    return Agent("adder", model=model, tools=[add])


async def lived(store: str) -> None:
    """A store with a thread that has done something."""
    async with Runtime(store, agents=[agent()], listen=None) as runtime:
        thread = await runtime.start("adder", "What is 1+2?", thread="T", owner="o")
        await thread.reply(timeout=30)
        await thread.send("And more?")
        await thread.reply(timeout=30)


async def looked_at(thread: Thread) -> None:
    """All ways to look at a thread; each gives an answer or an error of ours."""
    looks: tuple[Callable[[], Any], ...] = (
        thread.history,
        thread.explain,
        thread.waits,
        thread.records,
        thread.views,
        thread.children,
        thread.row,
    )
    for look in looks:
        with contextlib.suppress(TorporError):
            await look()


def damages(body: bytes, chance: random.Random) -> bytes:
    """A bit flipped, the end cut off, the beginning cut off, or something in its place."""
    if not body:
        return b"\xc1"
    at = chance.randrange(len(body))
    return chance.choice(
        (
            body[:at] + bytes([body[at] ^ (1 << chance.randrange(8))]) + body[at + 1 :],
            body[:at],
            body[at:],
            body + body,
            b"\xdc\xff\xff",
            b"\x91" * 3_000,
            b"\xdf\xff\xff\xff\xff",
            b"",
        )
    )


def cells(path: Path) -> Iterator[tuple[str, str, int]]:
    """Table, column and row of all bytes that are kept."""
    with sqlite3.connect(path) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            if table.startswith("sqlite_"):
                continue
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info('{table}')")]
            for column in columns:
                try:
                    rows = connection.execute(
                        f'SELECT rowid FROM "{table}" WHERE typeof("{column}") = \'blob\''
                    ).fetchall()
                except sqlite3.OperationalError:  # a table without row ids
                    continue
                yield from ((table, column, row) for (row,) in rows)


@pytest.mark.parametrize("packed", [False, True])
async def test_no_damage_of_a_sqlite_store_crashes_what_reads_it(tmp_path: Path, packed: bool) -> None:
    whole = tmp_path / "whole.db"
    await lived(f"sqlite:///{whole}")
    if packed:
        async with Runtime(f"sqlite:///{whole}", agents=[agent()], listen=None, workers=0) as runtime:
            await runtime.parts.store.pack(0.0)  # type: ignore[attr-defined]
    with sqlite3.connect(whole) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    found = list(cells(whole))
    assert len({(table, column) for table, column, _ in found}) >= 3
    chance = random.Random(SEED)
    for number in range(TRIES):
        table, column, row = chance.choice(found)
        broken = tmp_path / f"{number}.db"
        broken.write_bytes(whole.read_bytes())
        with sqlite3.connect(broken) as connection:
            [(body,)] = connection.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,))
            damaged = damages(body, chance)
            connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (damaged, row))
        connection.close()
        await _used(f"sqlite:///{broken}")


async def test_no_damage_of_a_postgresql_store_crashes_what_reads_it(postgres_url: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    await lived(postgres_url)
    chance = random.Random(SEED)
    for _ in range(TRIES // 3):
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            kept = [
                (table, column, place)
                for table, column in connection.execute(
                    "SELECT table_name, column_name FROM information_schema.columns"
                    " WHERE table_schema = 'torpor' AND data_type = 'bytea'"
                ).fetchall()
                for (place,) in connection.execute(
                    f'SELECT ctid::text FROM torpor."{table}" WHERE "{column}" IS NOT NULL'
                ).fetchall()
            ]
            table, column, place = chance.choice(kept)
            where = f'torpor."{table}" WHERE ctid = %s::tid'
            [(body,)] = connection.execute(f'SELECT "{column}" FROM {where}', (place,)).fetchall()
            [(place,)] = connection.execute(
                f'UPDATE torpor."{table}" SET "{column}" = %s WHERE ctid = %s::tid RETURNING ctid::text',
                (damages(bytes(body), chance), place),
            ).fetchall()
        await _used(postgres_url)


async def _used(store: str) -> None:
    """Open a store, look at its thread and speak to it, as far as that goes."""
    with contextlib.suppress(TorporError):
        async with Runtime(store, agents=[agent()], listen=None, workers=1) as runtime:
            thread = runtime.thread("T")
            await looked_at(thread)
            with contextlib.suppress(TorporError, TimeoutError):
                await thread.send("Still there?")
                await thread.reply(timeout=0.2)
            await runtime.threads()


FRAME = zstandard.ZstdCompressor().compress(b"x" * 1_000)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        FRAME[:-1],
        FRAME[:6],
        FRAME[4:],
        b"\x28\xb5\x2f\xfd\xc0" + b"\xff" * 12,
        b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00",
        pack({"not": "a list"}),
        pack(["text"]),
        zstandard.ZstdCompressor().compress(b"\x91" * 5_000),
    ],
)
def test_packed_rows_that_are_damaged_are_said_to_be(body: bytes) -> None:
    with pytest.raises(Broken, match="damaged"):
        unpack(body, list[bytes])


def test_what_compresses_best_is_read() -> None:
    best = [b"\x00" * 20_000_000]
    assert len(pack(best)) * WIDEST > 20_000_000
    assert unpack(pack(best), list[bytes]) == best
