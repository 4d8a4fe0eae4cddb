"""What tool servers are asked and told beyond calls: choices, whether a call is alive, moving a session."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.protocol.tool_stub import ToolStub, endless, rude_server, saying, silence, tool_stub
from torpor.core.errors import Refused, Unavailable
from torpor.tools import client
from torpor.tools.catalog import RapServer
from torpor.tools.client import HttpTransport
from torpor.tools.protocol import MIGRATE_PATH, STATUS_PATH
from torpor.tools.signatures import Secrets

TRACE = "0af7651916cd43dd8448eb211c80319c"
CHOICE = "/user_choice_response"


@pytest.fixture
async def stub() -> AsyncIterator[ToolStub]:
    async with tool_stub() as stub:
        yield stub


@pytest.fixture
async def transport(stub: ToolStub) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport([RapServer(stub.url, token="sesame", timeout=5.0)])
    yield transport
    await transport.close()


async def test_a_choice_goes_to_the_very_url_that_was_given(stub: ToolStub, transport: HttpTransport) -> None:
    await transport.choose(stub.url, f"{stub.url}/a%2Fb?k=1&k=%20", "c1", 0, "w/choice", TRACE)
    await transport.choose(stub.url, stub.url, "c1", 2, "w/choice")
    first, second = stub.seen
    assert (first.method, first.path, first.raw) == ("POST", "/a%2Fb?k=1&k=%20", b'{"id":"c1","selected":0}')
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert first.headers["Authorization"] == "Bearer sesame"
    assert (second.path, second.body) == ("/", {"id": "c1", "selected": 2})
    assert "traceparent" not in second.headers


async def test_what_became_of_a_choice(stub: ToolStub, transport: HttpTransport) -> None:
    stub.script[CHOICE] = [web.Response(status=status) for status in (400, 404, 410, 500, 503)]
    for error in (Refused, Refused, Refused, Unavailable, Unavailable):
        with pytest.raises(error, match="refused the choice"):
            await transport.choose(stub.url, stub.url + CHOICE, "c1", 0, "k")
    await transport.choose(stub.url, stub.url + CHOICE, "c1", 0, "k")
    assert len(stub.at(CHOICE)) == 6


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/x",
        "http://10.0.0.5/",
        "ftp://h/",
        "http://tools.test/choice",
        "https://10.0.0.5/",
        "https://[fd00::1]/",
        "",
        "nonsense",
    ],
)
async def test_cbk_07_a_choice_is_not_sent_where_requests_may_not_go(stub: ToolStub, url: str) -> None:
    transport = HttpTransport([RapServer("https://tools.example.com")])
    with pytest.raises(Refused):
        await transport.choose("https://tools.example.com", url, "c1", 0, "k")
    await transport.close()


async def test_a_choice_for_a_server_that_is_not_configured_is_refused(transport: HttpTransport) -> None:
    with pytest.raises(Refused, match="configured"):
        await transport.choose("http://127.0.0.1:1", "http://127.0.0.1:1/x", "c1", 0, "k")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (web.json_response({"alive": True}), "alive"),
        (web.json_response({"alive": False}), "dead"),
        (web.json_response({"alive": True, "more": [1]}), "alive"),
        (web.json_response({"alive": False}, status=202), "dead"),
        (web.Response(text="OK"), "invalid"),
        (web.Response(), "invalid"),
        (web.json_response({}), "invalid"),
        (web.json_response({"alive": "yes"}), "invalid"),
        (web.json_response({"alive": 1}), "invalid"),
        (web.json_response({"alive": None}), "invalid"),
        (web.json_response([True]), "invalid"),
        (web.Response(body=b'{"alive":true,"alive":false}'), "invalid"),
        (web.Response(body=b'{"alive":true}' + b" " * 100_000), "invalid"),
        (web.Response(status=400), "invalid"),
        (web.Response(status=401), "unknown"),
        (web.Response(status=403), "unknown"),
        (web.Response(status=429, headers={"Retry-After": "1"}), "unknown"),
        (web.Response(status=410), "invalid"),
        (web.Response(status=404), "missing"),
        (web.Response(status=405), "missing"),
        (web.Response(status=500), "unknown"),
        (web.Response(status=501), "unknown"),
        (web.Response(status=503), "unknown"),
        (web.Response(status=302, headers={"Location": "/elsewhere"}), "unknown"),
    ],
)
async def test_what_a_server_says_of_a_call(answer: web.Response, says: str) -> None:
    async with tool_stub() as stub:
        stub.script[STATUS_PATH] = [answer]
        transport = HttpTransport([RapServer(stub.url, token="sesame")])
        assert await transport.status(stub.url, "t1", "c1", TRACE) == says
        await transport.close()
    [asked] = stub.seen
    assert (asked.method, asked.path) == ("POST", STATUS_PATH)
    assert asked.body == {"thread_id": "t1", "tool_call_id": "c1"}
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["Authorization"] == "Bearer sesame"
    assert asked.headers["traceparent"].startswith(f"00-{TRACE}-")


async def test_who_cannot_be_reached_says_nothing() -> None:
    async with tool_stub() as gone:
        down = gone.url
    cut = saying(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"alive":false}')
    slow = endless(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n", b" ", 0.02)
    async with rude_server(silence) as hanging, rude_server(cut) as cutting, rude_server(slow) as dripping:
        urls = (down, hanging, cutting, dripping)
        transport = HttpTransport([RapServer(url, timeout=0.2) for url in urls])

        async def says(url: str) -> str:
            with pytest.raises(Unavailable) as failure:
                await transport.status(url, "t1", "c1")
            return str(failure.value)

        said = await asyncio.gather(*(says(url) for url in urls))
        await transport.close()
    assert all(url in one for url, one in zip(urls, said, strict=True))


async def test_a_session_is_moved_once_its_server_says_200(
    stub: ToolStub, transport: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    await transport.migrate(stub.url, "root", "http://127.0.0.1:9411", TRACE)
    [moved] = stub.seen
    assert (moved.method, moved.path) == ("POST", MIGRATE_PATH)
    assert moved.body == {"session_id": "root", "destination_url": "http://127.0.0.1:9411"}
    stub.script[MIGRATE_PATH] = [
        web.Response(status=202),
        web.Response(status=502, text="import refused:\n disk\x1b[31m full"),
        web.Response(status=422, text="é" * 100_000),
    ]
    with pytest.raises(Refused, match="answered 202"):
        await transport.migrate(stub.url, "root", "http://127.0.0.1:9411")
    with pytest.raises(Unavailable, match=r"did not move the session \(import refused: disk\[31m full\)"):
        await transport.migrate(stub.url, "root", "http://127.0.0.1:9411")
    with pytest.raises(Refused) as failure:
        await transport.migrate(stub.url, "root", "http://127.0.0.1:9411")
    assert len(str(failure.value)) < 700
    monkeypatch.setattr(client, "MIGRATION_SECONDS", 0.1)
    async with rude_server(silence) as hanging:
        slow = HttpTransport([RapServer(hanging, timeout=0.01)])
        with pytest.raises(Unavailable, match="within"):
            await slow.migrate(hanging, "root", "http://127.0.0.1:9411")
        await slow.close()


async def test_every_request_to_a_server_with_a_secret_is_signed() -> None:
    fresh = iter(f"fresh{number}" for number in range(9))
    async with tool_stub() as stub:
        server = RapServer(stub.url, secret=[b"n" * 32, b"o" * 32])
        transport = HttpTransport([server], now=lambda: 1_767_225_600.9, fresh=lambda: next(fresh))
        facts = {"name": "ping", "arguments": "{}", "call": "c1", "thread": "t1", "callback": "http://x/"}
        for _ in range(2):
            await transport.invoke(stub.url, f"{stub.url}/invoke", facts, "c1")
        await transport.choose(stub.url, f"{stub.url}/choice", "c1", 0, "t.c1.choice/choice")
        await transport.cancel("", "t1", "c1")
        await transport.close_thread("", "t1")
        await transport.status(stub.url, "t1", "c1")
        await transport.migrate(stub.url, "t1", "http://127.0.0.1:9")
        await transport.discover(stub.url)
        await transport.close()
    newest = Secrets(b"n" * 32)
    for seen in stub.seen:
        assert newest.verify(seen.headers.items(), seen.raw, 1_767_225_600).secret == 0
    ids = [newest.verify(seen.headers.items(), seen.raw, 1_767_225_600).id for seen in stub.seen]
    assert ids[:3] == ["c1", "c1", "t-c1-choice-choice"]
    assert ids[3:] == [f"fresh{number}" for number in range(5)]


async def test_nothing_is_signed_without_a_secret(stub: ToolStub, transport: HttpTransport) -> None:
    await transport.status(stub.url, "t1", "c1")
    assert not [name for name in stub.seen[0].headers if name.lower().startswith("webhook")]
