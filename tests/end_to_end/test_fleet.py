"""Workers of a fleet over PostgreSQL come and go in every way; no news is lost, and none counts twice."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import psycopg
import pytest

from tests.end_to_end.fleet import CLAIM, LEASE, NEWER, Fleet, fleet, paused, until
from tests.postgres import own_cluster
from torpor.core import codec

WORKERS = 4
THREADS, TURNS = int(os.environ.get("TORPOR_FLEET_THREADS", "2000")), 5
KILL_EVERY = 1.0
AMID = 100
"""Messages between two kills at least: where many others use the machine, a second is not enough to begin."""
pytestmark = pytest.mark.slow


async def kill_now_and_then(running: Fleet, random: Random) -> int:
    """Kill a worker about every second and put another in its place, until all is done."""
    killed = 0
    while await running.finished() < len(running.threads):
        await asyncio.sleep(random.expovariate(1 / KILL_EVERY))
        running.kill(random.choice(running.workers))
        await running.add()
        killed += 1
    return killed


async def test_2000_threads_while_workers_are_killed_every_second(
    postgres_url: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    async with fleet(postgres_url, tmp_path) as running:
        for _ in range(WORKERS):
            await running.add()
        speaking = asyncio.create_task(running.speak(THREADS))
        await asyncio.sleep(0)  # it has said which threads there will be
        async with asyncio.timeout(400):
            killed = await kill_now_and_then(running, Random(11))
        await speaking
        seconds = time.monotonic() - began
        found = await running.audited()
    assert killed >= 5
    told = {
        "seconds": round(seconds, 1),
        "killed": killed,
        "turns": found.turns,
        "slices": found.slices.total(),
        "conflicts": found.ends["conflict"],
        "effects again under their id": found.repeats,
    }
    print(told)
    record_property("fleet", told)
    assert found.turns >= TURNS * THREADS


async def test_a_rolling_restart_loses_and_repeats_nothing(postgres_url: str, tmp_path: Path) -> None:
    async with fleet(postgres_url, tmp_path, thinking=0.1) as running:
        old = [await running.add() for _ in range(3)]
        await running.speak(200)
        for worker in old:
            await running.ask_to_stop(worker)
            await running.add()
        unfinished = len(running.threads) - await running.finished()
        await running.end()
        found = await running.audited()
    assert unfinished > 0, "all of it was done before the last one was restarted"
    assert found.repeats == 0
    assert found.ends["conflict"] == 0


async def test_a_worker_that_is_stopped_past_its_lease_harms_nothing(
    postgres_url: str, tmp_path: Path
) -> None:
    async with fleet(postgres_url, tmp_path, thinking=0.5) as running:
        sleeper = await running.add()
        await running.speak(50)
        await until_asked(running)
        with paused(sleeper):
            await running.add()
            await asyncio.sleep(LEASE + CLAIM)
            await running.end()
        await running.speak(50, first=50)
        running.kill(running.workers[-1])
        await running.end()
        found = await running.audited()
    assert found.ends["conflict"] > 0, "it held slices as it was stopped, and others ran them"


async def until_asked(running: Fleet) -> None:
    """Wait until slices are under way."""

    async def begun() -> bool:
        return await running.runtime.parts.store.last_record(running.threads[0]) is not None

    await until(begun)


async def test_workers_that_know_fewer_agents_leave_the_others_alone(
    postgres_url: str, tmp_path: Path
) -> None:
    async with fleet(postgres_url, tmp_path, agents=("porter", "keeper")) as running:
        old = await running.add(agents=("porter",))
        await running.speak(30, "keeper")
        await running.speak(30, "porter")
        await until_done(running, 30)
        new = await running.add()
        await running.end()
        found = await running.audited()
        mine = {str(old): 0, str(new): 0}
        for thread in running.threads:
            records = await running.runtime.parts.store.records(thread)
            workers = {record.worker.rpartition("/")[2] for record in records}
            assert thread.startswith("porter") or workers == {str(new)}
            mine = {name: count + (name in workers) for name, count in mine.items()}
    assert mine[str(old)] == 30
    assert found.ends["conflict"] == 0


async def until_done(running: Fleet, count: int) -> None:
    """Wait until so many threads have come to their end."""

    async def done() -> bool:
        return await running.finished() >= count

    await until(done)


async def test_two_releases_that_store_different_shapes_work_side_by_side(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the newer one has written, the older one gives back untouched, and goes on with the rest."""
    async with fleet(postgres_url, tmp_path, thinking=0.05) as running:
        await running.add()
        await running.speak(100)
        await until_done(running, 5)
        await running.add(newer=True)
        await running.end()
        monkeypatch.setattr(codec, "SHAPE", NEWER)
        await running.audited()
        rows = await running.runtime.parts.store.threads(limit=1_000)
    shapes = {row.shape for row in rows}
    assert shapes == {NEWER - 1, NEWER}, "both have finished threads"


async def test_a_server_that_crashes_under_load_and_comes_back(tmp_path: Path) -> None:
    with own_cluster() as cluster:
        async with fleet(cluster.url("postgres"), tmp_path, thinking=0.02) as running:
            for _ in range(WORKERS):
                await running.add()
            await running.speak(200)
            for share in (0.2, 0.5):
                await until_done(running, int(share * 200))
                await asyncio.to_thread(cluster.stop)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(cluster.start)
            await running.end()
            await running.audited()


async def test_workers_whose_clocks_are_wrong(postgres_url: str, tmp_path: Path) -> None:
    async with fleet(postgres_url, tmp_path) as running:
        for skew in (-86_400.0, -60.0, 60.0, 86_400.0):
            await running.add(skew=skew)
        await running.speak(200)
        await running.end()
        found = await running.audited()
        with psycopg.connect(postgres_url) as connection:
            spread = connection.execute(
                "SELECT max(updated) - min(created), max(abs(arrived - extract(epoch FROM now()))) "
                "FROM torpor.threads, torpor.signals"
            ).fetchone()
    assert len(found.slices) == 4, "all of them have worked"
    assert found.ends["conflict"] == 0
    assert spread is not None
    assert max(spread) < 600, "one time counts for all: the server's"
