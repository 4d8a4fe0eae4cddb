"""Taking calls: the acknowledgement, what is refused and how, repeats, and results."""

import asyncio
import base64
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import Peer, talking
from torpor.tools.server import Content, Diff, Image, Text, ToolCall, ToolError, ToolServer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SECRET = "hunter2"


@dataclass
class Part:
    name: str
    units: int = 1


class Shop:
    """A server whose tools can be held and counted."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.server = ToolServer("shop", outbox=path / "o.db", **options)
        self.gate = asyncio.Event()
        self.runs: list[ToolCall] = []
        for function in (self.held, self.plain, self.order, self.fails, self.picture, self.values):
            self.server.tool(function)

    async def held(self, call: ToolCall) -> str:
        """Wait for the gate."""
        self.runs.append(call)
        await self.gate.wait()
        return "released"

    def plain(self, call: ToolCall) -> str:
        """Say which thread of the process this is."""
        self.runs.append(call)
        return threading.current_thread().name

    async def order(self, parts: list[Part], note: str | None = None) -> dict[str, int]:
        """Order parts."""
        return {part.name: part.units for part in parts}

    async def fails(self, how: str) -> None:
        """Fail in some way."""
        errors: dict[str, BaseException] = {
            "said": ToolError("no such depot. Use north or south"),
            "value": ValueError("part 'x' is not numbered"),
            "bug": AttributeError(f"'Depot' object has no attribute '{SECRET}'"),
            "file": FileNotFoundError(2, "No such file or directory", "/srv/private/depot.txt"),
            "path": RuntimeError(
                "cannot read /srv/private/depot.txt from 10.1.2.3:5432 or http://db.local/x\nmore"
            ),
            "empty": RuntimeError(),
            "exit": SystemExit(3),
        }
        raise errors[how]

    async def picture(self) -> Content:
        """Show a picture."""
        return Content([Image(PNG, "image/png")], display=[Diff("a.txt", "+1"), Image(PNG, "image/png")])

    async def values(self, which: str) -> Any:
        """Give a value."""
        return {
            "none": None,
            "text": "tëxt \ud800!",
            "huge": 10**30,
            "float": 1.5,
            "odd": object(),
            "parts": Content([Text("a"), "b"]),
        }[which]


async def test_the_acknowledgement_does_not_wait_and_comes_before_any_callback(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with talking(shop.server) as (peer, stub):
        before = time.monotonic()
        assert await peer.invoke("held") == 200
        acknowledged = time.monotonic()
        assert acknowledged - before < 2.0
        assert stub.received == []
        assert await peer.alive("c-1") is True
        shop.gate.set()
        assert (await stub.result("c-1"))["text"] == "released"
        assert stub.received[0].at > acknowledged


async def test_results_echo_the_ids_and_are_proper_json_posts(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with talking(shop.server) as (peer, stub):
        await peer.invoke("plain", None, "a", call_id="fc_22", thread_ancestors=["root"], user_id="u-19", x=1)
        await peer.invoke("plain", None, "b", call_id=None, thread_ancestors=None, user_id=None)
        first, second = await stub.result("a"), await stub.result("b")
        assert first["type"] == "tool_result"
        assert first["group_id"] == "th-1"
        assert first["call_id"] == "fc_22"
        assert "call_id" not in second
        assert first["text"] == "tool-plain"
        assert all(one.headers["Content-Type"] == "application/json" for one in stub.received)
        assert None not in first.values()
        call = next(call for call in shop.runs if call.id == "a")
        assert (call.thread, call.ancestors, call.user_id) == ("th-1", ("root",), "u-19")
        assert next(call for call in shop.runs if call.id == "b").user_id is None


async def test_arguments_are_typed_and_structured_results_are_json(tmp_path: Path) -> None:
    async with talking(Shop(tmp_path).server) as (peer, stub):
        await peer.invoke("order", {"parts": [{"name": "Mütter", "units": 2.0}, {"name": "M8"}]})
        assert json.loads((await stub.result("c-1"))["text"]) == {"Mütter": 2, "M8": 1}


REFUSED = [
    ("order", {}, '"parts" is a required property'),
    ("order", {"parts": "many"}, "at parts"),
    ("order", {"parts": [{"name": 3}]}, "at parts/0/name"),
    ("order", {"parts": [], "extra": 1}, "extra"),
    ("order", [], "arguments must be a JSON object"),
    ("order", "text", "arguments must be a JSON object"),
    ("plain", {"call": {}}, "call"),
    ("nonsense", {}, "unknown operation 'nonsense'. Known: held"),
    ("", {}, "operation must be the name of a tool"),
    (None, {}, "operation must be the name of a tool"),
]


async def test_what_cannot_run_is_acknowledged_and_answered_with_an_error(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with talking(shop.server) as (peer, stub):
        for number, (operation, arguments, told) in enumerate(REFUSED):
            assert await peer.invoke(operation, arguments, f"c-{number}") == 200
            result = await stub.result(f"c-{number}")
            assert result["type"] == "tool_result"
            assert result["text"].startswith("Error: ")
            assert told in result["text"]
        assert shop.runs == []


TOLD = [
    ("said", "Error: no such depot. Use north or south"),
    ("value", "Error: part 'x' is not numbered"),
    ("bug", "Error: the tool has a mistake (AttributeError); repeating the call will not help"),
    ("file", "Error: No such file or directory"),
    ("path", "Error: cannot read [hidden] from [hidden] or [hidden]"),
    ("empty", "Error: the tool failed (RuntimeError)"),
    ("exit", "Error: the tool tried to end the server"),
]


async def test_failures_are_told_without_internals(tmp_path: Path) -> None:
    async with talking(Shop(tmp_path).server) as (peer, stub):
        for how, told in TOLD:
            await peer.invoke("fails", {"how": how}, how)
            result = await stub.result(how)
            assert result["text"] == told
            assert result["is_error"] is True


RETURNED: list[tuple[str, dict[str, Any]]] = [
    ("none", {"text": "Done."}),
    ("text", {"text": "tëxt \ufffd!"}),
    ("float", {"text": "1.5"}),
    ("huge", {"text": "1" + "0" * 30}),
    ("odd", {"text": "Error: the tool worked, but its result (a object) has no JSON form"}),
    ("parts", {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
]


async def test_what_a_tool_returns_becomes_text_or_content(tmp_path: Path) -> None:
    async with talking(Shop(tmp_path).server) as (peer, stub):
        for which, members in RETURNED:
            await peer.invoke("values", {"which": which}, which)
            result = await stub.result(which)
            assert {key: result[key] for key in members} == members


async def test_images_are_led_by_a_text_and_displays_end_with_one(tmp_path: Path) -> None:
    async with talking(Shop(tmp_path).server) as (peer, stub):
        await peer.invoke("picture")
        result = await stub.result("c-1")
        image = {"data": base64.b64encode(PNG).decode(), "mediaType": "image/png"}
        caption = f"Image (image/png, {len(PNG)} bytes)."
        assert result["content"] == [{"type": "text", "text": caption}, {"type": "image", **image}]
        assert result["display_as"] == [
            {"type": "diff", "content": {"path": "a.txt", "patch": "+1"}},
            {"type": "image", "content": image},
            {"type": "text", "content": caption},
        ]


async def test_unreadable_calls_are_refused_at_once(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with talking(shop.server) as (peer, stub):
        whole = peer.invocation("plain")

        def without(name: str, **more: Any) -> bytes:
            return json.dumps(
                {**{key: value for key, value in whole.items() if key != name}, **more}
            ).encode()

        text = json.dumps(whole).encode()
        for body in (
            b"",
            b"not json",
            b"[]",
            b"null",
            b"\xef\xbb\xbf" + text,
            text.replace(b"{}", b"NaN"),
            text.replace(b"{}", b'{"a": 1e999}'),
            text.replace(b'"id"', b'"id": "other", "id"'),
            text.replace(b"plain", b"pl\xffin"),
            b"[" * 100_000,
            without("id"),
            without("group_id"),
            without("callback_url"),
            without("id", id=7),
            without("id", id=""),
            without("id", id="a\u0000b"),
            without("id", id="\ud800"),
            without("id", id="x" * 257),
            without("group_id", group_id=None),
            without("callback_url", callback_url="ftp://127.0.0.1/x"),
            without("callback_url", callback_url="/relative"),
            without("callback_url", callback_url="http://"),
            without("callback_url", callback_url="http://127.0.0.1:99999/"),
            without("callback_url", callback_url="http://127.0.0.1/a b"),
            without("callback_url", callback_url="file:///etc/passwd"),
        ):
            assert (await peer.post("/invoke", body))[0] == 400, body[:80]
        assert (await peer.post("/invoke", b"{" + b" " * 3_000_000 + b"}"))[0] == 413
        assert shop.runs == []
        await peer.invoke("plain", ident="fine")
        await stub.result("fine")
        assert len(stub.received) == 1


def names_in(path: Path) -> list[str]:
    return [one.name for one in path.iterdir()]


async def test_hostile_ids_are_only_ids(tmp_path: Path) -> None:
    async with talking(Shop(tmp_path).server) as (peer, stub):
        for ident in ("../../x", "a/b", ";rm -rf", "' OR 1=1 --", "${x}", "<b>", "é" * 256):
            peer.thread = ident[::-1]
            await peer.invoke("plain", ident=ident)
            assert (await stub.result(ident))["group_id"] == ident[::-1]
            assert await peer.cancel(ident) == (200, b"")
            assert await peer.close() == (200, b"")
    assert names_in(tmp_path) == ["o.db"]


async def test_a_repeat_runs_nothing_and_gets_the_stored_result(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.gate.set()
    async with talking(shop.server) as (peer, stub):
        for _ in range(3):
            assert await peer.invoke("held", None, "c-1") == 200
        await stub.count(1)
        before = len(stub.received)
        assert await peer.invoke("held", None, "c-1") == 200
        await stub.count(before + 1)
        assert len(shop.runs) == 1
        assert {one.raw for one in stub.received} == {stub.received[0].raw}


async def test_a_repeat_of_a_running_call_gets_one_result(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with talking(shop.server) as (peer, stub):
        await asyncio.gather(*(peer.invoke("held", None, "c-1") for _ in range(5)))
        shop.gate.set()
        await stub.result("c-1")
        await peer.invoke("plain", ident="last")
        await stub.result("last")
        assert len(shop.runs) == 2
        assert [one.body["id"] for one in stub.received] == ["c-1", "last"]


@pytest.mark.parametrize("in_header", [True, False])
async def test_the_idempotency_key_finds_a_repeat_under_another_id(tmp_path: Path, in_header: bool) -> None:
    shop = Shop(tmp_path)
    async with talking(shop.server) as (peer, stub):

        async def ask(ident: str, arguments: Any = None) -> None:
            headers = {"Idempotency-Key": "k-1"} if in_header else {}
            member = {} if in_header else {"idempotency_key": "k-1"}
            body = peer.invocation("held", arguments, ident, **member)
            assert (await peer.post("/invoke", body, headers=headers))[0] == 200

        await ask("a")
        await ask("b")
        assert await peer.alive("b") is True
        shop.gate.set()
        first, second = await stub.result("a"), await stub.result("b")
        assert first["text"] == second["text"] == "released"
        await ask("c")
        assert (await stub.result("c"))["text"] == "released"
        assert [call.key for call in shop.runs] == ["k-1"]
        await ask("d", {"other": True})
        assert "belongs to a different call" in (await stub.result("d"))["text"]
        assert len(shop.runs) == 1


async def test_keys_count_within_their_thread(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.gate.set()
    async with talking(shop.server) as (peer, stub):
        await peer.invoke("held", None, "a", idempotency_key="k")
        other = Peer(peer.base, peer.http, peer.callback_url, thread="th-2")
        await other.invoke("held", None, "b", idempotency_key="k")
        await stub.count(2)
        assert len(shop.runs) == 2


async def test_without_a_key_the_pair_is_the_key(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    async with talking(shop.server) as (peer, stub):
        await peer.invoke("plain", None, "a", idempotency_key=17)
        await stub.result("a")
        assert shop.runs[0].key == "th-1/a"


async def test_a_tool_that_hangs_ends_with_an_error(tmp_path: Path) -> None:
    server = ToolServer("slow", outbox=tmp_path / "o.db", grace=0.05)
    never = asyncio.Event()

    @server.tool(timeout=0.05)
    async def hangs() -> None:
        """Never end."""
        await never.wait()

    @server.tool(timeout=0.05)
    async def stubborn() -> None:
        """Never end, not even when asked to."""
        while not never.is_set():
            try:
                await never.wait()
            except asyncio.CancelledError:
                continue

    async with talking(server) as (peer, stub):
        await peer.invoke("hangs", ident="a")
        await peer.invoke("stubborn", ident="b")
        for ident in ("a", "b"):
            text = (await stub.result(ident))["text"]
            assert text == "Error: timed out after 0.05 s. Ask for less at once, or try again later"
            assert await peer.alive(ident) is False
        never.set()


async def test_the_deadline_of_a_call_is_kept(tmp_path: Path) -> None:
    shop = Shop(tmp_path, grace=0.1)
    async with talking(shop.server) as (peer, stub):
        await peer.invoke("held", deadline="2020-01-01T00:00:00Z")
        assert (await stub.result("c-1"))["text"].startswith("Error: timed out after 0 s")
        await peer.invoke("plain", None, "c-2", deadline="tomorrow, perhaps")
        assert (await stub.result("c-2"))["text"] == "tool-plain"


async def test_no_more_calls_than_there_is_room_for(tmp_path: Path) -> None:
    shop = Shop(tmp_path, most_running=2)
    async with talking(shop.server) as (peer, stub):
        assert await peer.invoke("held", ident="a") == 200
        assert await peer.invoke("held", ident="b") == 200
        assert await peer.invoke("held", ident="c") == 503
        shop.gate.set()
        await stub.count(2)
        assert await peer.invoke("held", ident="c") == 200
        await stub.result("c")
        assert len(shop.runs) == 3
