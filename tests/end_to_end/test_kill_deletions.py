"""Kill -9 and SIGSTOP of processes that delete, prune, fork and compact: what goes is gone, no more."""

import asyncio
import contextlib
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import psycopg
import pytest

from tests.end_to_end.test_kill_moves import process
from tests.end_to_end.wandering import opened, roots
from tests.postgres import LEDGER
from tests.web.places import until
from torpor import Runtime
from torpor.core.codec import decode_head, decode_message
from torpor.core.thread import fold
from torpor.runtime.receipts import UnknownThread

TREES = 4
ROUNDS = 6
pytestmark = pytest.mark.slow


async def grown(runtime: Runtime, owner: str) -> list[str]:
    trees = [(await runtime.start("wanderer", f"secret of {owner}", owner=owner)).id for _ in range(TREES)]

    async def whole() -> bool:
        rows = await runtime.threads(owner=owner, purpose="child", limit=1_000)
        return len([row for row in rows if row.waits]) == TREES

    await until(whole)
    return trees


async def disturbed(store: str, random: Random) -> None:
    """Who deletes is killed, or stands still, while others fork, sum up and prune."""
    for _ in range(ROUNDS):
        async with process("fork", store) as forking, process("delete", store) as deleting:
            await asyncio.sleep(random.uniform(0.0, 0.2))
            for one in random.sample([forking, deleting], 2):
                if random.random() < 0.5:
                    one.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(random.uniform(0.0, 0.3))
                    one.send_signal(signal.SIGCONT)
            async with process("prune", store):
                await asyncio.sleep(random.uniform(0.0, 0.2))


async def deleted(runtime: Runtime, trees: list[str]) -> set[str]:
    """Delete what is left, and what was begun; gives all ids that ever were there."""
    gone = set(trees)
    for row in await runtime.threads(owner="doomed", limit=10_000):
        gone.add(row.id)
    for root in [*trees, *[row.id for row in await roots(runtime) if row.owner == "doomed"]]:
        with contextlib.suppress(UnknownThread):
            assert (await runtime.delete(root, forks=True)).left == {}
    await runtime.prune()
    return gone


def everything(store: str) -> bytes:
    """All values of all tables, as text."""
    if store.startswith("sqlite"):
        with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as file:
            tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            rows = [row for table in tables for row in file.execute(f"SELECT * FROM {table}")]
    else:
        with psycopg.connect(store) as connection:
            named = "SELECT tablename FROM pg_tables WHERE schemaname = 'torpor' AND tablename <> %s"
            tables = [name for (name,) in connection.execute(named, (LEDGER,))]
            rows = [row for t in tables for row in connection.execute(f"SELECT * FROM torpor.{t}".encode())]
    return b"\n".join(one if isinstance(one, bytes) else str(one).encode() for row in rows for one in row)


async def check(runtime: Runtime, kept: list[str]) -> None:
    """What stays is whole: each tree with its child, and each head the fold of its messages."""
    rows = await runtime.threads(limit=10_000)
    assert {row.root for row in rows} == set(kept)
    assert len(rows) == 2 * TREES
    for row in rows:
        history = [decode_message(one.body) for one in await runtime.parts.store.read(row.id)]
        assert decode_head(row.head, row.shape) == fold(history)
    assert await runtime.parts.backend.deleted() == []


async def attacked(store: str, seed: int) -> None:
    async with opened(store, workers=2) as runtime:
        kept, doomed = await grown(runtime, "kept"), await grown(runtime, "doomed")
        before = everything(store)
        assert all(tree.encode() in before for tree in (*kept, *doomed))
    async with process("work", store):
        await disturbed(store, Random(seed))
    async with opened(store) as runtime:
        gone = await deleted(runtime, doomed)
        for thread in gone:
            assert await runtime.parts.backend.footprint(thread) == {}
        await check(runtime, kept)
    async with opened(store, workers=2):  # rings that came after all find nothing to do

        async def answered() -> bool:
            return b"doomed" not in everything(store)

        await until(answered)
    left = everything(store)
    assert not [thread for thread in gone if thread.encode() in left]
    assert all(tree.encode() in left for tree in kept)


async def test_nothing_of_what_was_deleted_is_left_in_a_file(tmp_path: Path) -> None:
    await attacked(f"sqlite:///{tmp_path / 'a.db'}", 3)


async def test_nothing_of_what_was_deleted_is_left_on_a_server(postgres_url: str) -> None:
    await attacked(postgres_url, 5)
