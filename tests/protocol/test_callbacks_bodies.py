import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.desk import SERVER, Desk, event, result, subscribed, waiting
from torpor.core.errors import Refused
from torpor.core.messages import By, Image, Segment, Text, text_of
from torpor.tools.catalog import read_manifest
from torpor.tools.protocol import parse_callback
from torpor.tools.strict import Malformed

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 60
PIXELS = base64.b64encode(PNG).decode()


@pytest.fixture
async def desk() -> Desk:
    desk = await Desk().open()
    await desk.thread()
    await desk.thread("other-thread")
    return desk


def bare(**more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "group_id": "T", "id": "call_1", **more}


def choice(**more: Any) -> dict[str, Any]:
    body = {
        "type": "user_choice",
        "group_id": "T",
        "id": "call_1",
        "prompt": "Reorder?",
        "choices": ["Yes", "No"],
        "default": 1,
        "response_url": f"{SERVER}/user_choice_response",
    }
    return {name: value for name, value in {**body, **more}.items() if value is not ...}


MALFORMED: list[object] = [
    b"",
    b" " * 1000,
    b"[]",
    b"{",
    b"null",
    b"7",
    b'"text"',
    b"\xff\xfe",
    b"\xef\xbb\xbf" + json.dumps(result()).encode(),
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"type":"tool_result","group_id":"T","id":"call_1","text":"x","n":NaN}',
    b'{"type":"tool_result","group_id":"T","id":"call_1","text":"x","n":-Infinity}',
    b'{"type":"tool_result","group_id":"T","id":"call_1","text":"x","text":"y"}',
    b'{"type":"tool_result","type":"tool_result","group_id":"T","id":"call_1","text":"x"}',
    b"type=tool_result",
    {},
    {"type": "tool_result"},
    {"type": "tool_result", "group_id": "T"},
    {"type": "nope", "group_id": "T"},
    {"type": "Tool_result", "group_id": "T", "id": "call_1", "text": "x"},
    {"type": ["tool_result"], "group_id": "T", "id": "call_1", "text": "x"},
    {"group_id": "T", "id": "call_1", "text": "x"},
    bare(),
    bare(text=None),
    bare(text=5),
    bare(text={"a": 1}),
    bare(content=[]),
    bare(content="x"),
    bare(content={"type": "text", "text": "x"}),
    bare(content=["x"]),
    bare(content=[{"type": "text"}]),
    bare(content=[{"type": "text", "text": 5}]),
    bare(content=[{"type": "image", "data": PIXELS}]),
    bare(content=[{"type": "image", "content": {"data": PIXELS, "mediaType": "image/png"}}]),
    bare(content=[{"text": "x"}]),
    result(subscription="yes"),
    result(subscription=1),
    result(call_id=7),
    result(display_as="x"),
    result(id=7),
    result(id=""),
    result(id="x" * 257),
    result(id="call_1\n"),
    result(group_id=7),
    result(group_id=None),
    choice(choices=[]),
    choice(choices=["a", 7]),
    choice(choices="ab"),
    choice(choices=...),
    choice(default=2),
    choice(default=-1),
    choice(default=1.0),
    choice(default=True),
    choice(default="1"),
    choice(default=None),
    choice(default=...),
    choice(prompt=...),
    choice(response_url=7),
    {"type": "oauth", "group_id": "T", "id": "call_1"},
    {"type": "oauth", "group_id": "T", "id": "call_1", "auth_url": "http://id.test/x"},
    {"type": "oauth", "group_id": "T", "id": "call_1", "auth_url": "javascript:alert(1)"},
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: str(body)[:60])
async def test_a_malformed_body_is_400_and_settles_its_call_with_an_error(desk: Desk, body: object) -> None:
    outcome = await desk.post(body)
    assert outcome.status == 400
    assert outcome.text
    assert outcome.ring is not None
    [settled] = await desk.results()
    assert (settled.call, settled.is_error, settled.cause) == ("call_1", True, "undelivered")
    assert "malformed" in text_of(settled.parts)
    assert not await desk.inbox("other-thread")


UNSETTLING: list[dict[str, Any]] = [
    event(text=5),  # type: ignore[arg-type]
    {"type": "subscription_event", "group_id": "T", "tool_call_id": "call_1"},
    {"type": "subscription_event", "group_id": "T", "id": "call_1", "text": "x"},
    event(final="yes"),
    event(associative=1),
    event(tool_call_id=7),
    {"type": "view_update", "group_id": "T", "view_type": "diff"},
    {"type": "view_update", "group_id": "T", "view_type": "diff", "content": []},
    {"type": "view_update", "group_id": "T", "view_type": 7, "content": {}},
]


@pytest.mark.parametrize("body", UNSETTLING, ids=lambda body: str(body)[:60])
async def test_a_malformed_event_or_view_is_400_and_settles_nothing(desk: Desk, body: object) -> None:
    assert (await desk.post(body)).status == 400
    assert not await desk.inbox()


CONTRADICTING: list[dict[str, Any]] = [
    result(id="unknown"),
    result(group_id="other-thread"),
    result(group_id="no-such-thread"),
    {"type": "tool_result", "group_id": "other-thread", "id": "call_1"},
    {"type": "tool_result", "group_id": "T", "id": "unknown"},
    {"type": "nope", "group_id": "other-thread"},
    {"group_id": "other-thread"},
    event(group_id="other-thread"),
    event(tool_call_id="unknown"),
    choice(id="unknown"),
    {"type": "view_update", "group_id": "other-thread", "view_type": "diff", "content": {}},
    {"type": "oauth", "group_id": "T", "id": "unknown", "auth_url": "https://id.test/x"},
]


@pytest.mark.parametrize("body", CONTRADICTING, ids=lambda body: str(body)[:70])
async def test_a_body_that_contradicts_its_token_is_403_without_effect(desk: Desk, body: object) -> None:
    outcome = await desk.post(body)
    assert outcome.status == 403
    assert outcome.ring is None
    assert not await desk.inbox()
    assert not await desk.inbox("other-thread")


@pytest.mark.parametrize(
    "body",
    [
        result(call_id=None, content=None, display_as=None, subscription=None),
        result(unknown={"a": [1]}, call_id="fc_22"),
        result(content=[]),
        b'{"type":"tool_result","group_id":"T","id":"call_1","text":"done","x":1,"x":2}',
        json.dumps(result(), indent=2).encode(),
    ],
)
async def test_nulls_unknown_members_and_an_empty_content_do_no_harm(desk: Desk, body: object) -> None:
    assert (await desk.post(body)).status == 200
    [settled] = await desk.results()
    assert settled.parts == (Text("done"),)
    assert not settled.is_error


async def test_a_result_keeps_all_that_it_says_and_where_it_came_from(desk: Desk) -> None:
    body = json.dumps(
        result(
            "12 passed", subscription=True, is_error=True, event_id="e-1", occurred_at="2026-11-29T10:00:00Z"
        )
    ).encode()
    outcome = await desk.post(body)
    assert outcome.status == 200
    [settled] = await desk.results()
    assert (settled.subscription, settled.is_error, settled.event_id) == (True, True, "e-1")
    assert settled.occurred_at == "2026-11-29T10:00:00Z"
    assert settled.cause == ""
    by = settled.by
    assert by == By("tool", SERVER, "callback", "k1", by.body_hash)
    assert settled.id == f"call_1/result/{by.body_hash[:32]}"
    ring = outcome.ring
    assert ring is not None
    assert (ring.thread, ring.tier, ring.owner, ring.agent) == ("T", "async", "o", "a")
    assert ring.start_by == settled.at + 60


async def test_content_wins_over_text_and_keeps_its_order(desk: Desk) -> None:
    content = [
        {"type": "text", "text": "one"},
        {"type": "image", "data": PIXELS, "mediaType": "image/png", "x": 1},
        {"type": "video", "url": "x"},
        {"type": "text", "text": "two"},
    ]
    await desk.post(result("not this", content=content))
    [settled] = await desk.results()
    assert settled.parts == (
        Text("one"),
        Image(PIXELS, "image/png"),
        Text("[an item of the unknown type 'video' left out]"),
        Text("two"),
    )


@pytest.mark.parametrize("content", ["x", [{"type": "text"}], [7], {"a": 1}])
async def test_an_unusable_content_falls_back_to_the_text(desk: Desk, content: object) -> None:
    assert (await desk.post(result("fine", content=content))).status == 200
    [settled] = await desk.results()
    assert settled.parts == (Text("fine"),)


@pytest.mark.parametrize(
    ("data", "media_type", "kept"),
    [
        (PIXELS, "image/jpeg", Image(PIXELS, "image/png")),
        ("not base64!", "image/png", Text("[image left out: it is not valid base64]")),
        (PIXELS + "\n", "image/png", Text("[image left out: it is not valid base64]")),
        ("aGVsbG8=", "image/png", Text("[image left out: its bytes are no PNG, JPEG, GIF or WebP image]")),
        ("", "image/png", Text("[image left out: its bytes are no PNG, JPEG, GIF or WebP image]")),
    ],
)
async def test_an_image_is_what_its_bytes_say(desk: Desk, data: str, media_type: str, kept: object) -> None:
    await desk.post(bare(content=[{"type": "image", "data": data, "mediaType": media_type}]))
    [settled] = await desk.results()
    assert settled.parts == (kept,)


async def test_a_huge_image_is_replaced_by_a_line(desk: Desk) -> None:
    data = base64.b64encode(PNG + b"\x00" * 6_500_000).decode()
    await desk.post(bare(content=[{"type": "image", "data": data, "mediaType": "image/png"}]))
    [settled] = await desk.results()
    assert text_of(settled.parts).startswith("[image left out: it has 6500")


async def test_segments_are_kept_for_people_and_unknown_ones_skipped(desk: Desk) -> None:
    segments = [
        {"type": "markdown", "content": "# hi"},
        {"type": "text", "content": "12 passed"},
        {"type": "text", "content": {"x": 1}},
        {"type": ["text"], "content": "x"},
        {"type": "diff", "content": {"path": "a", "patch": "-4\n+5"}},
        {"type": "diff", "content": "x"},
        {"type": "image", "content": {"data": PIXELS, "mediaType": "image/png"}},
        {"type": "image", "data": PIXELS, "mediaType": "image/png"},
        {"type": "text", "content": "x" * 100_000},
        "text",
    ]
    await desk.post(result("whole", display_as=segments))
    [settled] = await desk.results()
    assert settled.parts == (Text("whole"),)
    assert [segment.type for segment in settled.display] == ["text", "diff", "image"]
    assert settled.display[0] == Segment("text", '"12 passed"')


async def test_text_with_nul_escapes_and_lone_surrogates_is_kept_encodable(desk: Desk) -> None:
    assert (await desk.post(result("a\x00b\x1b[31m \ud800 \U0001f600"))).status == 200
    [settled] = await desk.results()
    assert settled.parts == (Text("a\x00b\x1b[31m \ufffd \U0001f600"),)


async def test_a_large_result_keeps_its_beginning_and_the_whole_is_stored(desk: Desk) -> None:
    text = "é" * 1_000_000
    assert (await desk.post(result(text))).status == 200
    [settled] = await desk.results()
    assert settled.parts == (Text("é" * 16_000),)
    assert settled.size == 1_000_000
    assert await desk.store.get_blob("T", settled.handle) == text.encode()
    assert await desk.store.get_blob("other-thread", settled.handle) is None


async def test_an_event_keeps_all_that_it_says(desk: Desk) -> None:
    body = event(
        "x" * 20_000,
        associative=True,
        final=True,
        event_id="e1",
        seq=7,
        occurred_at="2026-11-29T10:00:00Z",
        natural_key=None,
    )
    assert (await desk.post(body)).status == 200
    [happened] = await desk.events()
    assert (happened.final, happened.associative, happened.seq) == (True, True, 7)
    assert (happened.id, happened.event_id) == ("call_1/event/e1", "e1")
    assert (happened.size, len(text_of(happened.parts))) == (20_000, 16_000)
    assert happened.by.verified == "callback"


@pytest.mark.parametrize("seq", [0, -1, 1.0, True, "1", None, 2**60])
async def test_a_malformed_number_counts_as_none(desk: Desk, seq: object) -> None:
    assert (await desk.post(event(seq=seq))).status == 200
    assert (await desk.events())[0].seq == 0


@pytest.mark.parametrize("event_id", ["", "x" * 129, "a\nb", 7, None])
async def test_a_malformed_event_id_counts_as_none(desk: Desk, event_id: object) -> None:
    assert (await desk.post(event(event_id=event_id))).status == 200
    [happened] = await desk.events()
    assert happened.event_id == ""
    assert happened.id.startswith("call_1/fresh/")


async def test_a_body_over_the_limit_is_413_and_settles_its_call() -> None:
    desk = await Desk({"body_limit": 1_000}).open()
    await desk.thread()
    outcome = await desk.post(b" " * 5_000_000)
    assert outcome.status == 413
    [settled] = await desk.results()
    assert settled.is_error
    assert "1,000 bytes" in text_of(settled.parts)
    assert (await desk.callbacks.too_large(desk.keys.mint("T", "call_1"))).status == 413
    assert len(await desk.results()) == 1


async def test_a_malformed_body_for_a_settled_call_settles_nothing(desk: Desk) -> None:
    await desk.becomes("T", subscriptions={"call_1": subscribed()})
    outcome = await desk.post(b"{")
    assert (outcome.status, outcome.ring) == (400, None)
    assert not await desk.inbox()


async def test_the_right_result_after_a_malformed_one_is_still_taken(desk: Desk) -> None:
    assert (await desk.post(b"{")).status == 400
    await desk.becomes("T", ("call_1/unusable",), detached={"call_1": waiting(given_up="undelivered")})
    assert (await desk.post(result())).status == 200
    [settled] = await desk.results()
    assert settled.parts == (Text("done"),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["type", "group_id", "id", "tool_call_id", "call_id", "text", "content", "display_as", "subscription"]
NAMES += ["associative", "final", "seq", "event_id", "occurred_at", "natural_key", "is_error", "auth_url"]
NAMES += ["prompt", "choices", "default", "response_url", "view_type"]
TYPES = ("tool_result", "subscription_event", "oauth", "user_choice", "view_update")


@settings(max_examples=150, deadline=None)
@given(
    type=st.sampled_from(TYPES),
    odd=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
    items=st.lists(
        st.dictionaries(st.sampled_from(["type", "text", "data", "mediaType", "content"]), JSON), max_size=2
    ),
)
def test_no_body_raises_or_reaches_another_thread(type: str, odd: dict[str, Any], items: list[Any]) -> None:
    body = {"type": type, "group_id": "T", "id": "call_1", "content": items, "display_as": items, **odd}

    async def hand_in() -> None:
        desk = await Desk().open()
        await desk.thread()
        await desk.thread("U")
        outcome = await desk.post(json.dumps(body).encode())
        assert outcome.status in {200, 400, 403}
        assert all(signal.thread == "T" for signal in await desk.inbox())
        assert (outcome.status == 403) <= (not await desk.inbox())
        assert not await desk.inbox("U")

    asyncio.run(hand_in())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_bytes_raise(body: bytes) -> None:
    with pytest.raises(Malformed):
        parse_callback(body)
    with pytest.raises(Refused):
        read_manifest(body)
