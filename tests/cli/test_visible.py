"""Text of others on a terminal: shown, never obeyed."""

import logging
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.cli import demo
from torpor.cli.screen import as_json, duration, line
from torpor.cli.visible import one_line, visible
from torpor.cli.working import Harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with \ttab and\nbreak", "plain, with \ttab and\nbreak"),
        ("é 漢字 😀", "é 漢字 😀"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("nul \x00 back \b return \r", "nul ␀ back ␈ return ␍"),
        ("del \x7f", "del ␡"),
        ("\x9b31m", "<U+009B>31m"),
        ("abc\u202edef", "abc<U+202E>def"),
        ("\u2028\u2029", "<U+2028><U+2029>"),
        ("lone \ud800", "lone \ufffd"),
        ("[bold]not markup[/bold] :smile:", "[bold]not markup[/bold] :smile:"),
    ],
)
def test_table(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert line(text).plain == shown


@given(st.text(alphabet=st.characters(codec=None)))
def test_nothing_that_steers_is_left(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert all(unicodedata.bidirectional(c) not in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI") for c in shown)
    assert visible(shown) == shown


@given(st.text(alphabet=st.characters(codec=None)))
def test_json_is_plain_ascii(text: str) -> None:
    assert as_json({"text": text.encode("utf-8", "replace").decode()}).isascii()


def test_one_line() -> None:
    assert one_line(" a \n b\r\nc ") == "a b␍ c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"
    assert one_line("short", 10) == "short"
    assert one_line("x" + " " * 1_000 + "y", 10) == "x…" or one_line("x" + " " * 1_000 + "y", 10).startswith(
        "x"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0.0 s"), (0.04, "0.0 s"), (9.94, "9.9 s"), (10, "10 s"), (61, "1 min 1 s"), (3_600, "1 h"),
     (90_061, "1 d 1 h")],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_log_line_stays_one_line_and_steers_nothing() -> None:
    record = logging.LogRecord("torpor", 20, "", 0, "from %s", ("a\nb\r\x1b[31mc",), None)
    assert Harmless("%(levelname)s %(message)s").format(record) == "INFO from a\u240ab\u240d\u241b[31mc"


def test_a_traceback_in_the_log_keeps_its_lines_and_steers_nothing() -> None:
    try:
        raise ValueError("\x1b[31m")
    except ValueError:
        record = logging.LogRecord("torpor", 40, "", 0, "it failed", (), sys.exc_info())
    first, *trace = Harmless("%(message)s").format(record).split("\n")
    assert first == "it failed"
    assert trace[-1] == "ValueError: \u241b[31m"


def test_what_the_demo_shows_of_tools_and_models(capsys: pytest.CaptureFixture[str]) -> None:
    demo._say("agent", "[red]\x1b[31m\u202e")
    assert "[red]\u241b[31m<U+202E>" in capsys.readouterr().out.replace("\n", "")
