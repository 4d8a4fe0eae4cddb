import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.protocol.tool_stub import (
    MANIFEST_PATH,
    ToolStub,
    endless,
    ping,
    rude_server,
    saying,
    silence,
    tool_stub,
)
from torpor.core.errors import Refused, Unavailable
from torpor.tools.catalog import MANIFEST_LIMIT, RapServer
from torpor.tools.client import HttpTransport


@pytest.fixture
async def stub() -> AsyncIterator[ToolStub]:
    async with tool_stub() as server:
        yield server


async def discovered(server: RapServer) -> bytes:
    transport = HttpTransport([server])
    try:
        return await transport.discover(server.url)
    finally:
        await transport.close()


async def test_the_manifest_is_fetched_from_its_well_known_path(stub: ToolStub) -> None:
    body = await discovered(RapServer(stub.url + "/", token="sesame"))
    assert body == stub.described()
    [request] = stub.seen
    assert (request.method, request.path) == ("GET", MANIFEST_PATH)
    assert request.headers["Accept"] == "application/json"
    assert request.headers["Authorization"] == "Bearer sesame"


async def test_a_path_and_a_query_of_the_base_url_are_kept(stub: ToolStub) -> None:
    await discovered(RapServer(f"{stub.url}/tenants/7/?key=a%2Fb"))
    assert stub.seen[0].path == f"/tenants/7{MANIFEST_PATH}?key=a%2Fb"


@pytest.mark.parametrize("status", [301, 302, 307, 308, 204, 202, 400, 401, 404, 410])
async def test_an_answer_other_than_200_is_no_manifest(stub: ToolStub, status: int) -> None:
    elsewhere = {"Location": f"{stub.url}/elsewhere"}
    stub.script[MANIFEST_PATH] = [web.Response(status=status, headers=elsewhere)]
    with pytest.raises(Refused, match=f"it answered {status}"):
        await discovered(RapServer(stub.url))
    assert len(stub.seen) == 1


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("1e400", None),
        ("-3", 0.0),
        ("soon", None),
        ("9999999", 86_400.0),
        ("", None),
    ],
)
async def test_a_busy_server_is_unavailable_for_as_long_as_it_says(
    stub: ToolStub, told: str, wait: float | None
) -> None:
    stub.script[MANIFEST_PATH] = [web.Response(status=503, headers={"Retry-After": told})]
    with pytest.raises(Unavailable) as caught:
        await discovered(RapServer(stub.url))
    assert caught.value.retry_after == wait


async def test_a_retry_after_may_be_a_date(stub: ToolStub) -> None:
    passed = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
    stub.script[MANIFEST_PATH] = [web.Response(status=503, headers=passed)]
    with pytest.raises(Unavailable) as caught:
        await discovered(RapServer(stub.url))
    assert caught.value.retry_after == 0.0


async def test_an_oversized_manifest_is_refused_without_reading_it_all() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    async with rude_server(endless(head, b" " * 65_536)) as url:
        with pytest.raises(Refused, match=f"{MANIFEST_LIMIT:,} bytes"):
            await discovered(RapServer(url))


async def test_a_compressed_manifest_is_not_unpacked(stub: ToolStub) -> None:
    bomb = web.Response(body=b"\x1f\x8b not really", headers={"Content-Encoding": "gzip"})
    stub.script[MANIFEST_PATH] = [bomb]
    with pytest.raises(Refused, match="not JSON"):
        await discovered(RapServer(stub.url))
    assert stub.seen[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    "speak",
    [
        silence,
        endless(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", b" ", 0.02),
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"),
        saying(b""),
        saying(b"SSH-2.0-whatever\r\n"),
    ],
    ids=["never answers", "trickles", "closes mid-body", "closes at once", "speaks something else"],
)
async def test_a_server_that_misbehaves_is_unavailable(speak: Any) -> None:
    async with rude_server(speak) as url:
        with pytest.raises(Unavailable):
            await discovered(RapServer(url, timeout=0.2))


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with tool_stub() as stub:
        url = stub.url
    with pytest.raises(Unavailable, match="cannot be reached"):
        await discovered(RapServer(url))


async def test_one_bad_tool_spoils_the_manifest_and_the_error_names_server_and_defect(stub: ToolStub) -> None:
    stub.tools = [ping(), ping("bad name")]
    with pytest.raises(Refused, match="bad name") as caught:
        await discovered(RapServer(stub.url))
    assert stub.url in str(caught.value)


async def test_a_pinned_manifest_is_taken_only_unaltered(stub: ToolStub) -> None:
    pin = "sha256:" + hashlib.sha256(stub.described()).hexdigest()
    assert await discovered(RapServer(stub.url, pin=pin))
    stub.tools = [ping("another")]
    with pytest.raises(Refused, match="not the pinned one"):
        await discovered(RapServer(stub.url, pin=pin))


async def test_an_endpoint_on_another_machine_must_be_https(stub: ToolStub) -> None:
    stub.endpoint = "http://tools.example.com/invoke"
    with pytest.raises(Refused, match="must be https"):
        await discovered(RapServer(stub.url))
    assert await discovered(RapServer(stub.url, allow_http=True))


async def test_every_discovery_asks_again(stub: ToolStub) -> None:
    transport = HttpTransport([RapServer(stub.url)])
    first = await transport.discover(stub.url)
    stub.tools = [ping("changed")]
    second = await transport.discover(stub.url)
    await transport.close()
    assert json.loads(first)["tools"][0]["name"] == "ping"
    assert json.loads(second)["tools"][0]["name"] == "changed"
    assert len(stub.seen) == 2


async def test_a_server_that_nobody_configured_is_not_asked() -> None:
    transport = HttpTransport()
    with pytest.raises(Refused, match="No tool server"):
        await transport.discover("http://127.0.0.1:1")
    await transport.close()
