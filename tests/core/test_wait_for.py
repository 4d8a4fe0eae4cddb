"""Waits for certain news: of calls that run, of subscriptions, of children."""

from typing import Any

import pytest

from tests.core.families import Family, begun, tool_call
from tests.core.playing import THREAD, Played, call
from torpor.core.messages import Result, text_of
from torpor.core.turn import RawCall


def waiting_for(*ids: str, **more: Any) -> RawCall:
    return tool_call("wait_for", ids=list(ids), **more)


def last(played: Played) -> str:
    return text_of(played.all(Result)[-1].parts)


def with_two_calls() -> tuple[Family, str, str]:
    """A root with two calls that run on while it is asked."""
    family = begun()
    a, b = family.reply(THREAD, call("remote"), call("remote"))
    family.absorb(THREAD, family.root.text("Wait for them."))
    return family, a, b


def with_subscription() -> tuple[Family, str]:
    family = begun()
    [sub] = family.reply(THREAD, call("remote"))
    family.absorb(THREAD, family.root.result(sub, subscription=True))
    return family, sub


def test_the_first_of_several_results_ends_it() -> None:
    family, a, b = with_two_calls()
    [wait] = family.reply(THREAD, waiting_for(a, b))
    assert family.root.why == "waiting"
    assert not family.root.head.active
    assert not family.root.head.exchange.open
    family.absorb(THREAD, family.root.result(b, "bee"))
    assert family.root.results()[wait] == "woken"
    assert last(family.root).endswith(f"Nothing has come yet of: {a}.")
    assert any("bee" in line for line in family.root.shown())
    assert family.root.why == "complete"


def test_all_of_several_results_end_it() -> None:
    family, a, b = with_two_calls()
    [wait] = family.reply(THREAD, waiting_for(a, b, a, mode="all"))
    family.absorb(THREAD, family.root.result(b, "bee"))
    assert family.root.why == "waiting"
    family.absorb(THREAD, family.root.result(a, "ay", is_error=True))
    assert family.root.results()[wait] == "woken"
    assert "Nothing" not in last(family.root)
    assert [line for line in family.root.shown() if "bee" in line]


def test_other_news_waits_for_it() -> None:
    family, a, b = with_two_calls()
    family.reply(THREAD, waiting_for(a))
    family.absorb(THREAD, family.root.result(b, "bee"))
    assert family.root.why == "waiting"
    assert not family.root.owes
    family.absorb(THREAD, family.root.result(a, "ay"))
    assert family.root.why == "complete"
    assert [line for line in family.root.shown() if "bee" in line]


def test_a_persons_words_end_it() -> None:
    for mode in ("steer", "queue", "interrupt"):
        family, a, _ = with_two_calls()
        family.reply(THREAD, waiting_for(a))
        family.absorb(THREAD, family.root.text("Stop waiting.", mode))
        assert family.root.why == "complete"
        assert family.root.shown()[-1] == "Stop waiting."


def test_its_time_may_be_bounded() -> None:
    family, a, _ = with_two_calls()
    [wait] = family.reply(THREAD, waiting_for(a, seconds=90))
    timer = family.root.timer(wait)
    assert timer.due == family.root.now + 90
    family.root.now = timer.due
    family.absorb(THREAD, timer)
    assert family.root.results()[wait] == "slept"
    assert f"Nothing has come yet of: {a}." in last(family.root)


def test_news_lifts_its_timer() -> None:
    family, a, _ = with_two_calls()
    family.reply(THREAD, waiting_for(a, seconds=90))
    family.absorb(THREAD, family.root.result(a))
    assert family.root.alarms == {}


@pytest.mark.parametrize("seconds", [1e12, 1e300])
def test_its_time_has_a_bound(seconds: float) -> None:
    family, a, _ = with_two_calls()
    family.reply(THREAD, waiting_for(a, seconds=seconds))
    assert "ten years" in last(family.root)


def test_news_with_a_deadline_of_its_own_ends_it() -> None:
    family, a, _ = with_two_calls()
    family.reply(THREAD, waiting_for(a))
    [sub] = [id for id in family.root.head.detached if id != a]
    family.absorb(THREAD, family.root.event(sub, "urgent", start_by=5_000.0))
    assert family.root.why == "waiting"
    [timer] = family.root.alarms.values()
    family.root.now = 5_000.0
    family.absorb(THREAD, timer)
    assert family.root.why == "complete"


def test_a_sleep_beside_it_bounds_it() -> None:
    family, a, b = with_two_calls()
    sleep, wait = family.reply(THREAD, call("sleep", '{"seconds": 90}'), waiting_for(a))
    family.absorb(THREAD, family.root.result(b))
    assert family.root.results()[sleep] == "woken"
    assert family.root.why == "waiting"
    assert wait in family.root.head.pending


def test_the_end_of_a_sleep_beside_it_ends_it() -> None:
    family, a, _ = with_two_calls()
    sleep, wait = family.reply(THREAD, call("sleep", '{"seconds": 90}'), waiting_for(a))
    family.absorb(THREAD, family.root.timer(sleep))
    assert family.root.results()[wait] == "woken"
    assert family.root.why == "complete"


def test_a_call_beside_it_is_shown_with_it() -> None:
    family, a, _ = with_two_calls()
    c, wait = family.reply(THREAD, call("read"), waiting_for(a))
    family.absorb(THREAD, family.root.result(a))
    assert family.root.why == "waiting"
    family.absorb(THREAD, family.root.result(c))
    assert family.root.results()[wait] == "woken"
    assert family.root.why == "complete"


def test_events_of_a_subscription_end_it() -> None:
    family, sub = with_subscription()
    [wait] = family.reply(THREAD, waiting_for(sub))
    family.absorb(THREAD, family.root.event(sub, "ding"))
    assert family.root.results()[wait] == "woken"
    assert any("ding" in line for line in family.root.shown())


def test_what_a_temporary_child_reports_is_news_of_the_subscription_and_its_events_are_not() -> None:
    family, sub = with_subscription()
    [wait] = family.reply(THREAD, waiting_for(sub))
    family.absorb(THREAD, family.root.event(sub, "ding", associative=False))
    family.settle()
    assert wait in family.root.head.pending
    [child] = family.root.head.children
    family.reply(child, tool_call("report_to_parent", report="It rang."))
    assert family.root.results()[wait] == "woken"
    assert any("It rang." in line for line in family.root.shown())


def test_the_end_of_a_subscription_ends_it_whoever_is_given_the_event() -> None:
    family, sub = with_subscription()
    [wait] = family.reply(THREAD, waiting_for(sub))
    family.absorb(THREAD, family.root.event(sub, "last", associative=False, final=True))
    assert family.root.results()[wait] == "woken"
    assert family.root.why == "complete"


def test_a_subscription_that_the_same_turn_cancels_is_not_waited_for() -> None:
    family, sub = with_subscription()
    wait, _ = family.reply(THREAD, waiting_for(sub), tool_call("cancel_subscription", tool_call_id=sub))
    assert family.root.results()[wait] == "woken"
    assert family.root.why == "complete"


def test_an_event_before_the_subscription_is_news_of_the_call() -> None:
    family, a, _ = with_two_calls()
    [wait] = family.reply(THREAD, waiting_for(a))
    family.absorb(THREAD, family.root.event(a, "early"))
    assert family.root.results()[wait] == "woken"


@pytest.mark.parametrize(
    "does", ["report_to_parent", "close_thread", "ends", "parks", "is stopped", "has reported"]
)
def test_whatever_becomes_of_a_child_ends_it(does: str) -> None:
    family = begun()
    child = family.spawn()
    mine = family.kin[child]
    if does == "has reported":
        family.reply(child, tool_call("report_to_parent", report="Soon."))
    [wait] = family.reply(THREAD, waiting_for(child))
    assert family.root.why == "waiting"
    if does == "parks":
        mine.park(reason="Too much.")
    elif does == "is stopped":
        mine.absorb(mine.stop())
    elif does in ("ends", "has reported"):
        family.reply(child, "Done.")
    elif does == "close_thread":
        family.reply(child, tool_call(does, thread_id=child))
    else:
        family.reply(child, tool_call(does, report="Done."))
    family.settle()
    assert family.root.results()[wait] == "woken"
    assert family.root.why == "complete"


def test_two_children_can_be_waited_for_together() -> None:
    family = begun()
    one, two = family.spawn(), family.spawn()
    [wait] = family.reply(THREAD, waiting_for(one, two, mode="all"))
    family.reply(one, "One.")
    assert wait in family.root.head.pending
    family.reply(two, "Two.")
    assert family.root.results()[wait] == "woken"


@pytest.mark.parametrize("state", ["ended", "parked", "stopped"])
def test_nobody_waits_for_a_child_that_does_nothing(state: str) -> None:
    family = begun()
    child, other = family.spawn(), family.spawn()
    mine = family.kin[child]
    if state == "ended":
        mine.reply("Done.")
    elif state == "parked":
        mine.park(reason="Too much.")
    else:
        mine.absorb(mine.stop())
    family.settle()
    [refused] = family.reply(THREAD, waiting_for(child, other))
    assert family.root.results()[refused] == "decided"
    assert "send it a message first" in last(family.root)
    assert last(family.root).endswith(f"News can come of: {other}.")
    _, wait = family.reply(
        THREAD, tool_call("send_message_to_child", thread_id=child, message="Go on."), waiting_for(child)
    )
    if state == "stopped":  # by a person, and it says so again
        assert family.root.results()[wait] == "woken"
    else:
        assert wait in family.root.head.pending


def test_what_is_not_known_cannot_be_waited_for() -> None:
    family, a, b = with_two_calls()
    family.absorb(THREAD, family.root.result(a))
    family.reply(THREAD, waiting_for(a, "x" * 500))
    assert f"News can come of: {b}." in last(family.root)
    assert len(last(family.root)) < 500
    family.absorb(THREAD, family.root.result(b, cause="unknown", is_error=True))
    family.reply(THREAD, waiting_for(b))
    assert "News can come of: nothing." in last(family.root)


@pytest.mark.parametrize("arguments", ['{"ids": []}', "{}", '{"ids": ["a"], "mode": "some"}', '{"ids": "a"}'])
def test_what_it_waits_for_must_be_said(arguments: str) -> None:
    family = begun()
    family.reply(THREAD, call("wait_for", arguments))
    assert family.root.all(Result)[-1].cause == "invalid_arguments"


def test_what_came_while_the_model_was_asked_ends_it() -> None:
    """EVT-01: news a moment before the wait is registered."""
    family, a, _ = with_two_calls()
    [wait] = family.root.reply(waiting_for(a), meanwhile=[family.root.result(a, "ay")])
    assert family.root.results()[wait] in ("woken", "decided")
    assert family.root.why == "complete"


def test_other_news_that_came_while_the_model_was_asked_ends_it_too() -> None:
    family, a, b = with_two_calls()
    [wait] = family.root.reply(waiting_for(a), meanwhile=[family.root.result(b, "bee")])
    assert family.root.results()[wait] == "woken"
    assert family.root.why == "complete"


def test_a_stop_ends_it() -> None:
    family, a, _ = with_two_calls()
    family.reply(THREAD, waiting_for(a, seconds=90))
    family.absorb(THREAD, family.root.stop())
    assert family.root.head.pending == {}
    assert family.root.alarms == {}
