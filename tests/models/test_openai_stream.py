"""Shapes that servers of Chat Completions really send, as one stream each."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.models.events import chunk, event, openai_events, tool
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
from torpor.models import OpenAI
from torpor.testing.model_contract import ASKED, TWO_CALLS, calls_in, stop_in, text_in

pytestmark = pytest.mark.usefixtures("no_keys")

DONE = event("[DONE]")
STOPPED = event(chunk({}, "stop"))


@contextlib.asynccontextmanager
async def asked(*replies: Reply, **options: Any) -> AsyncIterator[Callable[[], Awaitable[list[AnyChunk]]]]:
    """A way to ask once for each of the replies, over one client (making one is slow)."""
    async with replaying(*replies) as replay:
        model = OpenAI("gpt-5-mini", base_url=f"{replay.url}/v1", **options)

        async def ask() -> list[AnyChunk]:
            return [piece async for piece in model.stream(ASKED, Attempt("t", 0))]

        try:
            yield ask
        finally:
            await model.close()


async def chunks_of(reply: Reply, **options: Any) -> list[AnyChunk]:
    async with asked(reply, **options) as ask:
        return await ask()


async def calls_of(*deltas: dict[str, Any], finish: str = "tool_calls") -> list[tuple[str, str]]:
    events = [event(chunk(delta)) for delta in deltas]
    return calls_in(await chunks_of(Reply([*events, event(chunk({}, finish)), DONE])))


def whole(name: str, arguments: str, **more: Any) -> dict[str, Any]:
    """A delta with a whole call in one piece."""
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}]}


async def test_calls_with_one_id_for_all_come_apart_by_index() -> None:
    """Cases WIR-02 and WIR-04: two calls of one id, also in later turns."""
    calls = await calls_of(
        tool(0, id="call_0", function={"name": "read", "arguments": ""}),
        tool(1, id="call_0", function={"name": "read", "arguments": ""}),
        tool(0, function={"arguments": '{"n": 1}'}),
        tool(1, function={"arguments": '{"n": 2}'}),
    )
    assert calls == [("read", '{"n": 1}'), ("read", '{"n": 2}')]


async def test_calls_of_one_id_and_one_index_come_apart_when_the_first_is_whole() -> None:
    calls = await calls_of(
        whole("step", '{"n": 1}', index=0, id="call_0"), whole("step", '{"n": 2}', index=0, id="call_0")
    )
    assert calls == [("step", '{"n": 1}'), ("step", '{"n": 2}')]


async def test_whole_calls_without_ids_or_indexes() -> None:
    calls = await calls_of(whole("a", "{}"), whole("b", '{"x": 1}'), finish="stop")
    assert calls == [("a", "{}"), ("b", '{"x": 1}')]


async def test_whole_calls_with_ids_and_index_zero() -> None:
    calls = await calls_of(whole("a", "{}", index=0, id="x"), whole("a", "{}", index=0, id="y"))
    assert calls == [("a", "{}"), ("a", "{}")]


async def test_several_calls_in_one_chunk() -> None:
    both = [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": f"[{n}]"}} for n in range(2)]
    assert await calls_of({"tool_calls": both}) == [("f", "[0]"), ("f", "[1]")]


async def test_name_and_id_repeated_with_every_piece_are_one_call() -> None:
    pieces = ['{"path"', ': "a b', '"}', "\n"]
    calls = await calls_of(
        *(tool(0, id="c", function={"name": "read", "arguments": text}) for text in ["", *pieces])
    )
    assert calls == [("read", '{"path": "a b"}\n')]


async def test_an_id_that_changes_without_a_name_goes_on_with_the_call() -> None:
    calls = await calls_of(
        tool(0, id="c1", function={"name": "read", "arguments": "{"}),
        tool(0, id="c2", function={"arguments": "}"}),
    )
    assert calls == [("read", "{}")]


async def test_arguments_without_index_go_to_the_last_call() -> None:
    calls = await calls_of(whole("a", "", id="x"), whole("", '{"n": 1}'), whole("b", "{}", id="y"))
    assert calls == [("a", '{"n": 1}'), ("b", "{}")]


async def test_arguments_as_an_object_become_text() -> None:
    assert await calls_of(whole("a", {"n": 1}, index=0)) == [("a", '{"n":1}')]  # type: ignore[arg-type]


async def test_a_name_that_comes_late() -> None:
    calls = await calls_of(
        tool(0, id="c", function={"arguments": '{"n"'}), tool(0, function={"name": "f", "arguments": ": 1}"})
    )
    assert calls == [("f", '{"n": 1}')]


async def test_a_call_without_a_name_is_still_a_call() -> None:
    assert await calls_of(tool(0, id="c", function={"arguments": "{}"})) == [("", "{}")]


async def test_no_arguments_at_all() -> None:
    assert await calls_of(tool(0, id="c", function={"name": "now", "arguments": ""})) == [("now", "")]


async def test_calls_under_an_ordinary_stop_are_told_as_calls() -> None:
    chunks = await chunks_of(Reply([event(chunk(whole("a", "{}", index=0))), STOPPED, DONE]))
    assert stop_in(chunks).reason == "calls"


async def test_reasoning_under_both_of_its_names() -> None:
    events = [
        event(chunk({"reasoning_content": "Hm"})),
        event(chunk({"reasoning": "m."})),
        event(chunk({"content": "Yes"})),
    ]
    chunks = await chunks_of(Reply([*events, STOPPED, DONE]))
    thought, more, done, words, _ = chunks
    assert (thought, more) == (ReasoningDelta("Hm"), ReasoningDelta("m."))
    assert isinstance(done, ReasoningDone)
    assert words == TextDelta("Yes")


async def test_a_refusal_is_text_with_its_own_reason() -> None:
    chunks = await chunks_of(Reply([event(chunk({"refusal": "I will not."})), STOPPED, DONE]))
    assert text_in(chunks) == "I will not."
    assert stop_in(chunks).reason == "refusal"


async def test_text_as_a_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": "?"}, {"type": "text", "text": "Yes"}, "stray"]
    chunks = await chunks_of(Reply([event(chunk({"content": parts})), STOPPED, DONE]))
    assert text_in(chunks) == "Yes"


async def test_an_unknown_reason_is_passed_on() -> None:
    chunks = await chunks_of(Reply([event(chunk({"content": "Hi"}, "eos")), DONE]))
    assert stop_in(chunks).reason == "eos"


async def test_who_answered_and_what_was_sold() -> None:
    chunks = await chunks_of(Reply([STOPPED, DONE], headers={"x-request-id": "req_9"}))
    stop = stop_in(chunks)
    assert stop == Stop("end", None, "gpt-5-mini-2026-08-07", "standard", ("req_9", "chatcmpl-1"))


async def test_a_product_without_a_name_of_ours_keeps_its_own() -> None:
    chunks = await chunks_of(Reply([event(chunk({}, "stop", service_tier="flex")), DONE]))
    assert stop_in(chunks).product == "flex"


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4}, Usage(input=9, output=4)),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": None}, Usage(9, 0, 0, 4)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input=1, cache_read=8, output=1, reasoning=3),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "total_tokens": 16,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input=9, output=4, reasoning=3),
        ),
        ({}, None),
        ({"total_tokens": 3}, None),
        (None, None),
    ],
)
async def test_usage_variants(told: object, usage: Usage | None) -> None:
    chunks = await chunks_of(Reply([STOPPED, event(chunk(usage=told)), DONE]))
    assert stop_in(chunks).usage == usage


async def test_of_several_usages_the_last_counts() -> None:
    early = event(chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1}))
    late = event(chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 2}))
    assert stop_in(await chunks_of(Reply([early, late, DONE]))).usage == Usage(input=9, output=2)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_lines_end_in_three_ways_between_comments(end: str) -> None:
    keep_alive = f": keep-alive{end}{end}".encode()
    texts = ["a\u2028b\u2029c\x85d", "ü🌍"]
    events = [event(chunk({"content": text}), end=end) for text in texts]
    stopped = event(chunk({}, "stop"), end=end)
    pieces = [keep_alive, events[0], keep_alive, keep_alive, events[1], stopped, event("[DONE]", end=end)]
    for reply in (Reply(pieces), Reply(pieces).bytewise()):
        assert text_in(await chunks_of(reply)) == "".join(texts)


async def test_a_character_cut_in_two_by_the_server_is_joined() -> None:
    events = [event(json.dumps(chunk({"content": half}))) for half in ("\ud83c", "\udf0d")]
    chunks = await chunks_of(Reply([*events, STOPPED, DONE]))
    assert text_in(chunks) == "🌍"


async def test_half_a_character_becomes_a_mark() -> None:
    halves = [{"content": "\ud83c"}, {"reasoning": "\ud83c"}, whole("f", "\ud83c", index=0)]
    events = [event(json.dumps(chunk(delta))) for delta in halves]
    chunks = await chunks_of(Reply([*events, STOPPED, DONE]))
    assert text_in(chunks) == "\ufffd"
    assert calls_in(chunks) == [("f", "\ufffd")]
    assert "".join(c.text for c in chunks if isinstance(c, ReasoningDelta)) == "\ufffd"


@pytest.mark.parametrize("then", ["cut", "whole"])
async def test_an_end_at_each_event(then: str) -> None:
    """Case CRS-05: without a reason to stop nothing counts, at whichever event the stream ends."""
    events = openai_events(TWO_CALLS, Stop("calls"))
    last = next(n for n, body in enumerate(events) if b'"finish_reason": "tool_calls"' in body)
    async with asked(*(Reply(events[:sent], then=then) for sent in range(last + 2))) as ask:
        for _ in range(last + 1):
            with pytest.raises(Unavailable):
                await ask()
        chunks = await ask()
    assert len(calls_in(chunks)) == 2
    assert stop_in(chunks).reason == "calls"


async def test_an_end_at_each_byte_of_the_arguments() -> None:
    body = b"".join(openai_events((CallStart(0, "write", "c"), CallDelta(0, '{"body": "aü"}'))))
    sizes = range(body.index(b"write"), len(body))
    async with asked(*(Reply([body[:size]], then="cut") for size in sizes)) as ask:
        for _ in sizes:
            with pytest.raises(Unavailable):
                await ask()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "Overloaded", "type": "server_error", "code": None}, ""),
        ({"message": "Provider returned error", "code": 502}, ""),
        ({"message": "slow", "code": 429}, ""),
        ({"message": "no", "code": 400}, "request"),
        (
            {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"},
            "context",
        ),
        ({"message": "money", "type": "insufficient_quota", "code": "insufficient_quota"}, "quota"),
        ({"message": "filtered", "code": "content_filter"}, "content"),
        ("plain words", ""),
    ],
)
async def test_an_error_inside_the_stream(error: object, kind: str) -> None:
    events = [event(chunk({"content": "Hi"})), event({"error": error})]
    with pytest.raises(ModelRefused if kind else Unavailable) as caught:
        await chunks_of(Reply(events))
    assert getattr(caught.value, "kind", "") == kind


async def test_an_error_after_the_reason_to_stop_is_an_error() -> None:
    events = [event(chunk({"content": "Hi"}, "stop")), event({"error": {"message": "x", "code": 500}})]
    with pytest.raises(Unavailable):
        await chunks_of(Reply(events))


@pytest.mark.parametrize(
    "body", [b"data: {not json}\n\n", b"data: \xff\xfe\n\n", b"<html>portal</html>", b"", b"data: 1\n\n"]
)
async def test_what_is_no_stream_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable):
        await chunks_of(Reply([body]))


async def test_silence_is_bounded_and_a_slow_stream_is_not() -> None:
    with pytest.raises(Unavailable, match="connection lost"):
        await chunks_of(Reply([event(chunk({"content": "Hi"}))], then="hang"), timeout=0.2)


async def test_the_whole_is_bounded_where_the_attempt_says_so() -> None:
    async with replaying(Reply([event(chunk({"content": "Hi"}))], then="hang")) as replay:
        model = OpenAI("gpt-5-mini", base_url=f"{replay.url}/v1")
        with pytest.raises(Unavailable, match="longer than it may"):
            _ = [piece async for piece in model.stream(ASKED, Attempt("t", 0, seconds=0.2))]
        await replay.idle()
        await model.close()


async def test_closing_lets_go_of_the_connection_at_once() -> None:
    async with replaying(Reply([event(chunk({"content": "Hi"}))], then="hang")) as replay:
        model = OpenAI("gpt-5-mini", base_url=f"{replay.url}/v1")
        stream = model.stream(ASKED, Attempt("t", 0))
        assert await anext(stream) == TextDelta("Hi")
        assert replay.answering == 1
        await stream.aclose()
        await replay.idle()
        await model.close()


async def test_a_signature_of_a_call_is_kept_for_the_server_that_made_it() -> None:
    """Case WIR-19: opaque values go back to where they came from, and nowhere else."""
    extra = {"google": {"thought_signature": "c2ln"}}
    delta = tool(0, id="c", function={"name": "f", "arguments": "{}"}, extra_content=extra)
    chunks = await chunks_of(Reply([event(chunk(delta)), STOPPED, DONE]))
    start = chunks[0]
    assert isinstance(start, CallStart)
    assert json.loads(start.opaque)["extra_content"] == extra


async def test_other_choices_are_passed_over() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}
    chunks = await chunks_of(Reply([event(other), event(chunk({"content": "yes"})), STOPPED, DONE]))
    assert text_in(chunks) == "yes"


async def test_braces_that_are_no_object_yet_are_one_call() -> None:
    pieces = ['{"a": "}', '{"}', "}"]
    calls = await calls_of(*(tool(0, function={"name": "f", "arguments": text}) for text in pieces))
    assert calls == [("f", '{"a": "}{"}}')]


async def test_a_connection_is_used_again() -> None:
    whole_answer = Reply(openai_events((TextDelta("Hi"),), Stop()))
    async with replaying(whole_answer) as replay:
        model = OpenAI("gpt-5-mini", base_url=f"{replay.url}/v1")
        for _ in range(3):
            _ = [piece async for piece in model.stream(ASKED, Attempt("t", 0))]
        await model.close()
        await model.close()
    assert replay.connections == 1
