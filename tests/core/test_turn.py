"""Chunks into a turn: whole, cut short, cut off, or dead."""

import pytest

from torpor.core.chunks import AnyChunk, CallDelta, CallStart, ReasoningDelta, ReasoningDone, Stop, TextDelta
from torpor.core.errors import Unavailable
from torpor.core.messages import Reasoning, Text
from torpor.core.turn import Gathering, RawCall, arguments_of, is_cut_off


def gathered(*chunks: AnyChunk) -> Gathering:
    gathering = Gathering()
    for chunk in chunks:
        gathering.add(chunk)
    return gathering


def test_pieces_of_text_become_one_part() -> None:
    """E10."""
    gathering = gathered(TextDelta("he"), TextDelta("llo"), Stop())
    assert gathering.parts() == (Text("hello"),)
    assert gathering.stop == Stop()


def test_parts_stand_in_the_order_in_which_they_began() -> None:
    """E1, E2, ORD-05."""
    gathering = gathered(
        ReasoningDelta("th"),
        ReasoningDelta("ink"),
        ReasoningDone("sig", "claude"),
        TextDelta("a"),
        CallStart(0, "read", "p0", "o"),
        CallDelta(0, '{"n"'),
        CallStart(1, "write", "p1"),
        ReasoningDelta("more"),
        CallDelta(1, "{}"),
        CallDelta(0, ": 1}"),
        TextDelta("b"),
        Stop("calls"),
    )
    assert gathering.parts() == (
        Reasoning("think", "sig", "claude"),
        Text("a"),
        RawCall("read", '{"n": 1}', "p0", "o"),
        RawCall("write", "{}", "p1"),
        Reasoning("more"),
        Text("b"),
    )


def test_a_reasoning_block_that_is_done_is_not_continued() -> None:
    gathering = gathered(
        ReasoningDelta("a"), ReasoningDone("1"), ReasoningDelta("b"), ReasoningDone("2"), Stop()
    )
    assert gathering.parts() == (Reasoning("a", "1"), Reasoning("b", "2"))


def test_reasoning_without_words_is_kept_for_its_signature() -> None:
    gathering = gathered(TextDelta("a"), ReasoningDone("hidden", "claude"), TextDelta("b"), Stop())
    assert gathering.parts() == (Text("a"), Reasoning("", "hidden", "claude"), Text("b"))


def test_a_call_without_arguments_is_a_call() -> None:
    assert gathered(CallStart(0, "read"), Stop()).parts() == (RawCall("read", ""),)


def test_an_index_that_begins_again_is_another_call() -> None:
    gathering = gathered(
        CallStart(0, "a"), CallDelta(0, "{}"), CallStart(0, "b"), CallDelta(0, '{"n": 1}'), Stop()
    )
    assert gathering.parts() == (RawCall("a", "{}"), RawCall("b", '{"n": 1}'))


def test_a_stream_that_dies_is_dropped_wherever_it_died() -> None:
    """CRS-05, CRS-07, E4, E19."""
    chunks: list[AnyChunk] = [TextDelta("hi"), CallStart(0, "write")]
    chunks += [CallDelta(0, letter) for letter in '{"a": 1}']
    for length in range(len(chunks) + 1):
        with pytest.raises(Unavailable, match=r"^The model's stream ended before its end\.$") as caught:
            gathered(*chunks[:length]).parts()
        assert caught.value.tries is None


def test_arguments_of_a_call_that_never_began_are_a_fault_of_the_stream() -> None:
    with pytest.raises(
        Unavailable, match=r"^The model's stream sent arguments of a call 3 that never began\.$"
    ):
        gathered(CallDelta(3, "{}"), Stop()).parts()


@pytest.mark.parametrize("reason", ["calls", "end", "length"])
def test_output_that_ends_inside_a_call_is_tried_once_more_whatever_reason_it_gives(reason: str) -> None:
    """WIR-13."""
    gathering = gathered(CallStart(0, "doc"), CallDelta(0, '{"body": "aaa'), Stop(reason))
    with pytest.raises(
        Unavailable, match=r"^The model's output ended inside the arguments of 'doc'\.$"
    ) as caught:
        gathering.parts()
    assert caught.value.tries == 2


def test_output_that_ends_before_the_first_argument_is_told_by_its_reason() -> None:
    chunks: list[AnyChunk] = [TextDelta("hi"), CallStart(0, "write")]
    with pytest.raises(Unavailable, match="inside the arguments of 'write'"):
        gathered(*chunks, Stop("length")).parts()
    assert gathered(*chunks, Stop("calls")).parts() == (Text("hi"), RawCall("write", ""))
    assert gathered(*chunks, TextDelta("x"), Stop("length")).parts()[1] == RawCall("write", "")
    whole = gathered(*chunks, CallDelta(0, "{}"), Stop("length")).parts()
    assert whole == (Text("hi"), RawCall("write", "{}"))


def test_watchers_see_parts_as_they_stand() -> None:
    gathering = gathered(TextDelta("a"))
    gathering.add(CallStart(0, "read"))
    gathering.add(CallDelta(0, '{"n'))
    assert gathering.so_far() == (Text("a"), RawCall("read", '{"n'))
    assert gathering.stop is None


@pytest.mark.parametrize(
    ("chunks", "kept"),
    [
        ([], ()),
        ([TextDelta("half")], (Text("half"),)),
        # E8, E9: nothing invisible at the end
        ([ReasoningDelta("hm")], ()),
        ([TextDelta("a"), ReasoningDelta("b"), TextDelta(" "), ReasoningDelta("c")], (Text("a"),)),
        ([ReasoningDelta("hm"), TextDelta("a")], (Reasoning("hm"), Text("a"))),
        # whole calls stay, others go
        ([CallStart(0, "a"), CallDelta(0, "{}")], (RawCall("a", "{}"),)),
        ([CallStart(0, "a"), CallDelta(0, '{"n"')], ()),
        ([CallStart(0, "a")], ()),
        ([CallStart(0, "a"), CallDelta(0, " ")], ()),
        (
            [CallStart(0, "a"), CallDelta(0, '{"n"'), CallStart(1, "b"), CallDelta(1, "{}")],
            (RawCall("b", "{}"),),
        ),
        ([TextDelta("a"), CallStart(0, "a"), CallDelta(0, "[1]")], (Text("a"),)),
        ([CallStart(0, "a"), CallDelta(0, "{}"), ReasoningDelta("b")], (RawCall("a", "{}"),)),
    ],
)
def test_of_a_cut_stream_visible_words_and_whole_calls_stay(
    chunks: list[AnyChunk], kept: tuple[object, ...]
) -> None:
    assert gathered(*chunks).cut() == kept


def test_a_stream_is_cut_the_same_after_its_end() -> None:
    assert gathered(TextDelta("a"), Stop()).cut() == (Text("a"),)


# ------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" \n\t", {}),
        ("{}", {}),
        (' {"a": [1, 2.5, null, true, "x"]} ', {"a": [1, 2.5, None, True, "x"]}),
        ('{"big": ' + "1" * 60 + "}", {"big": int("1" * 60)}),
        ('{"a": "\\u0000"}', {"a": "\0"}),
        ("[]", None),
        ("null", None),
        ("{", None),
        ("{} {}", None),
        ('{"a": NaN}', None),
        ('{"a": Infinity}', None),
        ("{'a': 1}", None),
        ('{"a": 1,}', None),
        ('{"a": "\0"}', None),
    ],
)
def test_arguments_are_an_object_or_none(text: str, arguments: dict[str, object] | None) -> None:
    assert arguments_of(text) == arguments


def test_arguments_may_be_nested_a_hundred_deep_and_no_deeper() -> None:
    assert arguments_of('{"a": ' + "[" * 99 + "]" * 99 + "}") is not None
    assert arguments_of('{"a": ' + "[" * 99 + "]" * 99 + ', "b": [[]]}') is not None
    assert arguments_of('{"a": ' + "[" * 100 + "]" * 100 + "}") is None
    assert arguments_of('{"a": ' * 100_000 + "1" + "}" * 100_000) is None
    assert arguments_of('{"a": "' + "[{" * 300 + '"}') is not None
    assert arguments_of('{"a": [' + ",".join(["[]", "{}"] * 300) + "]}") is not None


@pytest.mark.parametrize(
    "text",
    ['{"a": 1', '{"a', "{", "[", '  {"a": {"b": [1, 2', '{"a": "\\', '{"a": "x\\"}', '{"a": "b}', "[{}"],
)
def test_the_beginning_of_a_value_is_cut_off(text: str) -> None:
    assert is_cut_off(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "{}",
        '{"a": "b"}',
        "[1]",
        "nonsense",
        '"text',
        "{]",
        '{"a": [1, 2}',
        "{}}",
        '{"a": 1}x',
        "{'a'}",
        ']{"a',
    ],
)
def test_what_is_whole_or_plainly_wrong_is_not_cut_off(text: str) -> None:
    assert not is_cut_off(text)


def test_every_beginning_of_an_object_is_cut_off_and_the_whole_is_not() -> None:
    text = '{"a": "b\\"{[", "c": [1, {"d": "}"}]}'
    assert all(is_cut_off(text[:length]) for length in range(1, len(text)))
    assert not is_cut_off(text)


# ----------------------------------------------------------------- text


def test_all_that_a_model_sends_is_cleaned() -> None:
    gathering = gathered(
        TextDelta("\ud800"),
        ReasoningDelta("\ud800"),
        ReasoningDone("\ud800", "x"),
        CallStart(0, "\ud800", "\ud800", "\ud800"),
        CallDelta(0, '{"\ud800": 1}'),
        Stop(),
    )
    bad = "\ufffd"
    assert gathering.parts() == (
        Text(bad),
        Reasoning(bad, bad, "x"),
        RawCall(bad, f'{{"{bad}": 1}}', bad, bad),
    )


def test_a_surrogate_pair_split_over_two_chunks_is_one_letter() -> None:
    """WIR-08."""
    assert gathered(TextDelta("a\ud83d"), TextDelta("\ude00b"), Stop()).parts() == (Text("a\U0001f600b"),)


def test_arguments_of_ten_megabytes_are_taken() -> None:
    text = '{"text": "' + "x" * 10_000_000 + '"}'
    pieces = [CallDelta(0, text[at : at + 1_000_000]) for at in range(0, len(text), 1_000_000)]
    [part] = gathered(CallStart(0, "write"), *pieces, Stop()).parts()
    assert part == RawCall("write", text)
    assert not is_cut_off(text)
    assert is_cut_off(text[:-1])
