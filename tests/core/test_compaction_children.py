"""However a compaction child ends, its parent hears of it, and the child is closed."""

from typing import Any

import pytest

from tests.core.families import Family, tool_call
from tests.core.playing import THREAD, Played, call
from torpor.core import compaction
from torpor.core.builtins import BUILTINS, offered
from torpor.core.definition import Limits
from torpor.core.effects import Post
from torpor.core.messages import By, Compacting, Summary, Uncompacted
from torpor.core.signals import ClosedSignal, Compacted, StoppedSignal


def writing() -> tuple[Family, str]:
    """A root with enough behind it that has its history summed up; gives the child."""
    family = Family(window=1_000)
    root = family.root
    for text in ("one", "two", "three"):
        root.absorb(root.text(text))
        root.reply("words " * 200)
    root.absorb(root.text("four"))
    root.decide(lambda step, shown: compaction.begin(step, shown.cuts[-2]))
    family.settle()
    child = root.all(Compacting)[-1].child
    assert family.kin[child].head.purpose == "compaction"
    assert root.head.children == {}
    return family, child


def outcome(family: Family, child: str) -> Compacted:
    """What the parent was told."""
    [signal] = [
        effect.signal
        for effect in family.kin[child].effects
        if isinstance(effect, Post) and isinstance(effect.signal, Compacted)
    ]
    family.settle()
    assert family.kin[child].head.state == "closed"
    assert family.root.head.compaction is None
    return signal


def test_its_last_words_are_the_summary() -> None:
    family, child = writing()
    family.reply(child, "All that matters.")
    assert outcome(family, child).text == "All that matters."
    assert [summary.text for summary in family.root.all(Summary)] == ["All that matters."]


def test_its_report_on_closing_is_the_summary() -> None:
    family, child = writing()
    family.reply(child, tool_call("close_thread", thread_id=child, report_to_parent="All that matters."))
    assert outcome(family, child).text == "All that matters."


def test_without_words_there_is_no_summary() -> None:
    family, child = writing()
    family.reply(child, " ")
    assert outcome(family, child).text == ""
    assert family.root.all(Uncompacted)[-1].reason == "It wrote nothing."


@pytest.mark.parametrize("end", ["parked", "stopped", "closed"])
def test_a_child_that_comes_to_nothing_says_why(end: str) -> None:
    family, child = writing()
    mine = family.kin[child]
    if end == "parked":
        mine.park(reason="No model.")
    elif end == "stopped":
        mine.absorb(StoppedSignal(child, "s", mine.coming, By("person")))
    else:
        mine.absorb(ClosedSignal(child, "c", mine.coming, By("person")))
    reasons = {"parked": "No model.", "stopped": "It was stopped.", "closed": "It was closed."}
    assert outcome(family, child).reason == reasons[end]
    assert family.root.all(Uncompacted)[-1].reason == reasons[end]


@pytest.mark.parametrize("end", ["stop", "close"])
def test_nobody_writes_for_a_thread_that_is_at_its_end(end: str) -> None:
    family, child = writing()
    family.absorb(THREAD, family.root.stop() if end == "stop" else family.root.close())
    family.settle()
    assert family.kin[child].head.state == "closed"
    assert family.root.head.compaction is None
    assert family.root.timers == {}


@pytest.mark.parametrize("limits", [{"depth": 0}, {"children": 0}])
def test_who_may_have_no_children_is_offered_none(limits: dict[str, Any]) -> None:
    names = {tool.name for tool in offered(Limits(**limits))}
    assert {tool.name for tool in BUILTINS} - names == {"spawn_thread", "send_message_to_child"}
    assert offered(Limits()) == BUILTINS


def test_what_is_not_offered_is_unknown() -> None:
    played = Played()
    del played.definition.tools["spawn_thread"]
    played.absorb(played.text())
    played.reply(call("spawn_thread", '{"instructions": "a", "child_of": ["root"]}'))
    assert played.last_results()[0].cause == "unknown_tool"
