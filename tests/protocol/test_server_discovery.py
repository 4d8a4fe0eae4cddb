"""What a tool server publishes, and whom it lets in."""

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.protocol.stubs import Peer, talking
from torpor.tools.server import ToolCall, ToolServer


def depots(tmp_path: Path, **options: Any) -> ToolServer:
    server = ToolServer("acme-ops", description="Depots", outbox=tmp_path / "o.db", **options)

    @server.tool(read_only=True, annotations={"x-acme-cost": 3}, display_script='"Stock of " + args.part')
    async def stock_level(part: str, call: ToolCall, depot: str = "north") -> int:
        """Count the units of one part."""
        return len(part)

    @server.tool(destructive=True, long_running=True, idempotent=False, requires_auth="depot")
    def Ping() -> str:  # noqa: N802
        """Answer."""
        return "pong"

    @server.tool
    def ping() -> str:
        """Answer in lower case."""
        return "low pong"

    return server


async def test_the_manifest_is_complete_and_its_endpoint_takes_calls(tmp_path: Path) -> None:
    async with talking(depots(tmp_path)) as (peer, stub):
        manifest = await peer.discover()
        assert manifest["name"] == "acme-ops"
        assert manifest["endpoint"] == f"{peer.base}/invoke"
        assert [tool["name"] for tool in manifest["tools"]] == ["stock_level", "Ping", "ping"]
        stock = manifest["tools"][0]
        assert stock["description"] == "Count the units of one part."
        assert stock["annotations"] == {"readOnly": True, "x-acme-cost": 3}
        assert stock["displayScript"] == '"Stock of " + args.part'
        assert manifest["tools"][1]["annotations"] == {
            "destructive": True,
            "longRunning": True,
            "idempotent": False,
            "requiresAuth": "depot",
        }
        assert "annotations" not in manifest["tools"][2]
        assert await peer.invoke("stock_level", {"part": "M6"}) == 200
        assert (await stub.result("c-1"))["text"] == "2"


async def test_every_published_tool_is_valid(tmp_path: Path) -> None:
    async with talking(depots(tmp_path)) as (peer, _):
        for tool in (await peer.discover())["tools"]:
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,128}", tool["name"])
            assert jsonschema_rs.meta.is_valid(tool["inputSchema"])
            assert tool["inputSchema"]["additionalProperties"] is False
            assert "call" not in tool["inputSchema"]["properties"]


async def test_names_are_case_sensitive(tmp_path: Path) -> None:
    async with talking(depots(tmp_path)) as (peer, stub):
        await peer.invoke("Ping", ident="a")
        await peer.invoke("ping", ident="b")
        await peer.invoke("PING", ident="c")
        assert (await stub.result("a"))["text"] == "pong"
        assert (await stub.result("b"))["text"] == "low pong"
        refused = await stub.result("c")
        assert refused["text"].startswith("Error: unknown operation 'PING'. Known: stock_level, Ping, ping")
        assert refused["is_error"] is True


async def test_a_public_url_goes_into_the_manifest(tmp_path: Path) -> None:
    async with talking(depots(tmp_path, public_url="https://tools.acme.test/depots/")) as (peer, _):
        assert (await peer.discover())["endpoint"] == "https://tools.acme.test/depots/invoke"


NO_TOKENS = [None, "Bearer wrong", "Bearer ", "Basic s3cret", "s3cret", "Bearer s3cret2"]


async def test_without_the_token_nothing_is_answered_and_nothing_happens(tmp_path: Path) -> None:
    async with talking(depots(tmp_path, token="s3cret")) as (peer, stub):
        both = {"thread_id": "th-1", "tool_call_id": "c-1"}
        for given in NO_TOKENS:
            headers = {"Authorization": given} if given else {}
            stranger = Peer(peer.base, peer.http, stub.url, headers=headers)
            for path, body in (
                ("/invoke", stranger.invocation("ping")),
                ("/cancel_tool_call", both),
                ("/close_thread", {"thread_id": "th-1"}),
                ("/tool_call_status", both),
            ):
                status, answer = await stranger.post(path, body)
                assert status == 401
                assert b"s3cret" not in answer
            async with peer.http.get(f"{peer.base}/.well-known/rap-toolset", headers=headers) as asked:
                assert asked.status == 401
        assert await peer.invoke("ping", ident="mine") == 200
        await stub.result("mine")
        assert [one.body["id"] for one in stub.received] == ["mine"]


async def test_a_page_in_a_browser_cannot_call_tools(tmp_path: Path) -> None:
    async with talking(depots(tmp_path)) as (peer, stub):
        for headers in (
            {"Origin": "https://evil.test"},
            {"Origin": "null"},
            {"Host": "evil.test"},
            {"Host": "[x"},
        ):
            status, _ = await peer.post("/invoke", peer.invocation("ping"), headers=headers)
            assert status == 403 or (status == 400 and headers == {"Host": "[x"})
        assert await peer.invoke("ping", ident="after") == 200
        await stub.result("after")
        assert len(stub.received) == 1


async def test_other_paths_and_methods_are_refused(tmp_path: Path) -> None:
    async with talking(depots(tmp_path)) as (peer, _):
        assert (await peer.post("/migrate", {}))[0] == 404
        async with peer.http.get(f"{peer.base}/invoke") as answer:
            assert answer.status == 405


def test_addresses_beyond_this_machine_need_a_token(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="token"):
        depots(tmp_path).run("0.0.0.0")


def test_a_server_without_tools_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no tools"):
        ToolServer("empty", outbox=tmp_path / "o.db").run()


@pytest.mark.parametrize(
    "name", ["with space", "", "a" * 129, "dots.are.special", "cancel_subscription", "ünïcode"]
)
def test_unusable_tool_names_are_refused(tmp_path: Path, name: str) -> None:
    server = ToolServer("x", outbox=tmp_path / "o.db")

    def fine() -> None:
        """Fine."""

    if name:
        with pytest.raises(ValueError, match="tool name"):
            server.tool(name=name)(fine)
    server.tool(fine)
    with pytest.raises(ValueError, match="already"):
        server.tool(fine)


def print_nothing() -> None:
    """Print nothing."""


def test_custom_annotations_are_namespaced(tmp_path: Path) -> None:
    server = ToolServer("x", outbox=tmp_path / "o.db")
    with pytest.raises(ValueError, match="x-yours-cost"):
        server.tool(annotations={"cost": 1})(print_nothing)


@pytest.mark.parametrize(
    "name",
    [
        "sleep", "sleep_until", "sleep_until_event_or_input", "cancel_subscription", "read_result",
        "receive_event__injected",
    ],
)  # fmt: skip
def test_names_that_a_runtime_keeps_for_itself_are_refused_at_once(tmp_path: Path, name: str) -> None:
    server = ToolServer("depots", outbox=str(tmp_path / "outbox.db"))

    def count() -> str:
        """Count."""
        return "1"

    with pytest.raises(ValueError, match="reserved for the runtime"):
        server.tool(name=name)(count)
