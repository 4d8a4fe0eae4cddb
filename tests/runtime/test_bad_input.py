"""What nobody should send, and what happens to disks: a clear error, and nothing lost."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.end_to_end.test_thousand_callbacks import Silent
from tests.runtime.shown import check_wires
from torpor import Agent, RapServer, Runtime, ToolContext, tool
from torpor.core.errors import TorporError
from torpor.core.messages import Result, Said, Turn, text_of
from torpor.core.request import ResultView
from torpor.models import ScriptedModel, call, say
from torpor.ports import Lease
from torpor.public import Thread
from torpor.runtime.slice import run_slice
from torpor.runtime.state import Running
from torpor.runtime.sweep import sweep
from torpor.tools.protocol import invocation
from torpor.tools.reading import PAGE, Reach, read_range

SOON = 20.0
TOOLS = "http://127.0.0.1:1"
MEGA = 1_000_000


@asynccontextmanager
async def running(
    script: Any, *tools: Any, store: str = "memory:", listen: str | None = None, **options: Any
) -> AsyncIterator[Runtime]:
    agents = [Agent("worker", model=ScriptedModel(script), tools=list(tools))]
    async with Runtime(store, agents=agents, listen=listen, **options) as runtime:
        yield runtime


def model_of(runtime: Runtime) -> ScriptedModel:
    model = runtime.parts.roster.need("worker").model
    assert isinstance(model, ScriptedModel)
    return model


async def results_of(thread: Thread) -> list[Result]:
    return [message for message in await thread.history() if isinstance(message, Result)]


# ------------------------------------------------------------------ agents


async def test_a_thread_of_an_agent_nobody_knows_waits_visibly_and_goes_on_when_one_does(
    tmp_path: Path,
) -> None:
    """It is neither parked nor lost: a worker that knows the agent takes it up."""
    store = f"sqlite:///{tmp_path}/store.db"
    async with running([say("Hi.")], store=store, workers=0) as runtime:
        await runtime.start("worker", "hello", thread="t")
    async with Runtime(store, agents=[Agent("other", model=ScriptedModel([]))], listen=None) as runtime:
        await sweep(runtime.parts.store, runtime.parts.queue)
        explained = await runtime.thread("t").explain()
        assert "a worker that knows the agent worker (known here: other)" in explained.text
        outcome = await run_slice(runtime.parts.kit, Running(Lease("t", "none", 0.0)))
        assert "knows the agent 'worker'. Known here: other." in outcome.error
        assert [row.state for row in await runtime.threads()] == ["open"]
    async with running([say("Hi.")], store=store) as runtime:
        assert (await runtime.thread("t").reply(SOON)).text == "Hi."


# ------------------------------------------------------------------- sizes


async def test_arguments_of_ten_megabytes_reach_a_function_and_stay_out_of_the_head() -> None:
    got: list[int] = []

    @tool(repeat="safe")
    async def weigh(text: str) -> int:
        """Weigh a text."""
        got.append(len(text))
        return len(text)

    script = [call("weigh", text="x" * 10 * MEGA), lambda request: say(request.results[0].text)]
    async with running(script, weigh) as runtime:
        thread = await runtime.start("worker", "go")
        assert (await thread.reply(SOON)).text == str(10 * MEGA)
        assert got == [10 * MEGA]
        assert len((await runtime.parts.threads.row(thread.id)).head) < 10_000
        assert len(str(model_of(runtime).requests[-1].items[1])) < 200_000
        check_wires(model_of(runtime).requests)


async def test_arguments_of_ten_megabytes_to_a_tool_server_are_refused_and_the_model_is_told() -> None:
    script = [call("build", what="x" * 10 * MEGA), lambda request: say(request.results[0].text[:200])]
    server = RapServer(TOOLS)
    async with running(script, server, transport=Bounded(), public_url="http://here") as runtime:
        thread = await runtime.start("worker", "go")
        reply = await thread.reply(SOON)
        assert "could not be handed to its tool server, so it did not run" in reply.text
        assert "a tool server is sent at most 1,000,000" in reply.text


class Bounded(Silent):
    """A way to a tool server that makes the real body of an invocation, with its bound."""

    async def invoke(self, server: str, endpoint: str, body: Any, key: str) -> None:
        invocation(body, key, share_user=False)
        await super().invoke(server, endpoint, body, key)


def pages(whole: str) -> Callable[[Any], Any]:
    """A model that reads the second page, one in the middle, and the last one; it notes what it was given."""
    starts = iter([16_000, len(whole) // 2, len(whole) - 5_000])

    def reply(request: Any) -> Any:
        first = next(view for item in request.items for view in getattr(item, "results", ()))
        assert f"the whole text has {len(whole)} characters" in first.text
        handle = first.text.split('handle "')[1].split('"')[0]
        start = next(starts, None)
        return say("Read.") if start is None else call("read_result", handle=handle, start=start)

    return reply


def shown_pages(runtime: Runtime) -> list[ResultView]:
    items = model_of(runtime).requests[-1].items
    return [view for item in items for view in getattr(item, "results", ()) if view.name == "read_result"]


async def check_pages(runtime: Runtime, thread: Thread, whole: str) -> None:
    """What the model read is what stands there, at every place of the whole."""
    middle = len(whole) // 2
    second, third, last = shown_pages(runtime)
    assert second.text.startswith(whole[16_000 : 16_000 + PAGE])
    assert "more follows: start=28000" in second.text
    assert third.text.startswith(whole[middle : middle + PAGE])
    assert last.text.startswith(whole[-5_000:])
    assert "this is the end" in last.text
    [result] = [result for result in await results_of(thread) if result.handle]
    assert (result.size, text_of(result.parts)) == (len(whole), whole[:16_000])
    side = runtime.parts.side
    reach = Reach(side, runtime.parts.store, thread.id)
    for start in range(0, len(whole), 87 * PAGE):
        text, more = await read_range(reach, result.handle, start, PAGE)
        assert (text, more) == (whole[start : start + PAGE], True)
    assert await side.get_blob(thread.id, result.handle) == whole.encode()


@pytest.mark.slow
async def test_a_result_of_fifty_megabytes_of_a_function_is_read_in_pages(tmp_path: Path) -> None:
    whole = "".join(f"{line:099}\n" for line in range(MEGA // 2))

    @tool(repeat="safe")
    async def dump() -> str:
        """Give a lot."""
        return whole

    reader = pages(whole)
    script = [call("dump"), reader, reader, reader, reader]
    async with running(script, dump, store=f"sqlite:///{tmp_path}/store.db") as runtime:
        thread = await runtime.start("worker", "go")
        assert (await thread.reply(SOON)).text == "Read."
        await check_pages(runtime, thread, whole)


@pytest.mark.slow
async def test_a_callback_of_fifty_megabytes_is_read_in_pages(tmp_path: Path) -> None:
    whole = "".join(f"{line:099}\n" for line in range(MEGA // 2))
    reader, tools = pages(whole), Silent()
    script = [call("build", what="x"), reader, reader, reader, reader]
    store = f"sqlite:///{tmp_path}/store.db"
    async with running(
        script, RapServer(TOOLS), store=store, listen="127.0.0.1:0", transport=tools
    ) as runtime:
        thread = await runtime.start("worker", "go")
        await until(lambda: tools.callbacks)
        assert await answered(tools, thread.id, whole) == 200
        assert (await thread.reply(SOON)).text == "Read."
        await check_pages(runtime, thread, whole)


async def test_a_callback_that_is_too_large_settles_its_call_with_an_error() -> None:
    tools = Silent()
    script = [call("build", what="x"), lambda request: say(request.results[0].text)]
    async with running(script, RapServer(TOOLS), listen="127.0.0.1:0", transport=tools) as runtime:
        runtime.parts.callbacks.body_limit = 10_000
        thread = await runtime.start("worker", "go")
        await until(lambda: tools.callbacks)
        assert await answered(tools, thread.id, "x" * 20_000) == 413
        assert "larger than 10,000 bytes" in (await thread.reply(SOON)).text


async def answered(tools: Silent, thread: str, text: str) -> int:
    call_id, url = tools.callbacks[thread]
    told = {"type": "tool_result", "group_id": thread, "id": call_id, "text": text}
    body = io.BytesIO(json.dumps(told).encode())
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as answer:
        return answer.status


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not holds():
            await asyncio.sleep(0.005)


# -------------------------------------------------------------------- text

NASTY = "a\x00b \ud800c \x1b[31mred\x07 \u202egnp.exe \U0001f389 \r\n<script>'; DROP TABLE threads;--"
KEPT = NASTY.replace("\ud800", "\ufffd")
SHOWN = KEPT.replace("\x00", "\ufffd")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_nasty_text_passes_through_everything_and_harms_nothing(kind: str, tmp_path: Path) -> None:
    """Lone surrogates become U+FFFD where they enter; the rest is kept, and NUL is not sent to a model."""
    got: list[str] = []

    @tool(repeat="keyed")
    async def echo(text: str, context: ToolContext) -> str:
        """Say it again."""
        got.append(text)
        return f"{text} {NASTY}"

    tools = Silent()
    script = [
        [say(NASTY), call("echo", text=NASTY), call("build", what=NASTY)],
        lambda request: say(request.results[0].text),
    ]
    store = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/store.db"
    async with running(
        script, echo, RapServer(TOOLS), store=store, listen="127.0.0.1:0", transport=tools
    ) as runtime:
        thread = await runtime.start("worker", NASTY, owner="o\x00\x1b", context={"note": KEPT})
        await until(lambda: tools.callbacks)
        assert await answered(tools, thread.id, NASTY) == 200
        reply = await thread.reply(SOON)
        assert reply.text == f"{SHOWN} {SHOWN}"
        history = await thread.history()
        [row] = await runtime.threads()
        assert row.owner == "o\x00\x1b"
        await thread.explain()
        check_wires(model_of(runtime).requests)
    said = next(message for message in history if isinstance(message, Said))
    first = next(message for message in history if isinstance(message, Turn))
    results = [message for message in history if isinstance(message, Result)]
    assert text_of(said.parts) == KEPT
    assert text_of(first.parts) == KEPT
    assert got == [KEPT]
    assert {text_of(result.parts) for result in results} == {f"{KEPT} {KEPT}", KEPT}


# ------------------------------------------------------------------- disks


class Disk:
    """The disk under a SQLite store, as SQLite itself sees it: it may be full, or read-only, for a while."""

    def __init__(self, runtime: Runtime) -> None:
        database: Any = runtime.parts.store
        self._connection = database.database._writer._connection

    def fill(self) -> None:
        pages = self._connection.execute("PRAGMA page_count").fetchone()[0]
        self._connection.execute(f"PRAGMA max_page_count = {pages}")

    def lock(self) -> None:
        self._connection.execute("PRAGMA query_only = ON")

    def mend(self) -> None:
        self._connection.execute("PRAGMA max_page_count = 1073741823")
        self._connection.execute("PRAGMA query_only = OFF")


@pytest.mark.slow
@pytest.mark.parametrize(("harm", "words"), [("fill", "is full"), ("lock", "is read-only")])
async def test_a_disk_that_fails_while_threads_run_loses_nothing(
    harm: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paid, failing = list[str](), asyncio.Event()

    @tool(repeat="keyed")
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay, once per key."""
        if context.idempotency_key not in paid:
            paid.append(context.idempotency_key)
        await failing.wait()
        return f"paid {amount} " + "x" * 3_000

    script = [call("pay", amount=1), lambda request: say(request.results[0].text[:6]), say("Again.")]
    store = f"sqlite:///{tmp_path}/store.db"
    async with running(script, pay, store=store, lease=0.5, claim=30.0) as runtime:
        threads = [await runtime.start("worker", f"go {number}") for number in range(8)]
        await until(lambda: len(paid) == 8)
        disk = Disk(runtime)
        getattr(disk, harm)()
        failing.set()
        refused = await refusals(threads[0])
        assert any(words in text for text in refused)
        disk.mend()
        replies = [await thread.reply(SOON, to=thread._last) for thread in threads]
        assert [reply.text for reply in replies] == ["paid 1"] * 8
        assert len(paid) == 8
        for thread in threads[1:]:
            await thread.send("again?")
            assert (await thread.reply(SOON)).text == "Again."
        assert await runtime.parts.store.stranded() == []


async def refusals(thread: Thread) -> list[str]:
    """Speak until the disk refuses, and for a while longer; each refusal says why."""
    found = list[str]()
    async with asyncio.timeout(SOON):
        while len(found) < 5:
            try:
                await Thread(thread._parts, thread.id).send("y" * 2_000, "queue")
            except TorporError as error:
                found.append(str(error))
            await asyncio.sleep(0.05)
    return found
