"""Bytes and values: what was ever stored still decodes, and what is not known here is given back."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.histories import searched
from tests.golden.samples import GOLDEN, UNIONS, Decoder, file_of, members, samples
from tests.golden.stories import STORIES, written
from torpor.core.codec import (
    SHAPE,
    decode_effect,
    decode_head,
    decode_kept,
    decode_message,
    decode_record,
    decode_signal,
    encode,
)
from torpor.core.errors import Broken, Unavailable
from torpor.core.head import Head
from torpor.core.messages import Note, Said, Text, Turn

FROZEN = sorted((GOLDEN / "shapes").glob("v*/*.msgpack"))
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "message": decode_message,
    "signal": decode_signal,
    "effect": decode_effect,
    "record": decode_record,
    "head": decode_head,
}
WORDS = {
    "message": "message",
    "signal": "signal",
    "effect": "effect",
    "record": "slice record",
    "head": "head",
}
SAID = encode(Said(1.0, (Text("hi"),)))

every_decoder = pytest.mark.parametrize("union", list(DECODERS))


def decoder(file: Path) -> Callable[[bytes], Any]:
    return DECODERS[file.name.split(".", maxsplit=1)[0]]


@pytest.mark.parametrize("file", FROZEN, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_shape_ever_stored_decodes_and_means_the_same(file: Path) -> None:
    value = decoder(file)(file.read_bytes())
    meant = json.loads(file.with_suffix(".json").read_text("utf-8"))
    assert msgspec.msgpack.decode(encode(value)) == meant


@pytest.mark.parametrize("name", list(samples()))
def test_every_kind_has_a_sample_of_its_present_fields(name: str) -> None:
    file = file_of(name, encode(samples()[name]))
    assert file in FROZEN, "run scripts/golden_samples.py, and add what it writes"
    assert decoder(file)(file.read_bytes()) == samples()[name]
    assert encode(samples()[name]) == file.read_bytes()


def test_samples_leave_no_kind_and_no_field_out() -> None:
    for value in (value for name, value in samples().items() if name.endswith(".most")):
        stored = msgspec.msgpack.decode(encode(value))
        config = value.__struct_config__
        assert stored.keys() == {*value.__struct_fields__, *filter(None, [config.tag_field])}
    kinds = {name.split(".")[1] for name in samples()}
    assert kinds == {kind.__name__ for union in UNIONS.values() for kind in members(union)}
    notes = {name.split(".")[2] for name in samples() if name.startswith("message.Noted")}
    assert notes == {kind.__name__ for kind in members(Note)}


@pytest.mark.parametrize("story", list(STORIES))
def test_a_conversation_is_what_it_was(story: str) -> None:
    assert written(STORIES[story]()) == (GOLDEN / "conversations" / f"{story}.txt").read_text("utf-8")


def test_a_thread_without_a_slice_has_an_empty_head() -> None:
    assert decode_head(b"") == Head()
    assert decode_head(b"", SHAPE) == Head()
    assert decode_head(encode(Head())) == Head()


def test_a_head_of_a_newer_shape_is_given_back_whatever_is_in_it() -> None:
    told = f"^The thread is stored in shape {SHAPE + 1}; this release reads up to {SHAPE}. Upgrade it.$"
    for body in (b"", encode(Head()), b"\xc1"):
        with pytest.raises(Unavailable, match=told):
            decode_head(body, SHAPE + 1)


def test_a_head_of_an_older_shape_is_read() -> None:
    assert decode_head(encode(Head(agent="a")), SHAPE - 1) == Head(agent="a")


@pytest.mark.slow
@every_decoder
def test_a_field_of_a_newer_release_is_given_back(union: Decoder) -> None:
    for name in (name for name in samples() if name.startswith(f"{union}.")):
        stored = msgspec.msgpack.decode(encode(samples()[name]))
        body = msgspec.msgpack.encode({**stored, "newer": 1})
        with pytest.raises(
            Unavailable, match=f"^A stored {WORDS[union]} is of a kind .* `newer`.*Upgrade it"
        ):
            DECODERS[union](body)


def test_a_field_of_a_newer_release_is_found_however_deep() -> None:
    stored = msgspec.msgpack.decode(encode(samples()["head.Head.most"]))
    deep: list[Callable[[Any], Any]] = [
        lambda head: head["exchange"],
        lambda head: head["pending"]["pending1"],
        lambda head: head["subscriptions"]["subscriptions1"],
        lambda head: head["queued"][0],
        lambda head: head["queued"][0]["by"],
        lambda head: head["queued"][0]["parts"][0],
    ]
    for find in deep:
        changed = msgspec.msgpack.decode(msgspec.msgpack.encode(stored))
        find(changed)["newer"] = 1
        with pytest.raises(Unavailable):
            decode_head(msgspec.msgpack.encode(changed))


@pytest.mark.parametrize("union", ["message", "signal", "effect"])
def test_a_kind_of_a_newer_release_is_given_back(union: str) -> None:
    with pytest.raises(
        Unavailable, match=f"^A stored {WORDS[union]} is of a kind this release does not know"
    ):
        DECODERS[union](msgspec.msgpack.encode({"k": "dreamt", "at": 1.0}))


def test_a_fact_or_part_of_a_newer_release_is_given_back() -> None:
    for body in (
        {"k": "noted", "at": 1.0, "note": {"n": "dreamt"}},
        {"k": "said", "at": 1.0, "parts": [{"k": "smell"}]},
        {
            "k": "turn",
            "at": 1.0,
            "upto": 1,
            "ordinal": 0,
            "parts": [{"k": "image", "data": "", "media_type": ""}],
        },
    ):
        with pytest.raises(Unavailable):
            decode_message(msgspec.msgpack.encode(body))


@every_decoder
def test_damaged_bytes_are_broken_and_never_given_back(union: str) -> None:
    whole = next(encode(value) for name, value in samples().items() if name.startswith(f"{union}."))
    whole = whole if union != "head" else encode(samples()["head.Head.most"])
    damaged = [b"\xc1", b"\x00", b"\x93\x01\x02\x03", whole[:-1], whole + b"\x00", b"\x81" * 5, b"\xa3abc"]
    for body in damaged:
        with pytest.raises(Broken, match=f"^A stored {WORDS[union]} cannot be read: its bytes are damaged"):
            DECODERS[union](body)


def test_text_that_is_no_utf_8_is_damage() -> None:
    with pytest.raises(Broken):
        decode_message(SAID.replace(b"hi", b"\xff\xfe"))


@searched
@given(st.integers(0, len(SAID) - 1), st.integers(0, 255))
def test_no_damage_escapes_the_two_errors(place: int, byte: int) -> None:
    body = SAID[:place] + bytes([byte]) + SAID[place + 1 :]
    try:
        decode_message(body)
    except (Unavailable, Broken):
        return


@pytest.mark.parametrize(
    "text", ["", "\0", "\x1b[2J\x07", "é\U0001f600\ufffd\u2028\ufeff", "literal \\u0000", "x" * 10_000_000]
)
def test_any_text_is_stored_and_read_back_as_it_was(text: str) -> None:
    """WIR-11."""
    message = Said(1.0, (Text(text),))
    assert decode_message(encode(message)) == message


def test_defaults_are_left_out() -> None:
    assert msgspec.msgpack.decode(encode(Turn(1.0, 2, 3))) == {
        "k": "turn",
        "at": 1.0,
        "upto": 2,
        "ordinal": 3,
    }
    assert msgspec.msgpack.decode(encode(Head())) == {}


def test_what_is_missing_for_lack_of_a_required_field_is_not_guessed() -> None:
    with pytest.raises(Unavailable):
        decode_message(msgspec.msgpack.encode({"k": "turn", "at": 1.0}))


def test_every_pair_of_kinds_has_its_own_tag() -> None:
    for union in UNIONS.values():
        tags = [kind.__struct_config__.tag for kind in members(union)]
        assert all(a != b for a, b in itertools.combinations(tags, 2))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x91", b"\xa1x", b"\x91" * 5_000, b"\x82\x01"])
def test_damaged_bytes_of_what_is_kept_are_broken(body: bytes) -> None:
    with pytest.raises(Broken, match=r"^A kept key cannot be read: its bytes are damaged"):
        decode_kept(body, tuple[str, str], "key")


def test_what_is_kept_is_read() -> None:
    assert decode_kept(msgspec.msgpack.encode(("a", "b")), tuple[str, str], "key") == ("a", "b")


@pytest.mark.parametrize("body", [b"\x81\xa1z" + b"\x91" * 5_000, b"\x91" * 5_000])
def test_bytes_that_are_nested_without_end_are_broken(body: bytes) -> None:
    with pytest.raises(Broken, match="damaged"):
        decode_head(body)
