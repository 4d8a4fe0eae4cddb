"""PostgreSQL in real life: connections end, answers are lost, others hold locks, a proxy is in between."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.contract.postgres_wire import wired
from tests.postgres import Cluster, bouncer, own_cluster
from torpor.core.errors import Unavailable
from torpor.ports import Version
from torpor.stores.postgres import Database, PostgresStore, database, retention
from torpor.testing.samples import commit_on, ids, invoke, said, slice_record, texts, thread_row, timer


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(await asyncio.to_thread(Database.open, url))
    try:
        yield store
    finally:
        await store.close()


async def begun(store: PostgresStore) -> str:
    row = thread_row()
    assert await store.create(row, [said(row.thread)])
    return row.thread


async def test_pgs_01_the_server_closes_connections_during_a_completion(
    postgres_cluster: Cluster, postgres_url: str
) -> None:
    async with opened(postgres_url) as store:
        thread = await begun(store)
        await asyncio.gather(*(store.row(thread) for _ in range(20)))
        snapshot = await store.load(thread)
        assert postgres_cluster.terminate(postgres_url) > 1
        assert (await store.commit(commit_on(snapshot, "a"))).counter == 1
        assert texts(await store.read(thread)) == ["a"]


async def test_pgs_02_connections_that_were_dropped_without_a_word(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STALE", 0.05)
    async with wired(postgres_url) as (wire, url), opened(url) as store:
        thread = await begun(store)
        snapshot = await store.load(thread)
        await asyncio.sleep(0.1)
        wire.mute()
        async with asyncio.timeout(3):
            await store.commit(commit_on(snapshot, "a"))
        assert texts(await store.read(thread)) == ["a"]


async def test_pgs_02_a_lost_acknowledgement_of_a_commit(postgres_url: str) -> None:
    async with wired(postgres_url) as (wire, url), opened(url) as store:
        thread = await begun(store)
        snapshot = await store.load(thread)
        wire.swallow = b"the words that are lost"
        record = slice_record(thread)
        written = commit_on(snapshot, "the words that are lost", commit_id="c", record=record)
        assert await store.commit(written) == Version(1, "c")
        assert wire.swallowed == 1
        assert texts(await store.read(thread)) == ["the words that are lost"]
        assert len(await store.records(thread)) == 1


async def test_a_lost_acknowledgement_of_any_other_write(postgres_url: str) -> None:
    async with wired(postgres_url) as (wire, url), opened(url) as store:
        row = thread_row(title="lost at birth")
        wire.swallow = b"lost at birth"
        assert await store.create(row)
        assert not await store.create(row)
        wire.swallow = b"lost signal"
        assert [one.outcome for one in await store.post([said(row.thread, "lost signal")])] == ["repeat"]
        record = slice_record(row.thread, error="lost record")
        wire.swallow = b"lost record"
        await store.note(record)
        assert await store.records(row.thread) == [record]
        effects = (invoke("lost effect"),)
        await store.commit(commit_on(await store.load(row.thread), effects=effects))
        wire.swallow = b"lost effect"
        held = await store.claim(row.thread, ["lost effect"], await store.now() + 60)
        assert [one.attempt for one in held] == [1]
        wire.swallow = b"lost effect"
        result = said(row.thread, "its result", id="result")
        assert (await store.finish(result, "lost effect")).outcome == "repeat"
        assert await store.outbox(row.thread) == []
        assert wire.swallowed == 5


async def test_a_server_that_restarts_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.5)
    with own_cluster() as server:
        async with opened(server.url("postgres")) as store:
            thread = await begun(store)
            snapshot = await store.load(thread)
            server.stop()
            for asking in (store.commit(commit_on(snapshot, "lost")), store.load(thread)):
                with pytest.raises(Unavailable):
                    await asking
            server.start()
            deadline = time.monotonic() + 20
            while True:
                try:
                    await store.commit(commit_on(snapshot, "a", commit_id="again"))
                    break
                except Unavailable:
                    assert time.monotonic() < deadline
            assert texts(await store.read(thread)) == ["a"]


async def test_nothing_is_held_between_verbs(postgres_cluster: Cluster, postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        thread = await begun(store)
        await store.export(thread)
        snapshot = await store.load(thread)
        name = postgres_url.rpartition("/")[2]
        with closing(psycopg.connect(postgres_cluster.url("postgres"), autocommit=True)) as other:
            states = other.execute(
                "SELECT state, count(*) FROM pg_stat_activity WHERE datname = %s GROUP BY 1", (name,)
            ).fetchall()
        assert [state for state, _ in states] == ["idle"]
        await store.commit(commit_on(snapshot, "a"))


async def test_a_deadlock_ends_in_the_same_commit(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        thread = await begun(store)
        snapshot = await store.load(thread)
        with closing(psycopg.connect(postgres_url)) as other:
            other.execute("SET deadlock_timeout = '30s'")
            other.execute("SELECT FROM torpor.signals FOR UPDATE")
            committing = asyncio.create_task(store.commit(commit_on(snapshot, "a", commit_id="mine")))
            await _until_waiting(postgres_url)
            await asyncio.to_thread(other.execute, "UPDATE torpor.threads SET title = 'theirs'")
            other.commit()
            assert await committing == Version(1, "mine")
        assert texts(await store.read(thread)) == ["a"]


async def test_a_lock_that_is_held_too_long_is_told(postgres_url: str) -> None:
    async with opened(f"{postgres_url}?options=-c%20lock_timeout%3D200ms") as store:
        thread = await begun(store)
        snapshot = await store.load(thread)
        with closing(psycopg.connect(postgres_url)) as other:
            other.execute("SELECT FROM torpor.threads FOR UPDATE")
            with pytest.raises(Unavailable, match="took too long"):
                await store.commit(commit_on(snapshot, "a"))
            other.rollback()
        await store.commit(commit_on(snapshot, "a"))


async def test_posts_to_many_in_any_order_lock_nobody_out(postgres_url: str) -> None:
    before = _deadlocks(postgres_url)
    async with opened(postgres_url) as store, opened(postgres_url) as other:
        threads = [await begun(store) for _ in range(20)]
        for turn in range(20):
            signals = [said(thread, id=f"{turn}/{place}") for thread in threads for place in range(3)]
            results = await asyncio.gather(
                *(handle.post(signals[:: 1 if handle is store else -1]) for handle in [store, other] * 4)
            )
            outcomes = [one.outcome for result in results for one in result]
            assert outcomes.count("new") == len(signals)
        assert [len(ids(await store.inbox(thread))) for thread in threads] == [61] * 20
    assert _deadlocks(postgres_url) == before


async def test_of_two_who_come_at_once_one_holds_a_thread(postgres_url: str) -> None:
    async with opened(postgres_url) as store, opened(postgres_url) as other:
        thread, until = await begun(store), time.time() + 60
        for turn in range(50):
            holders = [(store, f"{turn}/a"), (other, f"{turn}/b")]
            found = await asyncio.gather(*(handle.hold(thread, name, until) for handle, name in holders))
            assert sorted(found) == [0.0, until]
            await store.hold(thread, holders[found.index(0.0)][1], 0.0)


async def test_sessions_that_lose_what_was_prepared(postgres_url: str, caplog: Any) -> None:
    async with opened(f"{postgres_url}?pool=1") as store:
        thread = await begun(store)
        for _ in range(3):
            await store.row(thread)
        async with store.database.connection() as connection:
            await connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
        with caplog.at_level(logging.WARNING):
            assert await store.row(thread) is not None
        assert "no longer prepared" in caplog.text
        assert await store.row(thread) is not None


async def test_a_proxy_that_hands_each_transaction_to_another_session(
    postgres_cluster: Cluster, postgres_url: str, caplog: Any
) -> None:
    with bouncer(postgres_cluster, postgres_url) as url, caplog.at_level(logging.WARNING):
        async with opened(url) as store, opened(url) as other:
            assert "takes no options" in caplog.text
            thread = await begun(store)
            for turn in range(30):
                snapshots = await asyncio.gather(*(handle.load(thread) for handle in [store, other] * 5))
                handle = (store, other)[turn % 2]
                await handle.commit(commit_on(snapshots[turn % 10], f"{turn}"))
            assert texts(await store.read(thread)) == [f"{turn}" for turn in range(30)]
            given = await other.export(thread)
            assert await other.delete([thread]) == 1
            while await other.erase(thread):
                pass
            assert await other.take_in(given)
            assert await store.export(thread) == given


async def test_round_trips(postgres_url: str) -> None:
    """One for each verb, whatever a slice has to write."""
    async with wired(postgres_url) as (wire, url), opened(f"{url}&pool=1") as store:
        counted: dict[str, list[int]] = {}

        async def count(name: str, asking: Any) -> Any:
            before = wire.answers
            result = await asking
            counted.setdefault(name, []).append(wire.answers - before)
            return result

        for _ in range(4):  # twice until all is prepared
            row = thread_row()
            thread = row.thread
            await count("create", store.create(row, [said(thread, id="a")]))
            await count("post", store.post([said(thread, id="b")]))
            await count("post many", store.post([said(thread, id="c"), said(thread, id="d")]))
            snapshot = await count("load", store.load(thread))
            later = timer(thread, snapshot.now + 60, id="timer")
            first = commit_on(
                snapshot,
                "1",
                "2",
                effects=(invoke("e"), invoke("f")),
                timers=(later,),
                record=slice_record(thread),
            )
            await count("commit", store.commit(first))
            await count("claim", store.claim(thread, ["e", "f"], snapshot.now + 60))
            await count("finish", store.finish(said(thread, id="result"), "e"))
            await count("delivered", store.delivered(thread, ["f"]))
            known = await count("load", store.load(thread, known=snapshot.row.version))
            await count("commit", store.commit(commit_on(known, cancelled=("timer",))))
            await count("postpone", store.postpone(thread, known.row.version, 1, 0.0))
            await count("read", store.read(thread))
            await count("row", store.row(thread))
            await count("stranded", store.stranded())
            await count("put", store.put("keys", "k", b"v"))
            await count("now", store.now())
        assert {name: trips[-1] for name, trips in counted.items()} == {
            **dict.fromkeys(counted, 1),
            "now": 0,
        }


async def _until_waiting(url: str) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as looking:
        while not looking.execute(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchall():
            await asyncio.sleep(0.01)


def _deadlocks(url: str) -> int:
    with closing(psycopg.connect(url)) as looking:
        found = looking.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        ((number,),) = found.fetchall()
        return int(number)


async def test_pruning_looks_through_the_outbox_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ids there are to forget; what is still in the outbox holds back all that is younger."""
    monkeypatch.setattr(retention, "STEP", 10)
    async with opened(postgres_url) as store:
        thread = await begun(store)
        await store.post([said(thread, id=f"s{number}") for number in range(60)])
        await store.commit(commit_on(await store.load(thread)))
        later = await begun(store)
        await store.commit(commit_on(await store.load(later), effects=(invoke("e"),)))
        await store.post([said(later, id=f"late{number}") for number in range(5)])
        await store.commit(commit_on(await store.load(later)))
        now, asked, ask = await store.now(), [], store.database.ask

        async def told(statement: str, given: Any = None, *, once: bool = False) -> Any:
            asked.append("outbox" in statement)
            return await ask(statement, given, once=once)

        monkeypatch.setattr(store.database, "ask", told)
        assert await store.prune(now + 60) == 61
        assert (sum(asked), len(asked)) == (1, 8)
        await store.delivered(later, ["e"])
        assert await store.prune(now + 60) == 6
