"""Random trees of threads: born, told, given events, compacted, stopped, closed; processes die at random.

Every run ends with what must always hold: nothing lost, nothing doubled, nobody asleep whom nothing can wake.
"""

import asyncio
import gc
import os
import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.runtime.cast import shown
from tests.runtime.shown import check_items
from tests.runtime.test_crash_points import memory
from tests.runtime.world import QUIET, SERVER, Fate, Input, World, says
from torpor import Agent, Limits, RapServer
from torpor.core.codec import decode_head
from torpor.core.definition import Events
from torpor.core.effects import Post, Spawn
from torpor.core.head import Head
from torpor.core.messages import Happened, Noted, Reported, Spawned, Text
from torpor.core.request import Request
from torpor.core.signals import Due, ReportedSignal
from torpor.core.thread import fold
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import used
from torpor.testing.clock import FakeClock
from torpor.wiring import Parts

RUNS = int(os.environ.get("TORPOR_TREES", "2000"))
CHUNKS = 8
WINDOW = 5_000
FIXED = 2_000
"""Tokens: of a window, and of what is in every request. A token counts as four characters shown."""
TURNS = 4
"""After so many turns a thread says nothing but its last words."""

WISHES = ["spawn", "spawn", "report", "close", "tell", "watch", "watch", "build", "sleep", "talk", "talk"]
HAPPENS = ["Spawned", "Summary", "Compacting", "Uncompacted", "Adopted", "Stopped", "Closed", "Happened"]
HAPPENS += ["report", "born", "told", "ended", "rested", "stopped", "closed", "adopted"]
"""What must have been among what happened in an eighth of the runs, or they were too quiet."""

_STACK = re.compile(r"from the root to here: ([^.]*)\.")
_HERE = re.compile(r"inside the (?:new |temporary )*thread ([\w-]+)")
_MADE = re.compile(r"The child thread ([\w-]+) has been made")


def reply(request: Request) -> Any:
    """What a model does, chosen by what it is shown."""
    random, text = Random(request.hash), shown(request)
    size = used(input=len(text) // 4 + FIXED, output=20)
    if "it writes the summary" in text:
        return [random.choice([say("In short: go on."), say("In short: go on."), say("")]), size]
    if len([item for item in request.items if hasattr(item, "calls")]) > TURNS:
        return [say("That is all."), size]
    return [*(_wish(random, text) for _ in range(random.choice([0, 1, 1, 1, 2]))), say("So."), size]


def _wish(random: Random, text: str) -> Any:
    stack = (_STACK.findall(text) or ["root"])[-1].split(", ")
    made = _MADE.findall(text)
    match random.choice(
        ["spawn", "spawn", "report", "close", "tell", "watch", "build", "sleep", "talk", "talk"]
    ):
        case "spawn":
            fresh = random.random() < 0.3
            return call("spawn_thread", instructions="do it", child_of=stack, fresh_context=fresh)
        case "report":
            return call("report_to_parent", report=f"report {random.random()}")
        case "close":
            return call("close_thread", thread_id=(_HERE.findall(text) or ["root"])[-1])
        case "tell":
            return call("send_message_to_child", thread_id=(made or ["none"])[-1], message="Go on.")
        case "watch" | "build" as name:
            return call(name, what=f"{random.random()}")
        case "sleep":
            return call("sleep", seconds=random.choice([1, 50]))
        case _:
            return say("words " * random.choice([1, 2_000, 2_000]))


def agents(random: Random) -> Any:
    limits = Limits(depth=random.choice([1, 3]), children=random.choice([2, 5]), events=random.choice([1, 3]))
    options: dict[str, Any] = {
        "limits": limits,
        "window": WINDOW,
        "orphans": random.choice(["close", "adopt"]),
        "events": Events(window=random.choice([0.0, 5.0]), most=random.choice([1, 3])),
        "tools": [RapServer(SERVER)],
    }
    return lambda: [Agent("worker", model=ScriptedModel(reply), **options)]


def inputs(random: Random) -> list[Input]:
    return [_input(random) for _ in range(random.randrange(6))]


def _input(random: Random) -> Input:
    place, turns = random.random(), random.randrange(1, 12)
    kind = random.choice(["event", "events", "events", "result", "stop", "close", "say"])
    return Input(lambda world: world.turns >= turns, _acts(random, place)[kind])


def _acts(random: Random, place: float) -> dict[str, Any]:
    return {
        "event": lambda world: events(world, place, 1),
        "events": lambda world: events(world, place, 4),
        "result": lambda world: result(world, place),
        "stop": lambda world: to_one(world, place, "stop"),
        "close": lambda world: to_one(world, place, "close"),
        "say": says(f"words {place}", random.choice(["steer", "queue", "interrupt"])),
    }


async def heads(world: World) -> dict[str, Head]:
    rows = [row for thread in world.histories if (row := await world.store.row(thread)) is not None]
    return {row.thread: decode_head(row.head, row.shape) for row in rows}


def _chosen(choices: list[Any], place: float) -> Any:
    return choices[int(place * len(choices))] if choices else None


async def events(world: World, place: float, count: int) -> None:
    held = [(thread, id) for thread, head in (await heads(world)).items() for id in head.subscriptions]
    chosen = _chosen(sorted(held), place)
    for number in range(count if chosen else 0):
        id = f"e{place}-{number}"
        await world.tools.tell(chosen[1], id, f"event {id}", associative=place < 0.2)


async def result(world: World, place: float) -> None:
    open_ = [id for head in (await heads(world)).values() for id in [*head.pending, *head.detached]]
    id = _chosen(sorted(one for one in open_ if one in world.tools.urls), place)
    if id:
        await world.tools.answer(id, "done", subscription=True)


async def to_one(world: World, place: float, what: str) -> None:
    thread = _chosen(sorted(thread for thread in await heads(world)), place)
    if thread:
        await getattr(world.outside.threads, what)(thread)


async def begin(parts: Parts) -> None:
    await parts.threads.start("worker", (Text("go"),), thread="t", key="start")


async def run(seed: int) -> Counter[str]:
    """One run; gives what happened in it, counted by kind."""
    random = Random(seed)
    clock = FakeClock()
    world = World(memory(clock), clock, agents(random), inputs=inputs(random), answers={"watch": "watching"})
    world.quiet = QUIET
    world.tools.subscribing, world.tools.statuses = {"watch"}, {200, 410}
    async with world.outside:
        for _ in range(random.choice([0, 0, 1, 1, 2])):
            await world.live(Fate(random.randrange(120), after=random.random() < 0.5), begin)
        while not await world.live(None, begin):
            pass
        await check(world)
    return counted(world)


def counted(world: World) -> Counter[str]:
    kinds = Counter(world.notes)
    kinds.update(type(message).__name__ for message in world.messages)
    kinds.update(message.what for message in world.messages if isinstance(message, Reported))
    return kinds


async def check(world: World) -> None:
    all_ = await heads(world)
    assert set(all_) == set(world.histories)
    assert await world.store.stranded() == []
    assert world.delivered == {effect.id for effect in world.decided}
    for thread, head in all_.items():
        assert head == fold(world.histories[thread])
        left = await world.store.inbox(thread)
        assert all(isinstance(one, Due) and one.what in ("status", "compaction") for one in left)
        check_family(thread, head, all_)
        check_events(head, world.histories[thread])
        check_sleeper(head)
    check_words(world)
    for asked in world.asked:
        check_items(asked.request.items)


def check_family(thread: str, head: Head, all_: dict[str, Head]) -> None:
    """Who is whose child is told alike by both; nobody lives below what is closed; places are counted."""
    assert head.used == sum(child.places for child in head.children.values())
    for id in head.children:
        assert all_[id].parent == thread
        assert all_[id].state != "closed"
    if head.parent and head.state != "closed" and head.purpose != "compaction":
        assert thread in all_[head.parent].children
        assert all_[head.parent].state != "closed"


def check_events(head: Head, messages: list[Any]) -> None:
    """Each event is there once, and was given to one child, or waits for a place."""
    came = [message.event_id for message in messages if isinstance(message, Happened)]
    assert len(came) == len(set(came))
    given = [at for message in messages for at in _given(message)]
    assert len(given) == len(set(given))
    threaded = {i for i, m in enumerate(messages, 1) if isinstance(m, Happened) and m.threaded}
    waiting = {at for held in head.gathered.values() for at in held.positions}
    assert set(given) <= threaded
    assert waiting <= threaded - set(given)
    if head.state == "open":
        assert set(given) | waiting == threaded


def _given(message: Any) -> tuple[int, ...]:
    note = message.note if isinstance(message, Noted) else None
    return note.events if isinstance(note, Spawned) else ()


def check_sleeper(head: Head) -> None:
    """Whoever rests either waits for something that can come, or has told its parent how it ended."""
    if head.state != "open":
        return
    assert not head.owes or head.pending
    assert all(not call.passive for call in head.pending.values())
    holds = head.pending or head.detached or head.subscriptions or head.children or head.gathered
    if head.purpose in ("child", "event") and not holds:
        assert head.heard


def check_words(world: World) -> None:
    """What was sent to another thread is in its history once, unless that one was closed; births too."""
    recorded = Counter(m.signal for m in world.messages if isinstance(m, Reported) and m.signal)
    assert all(count == 1 for count in recorded.values())
    closed = {thread for thread, messages in world.histories.items() if fold(messages).state == "closed"}
    for effect in world.decided:
        if isinstance(effect, Spawn):
            assert effect.born.thread in world.histories
        if isinstance(effect, Post) and isinstance(effect.signal, ReportedSignal):
            assert effect.signal.thread in closed or recorded[effect.signal.id] == 1


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_trees_obey_every_law(chunk: int) -> None:
    async def runs() -> Counter[str]:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks of the dead
        kinds: Counter[str] = Counter()
        for seed in range(chunk, RUNS, CHUNKS):
            try:
                kinds += await run(seed)
            except BaseException as error:
                error.add_note(f"run {seed}")
                raise
        return kinds

    gc.freeze()  # what was loaded before is none of the runs' garbage: a tenth of their time
    kinds = asyncio.run(runs())
    gc.unfreeze()
    if RUNS >= 2_000:
        assert [kind for kind in HAPPENS if not kinds[kind]] == []
