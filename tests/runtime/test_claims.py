"""An effect belongs to the process that performs it, for as long as it takes."""

import asyncio

from tests.runtime.world import bury, settle
from torpor import Agent, tool
from torpor.core.codec import decode_message
from torpor.core.messages import Result, Text, text_of
from torpor.models import ScriptedModel, call, say
from torpor.queues.memory import MemoryQueue
from torpor.runtime.sweep import sweep
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock
from torpor.wiring import Parts


async def test_a_function_that_outlasts_its_claim_is_run_once_and_heard() -> None:
    clock, go, runs = FakeClock(), asyncio.Event(), list[int]()

    @tool
    async def slow() -> str:
        """Take long, without a second chance."""
        runs.append(1)
        await go.wait()
        return "there"

    store, queue = MemoryStore(clock), MemoryQueue(clock)

    def process() -> Parts:
        model = ScriptedModel([call("slow"), say("Good.")])
        agents = [Agent("worker", model=model, tools=[slow])]
        return Parts("memory:", agents, clock=clock, claim=3.0, backends=(store, queue))

    async with process() as first, process() as second:
        await first.threads.start("worker", (Text("go"),), thread="t")
        await first.worker(1).run_once()
        while not runs:
            await asyncio.sleep(0)
        for _ in range(10):
            await clock.run(1.0)
            await sweep(store, queue)
            await second.worker(1).run_once()
            await settle(second)
        go.set()
        while first.dispatcher.busy:
            await asyncio.sleep(0)
        while await second.worker(1).run_once():
            pass
        await bury(first)
    messages = [decode_message(message.body) for message in await store.read("t")]
    results = [message for message in messages if isinstance(message, Result)]
    assert [text_of(result.parts) for result in results] == ["there"]
    assert runs == [1]
