"""Results of MCP tools, as parts that models read."""

import base64
import hashlib
from typing import Any

import pytest
from mcp_types import CallToolResult, InputRequiredResult

from torpor.core.messages import Image, Text, text_of
from torpor.tools.mcp.content import MOST_BLOCKS, outcome, result_parts
from torpor.tools.mcp.faults import Declined
from torpor.tools.mcp.session import Task
from torpor.tools.results import Bounded

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 50).decode()
WAV = b"RIFF0000WAVE" + b"1" * 50


async def parts(raw: dict[str, Any], blobs: dict[str, bytes] | None = None) -> Bounded:
    kept = {} if blobs is None else blobs

    async def put(handle: str, body: bytes) -> None:
        kept[handle] = body

    result = outcome(raw)
    assert isinstance(result, CallToolResult)
    return await result_parts(result, put)


async def text(*content: Any, **more: Any) -> str:
    return text_of((await parts({"content": list(content), **more})).parts)


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def test_text_and_images_stay_what_they_are() -> None:
    image = {"type": "image", "data": PNG, "mimeType": "image/jpeg"}
    found = await parts({"content": [words("a"), image, words("b\ud800")]})
    assert found.parts == (Text("a"), Image(PNG, "image/png"), Text("b\ufffd"))


async def test_sounds_and_files_are_kept_and_named() -> None:
    blobs: dict[str, bytes] = {}
    data = base64.b64encode(WAV).decode()
    held = {"uri": "file:///a.bin", "blob": data, "mimeType": "application/x-thing"}
    svg = {"type": "image", "data": base64.b64encode(b"<svg/>").decode(), "mimeType": "image/svg+xml"}
    content = [
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource", "resource": held},
        svg,
    ]
    found = await parts({"content": content}, blobs)
    handle = hashlib.sha256(WAV).hexdigest()[:32] + "b"
    assert blobs == {handle: WAV, hashlib.sha256(b"<svg/>").hexdigest()[:32] + "b": b"<svg/>"}
    assert found.parts[:2] == (
        Text(f"[a sound: audio/wav, 62 bytes, kept under the handle {handle}]"),
        Text(f"[resource file:///a.bin: application/x-thing, 62 bytes, kept under the handle {handle}]"),
    )


async def test_embedded_resources_are_shown_with_their_uri() -> None:
    held = {"uri": "file:///a.txt", "text": "content", "mimeType": "text/plain"}
    assert await text({"type": "resource", "resource": held}) == "[resource file:///a.txt]\ncontent"
    found = await parts({"content": [{"type": "resource", "resource": {"uri": "x:/y", "blob": PNG}}]})
    assert found.parts == (Image(PNG, "image/png"),)


async def test_links_are_text() -> None:
    link = {"type": "resource_link", "uri": "db://row/1", "name": "row", "mimeType": "a/b", "size": 1234}
    assert await text({**link, "description": "a\nrow"}) == (
        "[link to the resource 'row': db://row/1, a/b, 1,234 bytes: a row]"
    )


@pytest.mark.parametrize(
    ("texts", "structured", "added"),
    [
        ([], {"a": 1}, '{"a":1}'),
        (['{"a": 1}'], {"a": 1}, ""),
        (["sunny"], {"result": "sunny"}, ""),
        (["sunny"], {"content": "sunny"}, ""),
        (["sunny"], {"content": "sunny", "more": 1}, '{"content":"sunny","more":1}'),
        (["1", "2"], {"result": [1, 2]}, ""),
        (["one", "two"], ["one", "two"], ""),
        (["A summary."], {"a": 1}, '{"a":1}'),
        (["x"], [1], "[1]"),
    ],
)
async def test_structured_content_is_added_when_no_text_says_it(
    texts: list[str], structured: Any, added: str
) -> None:
    found = await text(*map(words, texts), structuredContent=structured)
    assert found == "\n".join([*texts, added] if added else texts)


async def test_an_empty_result_says_so() -> None:
    assert await text() == "(no result)"


@pytest.mark.parametrize(
    "piece",
    [
        {"type": "smell", "data": "rose"},
        {"type": "text"},
        {"type": "image", "data": "%%%", "mimeType": "image/png"},
        {"type": "audio", "data": "%%%", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "x:/y"}},
        5,
        None,
    ],
)
async def test_a_piece_that_breaks_the_rules_costs_only_itself(piece: Any) -> None:
    found = await text(piece, words("good"))
    assert "left out" in found
    assert found.endswith("good")


async def test_a_bare_text_is_taken() -> None:
    assert await text("plain", {"type": "odd", "text": "words"}) == "plain\nwords"


async def test_mcp_10_long_results_are_kept_whole_under_a_handle() -> None:
    blobs: dict[str, bytes] = {}
    found = await parts({"content": [words("y" * 400_000)], "structuredContent": {"a": "z" * 400_000}}, blobs)
    assert len(text_of(found.parts)) <= 16_000
    assert len(blobs[found.handle]) == found.size > 800_000


async def test_many_blobs_are_bounded() -> None:
    blobs: dict[str, bytes] = {}
    sounds = [
        {"type": "audio", "data": base64.b64encode(bytes([number])).decode(), "mimeType": "a/b"}
        for number in range(60)
    ]
    assert "one result keeps 20 of them" in text_of((await parts({"content": sounds}, blobs)).parts)
    assert len(blobs) == 20


def test_an_error_of_the_tool_stays_one() -> None:
    failed = outcome({"content": [words("no")], "isError": True})
    assert isinstance(failed, CallToolResult)
    assert failed.is_error


OLD = {"taskId": "t", "status": "working", "statusMessage": "at it", "pollInterval": 2_000, "ttl": 60_000}
NEW = {"taskId": "t", "status": "working", "statusMessage": "at it", "pollIntervalMs": 2_000, "ttlMs": 60_000}


@pytest.mark.parametrize("raw", [{"task": OLD}, {"resultType": "task", **NEW}, {"task": NEW}])
def test_a_task_of_either_era_is_known(raw: dict[str, Any]) -> None:
    assert outcome(raw) == Task("t", "working", "at it", poll=2.0, ttl=60.0)


@pytest.mark.parametrize(("poll", "seconds"), [(0, 0.5), (10**12, 300.0), ("x", 5.0), (-1, 5.0), (True, 5.0)])
def test_a_tasks_pause_is_bounded(poll: Any, seconds: float) -> None:
    task = outcome({"task": {"taskId": "t", "status": 5, "pollInterval": poll}})
    assert isinstance(task, Task)
    assert (task.poll, task.status) == (seconds, "working")


def test_what_a_server_asks_for_is_a_result_too() -> None:
    asked = outcome({"resultType": "input_required", "requestState": "s"})
    assert isinstance(asked, InputRequiredResult)
    assert asked.request_state == "s"


@pytest.mark.parametrize(
    "raw", [{}, {"weather": "fine"}, {"resultType": "input_required"}, {"inputRequests": 5}]
)
def test_what_makes_no_sense_is_declined(raw: dict[str, Any]) -> None:
    with pytest.raises(Declined):
        outcome(raw)


def test_of_very_many_pieces_the_rest_is_left_out_and_named() -> None:
    found = outcome({"content": [words("a")] * (MOST_BLOCKS + 500)})
    assert isinstance(found, CallToolResult)
    assert len(found.content) == MOST_BLOCKS + 1
    assert "500 more pieces of content" in getattr(found.content[-1], "text", "")
