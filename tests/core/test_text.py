"""Text of others: fit to be stored, and strict JSON."""

from typing import Any

import pytest

from torpor.core.text import clean, cleaned, read_json


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("é\U0001f600", "é\U0001f600"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("nul \0 and \x1b[31m", "nul \0 and \x1b[31m"),
    ],
)
def test_lone_surrogates_are_replaced_and_all_else_is_kept(text: str, kept: str) -> None:
    assert clean(text) == kept


def test_all_texts_of_a_value_are_cleaned_and_all_else_is_kept() -> None:
    given = {"\ud800": [1, None, True, 2.5, {"a": "\udc00"}], "b": "\ud83d\ude00"}
    assert cleaned(given) == {"\ufffd": [1, None, True, 2.5, {"a": "\ufffd"}], "b": "\U0001f600"}


@pytest.mark.parametrize(
    ("body", "value"),
    [(b'{"a": [1, 2.5, "\xc3\xa9"]}', {"a": [1, 2.5, "é"]}), ("null", None), (" 1e3 ", 1000.0)],
)
def test_what_is_json(body: bytes | str, value: Any) -> None:
    assert read_json(body) == value


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xff", "utf-8"),
        (b"\xef\xbb\xbf{}", "BOM"),
        ("", "Expecting value"),
        ("[NaN]", "NaN is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        ("1e999", "a number is too large"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_no_json(body: bytes | str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_json(body)


def test_objects_are_made_as_it_is_said() -> None:
    assert read_json('{"a": 1, "a": {"b": 2}}') == {"a": {"b": 2}}
    assert read_json('{"a": 1, "a": {"b": 2}}', list) == [("a", 1), ("a", [("b", 2)])]
