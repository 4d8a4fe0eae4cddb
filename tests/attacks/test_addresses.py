"""Addresses that are not what they seem: what is checked must be what is connected to."""

import pytest

from tests.protocol.tool_stub import tool_stub
from torpor.core.errors import Refused
from torpor.tools.catalog import RapServer
from torpor.tools.client import HttpTransport

FACTS = {"name": "ping", "arguments": "{}", "call": "c1", "thread": "t1", "callback": "https://rt.test/c"}


@pytest.mark.parametrize(
    "host",
    [
        "\uff11\uff12\uff17.0.0.1",
        "\u2460\u2461\u2466.0.0.1",
        "127\u30020\u30020\u30021",
        "2130706433",
        "127.1",
        "0x7f000001",
        "127.0.0.1.",
    ],
)
async def test_no_spelling_of_an_inner_address_is_connected_to(host: str) -> None:
    async with tool_stub() as inner:
        port = inner.url.rpartition(":")[2]
        server = RapServer("https://tools.example.com", allow_http=True, timeout=5.0)
        transport = HttpTransport([server])
        try:
            with pytest.raises(Refused):
                await transport.invoke(server.url, f"http://{host}:{port}/invoke", FACTS, "k")
        finally:
            await transport.close()
        assert inner.seen == []
