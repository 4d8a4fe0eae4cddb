"""A person's words while calls are pending: steer, queue, interrupt."""

from typing import Any

import pytest

from tests.core.playing import SERVER, THREAD, Played, call
from torpor.core.absorb import absorb
from torpor.core.effects import Cancel
from torpor.core.messages import By, Detached, Image, Late, Queued, Result, Resumed, Said, Text
from torpor.core.signals import SaidSignal
from torpor.core.step import Step

RUNNING = "Still running. Its result will come as an event."
INTERRUPTED = "Interrupted: the person asked for something else."


def working(*names: str, **fields: Any) -> tuple[Played, list[str]]:
    """A thread whose calls are pending."""
    played = Played(**fields)
    played.absorb(played.text("go"))
    return played, played.reply(*(call(name) for name in names or ("remote", "write")))


def test_words_open_an_exchange_and_an_answer_is_owed() -> None:
    played = Played()
    signal = played.text("hello", trace="ignored")
    played.absorb(signal)
    [said] = played.all(Said)
    assert said == Said(played.now, (Text("hello"),), signal.id, By("runtime"), "steer", 0.0, "trace")
    assert played.why == "complete"
    assert played.head.exchange.open
    assert played.head.exchange.since == played.now


def test_words_keep_who_spoke() -> None:
    played = Played()
    played.absorb(SaidSignal(THREAD, "s", 5.0, By("person", "ann", "token", "k", "h"), parts=(Text("x"),)))
    assert played.all(Said)[0].by == By("person", "ann", "token", "k", "h")


def test_words_of_one_batch_get_one_answer() -> None:
    played = Played()
    played.absorb(played.text("one"), played.text("two"))
    assert played.shown() == ["one", "two"]


def test_steering_is_answered_at_once_and_the_tools_go_on() -> None:
    played, [a, b] = working()
    played.absorb(played.text("and now?"))
    assert played.why == "complete"
    assert played.all(Detached) == [Detached((a, b), "text")]
    assert played.head.detached.keys() == {a, b}
    assert played.cancelled == []
    assert played.shown() == [f"results: {RUNNING} | {RUNNING}", "and now?"]


def test_the_late_result_of_a_steered_call_comes_as_news() -> None:
    played, [a, b] = working()
    played.absorb(played.text("and now?"))
    played.reply("still at it")
    assert played.why == "idle"
    played.absorb(played.result(b, "two"))
    assert played.shown() == ["result of write: two"]
    played.reply("good")
    played.absorb(played.result(a, "bad", is_error=True))
    assert played.shown() == ["result of remote: bad"]
    assert played.requests[-1].items != ()


def test_a_result_that_comes_before_the_steering_words_were_answered_takes_its_place() -> None:
    played, [a, b] = working()
    played.absorb(played.text("and now?"))
    played.absorb(played.result(b, "two"))
    assert played.shown() == [f"results: {RUNNING} | two", "and now?"]
    played.reply("fine")
    played.absorb(played.result(a, "one"))
    assert played.shown() == ["result of remote: one"]


def test_a_result_and_words_in_one_batch_settle_first_and_speak_then() -> None:
    """E57."""
    played, [a, b] = working()
    played.absorb(played.text("and now?"), played.result(a, "one"), played.result(b, "two"))
    assert played.all(Detached) == []
    assert played.shown() == ["results: one | two", "and now?"]


def test_a_second_steering_text_detaches_nothing_more() -> None:
    played, _ = working()
    played.absorb(played.text("one"), played.text("two"))
    assert len(played.all(Detached)) == 1


def test_a_late_result_beside_new_calls_waits_for_them_and_is_shown_after_them() -> None:
    played, [a, _] = working()
    played.absorb(played.text("and now?"))
    [c] = played.reply(call("read"))
    played.absorb(played.result(a, "late"))
    assert played.why == "waiting"
    played.absorb(played.result(c, "three"))
    assert played.shown() == ["results: three", "result of remote: late"]


def test_queued_words_wait_for_the_end_of_the_exchange() -> None:
    """INT-08."""
    played, [a, b] = working()
    signal = played.text("later", "queue")
    at = played.absorb(signal).now
    assert played.outcomes[signal.id] == "queued"
    assert played.all(Queued) == [Queued((Text("later"),), signal.id, signal.by)]
    assert played.why == "waiting"
    assert played.all(Detached) == []
    played.absorb(played.result(a), played.result(b))
    [c] = played.reply(call("read"))
    assert played.head.queued
    played.absorb(played.result(c))
    assert played.shown() == ["results: done"]
    played.reply("done")
    assert played.head.queued == ()
    assert played.shown() == ["later"]
    said = played.all(Said)[-1]
    assert (said.mode, said.sent_at, said.signal) == ("queue", at, signal.id)
    assert played.why == "complete"


def test_queued_words_are_said_at_once_when_nothing_is_under_way() -> None:
    played = Played()
    played.absorb(played.text("later", "queue"))
    assert played.shown() == ["later"]


def test_words_queued_during_a_completion_come_after_its_answer() -> None:
    """INT-05."""
    played = Played()
    played.absorb(played.text("do X"))
    played.absorb(played.text("also do Y", "queue"))
    played.reply("did X")
    assert played.shown() == ["also do Y"]


def test_all_queued_words_are_said_together_in_the_order_they_came() -> None:
    played, [a, b] = working()
    played.absorb(played.text("1", "queue"))
    played.absorb(played.text("2", "queue"))
    played.absorb(played.result(a), played.result(b))
    played.reply("done")
    assert played.shown() == ["1", "2"]


def test_queued_words_do_not_wait_for_a_sleep() -> None:
    played = Played()
    played.absorb(played.text())
    played.reply("zzz", call("sleep", '{"seconds": 60}'))
    played.absorb(played.text("wake up", "queue"))
    assert played.why == "complete"
    assert played.shown()[-1] == "wake up"


def test_queued_words_do_not_wait_for_a_sleep_beside_a_refused_call() -> None:
    played = Played()
    played.absorb(played.text())
    played.reply(call("sleep_until_event_or_input"), call("nothing"))
    assert played.why == "waiting"
    assert played.head.exchange.open
    played.absorb(played.text("hello?", "queue"))
    assert played.why == "complete"


def test_words_queued_before_a_turn_that_only_sleeps_and_is_refused_end_its_sleep() -> None:
    played, [a, b] = working()
    played.absorb(played.text("later", "queue"))
    played.absorb(played.result(a), played.result(b))
    played.reply(call("sleep_until_event_or_input"), call("nothing"))
    assert played.why == "complete"
    assert played.shown()[-1] == "later"


def test_words_queued_before_a_turn_that_only_sleeps_end_its_sleep() -> None:
    played, [a, b] = working()
    played.absorb(played.text("later", "queue"))
    played.absorb(played.result(a), played.result(b))
    [c] = played.reply(call("sleep", '{"seconds": 60}'))
    assert played.results()[c] == "woken"
    assert played.timers == {}
    assert played.shown() == ["results: Woken after 0 seconds by a person's words.", "later"]


def test_queued_words_wait_while_an_answer_is_owed() -> None:
    played = Played()
    played.absorb(played.text("first"), played.text("second", "queue"))
    assert played.shown() == ["first"]
    played.reply("one")
    assert played.shown() == ["second"]


def test_interrupting_cancels_every_call_and_speaks() -> None:
    """INT-01."""
    played, ids = working("remote", "write", "read")
    played.absorb(played.text("stop", "interrupt"))
    assert played.why == "complete"
    assert played.shown() == [f"results: {INTERRUPTED} | {INTERRUPTED} | {INTERRUPTED}", "stop"]
    assert played.cancelled == ids
    assert Cancel(f"{ids[0]}/cancel", ids[0], SERVER) in played.effects
    assert all(result.is_error for result in played.all(Result))


def test_the_real_result_of_an_interrupted_call_is_kept_and_not_shown() -> None:
    """INT-01, E56."""
    played, [_, b] = working()
    played.absorb(played.text("stop", "interrupt"))
    played.reply("ok")
    before = played.requests[-1]
    signal = played.result(b, "late")
    played.absorb(signal)
    assert played.outcomes[signal.id] == "late"
    assert played.why == "idle"
    assert played.all(Late) == [Late(b, (Text("late"),), signal=signal.id)]
    assert b not in played.head.detached
    played.absorb(played.text("again"))
    played.reply("hm")
    assert played.requests[-1].items[: len(before.items)] == before.items
    assert "late" not in [getattr(item, "text", "") for item in played.requests[-1].items]


def test_interrupting_also_cancels_what_was_detached_before() -> None:
    played, [a, b] = working()
    played.absorb(played.text("and now?"))
    [c] = played.reply(call("remote"))
    played.absorb(played.text("enough", "interrupt"))
    assert played.cancelled == [c, a, b]
    assert played.shown() == [
        f"results: {INTERRUPTED}",
        f"result of remote: {INTERRUPTED}",
        f"result of write: {INTERRUPTED}",
        "enough",
    ]


def test_a_call_that_was_never_sent_is_interrupted_without_a_notice() -> None:
    played, [a, b] = working("remote", "write", parallel=1)
    played.absorb(played.text("stop", "interrupt"))
    assert played.cancelled == [a]
    assert played.invoked == [a]
    assert played.results() == {a: "interrupted", b: "interrupted"}
    assert played.head.detached.keys() == {a}


def test_interrupting_a_sleep_settles_it_without_a_notice() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("sleep", '{"seconds": 60}'))
    played.absorb(played.text("now", "interrupt"))
    assert played.results() == {a: "interrupted"}
    assert played.cancelled == []
    assert played.timers == {}
    assert played.head.detached == {}


def test_interrupting_is_answered_exactly_once() -> None:
    """INT-07."""
    played = Played()
    played.absorb(played.text())
    played.reply(call("read"))
    played.absorb(played.text("do this instead", "interrupt"))
    assert played.shown()[-1] == "do this instead"
    played.reply("doing this")
    assert played.why == "idle"


def test_interrupting_a_thread_at_rest_is_plain_words() -> None:
    played = Played()
    played.absorb(played.text("hi", "interrupt"))
    assert played.shown() == ["hi"]


@pytest.mark.parametrize("state", ["parked", "stopped"])
@pytest.mark.parametrize("mode", ["steer", "queue", "interrupt"])
def test_words_of_any_mode_resume_a_thread_that_was_set_aside(state: str, mode: str) -> None:
    played = Played()
    played.absorb(played.text("one"))
    if state == "parked":
        played.park()
    else:
        played.absorb(played.stop())
    assert played.why == state
    assert not played.owes
    played.absorb(played.text("two", mode))
    assert played.all(Resumed) == [Resumed("text")]
    assert played.why == "complete"
    assert played.shown() == ["one", "two"]


def test_words_queued_when_the_thread_is_closed_are_never_said() -> None:
    played, _ = working()
    played.absorb(played.text("later", "queue"))
    played.absorb(played.close())
    assert played.head.queued == ()
    assert len(played.all(Said)) == 1


def test_blank_words_are_shown_as_such() -> None:
    played = Played()
    played.absorb(played.text(" \n"))
    assert played.shown() == ["(no text)"]


def test_images_alone_are_words_too() -> None:
    played = Played()
    image = Image("aGk=", "image/png")
    played.absorb(played.text(parts=(image, Text(""))))
    played.reply("a picture")
    [item] = played.requests[-1].items
    assert getattr(item, "parts", None) == (image,)


def test_words_bear_the_instant_they_came_however_late_they_are_absorbed() -> None:
    """A slice that failed is tried again later: the model is then asked the same, to the byte."""
    sleeping = Played()
    sleeping.absorb(sleeping.text("go"))
    sleeping.reply(call("sleep", '{"seconds": 60}'))
    words = sleeping.text("hello")
    soon, late = (Step(THREAD, sleeping.head, at, sleeping.definition) for at in (2_000.0, 9_000.0))
    absorb(soon, [words])
    absorb(late, [words])
    assert soon.messages == late.messages
