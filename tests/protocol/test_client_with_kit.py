"""Both ends of ours against each other, over real HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.protocol.desk import Desk, subscribed, waiting
from tests.protocol.polling import until
from torpor.core.errors import TorporError
from torpor.core.messages import text_of
from torpor.tools.catalog import RapServer, assemble, read_manifest
from torpor.tools.client import HttpTransport
from torpor.tools.server import ToolCall, ToolError, ToolServer


@asynccontextmanager
async def receiving(desk: Desk, answered: list[int]) -> AsyncIterator[str]:
    """A web server that hands callbacks in; gives the URL before the token."""

    async def take(request: web.Request) -> web.Response:
        outcome = await desk.callbacks.receive(request.match_info["token"], await request.read())
        answered.append(outcome.status)
        return web.Response(status=outcome.status)

    application = web.Application(client_max_size=100_000_000)
    application.router.add_post("/callbacks/{token}", take)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/callbacks/"
    finally:
        await runner.cleanup()


@pytest.mark.slow
async def test_a_call_a_subscription_and_a_cancel_between_our_two_ends(tmp_path: Path) -> None:
    kit = ToolServer("depots", outbox=tmp_path / "outbox.db", token="sesame")

    @kit.tool(read_only=True)
    async def stock_level(part: str) -> int:
        """Count the units of one part."""
        return len(part)

    @kit.tool
    async def watch(call: ToolCall, depot: str) -> None:
        """Watch a depot."""
        await call.subscribe(f"Watching {depot}.")
        await call.event("low")
        await call.cancelled.wait()

    desk, answered = await Desk().open(), list[int]()
    await desk.thread(pending={"c1": waiting(), "c2": waiting()})
    async with receiving(desk, answered) as callbacks, kit.listening() as url:
        server = RapServer(url, token="sesame")
        transport = HttpTransport([server])
        catalog = assemble((), (), [(server, await transport.discover(url))])
        assert catalog.problems == ()
        assert {name: spec.repeat for name, spec in catalog.tools.items()} == {
            "stock_level": "safe",
            "watch": "keyed",
        }
        for call, name, arguments in (
            ("c1", "stock_level", {"part": "M6-20"}),
            ("c2", "watch", {"depot": "n"}),
        ):
            facts = {
                "name": name,
                "arguments": json.dumps(arguments),
                "call": call,
                "thread": "T",
                "callback": callbacks + desk.keys.mint("T", call),
            }
            for _ in range(2):
                await transport.invoke(url, "", facts, f"T/{call}")
        await until(lambda: len(answered) >= 3)
        results = {one.call: one for one in await desk.results()}
        assert text_of(results["c1"].parts) == "5"
        assert results["c2"].subscription
        [happened] = await desk.events()
        assert text_of(happened.parts) == "low"
        assert happened.id == f"c2/event/{happened.event_id}"
        assert happened.event_id
        assert happened.seq == 1
        await desk.becomes("T", subscriptions={"c2": subscribed()})
        await transport.cancel(url, "T", "c2")
        await transport.close_thread(url, "T")
        await transport.close()
    assert set(answered) == {200}
    assert len(await desk.inbox()) == 3


async def test_a_session_is_moved_or_the_reason_is_known(tmp_path: Path) -> None:
    kit = ToolServer("depots", outbox=tmp_path / "outbox.db", token="sesame")
    moved: list[tuple[str, str]] = []

    @kit.tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    @kit.migrate
    async def move(session: str, destination: str) -> None:
        if moved:
            raise ToolError("the destination is full")
        moved.append((session, destination))

    async with kit.listening() as url:
        transport = HttpTransport([RapServer(url, token="sesame")])
        manifest = read_manifest(await transport.discover(url))
        assert manifest.needs_migration is True
        await transport.migrate(url, "T", url)
        assert moved == [("T", url)]
        with pytest.raises(TorporError, match="the destination is full"):
            await transport.migrate(url, "T", url)
        await transport.close()
