import asyncio
from collections.abc import AsyncIterator

import pytest

from torpor.core.chunks import AnyChunk, CallDelta, CallStart, ReasoningDelta, ReasoningDone, Stop, TextDelta
from torpor.core.errors import ModelRefused, Refused, Unavailable
from torpor.core.messages import Text, Usage
from torpor.core.request import Attempt, InputItem, Request
from torpor.models import ScriptedModel, call, empty, fail, reason, say, stall, stop, tries, used
from torpor.models.scripted import Say, Words
from torpor.testing.model_contract import ASKED, calls_in, stop_in, text_in


async def reply(
    model: ScriptedModel, ordinal: int = 0, attempt: int = 0, request: Request = ASKED
) -> list[AnyChunk]:
    return [chunk async for chunk in model.stream(request, Attempt("t", ordinal, attempt))]


async def drain(stream: AsyncIterator[AnyChunk], into: list[AnyChunk]) -> None:
    async for chunk in stream:
        into.append(chunk)  # noqa: PERF401 (what came before a failure is kept)


async def test_one_reply_for_each_completion_by_its_number() -> None:
    model = ScriptedModel([say("one"), "two", [say("three"), call("add", a=1)]])
    assert text_in(await reply(model, 1)) == "two"
    assert text_in(await reply(model, 0)) == "one"
    third = await reply(model, 2)
    assert text_in(third) == "three"
    assert calls_in(third) == [("add", '{"a": 1}')]


async def test_the_place_survives_a_restart() -> None:
    def made() -> ScriptedModel:
        return ScriptedModel(["one", "two"])

    assert text_in(await reply(made(), 1)) == text_in(await reply(made(), 1)) == "two"


async def test_several_calls_in_one_reply() -> None:
    chunks = await reply(ScriptedModel([[call("a", x="ü"), call("b")]]))
    assert calls_in(chunks) == [("a", '{"x": "ü"}'), ("b", "{}")]
    assert [c.provider_id for c in chunks if isinstance(c, CallStart)] == ["scripted_0", "scripted_1"]
    assert stop_in(chunks).reason == "calls"


async def test_a_call_with_a_parameter_of_any_name() -> None:
    assert calls_in(await reply(ScriptedModel([call("f", name="n", self=1)]))) == [
        ("f", '{"name": "n", "self": 1}')
    ]


async def test_arguments_as_they_stand() -> None:
    chunks = await reply(ScriptedModel([call("f", _raw='{"a":', _id="call_0")]))
    assert calls_in(chunks) == [("f", '{"a":')]
    assert chunks[0] == CallStart(0, "f", "call_0")


async def test_chunk_sizes() -> None:
    model = ScriptedModel([[say("abcdefg"), call("f", _raw="{   }")]], chunk=3)
    assert await reply(model) == [
        TextDelta("abc"),
        TextDelta("def"),
        TextDelta("g"),
        CallStart(0, "f", "scripted_0"),
        CallDelta(0, "{  "),
        CallDelta(0, " }"),
        Stop("calls", None, "scripted:script", "standard"),
    ]


async def test_reasoning_with_its_opaque_value() -> None:
    chunks = await reply(ScriptedModel([[reason("Hm", opaque="sig", origin="anthropic"), say("Yes")]]))
    assert chunks[:2] == [ReasoningDelta("Hm"), ReasoningDone("sig", "anthropic")]


async def test_nothing() -> None:
    assert await reply(ScriptedModel([empty(), say("")])) == [
        Stop("end", None, "scripted:script", "standard")
    ]


async def test_functions_of_the_request_stand_for_replies() -> None:
    def told(request: Request) -> Words:
        return f"You said {request.text}."

    async def slowly(request: Request) -> Words:
        await asyncio.sleep(0)
        return [say("Done."), call("f")]

    model = ScriptedModel([told, slowly, tries(told)])
    assert text_in(await reply(model, 0)) == "You said Hello."
    assert calls_in(await reply(model, 1)) == [("f", "{}")]
    other = Request("t", "m", "", (), (InputItem(0.0, (Text("Bye"),)),))
    assert text_in(await reply(model, 0, request=other)) == "You said Bye."
    assert text_in(await reply(model, 2, request=other)) == "You said Bye."


async def test_a_function_as_the_whole_script() -> None:
    model = ScriptedModel(lambda request: say(request.text))
    assert text_in(await reply(model, 999)) == "Hello"


async def test_past_the_end() -> None:
    with pytest.raises(ModelRefused, match=r"has 1 replies and was asked for number 2.*loop=True") as caught:
        await reply(ScriptedModel(["one"]), 1)
    assert caught.value.kind == "setup"
    with pytest.raises(Refused, match="has 0 replies"):
        await reply(ScriptedModel([], loop=True))


async def test_begins_again() -> None:
    model = ScriptedModel(["one", "two"], loop=True)
    assert [text_in(await reply(model, n)) for n in range(5)] == ["one", "two", "one", "two", "one"]


async def test_tries_of_one_completion() -> None:
    model = ScriptedModel([tries(fail(Unavailable("busy", retry_after=3)), fail(), say("at last"))])
    with pytest.raises(Unavailable) as caught:
        await reply(model, attempt=0)
    assert caught.value.retry_after == 3
    with pytest.raises(Unavailable):
        await reply(model, attempt=1)
    assert text_in(await reply(model, attempt=2)) == text_in(await reply(model, attempt=9)) == "at last"


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("after", "heard"), [(0, 0), (2, 2), (99, 3)])
async def test_failing_after_some_chunks(place: int, after: int, heard: int) -> None:
    pieces: list[Words] = [say("abcdef")]
    pieces.insert(place, fail(ModelRefused("no", kind="quota"), after=after))
    chunks: list[AnyChunk] = []
    stream = ScriptedModel([pieces], chunk=2).stream(ASKED, Attempt("t", 0))
    with pytest.raises(ModelRefused) as caught:
        await drain(stream, chunks)
    assert len(chunks) == heard
    assert caught.value.kind == "quota"


async def test_failing_where_it_stands() -> None:
    stream = ScriptedModel([[say("a"), fail(), say("b")]]).stream(ASKED, Attempt("t", 0))
    assert await anext(stream) == TextDelta("a")
    with pytest.raises(Unavailable):
        await anext(stream)


async def test_each_failure_is_an_error_of_its_own() -> None:
    model = ScriptedModel([fail()])
    caught = []
    for _ in range(2):
        with pytest.raises(Unavailable) as failure:
            await reply(model)
        caught.append(failure.value)
    assert caught[0] is not caught[1]


async def test_stalling_until_cut() -> None:
    stream = ScriptedModel([stall("Hm")]).stream(ASKED, Attempt("t", 0))
    assert await anext(stream) == TextDelta("Hm")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_stalling_until_an_event_and_going_on() -> None:
    event = asyncio.Event()
    stream = ScriptedModel([[stall("Hm", until=event), say("Yes")]]).stream(ASKED, Attempt("t", 0))
    assert await anext(stream) == TextDelta("Hm")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    assert await waiting == TextDelta("Yes")
    await stream.aclose()


async def test_usage_of_a_reply_and_of_the_model() -> None:
    model = ScriptedModel(["a", [say("b"), used(input=9, output=4, cache_read=2)]], usage=Usage(1, 0, 0, 1))
    assert stop_in(await reply(model, 0)).usage == Usage(1, 0, 0, 1)
    assert stop_in(await reply(model, 1)).usage == Usage(input=9, cache_read=2, output=4)


async def test_reasons_to_stop() -> None:
    assert stop_in(await reply(ScriptedModel([[say("a"), stop("length")]]))).reason == "length"


async def test_remembers_what_it_was_shown_within_bounds() -> None:
    model = ScriptedModel(["a"], loop=True, remember=3)
    for ordinal in range(5):
        await reply(model, ordinal)
    assert list(model.requests) == [ASKED] * 3


async def test_without_pace_it_never_yields_to_the_loop() -> None:
    passed: list[bool] = []
    asyncio.get_running_loop().call_soon(passed.append, True)
    await reply(ScriptedModel([[say("abc"), call("f", x=1)]], chunk=1))
    assert not passed


async def test_with_pace_it_does() -> None:
    passed: list[bool] = []
    asyncio.get_running_loop().call_soon(passed.append, True)
    assert text_in(await reply(ScriptedModel(["abc"], chunk=1, pace=0))) == "abc"
    assert passed


@pytest.mark.parametrize("piece", [5, {"a": 1}])
async def test_what_is_no_reply(piece: object) -> None:
    with pytest.raises(Refused, match="no part of a scripted reply"):
        await reply(ScriptedModel([[piece]]))  # type: ignore[list-item]


def test_pieces_compare() -> None:
    assert say("a") == Say("a")


async def test_one_text_is_a_script_of_one_reply() -> None:
    assert text_in(await reply(ScriptedModel("Hello there"))) == "Hello there"
