"""Tool servers that share no line with ours, in another language and with other libraries."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import eventually
from torpor import Agent, RapServer, Runtime, Thread
from torpor.conformance.probe import Call, Patience
from torpor.conformance.server import Options, check_server
from torpor.core.messages import Happened, Result, text_of
from torpor.models import ScriptedModel, call, say

PEERS = Path(__file__).parent / "peers"
TOKEN = "sesame"
COMMANDS = {
    "node": ["node", str(PEERS / "node_server.mjs")],
    "http.server": [sys.executable, str(PEERS / "http_server.py")],
}
DEADLINE = 20.0

pytestmark = pytest.mark.slow


@contextmanager
def running(peer: str) -> Iterator[str]:
    """A peer as a process of its own; gives its base URL."""
    if shutil.which(COMMANDS[peer][0]) is None:
        missing = f"there is no {COMMANDS[peer][0]} on this machine"
        assert not os.environ.get("TORPOR_ALL"), missing
        pytest.skip(missing)
    with subprocess.Popen(COMMANDS[peer], stdout=subprocess.PIPE, env={"PEER_TOKEN": TOKEN}) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            yield f"http://127.0.0.1:{told['port']}"
        finally:
            process.kill()


@asynccontextmanager
async def threads(url: str, script: list[Any]) -> AsyncIterator[Thread]:
    """A thread of an agent that has the tools of a peer."""
    agent = Agent("clerk", model=ScriptedModel(script), tools=[RapServer(url, token=TOKEN)])
    async with Runtime("memory:", agents=[agent]) as runtime:
        yield await runtime.start("clerk", "begin")


async def happened(thread: Thread) -> list[Happened]:
    return [message for message in await thread.history() if isinstance(message, Happened)]


async def results(thread: Thread) -> list[str]:
    return [text_of(one.parts) for one in await thread.history() if isinstance(one, Result)]


@pytest.fixture(params=sorted(COMMANDS))
def peer(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param) as url:
        yield url


async def test_an_agent_gets_results_and_errors(peer: str) -> None:
    script = [
        [call("add", a=2, b=40), call("add", a=2**53 - 3, b=1), call("add", a=2**60, b=1)],
        lambda request: say("; ".join(result.text for result in request.results)),
    ]
    async with threads(peer, script) as thread:
        reply = await thread.reply(timeout=DEADLINE)
        first, second, third = reply.text.split("; ")
        assert (first, second) == ("42", str(2**53 - 2))
        assert third == str(2**60 + 1) or third.startswith("Error: ")


async def test_an_agent_sleeps_between_the_events_of_a_subscription(peer: str) -> None:
    script = [call("count", n=3), *["noted"] * 8]
    async with threads(peer, script) as thread:
        await thread.reply(timeout=DEADLINE)
        await eventually(lambda: _has_final(thread))
        events = await happened(thread)
        assert [json.loads(text_of(event.parts)) for event in events] == [{"number": n} for n in (1, 2, 3)]
        assert [event.final for event in events] == [False, False, True]
        [confirmation] = await results(thread)
        assert events[0].call in confirmation


async def _has_final(thread: Thread) -> bool:
    return any(event.final for event in await happened(thread))


async def test_a_subscription_is_cancelled_by_the_model(peer: str) -> None:
    def cancel(request: Any) -> Any:
        if "Subscription ID: " in request.text and not request.text.startswith("The"):
            return call("cancel_subscription", tool_call_id=request.text.rpartition(" ")[2])
        return say("it is over")

    script = [call("count", n=1_000_000), *[cancel] * 40]
    async with threads(peer, script) as thread:
        await thread.reply(timeout=DEADLINE)
        await eventually(lambda: _said(thread, "is cancelled"))
        waits = (await thread.explain()).waits
        assert [wait.kind for wait in waits if wait.kind == "subscription"] == []


async def _said(thread: Thread, words: str) -> bool:
    return any(words in text for text in await results(thread))


async def test_a_call_is_interrupted_and_its_server_hears_of_it(peer: str) -> None:
    async with threads(peer, [call("wait"), say("as you like")]) as thread:
        await eventually(lambda: _waits_for(thread, "call"))
        [waiting] = (await thread.explain()).waits
        await eventually(lambda: _alive(peer, thread.id, waiting.id))
        await thread.send("never mind", "interrupt")
        assert (await thread.reply(timeout=DEADLINE)).text == "as you like"
        [told] = await results(thread)
        assert told.startswith("Interrupted")
        await eventually(lambda: _is_over(peer, thread.id, waiting.id))


@pytest.mark.parametrize(("answer", "told"), [("green", "green"), (0, "red"), (None, "blue")])
async def test_a_person_chooses_for_a_peer(peer: str, answer: str | int | None, told: str) -> None:
    """By text, by place, or not at all: then it is the default."""
    script = [call("pick"), lambda request: say(request.results[0].text)]
    async with threads(peer, script) as thread:
        [wait] = await eventually(thread.waits)
        assert (wait.prompt, wait.choices) == ("Which colour?", ("red", "green", "blue"))
        await thread.answer(wait.id, answer)
        assert (await thread.reply(timeout=DEADLINE)).text == told


async def _waits_for(thread: Thread, kind: str) -> bool:
    return [wait.kind for wait in (await thread.explain()).waits] == [kind]


async def _alive(peer: str, thread: str, call: str) -> bool:
    import aiohttp

    headers = {"Authorization": f"Bearer {TOKEN}"}
    ids = {"thread_id": thread, "tool_call_id": call}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.post(f"{peer}/tool_call_status", json=ids) as answer,
    ):
        return bool((await answer.json())["alive"])


async def _is_over(peer: str, thread: str, call: str) -> bool:
    return not await _alive(peer, thread, call)


async def test_the_peers_keep_the_protocol(peer: str) -> None:
    calls = {
        "quick": Call("add", {"a": 1, "b": 2}),
        "long": Call("wait"),
        "subscribing": Call("count", {"n": 12}),
        "choosing": Call("pick"),
    }
    patience = Patience(result=5.0, retry=5.0, quiet=0.6)
    report = await check_server(peer, Options(token=TOKEN, calls=calls, patience=patience))
    assert report.broken() == ()
    assert report.counts["kept"] >= 60
    assert {report.verdict(f"TS-{row}") for row in (78, 79, 80, 81, 83, 85)} == {"kept"}
