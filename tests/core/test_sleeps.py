"""Sleeps: passive waits that end by time or by news, and never hold anything back."""

import pytest

from tests.core.playing import THREAD, Played, call
from torpor.core.messages import Call, Detached, Turn
from torpor.core.record import WaitSettled
from torpor.core.signals import Due

MINUTE = '{"seconds": 60}'


def asleep(*names: str, text: str = MINUTE) -> tuple[Played, list[str]]:
    """A thread whose model has just made these calls; sleeps are of a minute."""
    played = Played()
    played.absorb(played.text("go"))
    raw = [call(name, text if name == "sleep" else "") for name in names or ("sleep",)]
    return played, played.reply(*raw)


def test_a_sleep_sets_a_timer_in_the_threads_own_inbox() -> None:
    played, [a] = asleep()
    assert played.timers == {
        f"{a}/sleep": Due(THREAD, f"{a}/sleep", played.now, due=played.now + 60.0, call=a)
    }
    assert played.why == "waiting"
    assert played.invoked == []


def test_a_sleep_is_a_passive_wait() -> None:
    played, [a] = asleep()
    assert played.head.pending[a].passive
    assert not played.head.active
    [made] = [part for turn in played.all(Turn) for part in turn.parts if isinstance(part, Call)]
    assert made.passive


def test_a_turn_that_only_sleeps_ends_its_exchange() -> None:
    played, _ = asleep("sleep", "sleep_until_event_or_input")
    assert played.all(Turn)[-1].end
    assert not played.head.exchange.open


def test_a_sleep_that_is_due_says_for_how_long_it_was() -> None:
    played, [a] = asleep()
    opened = played.now
    step = played.absorb(played.timer(a))
    assert played.shown() == ["results: Slept 60 seconds."]
    assert played.results() == {a: "slept"}
    assert played.why == "complete"
    assert step.settled == [WaitSettled(a, "sleep", opened, played.now, "slept")]


def test_a_sleep_with_a_long_reason_wakes_like_any_other() -> None:
    played, [a] = asleep(text='{"seconds": 60, "reason": "' + "because " * 1_000 + '"}')
    timer = played.timer(a)
    played.absorb(timer)
    assert played.shown() == ["results: Slept until 1970-01-01 00:17:43 UTC."]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        ("0", "Slept 0 seconds."),
        ("-3", "Slept 0 seconds."),
        ("316224001", "Error: a sleep may last at most 316224000 seconds (ten years)."),
        ("1" + "0" * 400, "Error: a sleep may last at most 316224000 seconds (ten years)."),
        ("1e308", "Error: a sleep may last at most 316224000 seconds (ten years)."),
    ],
)
def test_a_sleep_of_no_or_too_many_seconds_is_answered_at_once(seconds: str, shown: str) -> None:
    played, [a] = asleep(text=f'{{"seconds": {seconds}}}')
    assert played.shown() == [f"results: {shown}"]
    assert played.results() == {a: "decided"}
    assert played.timers == {}
    assert played.why == "complete"


def test_the_longest_and_the_shortest_sleep_are_slept() -> None:
    played, [a] = asleep(text='{"seconds": 316224000}')
    assert played.timer(a).due == played.now + 316_224_000
    played, [a] = asleep(text='{"seconds": 0.25}')
    assert played.timer(a).due == played.now + 0.25
    played.absorb(played.timer(a))
    assert played.shown() == ["results: Slept 0.25 seconds."]


def test_a_sleep_that_is_no_sleep_counts_as_a_loop_back() -> None:
    played, _ = asleep(text='{"seconds": 0}')
    turn = played.all(Turn)[-1]
    assert turn.loopback
    assert not turn.end
    assert played.head.exchange.open
    assert played.head.exchange.loopbacks == 1


def test_a_sleep_is_no_loop_back_even_beside_a_refused_call() -> None:
    played, _ = asleep("sleep", "nothing")
    turn = played.all(Turn)[-1]
    assert not turn.loopback
    assert not turn.end


@pytest.mark.parametrize("seconds", ["true", '"60"', "null", "[]"])
def test_a_sleep_of_no_number_is_refused(seconds: str) -> None:
    played, [a] = asleep(text=f'{{"seconds": {seconds}}}')
    assert played.results() == {a: "invalid_arguments"}


def test_news_ends_a_sleep_and_it_says_what_did() -> None:
    played, [a] = asleep()
    played.now += 9.0
    played.absorb(played.text("hey"))
    assert played.results() == {a: "woken"}
    assert played.shown() == ["results: Woken after 10 seconds by a person's words.", "hey"]
    assert played.timers == {}


def test_the_timer_of_a_sleep_that_was_woken_finds_it_settled() -> None:
    played, [a] = asleep()
    timer = played.timer(a)
    played.absorb(played.text("hey"))
    played.absorb(timer)
    assert played.outcomes[timer.id] == "settled already"


def test_an_event_ends_a_sleep() -> None:
    played = Played()
    played.absorb(played.text())
    [sub] = played.reply(call("remote"))
    played.absorb(played.result(sub, subscription=True))
    played.reply(call("sleep_until_event_or_input"))
    assert played.alarms == {}
    played.now += 4.6
    played.absorb(played.event(sub, "ping"))
    assert played.shown() == [
        "results: Woken after 6 seconds by an event of remote.",
        "event of remote: ping",
    ]


def test_a_late_result_ends_a_sleep() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.text("and?"))
    played.reply(call("sleep_until_event_or_input"))
    played.absorb(played.result(a, "done"))
    assert played.shown() == [
        "results: Woken after 1 seconds by the result of remote.",
        "result of remote: done",
    ]


def test_a_sleep_never_counts_backwards() -> None:
    played, _ = asleep()
    played.now -= 50.0
    played.absorb(played.text("hey"))
    assert played.shown()[0] == "results: Woken after 0 seconds by a person's words."


def test_the_first_of_two_sleeps_ends_the_other() -> None:
    played, [a, b] = asleep("sleep", "sleep_until_event_or_input")
    played.absorb(played.timer(a))
    assert played.results() == {a: "slept", b: "woken"}
    assert played.shown() == [
        "results: Slept 60 seconds. | Woken after 1 seconds by the end of another sleep."
    ]


def test_two_sleeps_that_are_due_together_both_ran_their_time() -> None:
    played, [a, b] = asleep("sleep", "sleep")
    played.absorb(played.timer(a), played.timer(b))
    assert played.results() == {a: "slept", b: "slept"}


def test_a_sleep_beside_work_goes_on_until_the_last_of_it_is_done() -> None:
    played, [a, b, c] = asleep("sleep", "read", "write")
    assert played.head.exchange.open
    played.absorb(played.result(b, "1"))
    assert played.head.pending.keys() == {a, c}
    played.absorb(played.result(c, "2"))
    assert played.shown() == ["results: Woken after 2 seconds by the result of write. | 1 | 2"]


def test_a_due_sleep_beside_work_acts_as_its_deadline() -> None:
    played, [a, b, c] = asleep("read", "sleep", "write")
    played.absorb(played.timer(b))
    assert played.all(Detached) == [Detached((a, c), "sleep")]
    running = "Still running. Its result will come as an event."
    assert played.shown() == [f"results: {running} | Slept 60 seconds. | {running}"]
    played.reply("fine")
    played.absorb(played.result(a, "late"))
    assert played.shown() == ["result of read: late"]


def test_a_refused_call_does_not_end_the_sleep_of_its_own_turn() -> None:
    played, [a, b] = asleep("sleep", "nothing")
    assert played.results().keys() == {b}
    assert played.why == "waiting"
    played.absorb(played.timer(a))
    assert played.shown()[0].startswith("results: Slept 60 seconds. | Error: there is no tool")


def test_a_call_within_the_slice_does_not_end_the_sleep_of_its_own_turn() -> None:
    played, [a, b] = asleep("sleep", "quick")
    assert played.results() == {b: "ran"}
    assert played.head.pending.keys() == {a}


def test_news_that_a_slow_turn_did_not_see_ends_its_sleep_at_once() -> None:
    played = Played()
    played.absorb(played.text("one"))
    [a] = played.reply(call("sleep_until_event_or_input"), meanwhile=[played.text("two")])
    assert played.results() == {a: "woken"}
    assert played.why == "complete"
    assert played.shown() == ["results: Woken after 0 seconds by news that came meanwhile.", "two"]
    assert not played.all(Turn)[-1].end


def test_news_that_a_slow_turn_did_not_see_waits_for_its_work_and_then_ends_its_sleep() -> None:
    played = Played()
    played.absorb(played.text("one"))
    a, b = played.reply(call("sleep", MINUTE), call("read"), meanwhile=[played.text("two")])
    assert played.why == "waiting"
    played.absorb(played.result(b))
    assert played.results()[a] == "woken"
    assert played.shown()[1:] == ["two"]


def test_sleep_until_waits_for_its_instant_and_says_so() -> None:
    played = Played()
    played.absorb(played.text())
    asked = '{"date": "1970-01-02", "time": "01:00", "timezone": "Europe/Berlin"}'
    [a] = played.reply(call("sleep_until", asked))
    assert played.timer(a).due == 86_400.0
    played.absorb(played.timer(a))
    assert played.shown() == ["results: It is 1970-01-02 01:00 in Europe/Berlin."]


def test_sleep_until_is_in_utc_if_no_zone_is_given() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("sleep_until", '{"date": "1970-01-02", "time": "00:00:30"}'))
    assert played.timer(a).due == 86_430.0
    played.absorb(played.timer(a))
    assert played.shown() == ["results: It is 1970-01-02 00:00:30 in UTC."]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (
            '{"date": "1970-01-01", "time": "00:10"}',
            "1970-01-01 00:10 in UTC has already passed, so there was no sleep.",
        ),
        (
            '{"date": "0001-01-01", "time": "00:00", "timezone": "Asia/Tokyo"}',
            "0001-01-01 00:00 in Asia/Tokyo has already passed, so there was no sleep.",
        ),
        ('{"date": "9999-12-31", "time": "23:59"}', "Error: a sleep may last at most ten years."),
        (
            '{"date": "2026-02-30", "time": "10:00"}',
            "Error: '2026-02-30' is not a date of the form YYYY-MM-DD.",
        ),
    ],
)
def test_sleep_until_the_past_the_far_future_or_never_is_answered_at_once(asked: str, shown: str) -> None:
    """SRC-07."""
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("sleep_until", asked))
    assert played.shown() == [f"results: {shown}"]
    assert played.results() == {a: "decided"}
    assert played.last_results()[0].is_error == shown.startswith("Error")
    assert played.all(Turn)[-1].loopback


def test_sleep_until_this_very_instant_has_passed_and_until_ten_years_has_not() -> None:
    played = Played()
    played.absorb(played.text())
    played.now = 1_200.0 - 1.0
    [a] = played.reply(call("sleep_until", '{"date": "1970-01-01", "time": "00:20"}'))
    assert played.results()[a] == "decided"
    played.now = 86_400.0 - 1.0
    [b] = played.reply(call("sleep_until", '{"date": "1980-01-10", "time": "00:00"}'))
    assert played.timer(b).due == 86_400.0 + 316_224_000.0


def test_an_error_of_a_sleep_is_shown_as_one() -> None:
    played, [a] = asleep(text='{"seconds": 1e300}')
    assert [result.is_error for result in played.last_results()] == [True]
    played, [a] = asleep(text='{"seconds": 0}')
    assert [result.is_error for result in played.last_results()] == [False]
    played, [a] = asleep()
    played.absorb(played.timer(a))
    assert [result.is_error for result in played.last_results()] == [False]
    played, [a] = asleep()
    played.absorb(played.text())
    assert [result.is_error for result in played.last_results()] == [False]
