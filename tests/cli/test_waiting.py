"""When a command that waits for a reply stops waiting."""

import pytest

from torpor.cli.waiting import Watch
from torpor.core.messages import By, Closed, Message, Note, Noted, Parked, Queued, Said, Stopped, Text, Turn
from torpor.runtime.replies import Entry

MINE = "said/mine"


def said(signal: str) -> Said:
    return Said(0.0, (Text("hi"),), signal, By("person"), "steer")


def ends(*messages: Message) -> list[bool]:
    watch = Watch(MINE)
    return [watch.take(Entry(position, message)) for position, message in enumerate(messages, 1)]


@pytest.mark.parametrize("note", [Parked("no money", "quota"), Stopped("a person")])
def test_what_ended_an_earlier_exchange_is_not_the_end(note: Note) -> None:
    turn = Turn(at=0.0, ordinal=0, parts=(Text("there"),), upto=2, end=True)
    assert ends(Noted(0.0, note), said(MINE), turn) == [False, False, True]
    assert ends(said("said/another"), Noted(0.0, note), said(MINE), turn)[:3] == [False, False, False]


@pytest.mark.parametrize("note", [Parked("no money", "quota"), Stopped("a person"), Closed("a person")])
def test_what_comes_after_the_words_ends_the_waiting(note: Note, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(said(MINE), Noted(0.0, note)) == [False, True]
    queued = Noted(0.0, Queued((Text("hi"),), MINE, By("person")))
    assert ends(queued, Noted(0.0, note)) == [False, True]
    assert capsys.readouterr().err


def test_a_thread_that_was_closed_before_reads_no_words() -> None:
    assert ends(Noted(0.0, Closed("a person"))) == [True]
