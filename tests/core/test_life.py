"""Stopping, closing, parking and going on; calls that were given up."""

from typing import Any

import pytest

from tests.core.playing import SERVER, THREAD, Played, call
from torpor.core.effects import Cancel, Notify
from torpor.core.head import Exchange
from torpor.core.messages import (
    Born,
    Closed,
    Equipped,
    Late,
    Noted,
    Result,
    Resumed,
    Said,
    Stopped,
    Text,
    Turn,
)
from torpor.core.news import GIVEN_UP_KEPT
from torpor.core.record import WaitSettled
from torpor.core.request import InputItem, NoticeItem, TurnItem
from torpor.core.signals import AnySignal
from torpor.core.thread import fold

GO_ON = "[Nothing new has come. Go on.]"
ASIDE = "[Something that came here was set aside after a failure and is not shown.]"


def working(*names: str, **fields: Any) -> tuple[Played, list[str]]:
    """A thread whose calls are pending."""
    played = Played(**fields)
    played.absorb(played.text("go"))
    return played, played.reply(*(call(name) for name in names or ("remote", "write")))


def test_a_thread_is_born_with_its_agent_and_owes_nothing() -> None:
    played = Played()
    assert played.head.agent == "tester"
    assert played.head.length == 1
    assert played.why == "idle"
    head = fold([Noted(1.0, Born("a", "hash"))])
    assert (head.agent, head.definition, head.state) == ("a", "hash", "open")


# ---------------------------------------------------------------- stop


def test_stopping_settles_every_call_and_cancels_what_was_sent() -> None:
    played, [a, b, c] = working("remote", "write", "read", parallel=2)
    step = played.absorb(played.stop())
    assert played.why == "stopped"
    assert not played.owes
    assert played.results() == {a: "stopped", b: "stopped", c: "stopped"}
    assert step.effects == [Cancel(f"{a}/cancel", a, SERVER), Cancel(f"{b}/cancel", b)]
    assert played.all(Stopped) == [Stopped()]
    assert not played.head.exchange.open
    assert [result.is_error for result in played.last_results()] == [True] * 3
    assert played.head.pending == {}


def test_stopping_twice_is_stopping_once() -> None:
    played, _ = working()
    played.absorb(played.stop())
    again = played.stop()
    step = played.absorb(again)
    assert played.outcomes[again.id] == "stopped already"
    assert step.messages == []


def test_a_stopped_thread_records_news_and_does_not_wake() -> None:
    """E64."""
    played, [a, b] = working()
    played.absorb(played.result(a, subscription=True))
    played.absorb(played.stop())
    played.absorb(played.event(a, "ping"), played.result(b, "late"))
    assert played.why == "stopped"
    assert not played.owes
    assert len(played.all(Late)) == 1


def test_only_words_or_a_nudge_resume_a_stopped_thread() -> None:
    played, [a, _] = working()
    played.absorb(played.result(a, "one", subscription=True))
    played.absorb(played.stop())
    played.absorb(played.event(a, "ping"))
    played.absorb(played.nudge())
    assert played.why == "complete"
    assert played.all(Resumed) == [Resumed("nudge")]
    assert played.shown() == ["results: one | Stopped: a person stopped the thread.", "event of remote: ping"]


def test_a_result_in_the_batch_of_the_stop_is_not_lost() -> None:
    """INT-10."""
    played, [a, b] = working()
    played.absorb(played.stop(), played.result(a, "precious"))
    assert played.why == "stopped"
    assert played.results() == {a: "precious", b: "stopped"}
    assert played.cancelled == [b]
    played.absorb(played.nudge())
    assert played.shown() == ["results: precious | Stopped: a person stopped the thread."]


def test_words_in_the_batch_of_the_stop_resume_it() -> None:
    played, [a, b] = working()
    played.absorb(played.text("no, this"), played.stop())
    assert played.results() == {a: "stopped", b: "stopped"}
    assert played.why == "complete"
    assert [type(note) for note in [*played.all(Stopped), *played.all(Resumed)]] == [Stopped, Resumed]


def test_a_parked_thread_can_be_stopped() -> None:
    played = Played()
    played.absorb(played.text())
    played.park()
    played.absorb(played.stop())
    assert played.why == "stopped"
    assert played.head.reason == ""


# --------------------------------------------------------------- close


def test_closing_ends_everything_and_tells_every_server() -> None:
    played, [a, b] = working()
    played.absorb(played.result(a, subscription=True))
    opened = played.now
    step = played.absorb(played.close())
    assert played.why == "closed"
    assert played.results()[b] == "stopped"
    assert played.last_results()[0].parts == (Text("Stopped: the thread was closed."),)
    assert step.effects == [
        Cancel(f"{b}/cancel", b),
        Cancel(f"{a}/cancel/subscription", a, SERVER),
        Notify(f"{THREAD}/closed"),
    ]
    assert played.all(Closed) == [Closed()]
    assert played.head.reason == ""
    assert WaitSettled(a, "subscription", opened, played.now, "closed") in step.settled
    assert (played.head.subscriptions, played.head.detached, played.head.pending) == ({}, {}, {})
    assert not played.head.exchange.open


def test_a_parked_thread_can_be_closed() -> None:
    played = Played()
    played.park(played.text())
    played.absorb(played.close())
    assert (played.why, played.head.reason) == ("closed", "")


def test_what_comes_after_the_end_is_dropped_for_that_reason() -> None:
    """E62."""
    played, [a, _] = working()
    signals: list[AnySignal] = [
        played.text(),
        played.result(a),
        played.nudge(),
        played.stop(),
        played.close(),
    ]
    played.absorb(played.close())
    step = played.absorb(*signals)
    assert set(step.outcomes.values()) == {"closed"}
    assert step.messages == []
    assert step.effects == []


def test_what_comes_with_the_end_is_dropped_for_that_reason() -> None:
    played, [a, b] = working()
    text, result = played.text(), played.result(a)
    played.absorb(text, result, played.close())
    assert played.outcomes[text.id] == played.outcomes[result.id] == "closed"
    assert played.results() == {a: "stopped", b: "stopped"}


def test_a_stop_and_the_end_in_one_batch_leave_nothing_open() -> None:
    played, [a, b] = working()
    played.absorb(played.stop(), played.result(a), played.close())
    assert played.why == "closed"
    assert played.results() == {a: "stopped", b: "stopped"}


# ---------------------------------------------------------- park, nudge


def test_a_parked_thread_says_why_and_waits_for_a_person() -> None:
    played = Played()
    played.absorb(played.text())
    played.park(reason="too much")
    assert played.why == "parked"
    assert played.head.reason == "too much"
    assert played.head.owes
    assert not played.owes


def test_a_nudge_resumes_with_a_fresh_allowance_and_the_same_question() -> None:
    played = Played()
    played.absorb(played.text("one"))
    played.reply(call("nothing"))
    played.park()
    assert played.head.exchange.completions == 1
    played.absorb(played.nudge())
    assert played.why == "complete"
    assert played.owes
    assert played.head.reason == ""
    assert played.head.exchange == Exchange(open=True, since=played.now)
    [shown] = played.shown()
    assert shown.startswith("results: Error: there is no tool")


def test_a_nudge_of_an_open_thread_changes_nothing() -> None:
    played = Played()
    nudge = played.nudge()
    step = played.absorb(nudge)
    assert played.outcomes[nudge.id] == "open already"
    assert step.messages == []
    assert played.why == "idle"


def test_a_nudge_with_nothing_new_still_leaves_something_to_answer() -> None:
    played = Played()
    played.absorb(played.text("hi"))
    played.reply("hello")
    played.absorb(played.stop())
    played.absorb(played.nudge())
    assert played.why == "complete"
    assert played.shown() == [GO_ON]
    played.reply("well")
    assert played.requests[-1].items[-1] == NoticeItem(GO_ON)


def test_a_nudge_before_anything_was_said_still_leaves_something_to_answer() -> None:
    played = Played()
    played.absorb(played.stop())
    played.absorb(played.nudge())
    played.reply("anybody?")
    assert played.requests[-1].items == (NoticeItem(GO_ON),)


def test_a_nudge_after_a_turn_with_nothing_in_it_asks_the_same_again() -> None:
    played = Played()
    played.absorb(played.text("hi"))
    played.reply()
    played.absorb(played.stop())
    played.absorb(played.nudge())
    played.reply("hello")
    assert played.requests[1] == played.requests[0]


def test_inputs_set_aside_are_shown_as_one_constant_line() -> None:
    played = Played()
    played.absorb(played.text("before"))
    played.reply("ok")
    played.park(played.text("poison"), played.text("more poison"), aside=True)
    assert played.why == "parked"
    assert not played.head.owes
    played.absorb(played.text("again"))
    assert played.shown() == [ASIDE, "again"]
    played.reply("fine")
    assert [type(item) for item in played.requests[-1].items] == [InputItem, TurnItem, NoticeItem, InputItem]
    assert [said.parts for said in played.all(Said)][1] == (Text("poison"),)


def test_a_result_set_aside_still_settles_its_call() -> None:
    played, [a, b] = working()
    played.absorb(played.result(a, "poison", handle="h", size=3))
    played.park(played.result(b, "more", is_error=True), aside=True)
    played.absorb(played.text("again"))
    assert played.shown() == [f"results: {ASIDE} | {ASIDE}", "again"]
    played.reply("ok")
    item = played.requests[-1].items[-2]
    assert [view.is_error for view in getattr(item, "results", ())] == [False, True]


def test_what_the_runtime_itself_said_of_a_call_is_not_set_aside() -> None:
    played, [_, b] = working("nothing", "remote")
    played.absorb(played.result(b, "poison"))
    played.park(aside=True)
    played.absorb(played.text("again"))
    [results, *_] = played.shown()
    assert results.startswith("results: Error: there is no tool 'nothing'.")
    assert results.endswith(f" | {ASIDE}")


def test_a_late_result_set_aside_is_shown_as_set_aside() -> None:
    played, [a, _] = working()
    played.absorb(played.text("and?"))
    played.reply("wait")
    played.park(played.result(a, "poison"), aside=True)
    played.absorb(played.text("again"))
    assert played.shown() == [f"result of remote: {ASIDE}", "again"]


def test_what_is_set_aside_twice_is_still_one_line() -> None:
    played = Played()
    played.park(played.text("poison"), aside=True)
    played.park(played.text("poison"), aside=True)
    played.absorb(played.text("again"))
    assert played.shown() == [ASIDE, "again"]


def test_what_was_answered_before_is_not_set_aside() -> None:
    played = Played()
    played.absorb(played.text("before"))
    played.reply("ok")
    played.park(played.text("poison"), aside=True)
    played.absorb(played.nudge())
    assert played.why == "complete"
    assert played.shown() == [ASIDE]
    assert played.head.owed == played.head.length


def test_inputs_are_kept_when_a_thread_is_parked_for_another_reason() -> None:
    played = Played()
    played.park(played.text("mine"))
    played.absorb(played.nudge())
    assert played.shown() == ["mine"]


def test_words_queued_at_a_parked_thread_are_said_at_once() -> None:
    played = Played()
    played.park(played.text("poison"), aside=True)
    played.absorb(played.text("hello", "queue"))
    assert played.why == "complete"
    assert played.shown() == [ASIDE, "hello"]


# ------------------------------------------------------- given-up calls


@pytest.mark.parametrize("cause", ["unknown", "undelivered", "dead", "timeout"])
def test_a_call_the_runtime_gave_up_still_gets_its_one_real_result_as_news(cause: str) -> None:
    played, [a] = working("remote")
    played.absorb(played.result(a, "gave up", is_error=True, cause=cause))
    assert played.head.detached[a].given_up == cause
    assert played.shown() == ["results: gave up"]
    played.reply("oh")
    again = played.result(a, "again", cause="undelivered")
    played.absorb(again)
    assert played.outcomes[again.id] == "settled already"
    assert played.why == "idle"
    played.absorb(played.result(a, "here I am"))
    assert played.shown() == ["result of remote: here I am"]
    assert played.head.detached == {}
    played.reply("good")
    second = played.result(a, "and again")
    played.absorb(second)
    assert played.outcomes[second.id] == "late"


def test_a_real_result_right_after_the_runtimes_own_is_shown_beside_it() -> None:
    played, [a] = working("remote")
    played.absorb(played.result(a, "gave up", is_error=True, cause="unknown"))
    played.absorb(played.result(a, "here I am"))
    assert played.shown() == ["results: gave up", "result of remote: here I am"]


def test_the_head_keeps_arguments_of_a_given_up_call_only_while_they_may_be_shown() -> None:
    played = Played()
    played.absorb(played.text())
    a, b = played.reply(call("remote", '{"n": 1}'), call("remote", '{"n": 2}'))
    played.absorb(played.result(a, "gave up", cause="dead"))
    played.absorb(played.text("stop", "interrupt"))
    assert played.head.detached[a].arguments == '{"n": 1}'
    assert played.head.detached[b].arguments == "{}"
    assert played.head.detached[b].server == SERVER


def test_an_ordinary_cause_leaves_nothing_open() -> None:
    played, [a] = working("remote")
    played.absorb(played.result(a, "no", cause="refused"))
    assert played.head.detached == {}


def test_a_call_that_takes_too_long_is_settled_and_cancelled() -> None:
    """TIM-10."""
    played, [a] = working("bounded")
    step = played.absorb(played.timer(a, "deadline"))
    assert played.shown() == ["results: Error: no result came within the time the call was given."]
    assert step.effects == [Cancel(f"{a}/cancel", a, SERVER)]
    assert played.results() == {a: "timeout"}
    assert played.last_results()[0].is_error
    played.reply("oh")
    played.absorb(played.result(a, "sorry"))
    assert played.shown() == ["result of bounded: sorry"]


def test_a_deadline_ends_a_sleep_beside_its_call() -> None:
    played, [a, b] = working("bounded", "sleep_until_event_or_input")
    played.absorb(played.timer(a, "deadline"))
    assert played.results() == {a: "timeout", b: "woken"}
    assert played.shown()[0].endswith("Woken after 1 seconds by the end of the time given to bounded.")


def test_a_deadline_of_a_detached_call_comes_as_news() -> None:
    played, [a] = working("bounded")
    played.absorb(played.text("and?"))
    played.reply("wait")
    played.absorb(played.timer(a, "deadline"))
    assert played.shown() == ["result of bounded: Error: no result came within the time the call was given."]
    assert played.head.detached[a].given_up == "timeout"
    played.reply("oh")
    played.absorb(played.result(a, "sorry"))
    assert played.shown() == ["result of bounded: sorry"]


def test_a_deadline_and_the_result_in_one_batch_count_as_the_result() -> None:
    played, [a] = working("bounded")
    timer = played.timer(a, "deadline")
    played.absorb(timer, played.result(a, "just in time"))
    assert played.outcomes[timer.id] == "settled already"
    assert played.shown() == ["results: just in time"]


def test_a_second_deadline_finds_the_call_given_up() -> None:
    played, [a] = working("bounded")
    timer = played.timer(a, "deadline")
    played.absorb(timer)
    played.absorb(timer)
    assert played.outcomes[timer.id] == "settled already"
    assert len(played.all(Result)) == 1


@pytest.mark.parametrize("act", ["interrupt", "stop"])
def test_what_the_runtime_gave_up_is_not_given_up_again(act: str) -> None:
    played, [a] = working("bounded")
    played.absorb(played.timer(a, "deadline"))
    played.absorb(played.stop() if act == "stop" else played.text("x", "interrupt"))
    assert len(played.all(Result)) == 1
    assert played.cancelled == [a]


def test_only_the_latest_given_up_calls_are_remembered() -> None:
    played = Played(parallel=100)
    ids: list[str] = []
    for _ in range(35):
        played.absorb(played.text("go"))
        pair = played.reply(call("remote"), call("remote"))
        played.absorb(*(played.result(id, "gave up", cause="dead") for id in pair))
        played.reply("oh")
        ids += pair
        assert list(played.head.detached) == ids[-GIVEN_UP_KEPT:]
    forgotten = played.result(ids[5], "late")
    played.absorb(forgotten)
    assert played.outcomes[forgotten.id] == "late"


def test_calls_that_still_run_do_not_count_among_the_given_up() -> None:
    played = Played(parallel=100)
    played.absorb(played.text("go"))
    running = played.reply(*[call("remote")] * 70)
    played.absorb(played.text("and?"))
    played.absorb(played.result(running[0], "gave up", cause="dead"))
    assert len(played.head.detached) == 70
    assert list(played.head.detached)[-1] == running[0]


# ------------------------------------------------------------ the rest


def test_a_manifest_is_recorded_by_server() -> None:
    head = fold([Noted(1.0, Equipped("http://a", "1")), Noted(1.0, Equipped("http://b", "2"))])
    assert head.toolsets == {"http://a": "1", "http://b": "2"}
    assert not head.owes


def test_a_result_without_a_call_is_owed_an_answer_and_opens_nothing() -> None:
    head = fold([Result(1.5, "never", (Text("x"),), subscription=True)])
    assert head.owes
    assert head.exchange == Exchange(open=True, since=1.5)
    assert head.subscriptions == {}


def test_settling_what_is_not_open_records_no_wait() -> None:
    step = Played().absorb()
    step.settle(Result(1.0, "never"))
    assert (step.settled, step.cancelled) == ([], [])
    assert step.messages == [Result(1.0, "never")]


def test_usage_without_figures_keeps_the_window() -> None:
    head = fold([Turn(1.0, 1, 0)])
    assert head.window == 0
    assert head.exchange.tokens == 0
