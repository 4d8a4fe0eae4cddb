"""The network between workers and PostgreSQL is cut: nobody is held for long, and nothing is lost."""

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from tests.contract.postgres_wire import wired
from tests.end_to_end.fleet import Fleet, fleet, until
from tests.faults.networks import cable, server_behind
from tests.postgres import required
from torpor.core.errors import Unavailable
from torpor.stores.postgres import Database, PostgresStore, database
from torpor.testing.postgres import Missing, private_folder, programs
from torpor.testing.samples import commit_on, said, texts, thread_row

THREADS = 100
BOUND = 60.0
"""Seconds after which whoever asked a server that is no longer there knows that it is not."""
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def server_programs() -> None:
    try:
        programs()
    except Missing as reason:
        if required():
            raise
        pytest.skip(str(reason))


async def until_done(running: Fleet, count: int) -> None:
    async def done() -> bool:
        return await running.finished() >= count

    await until(done, 120)


async def refused_after(asking: Awaitable[object]) -> float:
    """Seconds until somebody who asks is told that there is no answer."""
    began = time.monotonic()
    with pytest.raises(Unavailable):
        async with asyncio.timeout(BOUND):
            await asking
    return time.monotonic() - began


async def test_a_cable_that_is_pulled(tmp_path: Path) -> None:
    with cable() as joined, private_folder() as folder, server_behind(joined, folder) as url:
        async with fleet(url, tmp_path, thinking=0.05) as running:
            for _ in range(3):
                await running.add()
            await running.speak(THREADS)
            await until_done(running, THREADS // 10)
            store = running.runtime.parts.store
            joined.pull()
            asking = [refused_after(store.row(thread)) for thread in running.threads[:20]]
            waited = await asyncio.gather(*asking)
            joined.plug()
            await until_done(running, THREADS)
            await running.audited()
    assert max(waited) > 1, "nothing was cut"


async def test_one_worker_hears_nothing_more_on_connections_that_stay_open(
    postgres_url: str, tmp_path: Path
) -> None:
    """No timeout of the network strikes: what is between takes all that is sent. Others go on meanwhile."""
    async with wired(postgres_url) as (wire, url), fleet(postgres_url, tmp_path, thinking=0.1) as running:
        cut_off = await running.add(store=url)
        await running.speak(THREADS // 2)
        await until_done(running, 3)
        links = len(wire.links)
        wire.mute()
        other = await running.add()
        await until_done(running, THREADS // 2)
        await running.ask_to_stop(other)
        await running.speak(10, first=THREADS // 2)
        assert running.workers == [cut_off]
        await running.end(240)
        await running.audited()
    assert links > 0


async def test_a_commit_whose_answer_is_cut_off_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it had arrived or not: it is done once when the cable is plugged in again."""
    monkeypatch.setattr(database, "PATIENCE", 5.0)
    with cable() as joined, private_folder() as folder, server_behind(joined, folder) as url:
        store = PostgresStore(await asyncio.to_thread(Database.open, url))
        rows = [thread_row() for _ in range(8)]
        for row in rows:
            await store.create(row, [said(row.thread)])
        snapshots = [await store.load(row.thread) for row in rows]
        written = [commit_on(snapshot, "a", commit_id="mine") for snapshot in snapshots]
        committing = [asyncio.create_task(store.commit(one)) for one in written]
        await asyncio.sleep(0)
        joined.pull()
        async with asyncio.timeout(2 * BOUND):
            ends = await asyncio.gather(*committing, return_exceptions=True)
        joined.plug()
        assert all(isinstance(end, Unavailable) or not isinstance(end, BaseException) for end in ends)
        deadline = time.monotonic() + BOUND
        for one in written:
            while True:
                try:
                    await store.commit(one)
                    break
                except Unavailable:
                    assert time.monotonic() < deadline
        assert [texts(await store.read(row.thread)) for row in rows] == [["a"]] * 8
        await store.close()
