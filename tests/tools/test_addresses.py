import socket
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.protocol.tool_stub import tool_stub
from torpor.core.errors import Refused, Unavailable
from torpor.tools.addresses import check_url, is_public, literal, reach
from torpor.tools.catalog import RapServer
from torpor.tools.client import HttpTransport


class Names(AbstractResolver):
    """Knows a few names; a list of addresses is given one after the other."""

    def __init__(self, **known: list[str]) -> None:
        self.known = {name.replace("_", "."): addresses for name, addresses in known.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self.known[host]
        found = addresses.pop(0) if len(addresses) > 1 else addresses[0]
        return [ResolveResult(hostname=host, host=found, port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        pass


def facts() -> dict[str, Any]:
    return {"name": "ping", "arguments": "{}", "call": "c1", "thread": "t1", "callback": "https://rt.test/c"}


async def invoked(server: RapServer, endpoint: str, names: Names | None = None) -> None:
    transport = HttpTransport([server], resolver=names)
    try:
        await transport.invoke(server.url, endpoint, facts(), "k")
    finally:
        await transport.close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.5",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.5",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    found = literal(address)
    assert found is not None
    assert not is_public(found)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_that_are_public(address: str) -> None:
    found = literal(address)
    assert found is not None
    assert is_public(found)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://169.254.169.254/x",
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "http://[::ffff:127.0.0.1]:1/",
        "https://10.0.0.5/",
        "https://0.0.0.0/",
        "ftp://h/",
        "file:///etc/passwd",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://user:pass@tools.test/",
        "https://tools.test/#x",
        "https://[::1/",
        "https://tools.test:99999/",
        "/invoke",
        "",
    ],
)
async def test_a_public_server_cannot_send_us_where_only_we_can_go(endpoint: str) -> None:
    names = Names(tools_test=["127.0.0.1"])
    names.known.update({name: ["127.0.0.1"] for name in ("2130706433", "0x7f000001", "127.1")})
    with pytest.raises((Refused, Unavailable)) as caught:
        await invoked(RapServer("https://tools.test"), endpoint, names)
    assert isinstance(caught.value, Refused)


async def test_a_public_name_that_leads_home_is_refused_at_the_connection() -> None:
    async with tool_stub() as stub:
        port = stub.url.rsplit(":", 1)[1]
        server = RapServer(f"http://rebind.test:{port}", allow_http=True)
        names = Names(rebind_test=["127.0.0.1"])
        with pytest.raises(Refused, match="not public"):
            await invoked(server, f"http://rebind.test:{port}/invoke", names)
        assert not stub.seen
        assert names.asked == ["rebind.test"]


async def test_the_address_is_judged_each_time_it_is_looked_up() -> None:
    async with tool_stub() as stub:
        port = stub.url.rsplit(":", 1)[1]
        url = f"http://rebind.test:{port}"
        names = Names(rebind_test=["10.0.0.5", "127.0.0.1"])
        transport = HttpTransport([RapServer(url, allow_http=True)], resolver=names)
        for _ in range(2):
            with pytest.raises(Refused, match="not public"):
                await transport.invoke(url, f"{url}/invoke", facts(), "k")
        await transport.close()
        assert not stub.seen
        assert names.asked == ["rebind.test", "rebind.test"]


async def test_a_redirect_home_is_not_followed() -> None:
    async with tool_stub() as stub:
        stub.script["/invoke"] = [web.Response(status=302, headers={"Location": f"{stub.url}/inner"})]
        with pytest.raises(Refused, match="redirects are not followed"):
            await invoked(RapServer(stub.url), f"{stub.url}/invoke")
        assert [one.path for one in stub.seen] == ["/invoke"]


async def test_one_private_host_can_be_allowed() -> None:
    async with tool_stub() as stub:
        port = stub.url.rsplit(":", 1)[1]
        url = f"http://tools.test:{port}"
        server = RapServer(url, allow_http=True, private_hosts=("tools.test",))
        await invoked(server, f"{url}/invoke", Names(tools_test=["127.0.0.1"]))
        with pytest.raises(Refused):
            await invoked(server, f"http://other.test:{port}/invoke", Names(other_test=["127.0.0.1"]))
        assert len(stub.seen) == 1


async def test_what_one_server_may_reach_another_may_not() -> None:
    async with tool_stub() as stub:
        local, public = RapServer(stub.url), RapServer("https://tools.test")
        transport = HttpTransport([local, public], resolver=Names(tools_test=["198.51.100.1"]))
        await transport.invoke(local.url, f"{stub.url}/invoke", facts(), "k")
        with pytest.raises(Refused):
            await transport.invoke(public.url, f"{stub.url}/invoke", facts(), "k")
        await transport.close()
        assert len(stub.seen) == 1


async def test_localhost_and_its_addresses_are_one_place() -> None:
    async with tool_stub() as stub:
        named = stub.url.replace("127.0.0.1", "localhost")
        await invoked(RapServer(named), f"{stub.url}/invoke")
        await invoked(RapServer(stub.url), f"{named}/invoke", Names(localhost=["127.0.0.1"]))
        assert len(stub.seen) == 2


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8801", {"127.0.0.1", "localhost"}),
        ("http://[::1]:8801", {"::1", "localhost"}),
        ("https://10.0.0.5", {"10.0.0.5"}),
        ("https://tools", {"tools"}),
        ("https://tools.internal", {"tools.internal"}),
        ("https://tools.example.com", set()),
        ("https://8.8.8.8", set()),
    ],
)
def test_a_server_may_be_private_where_its_own_url_says_so(url: str, private: set[str]) -> None:
    assert reach(url) == private


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost/x?y", True),
        ("http://a.localhost/", True),
        ("https://tools.test/a", True),
        ("http://tools.test/a", False),
        ("http://10.0.0.1/a", False),
        ("https://tools.test/a b", False),
        ("https://tools.test/a\n", False),
        ("https:///x", False),
        ("ws://tools.test", False),
    ],
)
def test_urls_that_requests_may_go_to(url: str, fits: bool) -> None:
    if fits:
        check_url(url, allow_http=False, what="It")
    else:
        with pytest.raises(Refused, match=r"^It must"):
            check_url(url, allow_http=False, what="It")
