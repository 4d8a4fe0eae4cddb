"""Requests and their items, as adapters and scripted models read them."""

import json
import time

import msgspec
import pytest

from tests.golden.samples import GOLDEN
from torpor.core.builtins import BUILTINS
from torpor.core.messages import Call, Reasoning, Text, text_of
from torpor.core.request import (
    AnyItem,
    InjectedItem,
    InputItem,
    NoticeItem,
    Request,
    ResultsItem,
    ResultView,
    TurnItem,
    instant,
    item_text,
)


def asking(*items: AnyItem) -> Request:
    return Request("a", "m", "", (), items)


VIEW = ResultView("c1", "read", (Text("one"), Text("two")))
INJECTED = InjectedItem("news3", "watch", "c1", '{"path":"x"}', (Text("ping"),), at=90.4)


def test_text_is_joined_by_line_breaks_and_other_parts_are_left_out() -> None:
    assert text_of((Text("a"), Reasoning("b"), Call("c", "d"), Text("e"))) == "a\ne"


def test_each_item_has_its_words() -> None:
    assert item_text(InputItem(1.0, (Text("a"), Text("b")))) == "a\nb"
    assert item_text(TurnItem((Text("a"), Call("c", "read"), Text("b")))) == "a\nb"
    assert item_text(ResultsItem((VIEW, VIEW))) == "one\ntwo\none\ntwo"
    assert ResultsItem((VIEW,)).text == "one\ntwo"
    assert item_text(INJECTED) == "ping"
    assert item_text(NoticeItem("[x]")) == "[x]"


def test_a_turns_calls_stand_alone() -> None:
    assert TurnItem((Text("a"), Call("c", "read"), Call("d", "write"))).calls == (
        Call("c", "read"),
        Call("d", "write"),
    )


def test_the_instant_of_words_is_shown_to_the_second() -> None:
    assert InputItem(86_461.9, ()).stamp == "[1970-01-02 00:01:01 UTC]"
    assert instant(0.0) == "1970-01-01 00:00:00 UTC"


def test_instants_are_in_utc_wherever_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert instant(0.0) == "1970-01-01 00:00:00 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_news_is_rendered_as_the_reserved_call() -> None:
    assert msgspec.json.decode(INJECTED.wrapped) == {
        "original_tool_name": "watch",
        "original_tool_call_id": "c1",
        "original_args": {"path": "x"},
    }
    assert INJECTED.heading == "[1970-01-01 00:01:30 UTC]"


def test_news_says_what_the_runtime_knows_about_it() -> None:
    item = msgspec.structs.replace(INJECTED, notes=("A.", "B."))
    assert item.heading == "[1970-01-01 00:01:30 UTC] A. B."


def test_the_words_of_a_request_are_those_of_its_last_item() -> None:
    assert asking().text == ""
    assert asking(InputItem(1.0, (Text("a"),)), NoticeItem("b")).text == "b"


def test_what_came_since_the_last_turn_is_what_the_model_is_asked_about() -> None:
    first, turn = InputItem(1.0, (Text("a"),)), TurnItem((Text("b"),))
    last = (ResultsItem((VIEW,)), INJECTED)
    assert asking(first).since_turn == (first,)
    assert asking(first, turn).since_turn == ()
    assert asking(first, turn, *last).since_turn == last
    assert asking(turn, first, turn, *last).since_turn == last
    assert asking(first, turn, *last).results == (VIEW,)
    assert asking(ResultsItem((VIEW,)), turn, first).results == ()


def test_the_tools_that_every_agent_has_are_told_of_as_they_were() -> None:
    told = json.loads((GOLDEN / "builtins.json").read_text("utf-8"))
    assert [msgspec.to_builtins(tool) for tool in BUILTINS] == told
