"""A tree moves between two whole runtimes with its tool servers, over real HTTP: told, forwarded, aborted."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.protocol.tool_stub import CLOSE_PATH, ToolStub, tool_stub
from tests.web.places import until
from torpor import Agent, RapServer, Refused, Runtime, Unavailable
from torpor.core.messages import Happened, Result, Turn, text_of
from torpor.models import ScriptedModel, call, say
from torpor.tools.protocol import MIGRATE_PATH
from torpor.tools.signatures import Secrets

SECRET = b"s" * 32


class Stateful(ToolStub):
    """A tool server that keeps state of sessions; it moves them when ``may_move`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_move = asyncio.Event()
        self.may_move.set()
        self.status = 200

    def described(self) -> bytes:
        return json.dumps({**json.loads(super().described()), "needsMigration": True}).encode()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        answer = await super().answer(request)
        if request.path == MIGRATE_PATH:
            await self.may_move.wait()
            return web.Response(status=self.status, text="the disk is full" if self.status != 200 else "")
        return answer


class Move:
    """Two runtimes, each with its instance of one tool server."""

    def __init__(self, http: aiohttp.ClientSession, old: Stateful, new: Stateful) -> None:
        self.http = http
        self.old = old
        self.new = new
        self.here: Runtime
        self.there: Runtime

    @property
    def servers(self) -> dict[str, str]:
        return {self.old.url: self.new.url}

    async def move(self, thread: str) -> list[str]:
        return await self.here.move(thread, self.there, servers=self.servers)

    async def asked(self) -> dict[str, Any]:
        """The call that the old server got."""

        async def there() -> bool:
            return bool(self.old.at("/invoke"))

        await until(there)
        return self.old.at("/invoke")[0].body

    async def send(self, text: str, headers: dict[str, str] | None = None, **more: Any) -> tuple[int, Any]:
        """A callback to the URL that the old server was given: status and headers of the answer."""
        asked = await self.asked()
        event = more.get("type") == "subscription_event"
        ids = {"group_id": asked["group_id"], "tool_call_id" if event else "id": asked["id"]}
        body = json.dumps({"type": "tool_result", **ids, "text": text, **more}).encode()
        signed = Secrets(SECRET).sign(text, time.time(), body) if headers is None else headers
        async with self.http.post(asked["callback_url"], data=body, headers=signed) as response:
            return response.status, response.headers

    async def heard(self, runtime: Runtime, thread: str, text: str) -> None:
        """Wait until a thread's model has said something."""

        async def said() -> bool:
            history = await runtime.thread(thread).history()
            return any(isinstance(one, Turn) and text_of(one.parts) == text for one in history)

        await until(said)


@asynccontextmanager
async def moving(path: Path, script: Any = None, **settings: Any) -> AsyncIterator[Move]:
    script = script or [call("ping", n=1), lambda request: say(f"It says: {request.results[0].text}")]
    old, new = Stateful(), Stateful()
    async with tool_stub(old), tool_stub(new), aiohttp.ClientSession() as http:
        two = Move(http, old, new)

        def agent(url: str) -> Agent:
            return Agent("worker", model=ScriptedModel(script), tools=[RapServer(url, **settings)])

        async with (
            Runtime(f"sqlite:///{path}/here.db", agents=[agent(old.url)]) as two.here,
            Runtime("memory:", agents=[agent(new.url)]) as two.there,
        ):
            yield two


async def test_a_late_result_reaches_the_thread_where_it_is_now(tmp_path: Path) -> None:
    async with moving(tmp_path) as two:
        root = await two.here.start("worker", "go")
        asked = await two.asked()
        assert await two.move(root.id) == [root.id]
        [told] = two.old.at(MIGRATE_PATH)
        assert told.body == {"session_id": root.id, "destination_url": two.new.url}
        assert [one.body for one in two.old.at(CLOSE_PATH)] == [{"thread_id": root.id}]
        assert two.new.seen == []
        assert (await two.send("12 crates", {}))[0] == 200
        await two.heard(two.there, root.id, "It says: 12 crates")
        assert (await two.send("12 crates", {}))[0] == 200
        assert (await two.send("13 crates", {}))[0] == 410
        assert [one.call for one in await two.there.thread(root.id).history() if isinstance(one, Result)] == [
            asked["id"]
        ]
        await two.there.thread(root.id).send("again")
        with pytest.raises(Refused, match="It was moved to memory:"):
            await root.send("and here?")


async def test_signed_events_are_handed_on_as_they_came(tmp_path: Path) -> None:
    script = [call("ping"), say("Watching."), say("Seen.")]
    async with moving(tmp_path, script, secret=SECRET) as two:
        root = await two.here.start("worker", "go")
        assert (await two.send("Subscribed.", subscription=True))[0] == 200
        await two.heard(two.here, root.id, "Watching.")
        await two.move(root.id)
        event: Any = {"type": "subscription_event", "associative": True}
        assert (await two.send("unsigned", {}, **event))[0] == 401
        assert (await two.send("one", **event))[0] == 200
        await two.heard(two.there, root.id, "Seen.")
        [seen] = [one for one in await two.there.thread(root.id).history() if isinstance(one, Happened)]
        assert (text_of(seen.parts), seen.by.id, seen.by.verified) == ("one", two.new.url, "signature")


async def test_nothing_is_taken_while_it_moves(tmp_path: Path) -> None:
    async with moving(tmp_path) as two:
        root = await two.here.start("worker", "go")
        await two.asked()
        two.old.may_move.clear()
        moves = asyncio.create_task(two.move(root.id))

        async def told() -> bool:
            return bool(two.old.at(MIGRATE_PATH))

        await until(told)
        status, headers = await two.send("12 crates", {})
        assert (status, headers["Retry-After"]) == (503, "5")
        for word in (
            root.send("hello"),
            root.stop(),
            root.close(),
            root.nudge(),
            root.compact(),
            root.fork(),
        ):
            with pytest.raises(Unavailable, match="is moving"):
                await word
        assert (await root.row()).state == "moving"
        assert "moving" in (await root.explain()).text
        assert await two.there.threads() == []
        two.old.may_move.set()
        await moves
        assert (await two.send("12 crates", {}))[0] == 200
        await two.heard(two.there, root.id, "It says: 12 crates")


async def test_a_server_that_cannot_move_keeps_all_of_it_here(tmp_path: Path) -> None:
    async with moving(tmp_path) as two:
        root = await two.here.start("worker", "go")
        await two.asked()
        before = await root.history()
        two.old.status = 507
        with pytest.raises(Unavailable, match="the disk is full"):
            await two.move(root.id)
        assert await root.history() == before
        assert await two.there.threads() == []
        assert two.old.at(CLOSE_PATH) == []
        assert (await two.send("12 crates", {}))[0] == 200
        await two.heard(two.here, root.id, "It says: 12 crates")


async def test_a_place_that_takes_no_callbacks_is_no_place_for_tools(tmp_path: Path) -> None:
    async with moving(tmp_path) as two:
        root = await two.here.start("worker", "go")
        await two.asked()
        elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
        with pytest.raises(Unavailable, match="No address for callbacks"):
            await two.here.move(root.id, elsewhere, servers=two.servers, create=True)
        assert (await root.row()).state == "open"
        assert two.old.at(MIGRATE_PATH) == []


async def test_a_place_that_is_away_is_tried_again_by_the_server(tmp_path: Path) -> None:
    async with moving(tmp_path) as two:
        root = await two.here.start("worker", "go")
        await two.asked()
        await two.move(root.id)
        await two.there.__aexit__(None, None, None)
        status, headers = await two.send("12 crates", {})
        assert (status, headers["Retry-After"]) == (503, "5")
