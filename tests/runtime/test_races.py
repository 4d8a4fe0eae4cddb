"""Two at once on one thread, leases or not: one commit wins, nothing is doubled, nothing is lost."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tests.runtime.shown import check_items
from torpor import Agent, Limits, ToolContext, tool
from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Call, Message, Result, Said, Text, Turn, text_of
from torpor.core.thread import fold
from torpor.models import ScriptedModel, call, say
from torpor.ports import Lease
from torpor.queues.memory import MemoryQueue
from torpor.queues.sqlite import SqliteQueue
from torpor.runtime.ids import Ids
from torpor.runtime.slice import run_slice
from torpor.runtime.state import Outcome, Running
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import FakeClock
from torpor.wiring import Parts

Backends = tuple[Any, Any]


def memory() -> Backends:
    clock = FakeClock()
    return MemoryStore(clock), MemoryQueue(clock)


def sqlite(path: Path) -> Backends:
    database = Database.open(path, synchronous="NORMAL")
    return SqliteStore(database), SqliteQueue(database)


class Shared:
    """A store whose closing is left to the test."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def close(self) -> None: ...


def two(backends: Backends, agents: Callable[[], list[Agent]], seed: int = 0) -> tuple[Parts, Parts]:
    shared = (cast(Any, Shared(backends[0])), cast(Any, Shared(backends[1])))
    first, second = (
        Parts("memory:", agents(), backends=shared, ids=Ids(Random(2 * seed + n))) for n in range(2)
    )
    return first, second


async def slice_of(parts: Parts) -> Outcome:
    """One slice without asking any queue."""
    lease = Lease("t", "none", 0.0, agent="worker")
    return await run_slice(parts.kit, Running(lease))


async def history(store: Any) -> list[Message]:
    messages = [decode_message(message.body) for message in await store.read("t")]
    row = await store.row("t")
    assert decode_head(row.head) == fold(messages)
    return messages


class Meeting:
    """A model that answers only when two have asked."""

    def __init__(self) -> None:
        self.model = ScriptedModel(self._reply)
        self._asked = 0
        self._both = asyncio.Event()

    async def _reply(self, request: Any) -> Any:
        self._asked += 1
        if self._asked == 2:
            self._both.set()
        await self._both.wait()
        return say("Done.") if request.results else call("pay", amount=1)


async def meet(backends: Backends) -> None:
    paid: list[str] = []

    @tool(repeat="keyed")
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        paid.append(context.idempotency_key)
        return "paid"

    meeting = Meeting()
    first, second = two(backends, lambda: [Agent("worker", model=meeting.model, tools=[pay])])
    async with first, second:
        await first.threads.start("worker", [Text("A")], thread="t")
        await second.threads.say("t", [Text("B")])
        outcomes = await asyncio.gather(slice_of(first), slice_of(second))
        assert sorted(outcome.yielded for outcome in outcomes) == ["conflict", "waiting"]
        loser = outcomes[0] if outcomes[0].yielded == "conflict" else outcomes[1]
        assert loser.again_at > 0
        for parts in (first, second):
            while parts.dispatcher.busy:
                await asyncio.sleep(0)
        await slice_of(first if loser is outcomes[0] else second)
        messages = await history(backends[0])
        records = await backends[0].records("t")
    assert [text_of(m.parts) for m in messages if isinstance(m, Said)] == ["A", "B"]
    assert len([m for m in messages if isinstance(m, Turn)]) == 2
    assert len([m for m in messages if isinstance(m, Result)]) == 1
    assert len(paid) == 1
    assert [record.yielded for record in records].count("conflict") == 1


async def test_of_two_slices_on_one_thread_one_commits_in_memory() -> None:
    await meet(memory())


async def test_of_two_slices_on_one_thread_one_commits_on_sqlite(tmp_path: Path) -> None:
    backends = sqlite(tmp_path / "store.db")
    await meet(backends)
    await backends[0].close()


async def compete(seed: int) -> int:
    """Two that know nothing of each other run slices of one thread while people speak; gives lost races."""
    random, paid, backends = Random(seed), list[str](), memory()

    @tool(repeat="keyed")
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        paid.append(context.idempotency_key)
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        return f"paid {amount}"

    async def reply(request: Any) -> Any:
        for _ in range(random.randrange(6)):
            await asyncio.sleep(0)
        check_items(request.items)
        if request.text in words and random.random() < 0.5:
            return [call("pay", amount=amount) for amount in range(3)]
        return say("Yes.")

    words = [f"w{number}" for number in range(6)]
    limits = Limits(parallel=random.choice([1, 2, 8]))
    wake = random.choice(["all", "each"])

    def agents() -> list[Agent]:
        return [Agent("worker", model=ScriptedModel(reply), tools=[pay], limits=limits, wake=wake)]

    first, second = two(backends, agents, seed)
    async with first, second:
        await first.threads.start("worker", [Text("begin")], thread="t")

        async def speak() -> None:
            for word in words:
                for _ in range(random.randrange(12)):
                    await asyncio.sleep(0)
                mode = random.choice(["steer", "queue", "interrupt"])
                await second.threads.say("t", [Text(word)], mode=mode)

        async def run(parts: Parts) -> None:
            while not speaking.done() or parts.dispatcher.busy or await backends[0].stranded():
                await slice_of(parts)
                await asyncio.sleep(0)

        speaking = asyncio.create_task(speak())
        await asyncio.gather(speaking, run(first), run(second))
        messages = await history(backends[0])
        inbox = await backends[0].inbox("t")
        lost = [record.yielded for record in await backends[0].records("t")].count("conflict")
    said = [text_of(m.parts) for m in messages if isinstance(m, Said)]
    assert sorted(said) == sorted(["begin", *words]), seed
    assert inbox == []
    assert len(set(paid)) == len(paid), seed
    calls = [p.id for m in messages if isinstance(m, Turn) for p in m.parts if isinstance(p, Call)]
    results = [m.call for m in messages if isinstance(m, Result)]
    assert sorted(results) == sorted(calls), seed
    return lost


async def test_competing_processes_lose_and_double_nothing() -> None:
    async with asyncio.timeout(60):
        lost = [await compete(seed) for seed in range(60)]
    assert sum(lost) > 60


async def eight_at_once(seed: int) -> None:
    backends, go = memory(), asyncio.Event()

    @tool(repeat="safe")
    async def look(what: int) -> str:
        """Look."""
        await go.wait()
        return f"saw {what}"

    def agents() -> list[Agent]:
        script: Any = [[call("look", what=what) for what in range(8)], lambda request: say(request.text)]
        return [Agent("worker", model=ScriptedModel(script), tools=[look])]

    first, second = two(backends, agents, seed)
    async with first, second:
        await first.threads.start("worker", [Text("go")], thread="t")
        await slice_of(first)
        await asyncio.sleep(0)
        go.set()
        while first.dispatcher.busy or await backends[0].stranded():
            await asyncio.gather(*(slice_of(parts) for parts in (first, second, first, second)))
            await asyncio.sleep(0)
        messages = await history(backends[0])
    results = sorted(text_of(m.parts) for m in messages if isinstance(m, Result))
    assert results == [f"saw {what}" for what in range(8)]
    last = messages[-1]
    assert isinstance(last, Turn)
    assert text_of(last.parts).splitlines() == [f"saw {what}" for what in range(8)]


async def test_eight_results_at_once_are_eight_results() -> None:
    """Eight functions end in the same moment; four that ignore each other run the slices."""
    for seed in range(20):
        await eight_at_once(seed)


async def test_a_timer_and_words_that_meet_are_both_heard() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    model = ScriptedModel([call("sleep", seconds=60), lambda request: say(request.text), say("Yes.")])
    async with Parts(
        "memory:", [Agent("worker", model=model)], clock=clock, backends=(store, MemoryQueue(clock))
    ) as parts:
        await parts.threads.start("worker", [Text("go")], thread="t")
        worker = parts.worker(1)
        await worker.run_once()
        clock.advance(60)
        await parts.threads.say("t", [Text("hello")])
        while await worker.run_once():
            pass
        messages = await history(store)
    kinds = [type(message).__name__ for message in messages]
    assert kinds == ["Noted", "Said", "Turn", "Result", "Said", "Turn"]
    assert [m.cause for m in messages if isinstance(m, Result)] == ["slept"]


@pytest.mark.parametrize("first_is_slow", [True, False])
async def test_a_lease_that_was_lost_in_the_middle_costs_only_the_completion(first_is_slow: bool) -> None:
    """A worker that could not renew its lease hears so, drops its completion, and goes on with other work."""
    clock = FakeClock()
    store, queue = MemoryStore(clock), MemoryQueue(clock)
    held = asyncio.Event()

    class Deaf:
        """The queue as a process sees it that cannot reach it for a while."""

        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

        async def close(self) -> None: ...

    async def slow(request: Any) -> Any:
        await held.wait()
        return say("too late")

    def parts(model: Any, queue: Any) -> Parts:
        agents = [Agent("worker", model=ScriptedModel(model))]
        return Parts("memory:", agents, clock=clock, backends=(cast(Any, Shared(store)), queue))

    async with parts(slow, Deaf()) as first, parts(lambda request: say("in time"), Shared(queue)) as second:
        await first.threads.start("worker", [Text("go")], thread="t")
        worker = first.worker(1)
        worker.start()
        while not worker.busy:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        clock._now += 20.0  # the process stood still: its own timers have not run
        assert await second.worker(1).run_once()
        if first_is_slow:
            await clock.run(0.5)
        held.set()
        for _ in range(50):
            await asyncio.sleep(0)
        await clock.run(0.5)
        assert worker.busy == 0
        assert all(not task.done() for task in worker._tasks)
        await worker.stop(0)
        messages = await history(store)
        records = await store.records("t")
    turns = [text_of(message.parts) for message in messages if isinstance(message, Turn)]
    assert turns == ["in time"]
    assert sorted(record.yielded for record in records) == ["conflict", "idle"]
