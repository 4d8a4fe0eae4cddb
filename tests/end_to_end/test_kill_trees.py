"""Kill -9 of workers at random moments while a tree grows: it ends whole, each word counted once."""

import asyncio
import sys
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.growing import CHILDREN, grower, opened
from tests.web.places import until
from torpor import Runtime
from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Noted, Reported, Spawned, Text, text_of
from torpor.core.thread import fold
from torpor.runtime.sweep import sweep
from torpor.wiring import Parts

ROOT = Path(__file__).resolve().parents[2]
KILLS = 6
pytestmark = pytest.mark.slow


async def worker(store: str) -> asyncio.subprocess.Process:
    command = ("-m", "tests.end_to_end.growing", store)
    started = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert started.stdout is not None
    async with asyncio.timeout(60):
        await started.stdout.readline()
    return started


async def killed(store: str, parts: Parts, random: Random) -> int:
    """Workers one after the other, each killed somewhere in its work. How often there was some left."""
    amid = 0
    for _ in range(KILLS):
        victim = await worker(store)
        await asyncio.sleep(random.uniform(0.0, 0.4))
        victim.kill()
        await victim.wait()
        amid += len(await parts.store.threads(state="closed")) < 2 * CHILDREN
    return amid


async def test_a_tree_survives_the_death_of_its_workers(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'threads.db'}"
    async with Parts(store, [grower()]) as parts:
        await parts.threads.start("grower", (Text("grow"),), thread="t")
        assert await killed(store, parts, Random(7)) >= 3
    async with opened(store, workers=4) as runtime:
        await until_whole(runtime)
        await check(runtime)


async def until_whole(runtime: Runtime) -> None:
    async def whole() -> bool:
        await sweep(runtime.parts.store, runtime.parts.queue)
        rows = await runtime.threads(limit=1_000)
        closed = [row for row in rows if row.state == "closed"]
        root = next(row for row in rows if row.thread == "t")
        return len(closed) == 2 * CHILDREN and not root.owes and not decode_head(root.head).children

    await until(whole)


async def check(runtime: Runtime) -> None:
    store = runtime.parts.store
    rows = {row.thread: row for row in await runtime.threads(limit=1_000)}
    assert len(rows) == 1 + 2 * CHILDREN
    heard: dict[str, list[str]] = {}
    born: list[str] = []
    for thread, row in rows.items():
        history = [decode_message(message.body) for message in await store.read(thread)]
        assert decode_head(row.head) == fold(history)
        words = [one for one in history if isinstance(one, Reported) and one.what != "born"]
        heard[thread] = sorted(text_of(one.parts) for one in words)
        born += [
            one.note.child for one in history if isinstance(one, Noted) and isinstance(one.note, Spawned)
        ]
    assert sorted(born) == sorted(set(rows) - {"t"}), "each child was decided once"
    assert heard["t"] == [f"kid {number}" for number in range(CHILDREN)]
    kids = [thread for thread, row in rows.items() if row.parent == "t"]
    assert sorted(heard[kid] for kid in kids) == [[f"deep {number}"] for number in range(CHILDREN)]
    assert await store.stranded() == []
