"""PostgreSQL is killed with -9 in the middle of commits: what was acknowledged is there, once."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import psycopg
import pytest

from tests.end_to_end.fleet import Fleet, fleet, until
from tests.postgres import OwnCluster, own_cluster, required
from torpor.testing.postgres import Missing, programs

WORKERS, THREADS, DEATHS = 3, 150, 4
ACTIVE = """
SELECT pid FROM pg_stat_activity
WHERE application_name = 'torpor' AND state = 'active' AND query ~ '(INSERT|UPDATE|DELETE)' LIMIT 1
"""
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def server_programs() -> None:
    try:
        programs()
    except Missing as reason:
        if required():
            raise
        pytest.skip(str(reason))


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


async def amid_a_write(cluster: OwnCluster) -> int:
    """The process of a session that writes just now."""

    def look() -> int:
        with psycopg.connect(cluster.url("postgres"), autocommit=True) as looking:
            while True:
                found = looking.execute(ACTIVE).fetchone()
                if found is not None:
                    return int(found[0])

    return await asyncio.wait_for(asyncio.to_thread(look), 60)


async def until_done(running: Fleet, count: int) -> None:
    async def done() -> bool:
        return await running.finished() >= count

    await until(done, 180)


async def worked(cluster: OwnCluster, folder: Path, *, whole: bool) -> None:
    """Agents work while the server dies several times."""
    async with fleet(cluster.url("postgres"), folder, thinking=0.02) as running:
        for _ in range(WORKERS):
            await running.add()
        await running.speak(THREADS)
        for death in range(DEATHS):
            await until_done(running, THREADS * death // (2 * DEATHS))
            victim = await amid_a_write(cluster)
            if whole:
                for process in [cluster.process, victim, *_children(cluster.process)]:
                    kill(process)
                await asyncio.to_thread(cluster.stop)
                await asyncio.to_thread(cluster.start)
            else:
                kill(victim)
                await asyncio.to_thread(cluster.recover)
        assert await running.finished() < THREADS, "it was over before the last death"
        await running.end()
        await running.audited()


def _children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


async def test_one_session_is_killed_in_the_middle_of_its_commit(tmp_path: Path) -> None:
    """The server then ends all others, and recovers."""
    with own_cluster() as cluster:
        await worked(cluster, tmp_path, whole=False)


async def test_the_whole_server_is_killed_in_the_middle_of_commits(tmp_path: Path) -> None:
    with own_cluster() as cluster:
        await worked(cluster, tmp_path, whole=True)
