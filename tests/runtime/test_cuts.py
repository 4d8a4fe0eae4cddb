"""A person cuts a completion short: at every piece, when it has just ended, from another process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.runtime.paused import Paused, count
from tests.runtime.shown import check_items
from torpor import Agent, Runtime, tool
from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import By, Call, Message, Noted, Result, Said, Stopped, Text, Turn, text_of
from torpor.core.thread import fold
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Reply, stall
from torpor.ports import Backend, Ring
from torpor.queues.memory import MemoryQueue
from torpor.runtime.worker import Worker
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock
from torpor.wiring import Parts

SCRIPT: list[Reply] = [[say("Hello there"), call("look", what="a"), say("!")], say("Yes?")]
SOON = 10.0


@tool(repeat="safe")
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


class Cut:
    """A process on a fake clock with one thread, and its worker."""

    def __init__(self, model: Paused) -> None:
        self.model = model
        self.clock = FakeClock()
        self.tools: list[Any] = [look]
        self.store = MemoryStore(self.clock)
        self.queue = MemoryQueue(self.clock)

    @asynccontextmanager
    async def running(self, store: Any = None) -> AsyncIterator[tuple[Parts, Worker]]:
        backends = (cast(Backend, store or self.store), self.queue)
        agents = [Agent("worker", model=self.model, tools=self.tools)]
        async with Parts("memory:", agents, clock=self.clock, backends=backends) as parts:
            worker = parts.worker(1)
            worker.start()
            await parts.threads.start("worker", [Text("go")], thread="t")
            yield parts, worker
            await worker.stop(0)
            await parts.dispatcher.drain(0)

    async def tick(self) -> None:
        """Let the worker look once at what runs."""
        await self.clock.run(0.25)
        for _ in range(20):
            await asyncio.sleep(0)

    async def messages(self) -> list[Message]:
        messages = [decode_message(message.body) for message in await self.store.read("t")]
        row = await self.store.row("t")
        assert row is not None
        assert decode_head(row.head) == fold(messages)
        return messages

    async def settled(self, parts: Parts) -> list[Message]:
        async with asyncio.timeout(SOON):
            while await self.queue.size() or parts.dispatcher.busy or await self.store.stranded():
                await self.tick()
        for request in self.model.asked:
            check_items(request.items)
        return await self.messages()


async def cut_at(at: int, *, stop: bool) -> list[Message]:
    cut = Cut(Paused(SCRIPT, at))
    async with cut.running() as (parts, _):
        await asyncio.wait_for(cut.model.waits.wait(), SOON)
        if stop:
            await parts.threads.stop("t")
        else:
            await parts.threads.say("t", [Text("Wait.")], mode="interrupt")
        await cut.tick()
        return await cut.settled(parts)


async def test_an_interrupt_cuts_at_every_piece() -> None:
    pieces = await count(SCRIPT)
    for at in range(pieces):
        messages = await cut_at(at, stop=False)
        first, second = (message for message in messages if isinstance(message, Turn))
        assert first.cut
        assert "Hello there!".startswith(text_of(first.parts).replace("\n", ""))
        calls = [part for part in first.parts if isinstance(part, Call)]
        results = [message for message in messages if isinstance(message, Result)]
        assert [result.call for result in results] == [made.id for made in calls]
        assert all(result.cause == "not_sent" for result in results)
        said = [text_of(message.parts) for message in messages if isinstance(message, Said)]
        assert said == ["go", "Wait."]
        assert text_of(second.parts) == "Yes?"


async def test_a_stop_cuts_at_every_piece_and_nothing_goes_on() -> None:
    pieces = await count(SCRIPT)
    for at in range(pieces):
        messages = await cut_at(at, stop=True)
        (turn,) = (message for message in messages if isinstance(message, Turn))
        assert turn.cut
        last = messages[-1]
        assert isinstance(last, Noted)
        assert isinstance(last.note, Stopped)


async def test_a_cut_that_comes_when_all_has_been_said_takes_nothing_away() -> None:
    """The turn stands whole; its call was not sent yet, so it is given up like any other."""
    messages = await cut_at(await count(SCRIPT), stop=False)
    first, second = (message for message in messages if isinstance(message, Turn))
    assert not first.cut
    assert text_of(first.parts) == "Hello there\n!"
    (made,) = (part for part in first.parts if isinstance(part, Call))
    (result,) = (message for message in messages if isinstance(message, Result))
    assert result.call == made.id
    assert text_of(second.parts) == "Yes?"


async def test_a_cut_during_the_commit_harms_neither_the_commit_nor_the_slot() -> None:
    cut = Cut(Paused([say("All of it."), say("Yes?")], at=-1))
    worker_of: list[Worker] = []

    class Interrupted:
        """The store; a person interrupts while the first turn is being committed."""

        def __getattr__(self, name: str) -> Any:
            return self._commit if name == "commit" else getattr(cut.store, name)

        async def _commit(self, commit: Any) -> Any:
            if worker_of and not cut.model.waits.is_set():
                cut.model.waits.set()
                signal = parts.threads._said(commit.row, [Text("Wait.")], "interrupt", By("person"), "", 0.0)
                await cut.store.post([signal])
                await cut.queue.ring([Ring("t", 0.0, agent="worker", cut=True)])
                await worker_of[0]._look()
                await asyncio.sleep(0)
            return await cut.store.commit(commit)

    async with cut.running(Interrupted()) as (parts, worker):
        worker_of.append(worker)
        messages = await cut.settled(parts)
        assert all(not task.done() for task in worker._tasks)
    turns = [message for message in messages if isinstance(message, Turn)]
    assert [(turn.cut, text_of(turn.parts)) for turn in turns] == [(False, "All of it."), (False, "Yes?")]


async def test_a_repeated_interrupt_does_not_cut_the_answer_to_itself() -> None:
    cut = Cut(Paused([say("All of it.")], 1))
    async with cut.running() as (parts, _):
        wait = [Text("Wait.")]
        await parts.threads.say("t", wait, mode="interrupt", key="k")
        await asyncio.wait_for(cut.model.waits.wait(), SOON)
        assert (await parts.threads.say("t", wait, mode="interrupt", key="k")).repeat
        await cut.tick()
        cut.model.go.set()
        messages = await cut.settled(parts)
    turns = [message for message in messages if isinstance(message, Turn)]
    assert [(turn.cut, text_of(turn.parts)) for turn in turns] == [(False, "All of it.")]


@pytest.mark.slow
async def test_a_cut_crosses_processes(tmp_path: Path) -> None:
    """Another process, on the same file, stops what runs here: the worker hears of it within its tick."""
    store = f"sqlite:///{tmp_path}/store.db"

    def agents() -> list[Agent]:
        return [Agent("worker", model=ScriptedModel([stall("I think and think"), say("Yes?")]))]

    async with (
        Runtime(store, agents=agents(), listen=None) as here,
        Runtime(store, agents=agents(), listen=None, workers=0) as there,
    ):
        thread = await there.start("worker", "go")
        model = here.parts.roster.need("worker").model
        assert isinstance(model, ScriptedModel)
        async with asyncio.timeout(SOON):
            while not model.requests:
                await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        await thread.send("Stop thinking.", "interrupt")
        assert (await thread.reply(SOON)).text == "Yes?"
        assert asyncio.get_running_loop().time() - began < 2.0
        cut = next(message for message in await thread.history() if isinstance(message, Turn))
        assert (cut.cut, text_of(cut.parts)) == (True, "I think and think")


async def test_a_model_that_cancels_itself_parks_the_thread_and_costs_no_slot() -> None:
    def reply(request: Any) -> Any:
        if request.text == "go":
            raise asyncio.CancelledError
        return say("Yes.")

    agents = [Agent("worker", model=ScriptedModel(reply))]
    async with Runtime("memory:", agents=agents, listen=None, workers=1) as runtime:
        first = await runtime.start("worker", "go")
        second = await runtime.start("worker", "hello")
        assert (await second.reply(SOON)).text == "Yes."
        with pytest.raises(Exception, match="cancelled"):
            await first.reply(SOON)
        await first.send("hello again")
        assert (await first.reply(SOON)).text == "Yes."
