"""Tools of the kit in whole runtimes: people are asked, shown things, and answer; both sides sign."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import eventually
from torpor import Agent, RapServer, Runtime, Thread
from torpor.models import ScriptedModel, call, say
from torpor.tools.server import ToolCall, ToolServer

SECRET = "whsec_" + "c2lnbmVkLWJ5LWJvdGgtc2lkZXMtb2YtdGhpcw=="
DEADLINE = 10.0


def depots(path: Path) -> ToolServer:
    server = ToolServer(
        "depots", outbox=path / "depots.db", token="sesame", secret=SECRET, require_signatures=True
    )

    @server.tool
    async def reorder(call: ToolCall, part: str) -> str:
        """Order a part, if a person wants that."""
        first = await call.choose(f"Reorder {part}?", ["yes", "no"], default=1)
        second = await call.choose("From where?", ["north", "south"], expires=600)
        return f"{first.text}, {second.text}"

    @server.tool(requires_auth="depot")
    async def orders(call: ToolCall) -> str:
        """List the open orders."""
        await call.authorize("https://id.depot.test/authorize?client_id=ops")
        return "3 open orders"

    @server.tool
    async def count(call: ToolCall) -> str:
        """Count, and show it."""
        await call.progress(0.5, "half of the shelves")
        await call.view("shelves", {"counted": 4})
        await call.choose("Go on?", ["yes"])
        await call.view("shelves", {})
        return "8"

    return server


@asynccontextmanager
async def working(path: Path, script: list[Any]) -> AsyncIterator[tuple[ToolServer, Thread]]:
    server = depots(path)
    async with server.listening() as url:
        tools = [RapServer(url, token="sesame", secret=SECRET)]
        agent = Agent("clerk", model=ScriptedModel(script), tools=tools)
        async with Runtime("memory:", agents=[agent]) as runtime:
            yield server, await runtime.start("clerk", "begin")


def told(request: Any) -> Any:
    return say("; ".join(result.text for result in request.results))


async def test_two_questions_of_one_call_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async with working(tmp_path, [call("reorder", part="bolt"), told]) as (_, thread):
        for prompt, answer in (("Reorder bolt?", "yes"), ("From where?", 1)):
            [wait] = await eventually(thread.waits)
            assert wait.prompt == prompt
            await thread.answer(wait.id, answer)
            await gone(thread, wait.id)
        assert (await thread.reply(timeout=DEADLINE)).text == "yes, south"


async def test_a_dismissed_question_gets_its_default(tmp_path: Path) -> None:
    async with working(tmp_path, [call("reorder", part="bolt"), told]) as (_, thread):
        for _ in range(2):
            [wait] = await eventually(thread.waits)
            await thread.answer(wait.id, None)
            await gone(thread, wait.id)
        assert (await thread.reply(timeout=DEADLINE)).text == "no, north"


async def gone(thread: Thread, wait: str) -> None:
    async def is_gone() -> bool:
        return all(one.id != wait for one in await thread.waits())

    await eventually(is_gone)


async def test_a_call_goes_on_when_a_person_has_authorized_it(tmp_path: Path) -> None:
    async with working(tmp_path, [call("orders"), told]) as (server, thread):
        [wait] = await eventually(thread.waits)
        state = wait.url.rpartition("state=")[2]
        assert await server.authorized(state)
        assert (await thread.reply(timeout=DEADLINE)).text == "3 open orders"


async def test_people_see_how_far_it_is_and_what_it_shows(tmp_path: Path) -> None:
    async with working(tmp_path, [call("count"), told]) as (_, thread):
        [wait] = await eventually(thread.waits)
        shown = await eventually(lambda: has(thread, "shelves"))
        assert shown["shelves"] == '{"counted":4}'
        assert '"fraction":0.5' in (await eventually(lambda: has(thread, "x-progress")))["x-progress"]
        assert any("half of the shelves" in one.note for one in (await thread.explain()).waits)
        await thread.answer(wait.id, "yes")
        assert (await thread.reply(timeout=DEADLINE)).text == "8"
        await eventually(lambda: none(thread))


async def has(thread: Thread, kind: str) -> dict[str, str] | None:
    shown = {view.type: view.content for view in await thread.views()}
    return shown if kind in shown else None


async def none(thread: Thread) -> bool:
    return not await thread.views()


async def test_an_interrupted_question_ends_at_both_sides(tmp_path: Path) -> None:
    async with working(tmp_path, [call("reorder", part="bolt"), say("Stopped.")]) as (_, thread):
        await eventually(thread.waits)
        await thread.send("never mind", mode="interrupt")
        assert (await thread.reply(timeout=DEADLINE)).text == "Stopped."
        assert await thread.waits() == []


@pytest.mark.parametrize("theirs", [None, "whsec_" + "YW5vdGhlci1zZWNyZXQtb2YtYW5vdGhlci1vbmU="])
async def test_a_runtime_that_does_not_sign_as_agreed_gets_no_call_done(
    tmp_path: Path, theirs: str | None
) -> None:
    async with depots(tmp_path).listening() as url:
        tools = [RapServer(url, token="sesame", secret=theirs)]
        agent = Agent("clerk", model=ScriptedModel([call("count"), told]), tools=tools)
        async with Runtime("memory:", agents=[agent]) as runtime:
            thread = await runtime.start("clerk", "begin")
            reply = await thread.reply(timeout=DEADLINE)
            assert "401" in reply.text
