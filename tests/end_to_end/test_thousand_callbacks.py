"""A thousand callbacks for a thousand threads, each twice, all at once: a thousand results, one each."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.runtime.world import MANIFEST
from torpor import Agent, RapServer, Runtime
from torpor.core.codec import decode_message
from torpor.core.messages import Result, Text, Turn, text_of
from torpor.models import ScriptedModel, call, say
from torpor.runtime.threads import Threads
from torpor.wiring import Parts

THREADS = 1_000
SAMPLED = 20
TOOLS = "http://127.0.0.1:1"


class Silent:
    """A tool server that takes every call and says nothing by itself."""

    def __init__(self) -> None:
        self.callbacks: dict[str, tuple[str, str]] = {}
        """By thread: the call, and where its result is to be posted."""

    async def discover(self, server: str) -> bytes:
        return MANIFEST

    async def invoke(self, server: str, endpoint: str, body: Any, key: str) -> None:
        self.callbacks[body["thread"]] = (body["call"], body["callback"])

    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None: ...

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None: ...

    async def choose(
        self, server: str, url: str, call: str, selected: int, key: str, trace: str = ""
    ) -> None: ...

    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        return "alive"

    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None: ...

    async def close(self) -> None: ...


def agents() -> list[Agent]:
    script: list[Any] = [call("build", what="x"), lambda request: say(request.results[0].text)]
    return [Agent("builder", model=ScriptedModel(script, remember=1), tools=[RapServer(TOOLS)])]


async def drained(parts: Parts) -> None:
    """Run every slice there is."""
    worker = parts.worker(16)
    worker.start()
    async with asyncio.timeout(300):
        while worker.busy or parts.dispatcher.busy or await rung(parts):
            await asyncio.sleep(0.02)
    await worker.stop(1.0)


async def rung(parts: Parts) -> bool:
    """Something shall start soon; questions about calls that are an hour old are another matter."""
    return 0 < await parts.queue.next_at() < parts.clock.now() + 600


async def pending(threads: Threads) -> None:
    ids = [f"t{number}" for number in range(THREADS)]
    await asyncio.gather(*(threads.start("builder", [Text("go")], thread=id) for id in ids))


async def posted(file: str, session: aiohttp.ClientSession, thread: str, told: tuple[str, str]) -> bool:
    """Post one result; whether it is in the file, as another reader sees it, when the 200 has come."""
    call_id, url = told
    body = {"type": "tool_result", "group_id": thread, "id": call_id, "text": f"built {thread}"}
    async with session.post(url, data=json.dumps(body)) as answer:
        assert answer.status == 200, await answer.text()
        number = int(thread[1:])
        return number % (THREADS // SAMPLED) > 0 or _is_durable(file, thread, call_id)


def _is_durable(file: str, thread: str, call_id: str) -> bool:
    with sqlite3.connect(file) as other:
        found = other.execute(
            "SELECT count(*) FROM inbox JOIN threads ON threads.number = inbox.thread "
            "WHERE threads.thread = ? AND inbox.id LIKE ?",
            (thread, f"{call_id}/result/%"),
        ).fetchone()
    other.close()
    return bool(found[0] == 1)


@pytest.mark.slow
async def test_a_thousand_callbacks_each_twice_are_a_thousand_results(tmp_path: Path) -> None:
    file, tools = f"{tmp_path}/store.db", Silent()
    options: dict[str, Any] = {"transport": tools, "workers": 0}
    async with Runtime(f"sqlite:///{file}", agents=agents(), **options) as runtime:
        parts = runtime.parts
        await pending(parts.threads)
        await drained(parts)
        assert len(tools.callbacks) == THREADS
        connector = aiohttp.TCPConnector(limit=200)
        async with aiohttp.ClientSession(connector=connector) as session:
            told = [(thread, place) for thread, place in tools.callbacks.items() for _ in range(2)]
            durable = await asyncio.gather(*(posted(file, session, *one) for one in told))
        assert all(durable)
        await drained(parts)
        for row in await parts.store.threads(limit=THREADS):
            messages = [decode_message(message.body) for message in await parts.store.read(row.thread)]
            results = [message for message in messages if isinstance(message, Result)]
            assert [text_of(result.parts) for result in results] == [f"built {row.thread}"]
            last = messages[-1]
            assert isinstance(last, Turn)
            assert text_of(last.parts) == f"built {row.thread}"
        assert await parts.store.stranded() == []
