import asyncio
import time

import pytest
from aiohttp import web

from tests.protocol.tool_stub import CANCEL_PATH, CLOSE_PATH, rude_server, silence, tool_stub
from torpor.tools import client
from torpor.tools.catalog import RapServer
from torpor.tools.client import HttpTransport


async def test_a_cancelled_call_and_a_closed_thread_are_told_with_their_ids() -> None:
    async with tool_stub() as stub:
        transport = HttpTransport([RapServer(stub.url, token="sesame")])
        await transport.cancel(stub.url, "t1", "c1")
        await transport.close_thread(stub.url, "t1")
        await transport.close()
    cancelled, closed = stub.seen
    assert (cancelled.method, cancelled.path) == ("POST", CANCEL_PATH)
    assert cancelled.body == {"thread_id": "t1", "tool_call_id": "c1"}
    assert cancelled.headers["Authorization"] == "Bearer sesame"
    assert (closed.method, closed.path, closed.body) == ("POST", CLOSE_PATH, {"thread_id": "t1"})
    assert closed.headers["Content-Type"] == "application/json"


async def test_all_servers_are_told_side_by_side_and_one_failure_harms_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "NOTICE_SECONDS", 0.3)
    async with tool_stub() as gone:
        down = gone.url
    async with rude_server(silence) as hanging, tool_stub() as failing, tool_stub() as fine:
        failing.script = {CANCEL_PATH: [web.Response(status=500)], CLOSE_PATH: [web.Response(status=500)]}
        servers = [RapServer(url) for url in (down, hanging, failing.url, fine.url)]
        transport = HttpTransport(servers)
        started = time.monotonic()
        await asyncio.gather(transport.cancel("", "t1", "c1"), transport.close_thread("", "t1"))
        took = time.monotonic() - started
        await transport.close()
    assert took < 0.6
    for stub in (failing, fine):
        assert sorted(one.path for one in stub.seen) == [CANCEL_PATH, CLOSE_PATH]


async def test_a_redirected_notice_is_not_followed() -> None:
    async with tool_stub() as stub:
        stub.script[CLOSE_PATH] = [web.Response(status=307, headers={"Location": "/elsewhere"})]
        transport = HttpTransport([RapServer(stub.url)])
        await transport.close_thread(stub.url, "t1")
        await transport.close()
    assert [one.path for one in stub.seen] == [CLOSE_PATH]


async def test_a_notice_for_an_unknown_server_does_nothing() -> None:
    transport = HttpTransport()
    await transport.cancel("http://127.0.0.1:1", "t1", "c1")
    await transport.close()
