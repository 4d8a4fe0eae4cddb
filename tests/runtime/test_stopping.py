"""A process that ends keeps its bound, whatever is under way, and the next one goes on."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from tests.end_to_end.test_thousand_callbacks import Silent
from torpor import Agent, RapServer, Runtime, tool
from torpor.core.messages import Result, Text, Turn, text_of
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import stall
from torpor.ports import Backend
from torpor.queues.memory import MemoryQueue
from torpor.runtime.sweep import sweep
from torpor.stores.memory import MemoryStore
from torpor.wiring import Parts

SOON = 10.0
GRACE = 0.1
BOUND = 1.5
"""Seconds in which a process ends that is given so little grace."""


class Place:
    """A store and a queue that outlive processes; claims and leases run out soon."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.queue = MemoryQueue(lease=0.3)

    def parts(self, agents: list[Agent], **options: Any) -> Parts:
        backends = (cast(Backend, self.store), self.queue)
        return Parts("memory:", agents, backends=backends, claim=0.3, public_url="http://here", **options)

    @asynccontextmanager
    async def process(self, agents: list[Agent], **options: Any) -> AsyncIterator[Parts]:
        """Runs slices, and ends within its bound."""
        async with self.parts(agents, **options) as parts:
            worker = parts.worker(2)
            worker.start()
            yield parts
            began = time.monotonic()
            await worker.stop(GRACE)
            await parts.dispatcher.drain(GRACE)
        assert time.monotonic() - began < BOUND

    async def next_process(self, agents: list[Agent], **options: Any) -> tuple[str, list[Result], list[Turn]]:
        """Goes on where the last one was; gives the reply and what stands in the history."""
        backends = (cast(Backend, self.store), self.queue)
        async with Runtime(
            "memory:", agents=agents, listen=None, backends=backends, claim=0.3, **options
        ) as runtime:
            thread = runtime.thread("t")
            sweeping = asyncio.create_task(_sweep(runtime.parts))
            reply = await thread.reply(SOON)
            sweeping.cancel()
            history = await thread.history()
        results = [message for message in history if isinstance(message, Result)]
        return reply.text, results, [message for message in history if isinstance(message, Turn)]


async def _sweep(parts: Parts) -> None:
    while True:
        await sweep(parts.store, parts.queue)
        await asyncio.sleep(0.05)


def agent(script: Any, *tools: Any) -> list[Agent]:
    return [Agent("worker", model=ScriptedModel(script), tools=list(tools))]


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not holds():
            await asyncio.sleep(0.005)


async def begin(parts: Parts) -> None:
    await parts.threads.start("worker", [Text("go")], thread="t")


async def test_a_completion_that_stalls_is_given_back() -> None:
    place = Place()
    first = agent([stall("I think")])
    async with place.process(first) as parts:
        await begin(parts)
        await until(lambda: first[0].model.requests)  # type: ignore[union-attr]
    reply, _, turns = await place.next_process(agent([say("Done.")]))
    assert reply == "Done."
    assert len(turns) == 1


async def test_a_model_that_refuses_to_end_holds_nobody_up() -> None:
    place = Place()
    begun, release = asyncio.Event(), asyncio.Event()

    async def stubborn(request: Any) -> Any:
        begun.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        return say("never mind")

    async with place.process(agent(stubborn)) as parts:
        await begin(parts)
        await begun.wait()
    reply, _, _ = await place.next_process(agent([say("Done.")]))
    assert reply == "Done."
    release.set()


@pytest.mark.parametrize("repeat", ["safe", "keyed", "unsafe"])
async def test_a_function_that_runs_is_given_back_or_told_as_unknown(repeat: str) -> None:
    place, begun, runs = Place(), asyncio.Event(), list[int]()

    @tool(repeat=repeat)
    async def work() -> str:
        """Work."""
        begun.set()
        runs.append(1)
        if len(runs) == 1:
            await asyncio.Event().wait()
        return "worked"

    script: Any = [call("work"), lambda request: say(request.results[0].text)]
    async with place.process(agent(script, work)) as parts:
        await begin(parts)
        await begun.wait()
    reply, results, _ = await place.next_process(agent(script, work))
    assert len(results) == 1
    if repeat == "unsafe":
        assert (results[0].cause, len(runs)) == ("unknown", 1)
        assert "outcome is unknown" in reply
    else:
        assert (reply, len(runs)) == ("worked", 2)


async def test_a_function_that_refuses_to_end_holds_nobody_up() -> None:
    place, begun, release = Place(), asyncio.Event(), asyncio.Event()

    @tool(repeat="safe")
    async def work() -> str:
        """Work, and not listen."""
        if begun.is_set():
            return "worked"
        begun.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        return "late"

    script: Any = [call("work"), lambda request: say(request.results[0].text)]
    async with place.process(agent(script, work)) as parts:
        await begin(parts)
        await begun.wait()
    reply, _, _ = await place.next_process(agent(script, work))
    assert reply in ("worked", "late")
    release.set()


async def test_a_thread_of_a_sync_function_holds_nobody_up() -> None:
    place, begun, release = Place(), threading.Event(), threading.Event()

    @tool(repeat="safe")
    def work() -> str:
        """Block a thread."""
        if begun.is_set():
            return "worked"
        begun.set()
        release.wait()
        return "late"

    script: Any = [call("work"), lambda request: say(request.results[0].text)]
    async with place.process(agent(script, work)) as parts:
        await begin(parts)
        await until(begun.is_set)
    reply, _, _ = await place.next_process(agent(script, work))
    assert reply == "worked"
    release.set()


class Hanging(Silent):
    """A tool server that takes the connection and never answers, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.handed_over = 0

    async def invoke(self, server: str, endpoint: str, body: Any, key: str) -> None:
        self.handed_over += 1
        await super().invoke(server, endpoint, body, key)
        if self.handed_over == 1:
            self.begun.set()
            await asyncio.Event().wait()


async def test_an_invocation_that_hangs_is_sent_again_by_the_next_process() -> None:
    place, wire = Place(), Hanging()
    script: Any = [call("build", what="x"), lambda request: say(request.results[0].text)]

    def agents() -> list[Agent]:
        return agent(script, RapServer("http://127.0.0.1:1"))

    async with place.process(agents(), transport=wire) as parts:
        await begin(parts)
        await wire.begun.wait()
    options = {"transport": wire}
    going_on = asyncio.create_task(place.next_process(agents(), **options, public_url="http://here"))
    await until(lambda: wire.handed_over == 2)
    call_id, url = wire.callbacks["t"]
    async with place.parts(agents(), transport=Silent()) as receiver:
        body = f'{{"type": "tool_result", "group_id": "t", "id": "{call_id}", "text": "built"}}'.encode()
        outcome = await receiver.callbacks.receive(url.rsplit("/", 1)[1], body)
        assert outcome.status == 200
        assert outcome.ring
        await receiver.queue.ring([outcome.ring])
        reply, results, _ = await going_on
    assert reply == "built"
    assert [text_of(result.parts) for result in results] == ["built"]


async def test_a_sleeper_does_not_hold_up_a_process() -> None:
    place = Place()
    backends = (cast(Backend, place.store), place.queue)
    agents = agent([call("sleep", seconds=5 * 86_400), say("Good morning.")])
    async with Runtime("memory:", agents=agents, backends=backends) as runtime:
        thread = await runtime.start("worker", "go", thread="t")
        async with asyncio.timeout(SOON):
            while "sleep" not in (await thread.explain()).text:
                await asyncio.sleep(0.005)
        began = time.monotonic()
    assert time.monotonic() - began < 2.0
    [due] = await place.store.inbox("t")
    assert due.due > time.time() + 4 * 86_400


async def test_a_process_at_rest_ends_at_once() -> None:
    async with Runtime("memory:", agents=agent([say("Hi.")])) as runtime:
        thread = await runtime.start("worker", "go")
        await thread.reply(SOON)
        began = time.monotonic()
    assert time.monotonic() - began < 1.0


def test_a_program_that_fails_with_a_runtime_open_ends() -> None:
    ended: list[str] = []

    async def program() -> None:
        runtime = Runtime("memory:", agents=[Agent("a", model=ScriptedModel([say("Yes.")]))], listen=None)
        await runtime.__aenter__()
        thread = await runtime.start("a", "go")
        await thread.reply(timeout=SOON)
        raise ValueError("the program is wrong")

    def run() -> None:
        try:
            asyncio.run(program())
        except ValueError as error:
            ended.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert ended == ["the program is wrong"]
