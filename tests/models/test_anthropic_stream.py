"""Shapes of the Messages API's stream."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.models.events import anthropic_events, event, message_start, typed
from tests.models.replay import Reply, replaying
from torpor.core.chunks import (
    AnyChunk,
    CallDelta,
    CallStart,
    ReasoningDelta,
    ReasoningDone,
    Stop,
    TextDelta,
)
from torpor.core.errors import ModelRefused, Unavailable
from torpor.core.messages import Usage
from torpor.core.request import Attempt
from torpor.models import Anthropic
from torpor.testing.model_contract import ASKED, TWO_CALLS, calls_in, stop_in, text_in

pytestmark = pytest.mark.usefixtures("no_keys")


@contextlib.asynccontextmanager
async def asked(*replies: Reply, **options: Any) -> AsyncIterator[Callable[[], Awaitable[list[AnyChunk]]]]:
    """A way to ask once for each of the replies, over one client (making one is slow)."""
    async with replaying(*replies) as replay:
        model = Anthropic("claude-sonnet-5", base_url=replay.url, **options)

        async def ask() -> list[AnyChunk]:
            return [piece async for piece in model.stream(ASKED, Attempt("t", 0))]

        try:
            yield ask
        finally:
            await model.close()


async def chunks_of(reply: Reply, **options: Any) -> list[AnyChunk]:
    async with asked(reply, **options) as ask:
        return await ask()


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    """One content block, whole."""
    return [
        typed("content_block_start", index=index, content_block=start),
        *(typed("content_block_delta", index=index, delta=delta) for delta in deltas),
        typed("content_block_stop", index=index),
    ]


def message(*blocks: list[bytes], reason: str = "end_turn", usage: dict[str, Any] | None = None) -> Reply:
    """A whole answer of these blocks."""
    counts = {} if usage is None else {"usage": usage}
    delta = {"stop_reason": reason, "stop_sequence": None}
    ends = [typed("message_delta", delta=delta, **counts), typed("message_stop")]
    return Reply([message_start(None), *(part for parts in blocks for part in parts), *ends])


def use(identity: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


async def test_thinking_keeps_its_signature_and_its_place() -> None:
    chunks = await chunks_of(
        message(
            block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Hm"},
                {"type": "signature_delta", "signature": "c2lnMQ=="},
            ),
            block(1, use("toolu_1", "f"), {"type": "input_json_delta", "partial_json": "{}"}),
            block(
                2,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "signature_delta", "signature": "c2lnMg=="},
            ),
            block(3, use("toolu_2", "g"), {"type": "input_json_delta", "partial_json": "{}"}),
            reason="tool_use",
        )
    )
    assert chunks[:-1] == [
        ReasoningDelta("Hm"),
        ReasoningDone("c2lnMQ==", "anthropic"),
        CallStart(0, "f", "toolu_1"),
        CallDelta(0, "{}"),
        ReasoningDone("c2lnMg==", "anthropic"),
        CallStart(1, "g", "toolu_2"),
        CallDelta(1, "{}"),
    ]
    assert stop_in(chunks).reason == "calls"


async def test_redacted_thinking_is_kept_as_it_is() -> None:
    chunks = await chunks_of(message(block(0, {"type": "redacted_thinking", "data": "ZW5j"})))
    assert chunks[0] == ReasoningDone("ZW5j", "anthropic:redacted")


@pytest.mark.parametrize("deltas", [[], [{"type": "input_json_delta", "partial_json": ""}]])
async def test_an_empty_input_is_an_empty_object(deltas: list[dict[str, Any]]) -> None:
    chunks = await chunks_of(message(block(0, use("toolu_1", "now"), *deltas), reason="tool_use"))
    assert calls_in(chunks) == [("now", "{}")]


async def test_an_input_given_at_once() -> None:
    chunks = await chunks_of(message(block(0, use("toolu_1", "f", n=1)), reason="tool_use"))
    assert calls_in(chunks) == [("f", '{"n":1}')]


async def test_ids_that_repeat_come_apart() -> None:
    piece = {"type": "input_json_delta", "partial_json": "{}"}
    blocks = [block(n, use("toolu_1", "f"), piece) for n in range(2)]
    assert calls_in(await chunks_of(message(*blocks, reason="tool_use"))) == [("f", "{}"), ("f", "{}")]


async def test_text_in_the_start_of_its_block() -> None:
    chunks = await chunks_of(message(block(0, {"type": "text", "text": "Hi"})))
    assert text_in(chunks) == "Hi"


async def test_blocks_of_a_servers_own_tools_are_passed_over() -> None:
    """Case WIR-22: a provider's own call is none of ours."""
    own = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    chunks = await chunks_of(
        message(
            block(0, own, {"type": "input_json_delta", "partial_json": "{}"}),
            block(1, {"type": "of_tomorrow"}, {"type": "of_tomorrow_delta"}),
            block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}),
        )
    )
    assert chunks == [TextDelta("Hi"), stop_in(chunks)]


async def test_a_delta_of_a_block_that_never_began_is_passed_over() -> None:
    stray = [typed("content_block_delta", index=7, delta={"type": "text_delta", "text": "?"})]
    end = [typed("content_block_stop", index=7)]
    assert len(await chunks_of(message(stray, end))) == 1


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("tool_use", "calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
    ],
)
async def test_reasons(reason: str, ours: str) -> None:
    assert stop_in(await chunks_of(message(reason=reason))).reason == ours


async def test_usage_is_cumulative_and_its_classes_do_not_overlap() -> None:
    first = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 1,
        "service_tier": "priority",
    }
    last = {"input_tokens": 4, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 30}}
    delta = {"stop_reason": "end_turn"}
    reply = Reply([message_start(first), typed("message_delta", delta=delta, usage=last)])
    stop = stop_in(await chunks_of(reply))
    assert stop.usage == Usage(input=4, cache_read=100, cache_write=20, output=20, reasoning=30)
    assert stop.product == "priority"


async def test_who_answered() -> None:
    reply = Reply(anthropic_events((), Stop()), headers={"request-id": "req_7"})
    stop = stop_in(await chunks_of(reply))
    assert (stop.model, stop.provider_ids) == ("claude-sonnet-5", ("req_7", "msg_1"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_lines_end_in_three_ways_between_comments(end: str) -> None:
    text = "a\u2028b\x85 ü🌍"
    pieces = [
        part.replace(b"\n", end.encode())
        for body in anthropic_events((TextDelta(text),), Stop())
        for part in (b": keep-alive\n\n", body)
    ]
    for reply in (Reply(pieces), Reply(pieces).bytewise()):
        assert text_in(await chunks_of(reply)) == text


@pytest.mark.parametrize("then", ["cut", "whole"])
async def test_an_end_at_each_event(then: str) -> None:
    events = anthropic_events(TWO_CALLS, Stop("calls"))
    last = next(n for n, body in enumerate(events) if b'"stop_reason": "tool_use"' in body)
    async with asked(*(Reply(events[:sent], then=then) for sent in range(last + 2))) as ask:
        for _ in range(last + 1):
            with pytest.raises(Unavailable):
                await ask()
        chunks = await ask()
    assert len(calls_in(chunks)) == 2
    assert stop_in(chunks).reason == "calls"


async def test_an_end_at_each_byte_of_the_arguments() -> None:
    body = b"".join(anthropic_events((CallStart(0, "write", "c"), CallDelta(0, '{"body": "aü"}'))))
    sizes = range(body.index(b"write"), len(body))
    async with asked(*(Reply([body[:size]], then="cut") for size in sizes)) as ask:
        for _ in sizes:
            with pytest.raises(Unavailable):
                await ask()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, ""),
        ({"type": "api_error", "message": "Internal"}, ""),
        ({"type": "rate_limit_error", "message": "slow"}, ""),
        ({"type": "timeout_error", "message": "slow"}, ""),
        ({"type": "invalid_request_error", "message": "wrong"}, "request"),
        ({"type": "authentication_error", "message": "who"}, "auth"),
        ({"type": "billing_error", "message": "money"}, "quota"),
        (
            {
                "type": "rate_limit_error",
                "message": "money",
                "details": {"error_code": "enforced_spend_limit_reached"},
            },
            "quota",
        ),
    ],
)
async def test_an_error_inside_the_stream(error: dict[str, Any], kind: str) -> None:
    events = [*anthropic_events((TextDelta("Hi"),)), typed("error", error=error)]
    with pytest.raises(ModelRefused if kind else Unavailable) as caught:
        await chunks_of(Reply(events))
    assert getattr(caught.value, "kind", "") == kind


async def test_an_error_that_is_no_json() -> None:
    with pytest.raises(Unavailable):
        await chunks_of(Reply([event("upstream failed", "error")]))


@pytest.mark.parametrize("body", [b"event: x\ndata: {no}\n\n", b"event: x\ndata: \xff\n\n", b"<html>", b""])
async def test_what_is_no_stream_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable):
        await chunks_of(Reply([body]))


async def test_silence_is_bounded() -> None:
    with pytest.raises(Unavailable, match="connection lost"):
        await chunks_of(Reply(anthropic_events((TextDelta("Hi"),)), then="hang"), timeout=0.2)


async def test_closing_lets_go_of_the_connection_at_once() -> None:
    async with replaying(Reply(anthropic_events((TextDelta("Hi"),)), then="hang")) as replay:
        model = Anthropic("claude-sonnet-5", base_url=replay.url)
        stream = model.stream(ASKED, Attempt("t", 0))
        assert await anext(stream) == TextDelta("Hi")
        await stream.aclose()
        await replay.idle()
        await model.close()


async def test_a_block_that_was_not_ended_is_ended_by_the_stop() -> None:
    start = typed("content_block_start", index=0, content_block=use("toolu_1", "now"))
    delta = typed("message_delta", delta={"stop_reason": "tool_use"})
    assert calls_in(await chunks_of(Reply([start, delta]))) == [("now", "{}")]


async def test_half_a_character_becomes_a_mark() -> None:
    halves = [{"type": "text_delta", "text": half} for half in ("\ud83c", "\udf0d", "\ud83c")]
    events = [
        typed("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(
            event(
                json.dumps({"type": "content_block_delta", "index": 0, "delta": delta}), "content_block_delta"
            )
            for delta in halves
        ),
        typed("content_block_stop", index=0),
    ]
    assert text_in(await chunks_of(message(events))) == "🌍\ufffd"


async def test_a_connection_is_used_again() -> None:
    async with replaying(Reply(anthropic_events((TextDelta("Hi"),), Stop()))) as replay:
        model = Anthropic("claude-sonnet-5", base_url=replay.url)
        for _ in range(3):
            _ = [piece async for piece in model.stream(ASKED, Attempt("t", 0))]
        await model.close()
        await model.close()
    assert replay.connections == 1


async def test_events_with_fields_missing_are_lived_with() -> None:
    kinds = ["message_start", "content_block_start", "content_block_delta", "content_block_stop"]
    bare = [typed(kind) for kind in kinds]
    odd = [
        event(json.dumps({"type": kinds[1], "index": "x", "content_block": {"type": "tool_use"}}), kinds[1])
    ]
    with pytest.raises(Unavailable):
        await chunks_of(Reply([*bare, *odd, typed("message_delta")]))
