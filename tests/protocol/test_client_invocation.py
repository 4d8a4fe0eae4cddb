import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.protocol.polling import until
from tests.protocol.tool_stub import (
    MANIFEST_PATH,
    ToolStub,
    endless,
    rude_server,
    saying,
    silence,
    tool_stub,
)
from torpor.core.errors import Refused, Unavailable
from torpor.tools.catalog import RapServer
from torpor.tools.client import Ambiguous, HttpTransport

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLBACK = "https://rt.test/callbacks/k1.secret"


def facts(**more: Any) -> dict[str, Any]:
    return {
        "name": "ping",
        "arguments": '{"n":1}',
        "call": "c1-0",
        "thread": "t1",
        "callback": CALLBACK,
        "user_id": "u-19",
        **more,
    }


@pytest.fixture
async def stub() -> AsyncIterator[ToolStub]:
    async with tool_stub() as server:
        yield server


async def invoked(server: RapServer, endpoint: str = "", **more: Any) -> None:
    transport = HttpTransport([server])
    try:
        await transport.invoke(server.url, endpoint, facts(**more), "t1/c1-0")
    finally:
        await transport.close()


async def test_an_invocation_is_one_post_of_json_without_nulls(stub: ToolStub) -> None:
    await invoked(RapServer(stub.url, token="sesame"), f"{stub.url}/deep/in?x=%2F&y=%C3%A9", trace=TRACE)
    [request] = stub.seen
    assert (request.method, request.path) == ("POST", "/deep/in?x=%2F&y=%C3%A9")
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Authorization"] == "Bearer sesame"
    assert request.headers["Idempotency-Key"] == "t1/c1-0"
    parent = request.headers["traceparent"]
    assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-01", parent)
    assert request.body == {
        "operation": "ping",
        "arguments": {"n": 1},
        "id": "c1-0",
        "callback_url": CALLBACK,
        "group_id": "t1",
        "idempotency_key": "t1/c1-0",
        "features": ["rap-ext/1"],
    }


async def test_the_user_is_told_only_where_that_is_allowed(stub: ToolStub) -> None:
    await invoked(RapServer(stub.url), f"{stub.url}/invoke")
    await invoked(RapServer(stub.url, share_user=True), f"{stub.url}/invoke")
    await invoked(RapServer(stub.url, share_user=True), f"{stub.url}/invoke", user_id="")
    assert ["user_id" in one.body for one in stub.seen] == [False, True, False]
    assert stub.seen[1].body["user_id"] == "u-19"


async def test_ancestors_are_sent_root_first_where_there_are_any(stub: ToolStub) -> None:
    await invoked(RapServer(stub.url), f"{stub.url}/invoke", ancestors=["root", "parent"])
    assert stub.seen[0].body["thread_ancestors"] == ["root", "parent"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("{}", b'"arguments":{}'),
        (
            '{"x": 12345678901234567890.50, "y": 1E400}',
            b'"arguments":{"x": 12345678901234567890.50, "y": 1E400}',
        ),
        ('{"x":"caf\u00e9 \ud800"}', '"arguments":{"x":"caf\u00e9 \ufffd"}'.encode()),
        ('{"x":"\\ud800!"}', '"arguments":{"x": "\ufffd!"}'.encode()),
        ('{"x":"\\ud83d\\ude00"}', '"arguments":{"x": "\U0001f600"}'.encode()),
    ],
)
async def test_arguments_arrive_as_they_were(stub: ToolStub, given: str, sent: bytes) -> None:
    await invoked(RapServer(stub.url), f"{stub.url}/invoke", arguments=given)
    assert sent in stub.seen[0].raw


@pytest.mark.parametrize("given", ["", "[]", "{", '{"x":NaN}', "null"])
async def test_arguments_that_are_no_object_are_not_sent(stub: ToolStub, given: str) -> None:
    with pytest.raises(Refused, match="arguments"):
        await invoked(RapServer(stub.url), f"{stub.url}/invoke", arguments=given)
    assert not stub.seen


async def test_arguments_of_ten_megabytes_are_refused_before_sending(stub: ToolStub) -> None:
    with pytest.raises(Refused, match=r"10,000,\d+ bytes"):
        await invoked(
            RapServer(stub.url), f"{stub.url}/invoke", arguments=json.dumps({"x": "y" * 10_000_000})
        )
    assert not stub.seen


@pytest.mark.parametrize("status", [201, 202, 204, 302, 307, 400, 401, 404, 409, 410, 422, 429])
async def test_any_other_answer_than_200_is_not_accepted_and_not_repeated(
    stub: ToolStub, status: int
) -> None:
    stub.script["/invoke"] = [web.Response(status=status, headers={"Location": "/elsewhere"})]
    with pytest.raises(Refused, match=str(status)):
        await invoked(RapServer(stub.url), f"{stub.url}/invoke")
    assert len([one for one in stub.seen if one.method == "POST"]) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_failing_server_is_unavailable_and_asked_once(stub: ToolStub, status: int) -> None:
    stub.script["/invoke"] = [web.Response(status=status, headers={"Retry-After": "3"})]
    with pytest.raises(Unavailable) as caught:
        await invoked(RapServer(stub.url), f"{stub.url}/invoke")
    assert not isinstance(caught.value, Ambiguous)
    assert caught.value.retry_after == 3.0
    assert len(stub.seen) == 1


async def test_the_body_of_the_acknowledgement_does_not_matter() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    for speak in (
        endless(head, b"garbage " * 1000),
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nError: no"),
        saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip"),
    ):
        async with rude_server(speak) as url, asyncio.timeout(2):
            await invoked(RapServer(url, timeout=1.5), f"{url}/invoke")


@pytest.mark.parametrize("speak", [silence, saying(b"")], ids=["never answers", "closes before the status"])
async def test_what_may_have_arrived_is_ambiguous(speak: Any) -> None:
    async with rude_server(speak) as url:
        with pytest.raises(Ambiguous) as caught:
            await invoked(RapServer(url, timeout=0.2), f"{url}/invoke")
    assert getattr(caught.value, "ambiguous", False)


async def test_what_cannot_have_arrived_is_not_ambiguous() -> None:
    async with tool_stub() as gone:
        url = gone.url
    with pytest.raises(Unavailable) as caught:
        await invoked(RapServer(url), f"{url}/invoke")
    assert not isinstance(caught.value, Ambiguous)


async def test_calls_go_to_the_endpoint_of_the_manifest(stub: ToolStub) -> None:
    async with tool_stub() as elsewhere:
        stub.endpoint = f"{elsewhere.url}/calls"
        await invoked(RapServer(stub.url))
        assert [one.path for one in elsewhere.seen] == ["/calls"]
    assert [one.path for one in stub.seen] == [MANIFEST_PATH]


async def test_an_endpoint_that_moved_is_found_again(stub: ToolStub) -> None:
    stub.script["/old"] = [web.Response(status=404)]
    await invoked(RapServer(stub.url), f"{stub.url}/old")
    assert [one.path for one in stub.seen] == ["/old", MANIFEST_PATH, "/invoke"]


async def test_an_endpoint_at_a_dead_address_is_found_again(stub: ToolStub) -> None:
    async with tool_stub() as gone:
        dead = f"{gone.url}/invoke"
    await invoked(RapServer(stub.url), dead)
    assert [one.path for one in stub.seen] == [MANIFEST_PATH, "/invoke"]


async def test_the_token_goes_to_the_servers_own_origin_only(stub: ToolStub) -> None:
    async with tool_stub() as elsewhere:
        await invoked(RapServer(stub.url, token="sesame"), f"{elsewhere.url}/invoke")
        assert "Authorization" not in elsewhere.seen[0].headers
        allowed = RapServer(stub.url, token="sesame", token_origins=(elsewhere.url,))
        await invoked(allowed, f"{elsewhere.url}/invoke")
        assert elsewhere.seen[1].headers["Authorization"] == "Bearer sesame"


async def test_a_cookie_is_not_kept(stub: ToolStub) -> None:
    stub.script["/invoke"] = [web.Response(headers={"Set-Cookie": "a=b"})]
    transport = HttpTransport([RapServer(stub.url)])
    for _ in range(2):
        await transport.invoke(stub.url, f"{stub.url}/invoke", facts(), "k")
    await transport.close()
    assert "Cookie" not in stub.seen[1].headers


async def test_no_connection_outlives_its_request(stub: ToolStub) -> None:
    transport = HttpTransport([RapServer(stub.url)])
    await transport.invoke(stub.url, f"{stub.url}/invoke", facts(), "k")
    before, tasks = open_sockets(), len(asyncio.all_tasks())
    for number in range(20):
        await transport.invoke(stub.url, f"{stub.url}/invoke", facts(), f"k{number}")
    await until(lambda: open_sockets() <= before)
    assert len(asyncio.all_tasks()) <= tasks
    await transport.close()


def open_sockets() -> int:
    return sum(_target(one).startswith("socket:") for one in Path("/proc/self/fd").iterdir())


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


async def test_each_invocation_is_logged_without_secrets(
    stub: ToolStub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "torpor")
    stub.script["/invoke"] = [web.Response(), web.Response(status=400)]
    server = RapServer(stub.url, token="sesame")
    await invoked(server, f"{stub.url}/invoke")
    with pytest.raises(Refused) as caught:
        await invoked(server, f"{stub.url}/invoke")
    assert "'c1-0' of 'ping'" in caplog.text
    assert "accepted" in caplog.text
    assert "400" in caplog.text
    for secret in ("sesame", "secret", "u-19"):
        assert secret not in caplog.text + str(caught.value) + repr(server)


@pytest.mark.parametrize("trace", ["", "00-aa-bb-01", "0" * 32, "A" * 32, "4bf9\r\nx: y"])
async def test_a_trace_that_is_none_makes_no_header(stub: ToolStub, trace: str) -> None:
    await invoked(RapServer(stub.url), f"{stub.url}/call", trace=trace)
    assert "traceparent" not in stub.seen[-1].headers


async def test_each_call_of_a_trace_is_a_parent_of_its_own(stub: ToolStub) -> None:
    transport = HttpTransport([RapServer(stub.url)])
    for key in ("t1/c1", "t1/c2", "t1/c1"):
        await transport.invoke(stub.url, f"{stub.url}/call", facts(trace="ab" * 16), key)
    await transport.close()
    first, second, again = [request.headers["traceparent"] for request in stub.seen]
    assert first == again != second
