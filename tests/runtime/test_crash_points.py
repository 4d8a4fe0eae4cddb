"""A process dies before or after every durable action of a run; the history ends as if it had not."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.runtime.scenes import SCENES, Effects, Scene
from tests.runtime.shown import check_requests, story, without_order
from tests.runtime.world import Fate, World
from torpor.core.codec import decode_head, decode_message
from torpor.core.effects import Invoke
from torpor.core.messages import Result, Text, text_of
from torpor.core.thread import fold
from torpor.queues.memory import MemoryQueue
from torpor.queues.sqlite import SqliteQueue
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import FakeClock
from torpor.wiring import Parts

Backends = Callable[[FakeClock], tuple[Any, Any]]
Told = list[tuple[Any, ...]]

PAIRED = ("steer", "busy model", "inline", "limit")
"""Scenes short enough for two deaths, and how many pairs of them."""
PAIRS = 150


def memory(clock: FakeClock) -> tuple[Any, Any]:
    return MemoryStore(clock), MemoryQueue(clock)


def sqlite(path: Path) -> Backends:
    def make(clock: FakeClock) -> tuple[Any, Any]:
        database = Database.open(path, clock=clock, writer="inline", synchronous="NORMAL")
        return SqliteStore(database), SqliteQueue(database)

    return make


async def begin(parts: Parts) -> None:
    await parts.threads.start("worker", (Text("go"),), thread="t", key="start")


async def play(scene: Scene, backends: Backends, fates: Sequence[Fate]) -> tuple[World, Effects]:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks of the dead
    clock, effects = FakeClock(), Effects()
    world = World(backends(clock), clock, scene.agents(effects), inputs=scene.inputs(), answers=scene.answers)
    async with world.outside:
        for fate in fates:
            await world.live(fate, begin)
        while not await world.live(None, begin):
            pass
        await check(world, effects)
    await world.backends[0].close()  # type: ignore[attr-defined]
    return world, effects


async def check(world: World, effects: Effects) -> None:
    """What holds after every run, whatever happened in it."""
    store = world.store
    stored = [decode_message(message.body) for message in await store.read("t", 0, 1000)]
    assert stored == world.messages
    snapshot = await store.load("t")
    assert decode_head(snapshot.row.head) == fold(stored)
    assert world.awaited == 0, "an input's point was never reached"
    assert await store.stranded() == []
    assert await store.inbox("t") == []
    assert snapshot.next_due == 0
    assert world.delivered == {effect.id for effect in world.decided}
    check_requests(world.asked)
    check_effects(world, effects)


def check_effects(world: World, effects: Effects) -> None:
    """What was performed, by id, is what was decided; a call that was given up may not have begun."""
    invokes = [effect for effect in world.decided if isinstance(effect, Invoke)]
    assert len({effect.id for effect in invokes}) == len(invokes)
    given_up = {
        message.call
        for message in world.messages
        if isinstance(message, Result) and message.cause in ("interrupted", "stopped")
    }
    sent = {effect.call for effect in invokes if effect.server}
    assert sent - given_up <= set(world.tools.done) <= sent
    assert len(world.tools.done) == len(set(world.tools.done))
    paid = {effect.call for effect in invokes if effect.name == "pay"}
    keys = [key.removeprefix("t/") for key in effects.keys]
    assert paid - given_up <= set(keys) <= paid
    assert len(set(keys)) == len(keys)


def is_equal_or_unknown(told: Told, expected: Told) -> bool:
    """The outcome of an unsafe function may be unknown; all else is as it was."""
    return len(told) == len(expected) and all(
        one == other or one[0] == "turn" or (one[0] == "result" and one[3] == "unknown")
        for one, other in zip(told, expected, strict=True)
    )


def told_by(scene: Scene, world: World) -> Told:
    told = story(world.messages)
    return without_order(told) if scene.unordered else told


async def every_death(scene: Scene, backends: Callable[[int], Backends], *, unsafe: bool = False) -> int:
    world, _ = await play(scene, backends(0), [counted := Fate()])
    expected = told_by(scene, world)
    check_requests(world.asked, wires=True)
    scene.about(world)
    fates = [Fate(at, after=after) for at, after in product(range(counted.count), (False, True))]
    for number, fate in enumerate(fates, 1):
        world, effects = await play(scene, backends(number), [fate])
        told = told_by(scene, world)
        assert told == expected or (unsafe and is_equal_or_unknown(told, expected)), (
            f"died {fate.where} (action {fate.at})"
        )
        assert len([run for run in effects.runs if run.startswith("mail")]) <= 1
    return len(fates)


@pytest.mark.parametrize("name", SCENES)
def test_every_death_ends_in_the_undisturbed_history_in_memory(name: str) -> None:
    assert asyncio.run(every_death(SCENES[name], lambda _: memory, unsafe=name == "unsafe")) >= 16


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tool server"])
def test_every_death_ends_in_the_undisturbed_history_on_sqlite(name: str, tmp_path: Path) -> None:
    assert asyncio.run(every_death(SCENES[name], lambda number: sqlite(tmp_path / f"{number}.db"))) >= 16


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRED)
def test_two_deaths_end_in_the_undisturbed_history(name: str) -> None:
    async def every_pair() -> None:
        scene, random = SCENES[name], Random(name)
        world, _ = await play(scene, memory, [counted := Fate()])
        expected = story(world.messages)
        for _ in range(PAIRS):
            fates = [Fate(random.randrange(counted.count), after=random.random() < 0.5) for _ in range(2)]
            world, _ = await play(scene, memory, fates)
            where = ", then ".join(f"{fate.where} (action {fate.at})" for fate in fates)
            assert story(world.messages) == expected, f"died {where}"

    asyncio.run(every_pair())


def test_an_unsafe_function_is_not_run_again_and_the_model_is_told() -> None:
    async def unknown_outcomes() -> int:
        scene = SCENES["unsafe"]
        world, _ = await play(scene, memory, [counted := Fate()])
        told = 0
        for at in range(counted.count):
            world, _ = await play(scene, memory, [Fate(at, after=True)])
            results = [m for m in world.messages if isinstance(m, Result) and m.cause == "unknown"]
            told += len(results)
            assert all("unknown" in text_of(result.parts) for result in results)
            assert "outcome is unknown" in world.asked[-1].request.text or not results
        return told

    assert asyncio.run(unknown_outcomes()) >= 2
