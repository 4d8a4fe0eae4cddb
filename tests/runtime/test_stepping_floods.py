"""Steps with more than a step can do: ten thousand ids, repeats, strangers, floods, and trees that go."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.cast import Cast, spawns
from tests.runtime.test_stepping import outcomes, started, stepping
from tests.web.places import store_of, until
from torpor import Agent, Refused, Runtime, said
from torpor.core.messages import Said, Turn, text_of
from torpor.models import ScriptedModel, say
from torpor.models.scripted import stall
from torpor.ports import Row
from torpor.runtime.retention import Keep
from torpor.testing.clock import FakeClock

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
MANY = 10_000


@pytest.fixture
def store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("postgres_url") if kind == "postgres" else store_of(kind, tmp_path)


async def crowd(runtime: Runtime, count: int, **fields: Any) -> list[str]:
    """Threads without history, owned by one."""
    ids = [f"crowd-{number}" for number in range(count)]
    for first in range(0, count, 500):
        rows = [Row(thread=id, agent="stepper", root=id, **fields) for id in ids[first : first + 500]]
        assert all(await asyncio.gather(*(runtime.parts.store.create(row) for row in rows)))
    return ids


@STORES
async def test_ten_thousand_ids_at_once_are_all_told_of(store: str) -> None:
    clock = FakeClock()

    def slow(_: Any) -> Any:
        clock.advance(0.5)
        return say("Hi.")

    async with stepping(store, script=slow, clock=clock) as runtime:
        threads = [await started(runtime) for _ in range(20)]
        strangers = [f"nobody-{number}" for number in range(MANY - 20)]
        result = await runtime.step(*threads, *strangers, deadline=10.0)
        assert len(result.items) == MANY
        told = Counter(outcomes(result))
        assert told["failed"] == MANY - 20
        assert (told["done"] > 0, told["again"] > 0) == (True, True)
        assert [one.thread for one in result.items] == [*threads, *strangers]
        left = [one.thread for one in result.items if one.outcome == "again"]
        assert result.again_at == clock.now()
        while left:
            again = await runtime.step(*left, deadline=10.0)
            left = [one.thread for one in again.items if one.outcome == "again"]
        for thread in threads:
            history = await runtime.thread(thread).history()
            assert sum(isinstance(one, Turn) for one in history) == 1
        assert await runtime.parts.store.stranded() == []


@STORES
async def test_the_same_news_ten_thousand_times_counts_once(store: str) -> None:
    async with stepping(store, model=ScriptedModel(lambda one: one.text)) as runtime:
        thread, other = [await started(runtime) for _ in range(2)]
        same = said(thread, "only once", id="m")
        result = await runtime.step(*[same] * (MANY // 2), *[thread] * (MANY // 2), other)
        assert set(outcomes(result)) == {"done"}
        assert len(result.items) == MANY + 1
        history = await runtime.thread(thread).history()
        assert [text_of(one.parts) for one in history if isinstance(one, Said)] == ["Go.", "only once"]
        contradicting = await runtime.step(said(thread, "other words", id="m"))
        assert outcomes(contradicting) == ["done"]
        assert len(await runtime.thread(thread).history()) == len(history)


@STORES
async def test_of_ids_that_are_odd_each_fails_alone(store: str) -> None:
    async with stepping(store, model=ScriptedModel(lambda one: one.text)) as runtime:
        thread = await started(runtime)
        odd: list[Any] = [
            "",
            " ",
            "a" * 10_000,
            "a/b",
            "\x00",
            "\ud800",
            "%",
            "'; --",
            None,
            7,
            b"x",
            object(),
        ]
        result = await runtime.step(*odd, thread)
        assert outcomes(result) == ["failed"] * len(odd) + ["done"]
        assert all(one.error for one in result.items[:-1])


@STORES
@pytest.mark.parametrize("deadline", [0.0, -1.0, float("-inf"), float("nan")])
async def test_a_deadline_that_is_over_takes_nothing_in(store: str, deadline: float) -> None:
    async with stepping(store, script=[say("Hi.")]) as runtime:
        thread = await started(runtime)
        with pytest.raises(Refused, match="deadline above 0"):
            await runtime.step(said(thread, "lost?", id="m"), deadline=deadline)
        assert len(await runtime.parts.store.inbox(thread)) == 1


@STORES
async def test_a_deadline_that_is_all_but_over_keeps_the_news(store: str) -> None:
    async with stepping(store, model=ScriptedModel(lambda one: one.text)) as runtime:
        thread = await started(runtime)
        (item,) = (await runtime.step(said(thread, "kept", id="m"), deadline=1e-9)).items
        assert (item.outcome, item.slices) == ("again", 0)
        assert outcomes(await runtime.step(thread)) == ["done"]
        history = await runtime.thread(thread).history()
        assert [text_of(one.parts) for one in history if isinstance(one, Said)] == ["Go.", "kept"]


@STORES
async def test_a_flood_of_one_owner_leaves_others_their_turn(store: str) -> None:
    """Of a step that cannot do all, what was given first is begun first; nothing of the rest is lost."""
    async with stepping(store, script=lambda _: say("Hi.")) as runtime:
        flood = await crowd(runtime, 1_000, owner="flood")
        mine = [await started(runtime) for _ in range(5)]
        result = await runtime.step(*mine, *flood)
        assert outcomes(result)[:5] == ["done"] * 5
        assert set(outcomes(result)) <= {"done", "again"}
        rest = [one.thread for one in result.items if one.outcome == "again"]
        while rest:
            rest = [one.thread for one in (await runtime.step(*rest)).items if one.outcome == "again"]


async def test_a_tree_is_deleted_while_its_child_streams(tmp_path: Path) -> None:
    for store in ("memory:", store_of("sqlite", tmp_path)):
        cast = Cast(root=[spawns("as kid: go"), *[say("Waiting.")] * 9], kid=[stall("Once upon a time")])
        agent = Agent("stepper", model=cast)
        async with Runtime(store, agents=[agent], listen=None, workers=0) as runtime:
            thread = await runtime.start("stepper", "Go.")
            step = asyncio.create_task(runtime.step(thread.id, deadline=600.0))

            async def streams(cast: Cast = cast) -> bool:
                return any(part == "kid" for part, _ in cast.asked)

            await until(streams)
            gone = await thread.delete()
            assert (gone.threads, gone.left) == (2, {})
            async with asyncio.timeout(60):
                assert outcomes(await step) == ["failed"]
            for id in cast.played:
                assert await runtime.parts.backend.footprint(id) == {}
            assert await runtime.threads() == []


async def test_what_is_stepped_may_be_pruned_meanwhile(tmp_path: Path) -> None:
    for store in ("memory:", store_of("sqlite", tmp_path)):
        clock = FakeClock()
        async with stepping(store, script=lambda _: say("Hi."), clock=clock) as runtime:
            threads = [await started(runtime) for _ in range(10)]
            await runtime.step(*threads)
            for thread in threads[:5]:
                await runtime.thread(thread).close()
            await runtime.step(*threads)
            clock.advance(100.0)
            pruned = asyncio.create_task(runtime.prune(Keep(closed=10.0)))
            result = await runtime.step(*[said(thread, "more", id="m") for thread in threads])
            await pruned
            assert outcomes(result)[5:] == ["done"] * 5
            left = {row.id: row.state for row in await runtime.threads()}
            assert {id for id, state in left.items() if state == "open"} == set(threads[5:])
            clock.advance(100.0)
            await runtime.prune(Keep(closed=10.0))
            assert {row.id for row in await runtime.threads()} == set(threads[5:])
