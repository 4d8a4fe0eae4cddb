"""Addresses that strangers name: none leads inside, however it is written, and after names have changed."""

import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.protocol.stubs import Peer, eventually, stub_runtime
from tests.protocol.tool_stub import ToolStub, tool_stub
from torpor.core.errors import Refused, Unavailable
from torpor.tools.catalog import RapServer
from torpor.tools.client import HttpTransport
from torpor.tools.server import Retry, ToolServer
from torpor.tools.server.courier import _public_socket

FACTS = {"name": "ping", "arguments": "{}", "call": "c1", "thread": "t1", "callback": "https://rt.test/c"}
PUBLIC = RapServer("https://tools.example.com", allow_http=True, timeout=5.0)
INNER = (
    "127.0.0.1",
    "localhost",
    "a.localhost",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "0.0.0.0",
    "255.255.255.255",
    "224.0.0.1",
    "[::1]",
    "[::]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fd00:ec2::254]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "127.0.0.1.",
    "\uff11\uff12\uff17.0.0.1",
    "%31%32%37.0.0.1",
)
TRICKS = (
    "http://tools.example.com@{inner}/x",
    "http://tools.example.com:80@{inner}/x",
    "http://{inner}#@tools.example.com/",
    "http://{inner}\\@tools.example.com/",
    "http://tools.example.com\\@{inner}/",
    "http://{inner}?@tools.example.com/",
    "http:///{inner}/x",
    "http:\\\\{inner}/x",
    "//{inner}/x",
    "http://{inner}\r\nHost: tools.example.com\r\n\r\n",
    "file:///etc/passwd",
    "gopher://{inner}/x",
    "ftp://{inner}/x",
)


class Names(AbstractResolver):
    """Gives the addresses of a script (empty: there is none), one a look-up; the last one for ever."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not found:
            raise OSError("no such name")
        return [
            ResolveResult(
                hostname=host,
                host=found,
                port=port,
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        pass


@pytest.fixture
async def inner() -> AsyncIterator[ToolStub]:
    async with tool_stub() as stub:
        yield stub


async def refused(url: str, transport: HttpTransport | None = None) -> None:
    """Both ways of a URL that a server names: as its endpoint, and as the place of an answer."""
    transport = transport or HttpTransport([PUBLIC], resolver=Names("127.0.0.1"))
    try:
        with pytest.raises(Refused):
            await transport.invoke(PUBLIC.url, url, FACTS, "k")
        with pytest.raises(Refused):
            await transport.choose(PUBLIC.url, url, "c1", 0, "k")
    finally:
        await transport.close()


@pytest.mark.parametrize("host", INNER)
async def test_no_endpoint_and_no_response_url_leads_inside(inner: ToolStub, host: str) -> None:
    await refused(f"http://{host}:{inner.url.rpartition(':')[2]}/invoke")
    assert inner.seen == []


@pytest.mark.parametrize("trick", TRICKS)
async def test_no_trick_of_a_url_leads_inside(inner: ToolStub, trick: str) -> None:
    await refused(trick.format(inner=inner.url.removeprefix("http://")))
    assert inner.seen == []


async def test_a_name_that_leads_elsewhere_at_the_second_look_is_refused(inner: ToolStub) -> None:
    """The address that was checked is the one connected to: there is no look-up in between."""
    names = Names("127.0.0.1")
    port = inner.url.rpartition(":")[2]
    await refused(f"http://tools.example.com:{port}/invoke", HttpTransport([PUBLIC], resolver=names))
    assert inner.seen == []
    assert names.asked == 2  # one for each request, none for the connection


async def test_each_request_looks_anew(inner: ToolStub) -> None:
    names = Names("", "10.0.0.1")
    transport = HttpTransport([RapServer(PUBLIC.url, allow_http=True, timeout=0.2)], resolver=names)
    with pytest.raises(Unavailable):
        await transport.choose(PUBLIC.url, "http://tools.example.com:9/x", "c1", 0, "k")
    with pytest.raises(Refused, match="may not go"):
        await transport.choose(PUBLIC.url, "http://tools.example.com:9/x", "c1", 0, "k")
    await transport.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(inner: ToolStub, status: int) -> None:
    async with tool_stub() as near:
        near.script["/invoke"] = [
            web.Response(status=status, headers={"Location": f"{inner.url}/stolen"})
        ] * 2
        near.script["/choice"] = [web.Response(status=status, headers={"Location": f"{inner.url}/stolen"})]
        server = RapServer(near.url, token="sesame", timeout=5.0)
        transport = HttpTransport([server])
        with pytest.raises(Refused, match="redirects are not followed"):
            await transport.invoke(server.url, f"{near.url}/invoke", FACTS, "k")
        with pytest.raises(Refused, match="redirects are not followed"):
            await transport.choose(server.url, f"{near.url}/choice", "c1", 0, "k")
        await transport.close()
    assert inner.seen == []


async def test_development_on_this_machine_needs_no_setting(inner: ToolStub) -> None:
    """A server that is configured by an address of this machine may name others of this machine."""
    server = RapServer(inner.url, timeout=5.0)
    transport = HttpTransport([server])
    await transport.choose(
        server.url, f"http://localhost:{inner.url.rpartition(':')[2]}/choice", "c1", 0, "k"
    )
    with pytest.raises(Refused):
        await transport.choose(server.url, "https://10.0.0.1/choice", "c1", 0, "k")
    await transport.close()
    assert [one.path for one in inner.seen] == ["/choice"]


# ------------------------------------------------------------------ the kit: callback_url


def tool_server(**options: object) -> ToolServer:
    server = ToolServer(
        "kit",
        outbox=":memory:",
        retry=Retry(0.05, 0.05, 0.2, 0.2),
        **options,  # type: ignore[arg-type]
    )

    @server.tool
    def ping() -> str:
        """Answer."""
        return "pong"

    return server


@pytest.mark.parametrize("host", INNER)
async def test_the_kit_calls_back_nothing_inside_where_it_may_not(host: str) -> None:
    async with stub_runtime() as inner, tool_server(allow_private=False).listening() as url:
        port = inner.url.rpartition(":")[2].partition("/")[0]
        async with aiohttp.ClientSession() as http:
            peer = Peer(url, http, f"http://{host}:{port}/cb")
            assert await peer.invoke("ping") in (200, 400)
            await eventually(lambda: _is_idle(peer))
        assert inner.received == []


async def _is_idle(peer: Peer) -> bool:
    """Whether the call is over, with all attempts to tell of it."""
    return not await peer.alive("c-1")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "169.254.169.254", "10.1.2.3", "::1", "::ffff:127.0.0.1", "fe80::1", "64:ff9b::7f00:1"],
)
def test_the_kit_makes_no_socket_to_what_is_private(host: str) -> None:
    """This is asked after names are resolved, for the very address that is connected to."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with pytest.raises(OSError, match="private"):
        _public_socket((family, socket.SOCK_STREAM, 6, "", (host, 80)))


async def test_the_kit_follows_no_redirect() -> None:
    async with stub_runtime() as inner, stub_runtime(otherwise=307) as near:
        near.headers["Location"] = inner.url
        async with tool_server().listening() as url, aiohttp.ClientSession() as http:
            assert await Peer(url, http, near.url).invoke("ping") == 200
            await near.until(lambda received: len(received) >= 1)
        assert inner.received == []
