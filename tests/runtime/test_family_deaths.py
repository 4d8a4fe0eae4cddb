"""Trees of threads whose process dies before or after any durable action end as if nothing had happened."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.runtime.cast import Cast, closes, reports, spawns, spawns_here
from tests.runtime.scenes import Effects
from tests.runtime.shown import check_requests
from tests.runtime.test_crash_points import Backends, begin, check_effects, memory, sqlite
from tests.runtime.world import SERVER, Fate, Input, World, finishes, stops
from torpor import Agent, RapServer
from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Call, Happened, Message, Noted, Reported, Result, Turn, text_of
from torpor.core.thread import fold
from torpor.models import call, say

PAIRS = 60
"""Pairs of deaths that are tried in a scene."""


@dataclass
class Tree:
    """Scripts by part, what comes from outside and when, and how it ends."""

    parts: Callable[[], dict[str, Any]]
    inputs: Callable[["Stage"], Sequence[Input]]
    ends: dict[str, str]
    """The state of each part at the end."""
    says: tuple[str, ...]
    """What the root's model says, in order."""
    orphans: str = "close"
    loose: bool = False
    """What each hears may differ: a thread may end before word reaches it that was held up by a death."""
    cancelled: tuple[str, ...] = ()
    """Tools whose calls are cancelled."""


@dataclass
class Stage:
    """What processes share: who plays what, and what was cancelled."""

    played: dict[str, str] = field(default_factory=dict)
    casts: list[Cast] = field(default_factory=list)

    def thread(self, part: str) -> str:
        return next((thread for thread, played in self.played.items() if played == part), "")

    def agents(self, tree: Tree) -> Callable[[], list[Agent]]:
        def made() -> list[Agent]:
            cast = Cast(self.played, **tree.parts())
            return [Agent("worker", model=cast, tools=[RapServer(SERVER)], orphans=tree.orphans)]

        return made


def once(*words: str, invoked: str = "") -> Callable[[World], bool]:
    """A point: models have said so, and a tool has begun."""

    def reached(world: World) -> bool:
        said = {text_of(message.parts) for message in world.messages if isinstance(message, Turn)}
        return said.issuperset(words) and (not invoked or invoked in world.tools.tokens)

    return reached


def happens(name: str, id: str, text: str) -> Callable[[World], Awaitable[object]]:
    return lambda world: world.tools.event(name, id, text, associative=False)


def closes_part(stage: Stage, part: str) -> Callable[[World], Awaitable[object]]:
    async def close(world: World) -> None:
        await world.outside.threads.close(stage.thread(part))

    return close


TREES: dict[str, Tree] = {
    "a child closes with its report": Tree(
        lambda: {
            "root": [spawns("as kid: build it"), say("Waiting."), say("Heard.")],
            "kid": [call("build", what="x"), closes("It is built.")],
        },
        lambda stage: [Input(once("Waiting.", invoked="build"), finishes("build", "built"))],
        {"root": "open", "kid": "closed"},
        ("", "Waiting.", "Heard."),
    ),
    "a child reports and rests": Tree(
        lambda: {
            "root": [spawns("as kid: build it"), say("Waiting."), say("Heard.")],
            "kid": [call("build", what="x"), reports("It is built."), say("Told.")],
        },
        lambda stage: [Input(once("Waiting.", invoked="build"), finishes("build", "built"))],
        {"root": "open", "kid": "open"},
        ("", "Waiting.", "Heard."),
    ),
    "a thread for an event": Tree(
        lambda: {
            "root": [call("watch", what="door"), say("I watch."), say("Heard."), say("Over.")],
            "event": [reports("it moved"), say("Told.")],
        },
        lambda stage: [
            Input(once(invoked="watch"), lambda world: world.tools.result("watch", "yes", subscription=True)),
            Input(once("I watch."), happens("watch", "e1", "the door moved")),
            Input(once("Heard."), lambda world: world.tools.event("watch", "e2", "it is gone", final=True)),
        ],
        {"root": "open", "event": "closed"},
        ("", "I watch.", "Heard.", "Over."),
    ),
    "a subtree is stopped": Tree(
        lambda: {
            "root": [spawns("as kid: build it"), say("Waiting.")],
            "kid": [spawns_here("as grandchild: really"), say("Begun.")],
            "grandchild": [call("build", what="x"), say("never")],
        },
        lambda stage: [Input(once("Waiting.", "Begun.", invoked="build"), stops)],
        {"root": "stopped", "kid": "stopped", "grandchild": "stopped"},
        ("", "Waiting."),
        cancelled=("build",),
    ),
    "a tree is closed": Tree(
        lambda: {
            "root": [spawns("as kid: build it"), say("Waiting."), say("Gone.")],
            "kid": [spawns_here("as grandchild: really"), say("Begun.")],
            "grandchild": [call("build", what="x"), say("never")],
        },
        lambda stage: [Input(once("Waiting.", "Begun.", invoked="build"), closes_part(stage, "kid"))],
        {"root": "open", "kid": "closed", "grandchild": "closed"},
        ("", "Waiting.", "Gone."),
        cancelled=("build",),
    ),
    "an orphan is adopted": Tree(
        lambda: {
            "root": [spawns("as kid: build it"), say("Waiting."), say("Gone."), say("Heard.")],
            "kid": [spawns_here("as grandchild: really"), say("Begun.")],
            "grandchild": [call("build", what="x"), closes("It is built.")],
        },
        lambda stage: [
            Input(once("Waiting.", "Begun.", invoked="build"), closes_part(stage, "kid")),
            Input(once("Gone."), finishes("build", "built")),
        ],
        {"root": "open", "kid": "closed", "grandchild": "closed"},
        ("", "Waiting.", "Gone.", "Heard."),
        orphans="adopt",
        loose=True,
    ),
}


async def play(tree: Tree, backends: Backends, fates: Sequence[Fate]) -> dict[str, Any]:
    """Play it to its end; gives what each part has in its history, without ids and the order of news."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks of the dead
    clock, stage = _clock(), Stage()
    world = World(backends(clock), clock, stage.agents(tree), inputs=tree.inputs(stage))
    async with world.outside:
        for fate in fates:
            await world.live(fate, begin)
        while not await world.live(None, begin):
            pass
        await check(world)
        states = {part: await _state(world, thread) for thread, part in stage.played.items()}
    await world.backends[0].close()  # type: ignore[attr-defined]
    assert states == tree.ends
    turns = [text_of(one.parts) for one in world.histories["t"] if isinstance(one, Turn)]
    assert tuple(turns) == tree.says
    names = {call: tool for tool, (call, _) in world.tools.tokens.items()}
    assert {names.get(call, "") for call in world.tools.cancelled} == set(tree.cancelled)
    heard = {part: told(world.histories[thread], stage.played) for thread, part in stage.played.items()}
    return {part: said for part, (said, _) in heard.items()} if tree.loose else heard


def _clock() -> Any:
    from torpor.testing.clock import FakeClock

    return FakeClock()


async def _state(world: World, thread: str) -> str:
    row = await world.store.row(thread)
    return row.state if row else ""


async def check(world: World) -> None:
    """What holds of every thread after every run, whatever happened in it."""
    store = world.store
    rows = await store.threads(limit=100)
    assert {row.thread for row in rows} == set(world.histories)
    for row in rows:
        stored = [decode_message(message.body) for message in await store.read(row.thread, 0, 1000)]
        assert stored == world.histories[row.thread]
        snapshot = await store.load(row.thread)
        assert decode_head(snapshot.row.head) == fold(stored)
        assert (row.purpose, row.parent) == (fold(stored).purpose, fold(stored).parent)
        assert await store.inbox(row.thread) == []
        assert await store.outbox(row.thread) == []
        assert snapshot.next_due == 0
    assert world.awaited == 0, "an input's point was never reached"
    assert await store.stranded() == []
    assert world.delivered == {effect.id for effect in world.decided}
    check_effects(world, Effects())
    for thread in world.histories:
        check_requests([one for one in world.asked if one.attempt.thread == thread])


def told(messages: Sequence[Message], played: dict[str, str]) -> tuple[list[str], list[str]]:
    """What the thread's model said, and what it has heard and what became of it, in no order."""
    said, heard = [], []
    for message in messages:
        match message:
            case Turn():
                calls = [part.name for part in message.parts if isinstance(part, Call)]
                said.append(f"{text_of(message.parts)} {calls}")
            case Noted(note=note):
                heard.append(f"noted {type(note).__name__}")
            case Reported():
                heard.append(f"{message.what} of {played.get(message.thread)}: {text_of(message.parts)}")
            case Result():
                heard.append(f"result {message.cause}: {text_of(message.parts)}")
            case Happened():
                heard.append(f"event {message.threaded}: {text_of(message.parts)}")
            case _:
                heard.append(type(message).__name__)
    return said, sorted(_named(line, played) for line in heard)


def _named(line: str, played: dict[str, str]) -> str:
    for thread, part in played.items():
        line = line.replace(thread, f"<{part}>") if part != "root" else line
    return re.sub(r"c[0-9a-f]{16}-\d+", "<call>", line)


@pytest.mark.parametrize("name", TREES)
def test_every_death_ends_as_if_nothing_had_happened(name: str) -> None:
    async def every() -> int:
        tree = TREES[name]
        expected = await play(tree, memory, [counted := Fate()])
        fates = [Fate(at, after=after) for at, after in product(range(counted.count), (False, True))]
        for fate in fates:
            try:
                assert await play(tree, memory, [fate]) == expected
            except AssertionError as error:
                raise AssertionError(f"died {fate.where} (action {fate.at})") from error
        return len(fates)

    assert asyncio.run(every()) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_two_deaths_end_as_if_nothing_had_happened(name: str) -> None:
    async def pairs() -> None:
        tree, random = TREES[name], Random(name)
        expected = await play(tree, memory, [counted := Fate()])
        for _ in range(PAIRS):
            fates = [Fate(random.randrange(counted.count), after=random.random() < 0.5) for _ in range(2)]
            try:
                assert await play(tree, memory, fates) == expected
            except AssertionError as error:
                where = ", then ".join(f"{fate.where} (action {fate.at})" for fate in fates)
                raise AssertionError(f"died {where}") from error

    asyncio.run(pairs())


@pytest.mark.slow
def test_every_death_on_sqlite(tmp_path: Path) -> None:
    async def every() -> None:
        tree = TREES["an orphan is adopted"]
        expected = await play(tree, sqlite(tmp_path / "whole.db"), [counted := Fate()])
        for at in range(counted.count):
            assert await play(tree, sqlite(tmp_path / f"{at}.db"), [Fate(at, after=True)]) == expected

    asyncio.run(every())
