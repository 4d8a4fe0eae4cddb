"""Threads from outside: replies, receipts, watching."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from torpor import Agent, Limits, Runtime, tool
from torpor.core.errors import ModelRefused, Refused
from torpor.core.messages import Said, Turn, text_of
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script, fail, stall, used
from torpor.public import Event, Thread

SOON = 10.0


def echo(request: Any) -> Any:
    return say(f"You said: {request.text}")


@asynccontextmanager
async def running(
    script: Script, *, tools: Any = (), store: str = "memory:", workers: int = 2, **agent: Any
) -> AsyncIterator[Runtime]:
    agents = [Agent("worker", model=ScriptedModel(script), tools=tools, **agent)]
    async with Runtime(store, agents=agents, listen=None, workers=workers) as runtime:
        yield runtime


class Gate:
    """A function that waits until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()

    @property
    def tool(self) -> Any:
        @tool(repeat="safe")
        async def wait() -> str:
            """Wait."""
            self.begun.set()
            await self.open.wait()
            return "waited"

        return wait


async def test_each_send_has_its_own_reply_in_any_order_of_asking() -> None:
    async with running(echo) as runtime:
        thread = await runtime.start("worker", "one")
        assert (await thread.reply(SOON)).text == "You said: one"
        second = await thread.send("two")
        assert (await thread.reply(SOON)).text == "You said: two"
        third = await thread.send("three")
        assert (await thread.reply(SOON, to=third)).text == "You said: three"
        assert (await thread.reply(SOON, to=second)).text == "You said: two"
        assert second.mode == "steer"
        assert second.signal != third.signal


async def test_a_fresh_handle_waits_for_the_answer_to_the_last_words() -> None:
    async with running(echo) as runtime:
        thread = await runtime.start("worker", "one")
        await thread.reply(SOON)
        await thread.send("two")
        assert (await runtime.thread(thread.id).reply(SOON)).text == "You said: two"
        assert (await runtime.thread(thread.id).reply(0)).text == "You said: two"


async def test_a_fresh_handle_waits_for_the_answer_to_queued_words() -> None:
    gate = Gate()
    async with running([call("wait"), say("done"), say("and later")], tools=[gate.tool]) as runtime:
        thread = await runtime.start("worker", "go")
        await gate.begun.wait()
        await thread.send("later", "queue")
        asking = asyncio.create_task(runtime.thread(thread.id).reply(SOON))
        gate.open.set()
        assert (await asking).text == "and later"


async def test_a_reply_says_what_its_exchange_has_used() -> None:
    script: Script = [
        [call("sleep", seconds=0), used(input=10, output=2)],
        [say("done"), used(input=20, output=3)],
        [say("again"), used(input=5, output=1)],
    ]
    async with running(script) as runtime:
        thread = await runtime.start("worker", "go")
        reply = await thread.reply(SOON)
        assert (reply.text, reply.usage.input, reply.usage.output) == ("done", 30, 5)
        assert isinstance((await thread.history())[reply.position - 1], Turn)
        await thread.send("once more")
        assert (await thread.reply(SOON)).usage.input == 5


async def test_nothing_said_is_nothing_to_reply_to() -> None:
    async with running(echo) as runtime:
        thread = await runtime.start("worker")
        with pytest.raises(Refused, match="Nothing has been said"):
            await thread.reply(SOON)
        with pytest.raises(Refused, match="no thread"):
            await runtime.thread("nowhere").reply(SOON)


async def test_a_parked_thread_raises_with_its_reason_and_what_to_do() -> None:
    async with running(lambda _: call("sleep", seconds=0), limits=Limits(completions=3)) as runtime:
        thread = await runtime.start("worker", "go")
        with pytest.raises(Refused, match=r"parked: .* limit is 3\. Say something or nudge"):
            await thread.reply(SOON)
        with pytest.raises(Refused, match="parked"):
            await runtime.thread(thread.id).reply(SOON)


async def test_a_model_that_refuses_is_told_of_with_what_to_do() -> None:
    async with running([fail(ModelRefused("no money left.", kind="quota"))]) as runtime:
        thread = await runtime.start("worker", "go")
        with pytest.raises(Refused, match=r"parked: no money left\. Say something or nudge it"):
            await thread.reply(SOON)


async def test_a_stopped_thread_raises_and_goes_on_after_words() -> None:
    gate = Gate()
    async with running([call("wait"), say("on again")], tools=[gate.tool]) as runtime:
        thread = await runtime.start("worker", "go")
        await gate.begun.wait()
        asking = asyncio.create_task(thread.reply(SOON))
        await thread.stop()
        with pytest.raises(Refused, match=r"stopped\. Say something or nudge it"):
            await asking
        await thread.send("go on")
        assert (await thread.reply(SOON)).text == "on again"


async def test_queued_words_on_a_thread_that_stops_are_not_waited_for_in_vain() -> None:
    gate = Gate()
    async with running([call("wait"), say("never")], tools=[gate.tool]) as runtime:
        thread = await runtime.start("worker", "go")
        await gate.begun.wait()
        await thread.send("later", "queue")
        await _noted(thread, "Queued")
        await thread.stop()
        with pytest.raises(Refused, match="stopped"):
            await thread.reply(SOON)


async def test_words_that_a_close_has_overtaken_are_not_waited_for_in_vain() -> None:
    async with running(echo, workers=0) as runtime:
        thread = await runtime.start("worker", "go")
        receipt = await thread.send("too late")
        await thread.close()
        worker = runtime.parts.worker(1)
        while await worker.run_once():
            pass
        with pytest.raises(Refused, match="closed"):
            await thread.reply(SOON, to=receipt)
        with pytest.raises(Refused, match="closed"):
            await thread.send("more")


async def test_a_timeout_says_what_the_thread_waits_for() -> None:
    gate = Gate()
    async with running([call("wait"), say("done")], tools=[gate.tool]) as runtime:
        thread = await runtime.start("worker", "go")
        await gate.begun.wait()
        with pytest.raises(TimeoutError, match=r"No reply yet\. The thread waits for wait \(for \d+ s\)"):
            await thread.reply(0.05)
        gate.open.set()
        assert (await thread.reply(SOON)).text == "done"


async def test_the_same_key_counts_once_and_other_words_are_refused() -> None:
    async with running(echo) as runtime:
        thread = await runtime.start("worker", "go")
        await thread.reply(SOON)
        first = await thread.send("again", key="k1")
        repeat = await thread.send("again", key="k1")
        assert (first.repeat, repeat.repeat) == (False, True)
        assert first.signal == repeat.signal
        await thread.reply(SOON)
        with pytest.raises(Refused, match="used before with other words"):
            await thread.send("something else", key="k1")
        with pytest.raises(Refused, match="used before with other words"):
            await thread.send("again", "queue", key="k1")
        await thread.send("the end")
        await thread.reply(SOON)
        said = [text_of(message.parts) for message in await thread.history() if isinstance(message, Said)]
        assert said == ["go", "again", "the end"]


async def _noted(thread: Thread, kind: str) -> None:
    """Wait until the history has such a note."""
    async with asyncio.timeout(SOON):
        while all(type(getattr(m, "note", None)).__name__ != kind for m in await thread.history()):
            await asyncio.sleep(0.005)


async def collected(thread: Thread, after: int, upto: int) -> list[Event]:
    """Committed messages after a position, up to another one."""
    found = []
    events = thread.events(after)
    async with asyncio.timeout(SOON):
        async for event in events:
            if event.position:
                found.append(event)
            if event.position == upto:
                break
    await events.aclose()  # type: ignore[attr-defined]
    return found


@pytest.mark.slow
async def test_watching_may_stop_and_go_on_at_any_position(tmp_path: Path) -> None:
    """A watcher in another process than the worker, which reads on wherever it left off."""
    store = f"sqlite:///{tmp_path}/store.db"
    async with running(echo, store=store) as runtime, running(echo, store=store, workers=0) as other:
        thread = await runtime.start("worker", "0")
        watched = other.thread(thread.id)
        watching = asyncio.create_task(collected(watched, 0, 25))
        for number in range(1, 12):
            await thread.reply(SOON)
            await thread.send(str(number))
        await thread.reply(SOON)
        history = await thread.history()
        assert len(history) == 25
        whole = await watching
        assert [event.position for event in whole] == list(range(1, 26))
        assert [event.message for event in whole] == history
        pieces = [await collected(watched, at, at + 5) for at in range(0, 25, 5)]
        assert [event for piece in pieces for event in piece] == whole


async def test_a_long_history_is_watched_without_pauses() -> None:
    async with running(echo) as runtime:
        thread = await runtime.start("worker", "0")
        for number in range(1, 600):
            await thread.send(str(number), "queue")
        await thread.reply(SOON)
        length = len(await thread.history())
        assert length > 1000
        began = asyncio.get_running_loop().time()
        assert len(await collected(thread, 0, length)) == length
        assert asyncio.get_running_loop().time() - began < 0.2


async def test_live_text_comes_between_committed_messages() -> None:
    release = asyncio.Event()
    async with running([[say("Hello"), *stall(until=release), say(" there")]]) as runtime:
        thread = await runtime.start("worker", "go")
        kinds: list[tuple[str, str]] = []
        events = thread.events()
        async with asyncio.timeout(SOON):
            async for event in events:
                kinds.append((event.kind, event.text))
                if ("text", "Hello") in kinds:
                    release.set()
                if event.kind == "turn":
                    break
        await events.aclose()  # type: ignore[attr-defined]
        assert kinds.index(("text", "Hello")) < [kind for kind, _ in kinds].index("turn")


async def test_a_receipt_tells_the_mode_that_applies() -> None:
    gate = Gate()
    async with running([say("hello"), call("wait"), *[say("done")] * 5], tools=[gate.tool]) as runtime:
        thread = await runtime.start("worker")
        assert (await thread.send("first", "queue")).mode == "steer"
        await thread.reply(SOON)
        assert (await thread.send("go", "queue")).mode == "steer"
        await gate.begun.wait()
        assert (await thread.send("then this", "queue")).mode == "queue"
        assert (await thread.send("no, this", "interrupt")).mode == "interrupt"
        gate.open.set()
        await thread.stop()
        await _noted(thread, "Stopped")
        assert (await thread.send("once more", "queue")).mode == "steer"


async def test_words_before_others_are_read_still_wait_for_their_turn() -> None:
    async with running(echo, workers=0) as runtime:
        thread = await runtime.start("worker", "go")
        assert (await thread.send("then this", "queue")).mode == "queue"
