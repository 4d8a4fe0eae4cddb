"""A process dies before or after every durable action of a run; the history ends as if it had not."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.world import Fate, World, story
from torpor import Agent, tool
from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Message, Text
from torpor.core.thread import fold
from torpor.models import ScriptedModel, call, say
from torpor.ports import StoredMessage
from torpor.queues.memory import MemoryQueue
from torpor.queues.sqlite import SqliteQueue
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import FakeClock
from torpor.wiring import Parts

Backends = Callable[[FakeClock], tuple[Any, Any]]


class Effects:
    """What functions did to the world, by the key they were given."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.keys: set[str] = set()


def agents(effects: Effects) -> Callable[[], list[Agent]]:
    from torpor import ToolContext

    @tool(repeat="safe")
    async def look(what: str) -> str:
        """Look at something."""
        effects.runs.append(f"look {what}")
        return f"saw {what}"

    @tool(repeat="keyed")
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay, once per key."""
        effects.runs.append(f"pay {amount}")
        effects.keys.add(context.idempotency_key)
        return f"paid {amount}"

    def script() -> ScriptedModel:
        return ScriptedModel(
            [
                [say("I look and pay."), call("look", what="a"), call("pay", amount=10), call("nothing")],
                call("sleep", seconds=30),
                [call("look", what="b"), call("look", what="c")],
                lambda request: say(" and ".join(result.text for result in request.results)),
            ]
        )

    return lambda: [Agent("worker", model=script(), tools=[look, pay])]


def memory(clock: FakeClock) -> tuple[Any, Any]:
    return MemoryStore(clock), MemoryQueue(clock)


def sqlite(path: Path) -> Backends:
    def make(clock: FakeClock) -> tuple[Any, Any]:
        database = Database.open(path, clock=clock, writer="inline")
        return SqliteStore(database), SqliteQueue(database)

    return make


async def begin(parts: Parts) -> None:
    await parts.threads.start("worker", (Text("go"),), thread="t", key="start")


async def history(store: Any) -> list[Message]:
    stored: list[StoredMessage] = await store.read("t", 0, 1000)
    return [decode_message(message.body) for message in stored]


async def play(backends: Backends, fate: Fate) -> tuple[list[tuple[Any, ...]], Effects, Fate]:
    clock, effects = FakeClock(), Effects()
    world = World(backends(clock), clock, agents(effects))
    await world.live(fate, begin)
    while not await world.live(None, begin):
        pass
    store = world.backends[0]
    messages = await history(store)
    row = await store.row("t")
    assert decode_head(row.head) == fold(messages)
    assert await store.stranded() == []
    await store.close()
    return story(messages), effects, fate


async def every_crash(backends: Callable[[int], Backends]) -> int:
    expected, undisturbed, counted = await play(backends(0), Fate())
    assert expected[-1][0] == "turn"
    number = 0
    for at in range(counted.count):
        for after in (False, True):
            number += 1
            told, effects, fate = await play(backends(number), Fate(at, after=after))
            assert told == expected, f"died {fate.where} (action {at})"
            assert len(effects.keys) == len(undisturbed.keys), f"died {fate.where} (action {at})"
    return number


def test_every_crash_ends_in_the_undisturbed_history_in_memory() -> None:
    assert asyncio.run(every_crash(lambda _: memory)) > 50


@pytest.mark.slow
def test_every_crash_ends_in_the_undisturbed_history_on_sqlite(tmp_path: Path) -> None:
    assert asyncio.run(every_crash(lambda number: sqlite(tmp_path / f"{number}.db"))) > 50
