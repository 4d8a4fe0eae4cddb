"""Callbacks that are handed on: what the other end says is said, and what it cannot is asked for again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.protocol.tool_stub import ToolStub, tool_stub
from torpor.tools.callbacks import Outcome
from torpor.tools.forwarding import AWAY, Forwarding

PATH = "/callbacks/k1.a%2Fb"
HEADERS = (("Content-Type", "application/json"), ("webhook-id", "e-1"), ("Cookie", "a=b"), ("Host", "here"))


@asynccontextmanager
async def handing_on(*answers: web.Response) -> AsyncIterator[tuple[Forwarding, ToolStub]]:
    stub, forwarding = ToolStub(), Forwarding()
    async with tool_stub(stub):
        stub.script["/callbacks/k1.a/b"] = list(answers)
        yield forwarding, stub
    await forwarding.close()


async def test_a_callback_goes_on_as_it_came() -> None:
    async with handing_on() as (forward, stub):
        assert await forward(stub.url + PATH, b'{"a": 1}', HEADERS) == Outcome(200)
        [seen] = stub.seen
        assert (seen.method, seen.path, seen.raw) == ("POST", PATH, b'{"a": 1}')
        assert (seen.headers["webhook-id"], seen.headers["Content-Type"]) == ("e-1", "application/json")
        assert "Cookie" not in seen.headers
        assert seen.headers["Host"] == stub.url.removeprefix("http://")


@pytest.mark.parametrize(
    ("status", "text", "outcome"),
    [
        (410, '{"error": {"message": "It is settled."}}', Outcome(410, "It is settled.")),
        (404, "not found", Outcome(404)),
        (400, "[]", Outcome(400)),
        (503, "later", AWAY),
        (302, "", AWAY),
        (204, "", AWAY),
    ],
)
async def test_what_the_other_end_says_is_said(status: int, text: str, outcome: Outcome) -> None:
    async with handing_on(web.Response(status=status, text=text)) as (forward, stub):
        assert await forward(stub.url + PATH, b"{}", HEADERS) == outcome


async def test_nobody_there_is_asked_again_later() -> None:
    forward = Forwarding()
    assert await forward("http://127.0.0.1:9/x", b"{}", ()) == AWAY
    assert (AWAY.status, AWAY.retry_after > 0) == (503, True)
    await forward.close()
