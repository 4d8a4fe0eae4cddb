"""Random conversations in which processes die at random and everything comes at random: every law holds."""

import asyncio
import os
from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.runtime.scenes import Effects, Scene
from tests.runtime.shown import check_requests
from tests.runtime.test_crash_points import begin, check_effects, memory
from tests.runtime.world import QUIET, Fate, Input, World, after, says, stops
from torpor import Limits
from torpor.core.codec import decode_head, decode_message
from torpor.core.errors import Unavailable
from torpor.core.messages import Call, Happened, Late, Noted, Queued, Result, Said, Text, Turn
from torpor.core.signals import Due
from torpor.core.thread import LEAVES_OPEN, Head, fold
from torpor.models import call, say
from torpor.models.scripted import fail, tries
from torpor.testing.clock import FakeClock

ENOUGH = 60
"""Lives among which everything must have happened."""
LIVES = int(os.environ.get("TORPOR_LIVES", ENOUGH))
TURNS = 12
HAPPENS = ["Happened", "Detached", "Queued", "Sent", "Parked", "Resumed", "Stopped", "Late"]
HAPPENS += [f"for {cause}" for cause in ["interrupted", "stopped", "slept", "woken", "unknown_tool"]]
"""What must have been among what happened, or the lives were too quiet."""


def some_calls(random: Random) -> list[Any]:
    kinds = ["pay", "pay", "look", "add", "build", "build", "check", "watch", "sleep", "boom", "nothing"]
    return [_call(random.choice(kinds), random) for _ in range(random.randint(1, 4))]


def _call(kind: str, random: Random) -> Any:
    match kind:
        case "pay":
            return call("pay", amount=random.randrange(100))
        case "add":
            return call("add", a=1, b=2)
        case "sleep":
            return call("sleep", seconds=random.choice([0, 5, 500]))
        case "boom" | "nothing":
            return call(kind)
        case _:
            return call(kind, what=f"{random.randrange(100)}")


def a_reply(random: Random) -> Any:
    reply: Any = [say("Well."), *some_calls(random)] if random.random() < 0.7 else say("So.")
    if random.random() < 0.2:
        errors = [Unavailable("busy", retry_after=random.choice([None, 7, 400])), Unavailable("503")]
        return tries(*map(fail, errors[: random.randint(1, 2)]), reply)
    return reply


def an_input(random: Random) -> Input:
    when = after(random.randint(0, TURNS - 2))
    match random.choice(
        [
            "steer",
            "queue",
            "interrupt",
            "stop",
            "finish",
            "finish",
            "finish",
            "event",
            "event",
            "event",
            "final",
        ]
    ):
        case "stop":
            return Input(when, stops)
        case "finish":
            return Input(when, lambda world: finish_one(world, random.random()))
        case "event" | "final" as kind:
            return Input(when, lambda world: an_event(world, random.random(), final=kind == "final"))
        case mode:
            return Input(when, says(f"words {random.random()}", mode))


async def head_of(world: World) -> Head:
    row = await world.store.row("t")
    assert row is not None
    return decode_head(row.head, row.shape) if row.head else Head()


async def finish_one(world: World, place: float) -> None:
    """The result of one call of the tool server that has begun, if there is one."""
    head = await head_of(world)
    open_ = [id for id in [*head.pending, *head.detached] if id in world.tools.urls]
    if open_:
        id = open_[int(place * len(open_))]
        await world.tools.answer(id, f"result of {id}", subscription=place < 0.7)


async def an_event(world: World, place: float, *, final: bool) -> None:
    head = await head_of(world)
    open_ = [id for id in head.subscriptions if id in world.tools.urls]
    if open_:
        id = open_[int(place * len(open_))]
        await world.tools.tell(id, f"e{place}", f"event of {id}", final=final)


async def live(seed: int) -> Counter[str]:
    """What happened in one life, counted by kind."""
    random = Random(seed)
    script = [a_reply(random) for _ in range(TURNS)]
    scene = Scene(
        lambda: [*script, *[say("Enough.") for _ in range(60)]],
        limits=Limits(parallel=random.choice([1, 2, 8]), completions=random.choice([4, 100])),
        wake=random.choice(["all", "each"]),
    )
    clock, effects = FakeClock(), Effects()
    inputs = sorted((an_input(random) for _ in range(random.randrange(20))), key=lambda _: random.random())
    world = World(memory(clock), clock, scene.agents(effects), inputs=inputs, answers={"check": "checked"})
    world.quiet = QUIET
    async with world.outside:
        for _ in range(random.randrange(5)):
            await world.live(Fate(random.randrange(90), after=random.random() < 0.5), begin)
        for _ in range(100):
            while not await world.live(None, begin):
                pass
            if not await push(world):
                break
        await check_laws(world, effects)
    kinds = Counter(type(message).__name__ for message in world.messages)
    kinds.update(world.notes)
    kinds.update(f"for {m.cause}" for m in world.messages if isinstance(m, Result) and m.cause)
    return kinds


async def push(world: World) -> bool:
    """Whatever still holds the thread back comes to its end; says whether there was anything."""
    head = await head_of(world)
    if head.state in ("stopped", "parked"):
        await world.outside.threads.nudge("t")
        return True
    waiting = [id for id in [*head.pending, *head.detached] if _may_end(head, id)]
    for id in waiting:
        if id in world.tools.urls:
            await world.tools.answer(id, "at last")
    if world.awaited:
        world.skip()
        return True
    if waiting or world.turns >= TURNS:
        return bool(waiting)
    await world.outside.threads.say("t", [Text("go on")])
    return True


def _may_end(head: Head, id: str) -> bool:
    call = head.pending.get(id) or head.detached[id]
    return not call.given_up


async def check_laws(world: World, effects: Effects) -> None:
    store = world.store
    messages = [decode_message(message.body) for message in await store.read("t", 0, 10_000)]
    head = await head_of(world)
    assert messages == world.messages
    assert head == fold(messages)
    assert await store.stranded() == []
    assert {one.what for one in await store.inbox("t") if isinstance(one, Due)} <= {"status"}
    assert all(isinstance(one, Due) for one in await store.inbox("t"))
    assert world.delivered == {effect.id for effect in world.decided}
    assert not head.pending
    assert not head.queued
    check_requests(world.asked)
    check_effects(world, effects)
    check_calls(messages)
    check_signals(messages)


def check_calls(messages: list[Any]) -> None:
    """Each call has one result, and one more only where the first left it open."""
    results: dict[str, list[Result]] = {}
    for message in messages:
        if isinstance(message, Result):
            results.setdefault(message.call, []).append(message)
    for made in (part for turn in messages if isinstance(turn, Turn) for part in turn.parts):
        if isinstance(made, Call):
            got = results.pop(made.id)
            assert len(got) == 1 or got[0].cause in LEAVES_OPEN, made
            assert len(got) <= 2
    assert results == {}


def check_signals(messages: list[Any]) -> None:
    """Nothing that came is in the history twice."""
    seen: list[str] = []
    for message in messages:
        source = message.note if isinstance(message, Noted) else message
        if isinstance(source, Said | Result | Happened | Late) and source.signal:
            seen.append(source.signal)
        if isinstance(source, Queued):
            seen.append(f"queued {source.signal}")
    assert len(set(seen)) == len(seen)


@pytest.mark.slow
def test_random_lives_obey_every_law() -> None:
    async def lives() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks of the dead
        kinds: Counter[str] = Counter()
        for seed in range(LIVES):
            try:
                kinds += await live(seed)
            except BaseException as error:
                error.add_note(f"life {seed}")
                raise
        if LIVES >= ENOUGH:
            assert {kind for kind in HAPPENS if kinds[kind] < 3} == set()

    asyncio.run(lives())
