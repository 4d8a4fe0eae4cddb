"""What is erased when somebody asks for it, and what is forgotten with time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.cast import Cast, closes, spawns, spawns_here
from tests.web.places import store_of, until
from torpor import Agent, Keep, Refused, Runtime, Thread, tool
from torpor.core.errors import Conflict
from torpor.core.signals import BornSignal, ReportedSignal
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import stall
from torpor.ports import Ring, Row
from torpor.runtime.deletion import HasForks
from torpor.runtime.retention import DAY, IDS_KEPT, prune_always, removable
from torpor.runtime.threads import SAID, STARTS, UnknownThread
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import START, FakeClock
from torpor.testing.rings_contract import PATIENCE
from torpor.testing.samples import commit_on, thread_row

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])
DAY_OLD = Keep(closed=DAY)


@asynccontextmanager
async def living(
    store: str = "memory:", *, model: Any, workers: int = 4, **options: Any
) -> AsyncIterator[Runtime]:
    agent = Agent(
        "worker", model=model, tools=options.pop("tools", ()), orphans=options.pop("orphans", "close")
    )
    async with Runtime(store, agents=[agent], listen=None, workers=workers, **options) as runtime:
        yield runtime


async def is_nowhere(runtime: Runtime, *threads: str) -> bool:
    backend = runtime.parts.backend
    rows = [await backend.row(thread) for thread in threads]
    return not any(rows) and not any([await backend.footprint(thread) for thread in threads])


@STORES
async def test_a_tree_is_erased_with_all_below(kind: str, tmp_path: Path) -> None:
    cast = Cast(
        root=[spawns("as middle: go"), say("Waiting.")],
        middle=[spawns_here("as leaf: go"), say("Waiting too.")],
        leaf=[call("sleep", seconds=1_000)],
    )
    async with living(store_of(kind, tmp_path), model=cast) as runtime:
        thread = await runtime.start("worker", "Go.")
        await until(_is_playing(cast, "leaf"))
        await asyncio.sleep(0)
        ids = [thread.id, cast.thread("middle"), cast.thread("leaf")]
        for child in ids[1:]:
            with pytest.raises(Refused, match=f"tree of {thread.id}"):
                await runtime.delete(child)
        gone = await thread.delete()
        assert (gone.threads, gone.forks, gone.left, gone.named_by) == (3, (), {}, "")
        assert gone.rows["threads"] == 3
        assert gone.rows["messages"] > 5
        assert await is_nowhere(runtime, *ids)
        with pytest.raises(UnknownThread):
            await thread.send("Hello?")
        with pytest.raises(UnknownThread):
            await thread.delete()


@STORES
async def test_a_slice_under_way_ends_with_its_thread(kind: str, tmp_path: Path) -> None:
    async with living(store_of(kind, tmp_path), model=ScriptedModel([stall("Once upon")])) as runtime:
        thread = await runtime.start("worker", "A story.")
        await until(_runs(runtime, thread))
        gone = await thread.delete()
        assert gone.left == {}
        await until(_rests(runtime))
        await until(lambda: is_nowhere(runtime, thread.id))
        assert await runtime.threads() == []


@STORES
async def test_a_tree_that_grows_is_erased_whole(kind: str, tmp_path: Path) -> None:
    """Births that are under way while their parents go leave no orphans."""

    def breeds(request: Any) -> Any:
        return (
            [spawns("as root: breed"), spawns("as root: breed")]
            if len(request.items) < 40
            else say("Enough.")
        )

    cast = Cast(root=breeds)
    async with living(store_of(kind, tmp_path), model=cast, workers=8) as runtime:
        thread = await runtime.start("worker", "Breed.")
        await until(_has_grown(cast, 5))
        gone = await runtime.delete(thread.id)
        assert gone.threads >= 5
        await until(_rests(runtime))
        assert await runtime.threads() == []
        assert await runtime.parts.backend.deleted() == []
        await until(lambda: is_nowhere(runtime, *cast.played))


@STORES
async def test_a_function_of_a_deleted_thread_is_called_off(kind: str, tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    model = ScriptedModel([call("work")])
    async with living(store_of(kind, tmp_path), model=model, tools=[work], claim=0.2) as runtime:
        thread = await runtime.start("worker", "Work.")
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await thread.delete()
        await asyncio.wait_for(ended.wait(), PATIENCE)
        await until(lambda: is_nowhere(runtime, thread.id))  # its last ring finds nothing to do


@STORES
async def test_a_late_callback_is_told_that_there_is_no_such_thread(kind: str, tmp_path: Path) -> None:
    async with living(store_of(kind, tmp_path), model=ScriptedModel([call("sleep", seconds=1)])) as runtime:
        thread = await runtime.start("worker", "Go.")
        token = runtime.parts.keys.mint(thread.id, "call_1")
        await thread.delete()
        body = b'{"type": "tool_result", "text": "late"}'
        assert (await runtime.parts.callbacks.receive(token, body)).status == 404
        assert await is_nowhere(runtime, thread.id)


@STORES
async def test_forks_are_refused_by_name_or_go_along(kind: str, tmp_path: Path) -> None:
    async with living(store_of(kind, tmp_path), model=ScriptedModel(lambda one: one.text)) as runtime:
        thread = await runtime.start("worker", "One.")
        await thread.reply(PATIENCE)
        fork = await thread.fork()
        await fork.send("Two.")
        await fork.reply(PATIENCE)
        second = await fork.fork(1)
        other = await thread.fork()
        with pytest.raises(HasForks, match="Forks continue") as refused:
            await thread.delete()
        assert fork.id in str(refused.value)
        assert second.id not in str(refused.value)
        with pytest.raises(HasForks, match="A fork continues"):
            await fork.delete()
        gone = await other.delete()
        assert (gone.threads, gone.named_by) == (1, thread.id)
        gone = await thread.delete(forks=True)
        assert (gone.threads, gone.left) == (3, {})
        assert set(gone.forks) == {fork.id, second.id}
        assert await runtime.threads() == []


async def test_forks_that_rows_do_not_name_yet_are_found_in_heads() -> None:
    """Forks of earlier releases have no ``source``."""
    async with living(model=ScriptedModel(lambda one: one.text)) as runtime:
        thread = await runtime.start("worker", "One.")
        await thread.reply(PATIENCE)
        fork = await thread.fork()
        store = runtime.parts.store

        async def knows() -> bool:
            return "forked" in repr(await thread.history()).lower()

        await until(knows)
        await fork.send("Two.")
        await fork.reply(PATIENCE)
        await until(_rests(runtime))
        await store.commit(commit_on(await store.load(fork.id), absorbed={}, row={"source": ""}))
        with pytest.raises(HasForks, match=fork.id):
            await thread.delete()
        await fork.delete()
        assert (await thread.delete()).left == {}


@STORES
async def test_what_a_killed_deletion_left_is_erased_later(kind: str, tmp_path: Path) -> None:
    async with living(store_of(kind, tmp_path), model=ScriptedModel(lambda one: one.text)) as runtime:
        threads = [await runtime.start("worker", "One.") for _ in range(2)]
        for thread in threads:
            await thread.reply(PATIENCE)
            await runtime.parts.backend.delete([thread.id])
        first = await threads[0].delete()
        assert first.left == {}
        await runtime.prune()
        assert await is_nowhere(runtime, *(thread.id for thread in threads))


@STORES
async def test_the_key_that_started_a_deleted_thread_starts_another(kind: str, tmp_path: Path) -> None:
    async with living(store_of(kind, tmp_path), model=ScriptedModel(lambda one: one.text)) as runtime:
        threads = runtime.parts.threads
        begun = await threads.start("worker", thread="mine", key="k")
        again = await threads.start("worker", thread="mine", key="k")
        assert (again.repeat, again.row.version) == (True, begun.row.version)
        await runtime.delete("mine")
        new = await threads.start("worker", thread="mine", key="k")
        assert not new.repeat
        assert new.row.version != begun.row.version


async def test_what_is_on_its_way_is_not_deleted() -> None:
    async with living(model=ScriptedModel([])) as runtime:
        store = runtime.parts.store
        await store.create(thread_row("t", root="t", state="moving"))
        with pytest.raises(Refused, match="on its way"):
            await runtime.delete("t")


async def test_a_tree_that_never_stops_growing_is_given_up() -> None:
    async with living(model=ScriptedModel([]), workers=0) as runtime:
        thread = await runtime.start("worker")

        async def grows(*_: Any, **__: Any) -> int:
            raise Conflict("somebody was born")

        runtime.parts.backend.delete = grows  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="Close it first"):
            await thread.delete()


@STORES
async def test_closed_trees_go_once_they_are_old(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    cast = Cast(root=[spawns("as helper: go"), say("Waiting."), say("Fine.")], helper=[closes("Done.")])
    async with living(store_of(kind, tmp_path), model=cast, workers=0, clock=clock) as runtime:
        thread = await runtime.start("worker", "Go.")
        other = await runtime.start("worker", "as helper: stay")
        await runtime.step(thread.id)
        helper = cast.thread("helper")
        assert (await runtime.thread(helper).row()).state == "closed"
        assert (await runtime.prune(DAY_OLD)).threads == ()
        clock.advance(DAY + 1)
        dry = await runtime.prune(DAY_OLD, dry_run=True)
        assert (dry.threads, dry.rows["threads"]) == ((helper,), 1)
        assert not await is_nowhere(runtime, helper)
        pruned = await runtime.prune(DAY_OLD)
        assert (pruned.threads, pruned.rows["threads"]) == ((helper,), 1)
        assert await is_nowhere(runtime, helper)
        assert (await thread.row()).state == "open"
        await thread.close()
        await runtime.step(thread.id)
        assert (await runtime.prune(DAY_OLD)).threads == ()
        clock.advance(DAY + 1)
        assert (await runtime.prune(DAY_OLD)).threads == (thread.id,)
        assert [row.id for row in await runtime.threads()] == [other.id]


@STORES
async def test_what_others_continue_stays(kind: str, tmp_path: Path) -> None:
    """A closed thread stays for an heir that its parent adopted, and for a fork, until these are gone."""
    clock = FakeClock()
    cast = Cast(
        root=[spawns("as middle: go"), say("Waiting."), say("So be it.")],
        middle=[spawns_here("as leaf: go"), closes("Mine is yours.")],
        leaf=[say("I live.")],
    )
    async with living(
        store_of(kind, tmp_path), model=cast, orphans="adopt", workers=0, clock=clock
    ) as runtime:
        thread = await runtime.start("worker", "Go.")
        await runtime.step(thread.id)
        middle, leaf = cast.thread("middle"), cast.thread("leaf")
        rows = {one: await runtime.thread(one).row() for one in (middle, leaf)}
        assert (rows[middle].state, rows[leaf].state, rows[leaf].parent) == ("closed", "open", thread.id)
        clock.advance(DAY + 1)
        assert (await runtime.prune(DAY_OLD)).threads == ()
        fork = await runtime.thread(leaf).fork()
        await runtime.thread(leaf).close()
        await runtime.step(leaf, thread.id, fork.id)
        clock.advance(DAY + 1)
        assert (await runtime.prune(DAY_OLD)).threads == ()
        await fork.delete()
        assert set((await runtime.prune(DAY_OLD)).threads) == {middle, leaf}


async def test_of_a_tree_goes_what_nobody_needs() -> None:
    store = MemoryStore(FakeClock())
    await store.create(_old("root", state="open", root="root"))
    for id, parent, fields in (
        ("gone", "root", {}),
        ("below", "gone", {}),
        ("needed", "root", {}),
        ("young", "needed", {"updated": START + 10}),
        ("writer", "root", {"purpose": "compaction"}),
    ):
        await store.create(_old(id, root="root", parent=parent, **fields))
    going = [row.thread for row in await removable(store, "root", START + 5)]
    assert sorted(going) == ["below", "gone", "writer"]


async def test_who_still_has_something_to_tell_is_left_for_later() -> None:
    store = MemoryStore(FakeClock())
    await store.create(_old("t", root="t"), [ReportedSignal("t", "r", START)])
    await store.create(_old("u", root="u"), [BornSignal("u", "born", START)])
    async with living(model=ScriptedModel([]), workers=0) as runtime:
        runtime.parts.backend = store
        assert (await runtime.prune(DAY_OLD)).threads == ()
        assert len(await store.threads()) == 2


@STORES
async def test_what_is_nobodys_goes_after_a_day(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    async with living(store_of(kind, tmp_path), model=ScriptedModel([]), workers=0, clock=clock) as runtime:
        backend = runtime.parts.backend
        thread = await runtime.start("worker", "Hello.")
        for id in ("gone", thread.id):
            await backend.put_blob(id, "h", b"result")
        clock.advance(DAY + 1)
        await backend.put_blob("new", "h", b"result")
        pruned = await runtime.prune()
        assert (pruned.orphans, pruned.rows) == (("gone",), {"blobs": 1})
        assert await backend.get_blob(thread.id, "h") == b"result"
        assert await backend.get_blob("new", "h") == b"result"


async def test_rings_for_nobody_go_after_a_day_where_the_queue_is_in_the_store(
    tmp_path: Path, postgres_url: str
) -> None:
    for store in (store_of("sqlite", tmp_path), postgres_url):
        clock = FakeClock()
        async with living(store, model=ScriptedModel([]), workers=0, clock=clock) as runtime:
            thread = await runtime.start("worker", "Hello.")
            await runtime.parts.queue.ring(
                [Ring("gone", clock.now(), agent="an agent of which nobody knows")]
            )
            assert (await runtime.prune()).orphans == ()
            clock.advance(DAY + 1)
            await runtime.parts.queue.ring([Ring("young", clock.now())])
            assert (await runtime.prune()).orphans == ("gone",)
            assert await runtime.parts.queue.size() == 2
            assert (await thread.row()).state == "open"


@STORES
async def test_ids_and_records_are_forgotten_by_their_ages(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    async with living(
        store_of(kind, tmp_path), model=ScriptedModel(lambda one: one.text), workers=0, clock=clock
    ) as runtime:
        thread = await runtime.start("worker", "Hello.")
        await thread.send("More.", key="k")
        await runtime.step(thread.id)
        await thread.send("And more.")
        await runtime.step(thread.id)
        clock.advance(IDS_KEPT + 1)
        kept = Keep(ids=0.0)
        assert (await runtime.prune(kept)).rows == {}
        rows = (await runtime.prune()).rows
        assert rows == {"ids": 3, "keys": 1}
        assert len(await thread.records()) == 2
        assert (await runtime.prune(Keep(records=DAY))).rows == {"records": 1}
        assert len(await thread.records()) == 1


async def test_old_keys_are_forgotten_by_workers_once_an_hour() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    for space in (SAID, STARTS, "definitions"):
        await store.put_new(space, "old", b"1")
    clock.advance(IDS_KEPT)
    for space in (SAID, STARTS):
        await store.put_new(space, "new", b"2")
    clock.advance(1.0)
    workers = [asyncio.create_task(prune_always(store, clock, Keep())) for _ in range(2)]
    async with asyncio.timeout(PATIENCE):
        while "old" in await store.entries(STARTS) or clock.sleepers < 2:
            await asyncio.sleep(0)
        await store.put_new(SAID, "late", b"1")
        clock.advance(IDS_KEPT)
        await store.put(SAID, "later", b"1")
        clock.advance(1.0)
        while "late" in await store.entries(SAID):
            await asyncio.sleep(0)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert await store.entries(SAID) == {"later": b"1"}
    assert await store.entries("definitions") == {"old": b"1"}


def _old(id: str, **fields: Any) -> Row:
    return thread_row(id, **{"state": "closed", "updated": START, **fields})


def _is_playing(cast: Cast, part: str) -> Any:
    async def found() -> bool:
        return part in cast.played.values()

    return found


def _has_grown(cast: Cast, threads: int) -> Any:
    async def found() -> bool:
        return len(cast.played) >= threads

    return found


def _runs(runtime: Runtime, thread: Thread) -> Any:
    async def found() -> bool:
        return thread.id in runtime.parts.live._running

    return found


def _rests(runtime: Runtime) -> Any:
    async def found() -> bool:
        return not (runtime.parts.live._running or runtime.parts.dispatcher.busy)

    return found
