"""Events of subscriptions: recorded when they come, shown when nothing blocks."""

from typing import Any

import pytest

from tests.core.playing import SERVER, THREAD, Played, call
from torpor.core.effects import Cancel
from torpor.core.head import Subscription
from torpor.core.messages import By, Detached, Happened, Late, Text, Unsubscribed, text_of
from torpor.core.record import WaitSettled
from torpor.core.request import InjectedItem
from torpor.core.signals import Due, HappenedSignal


def subscribed(text: str = '{"path": "x"}', **fields: Any) -> tuple[Played, str]:
    """A thread at rest with one subscription."""
    played = Played(**fields)
    played.absorb(played.text("watch"))
    [id] = played.reply(call("remote", text))
    played.absorb(played.result(id, "watching", subscription=True))
    played.reply("I watch")
    return played, id


def injected(played: Played) -> InjectedItem:
    """The last injected item that was shown."""
    return [item for item in played.requests[-1].items if isinstance(item, InjectedItem)][-1]


def test_a_result_may_open_a_subscription() -> None:
    played, id = subscribed()
    assert played.head.subscriptions == {
        id: Subscription("remote", '{"path": "x"}', SERVER, opened=4, at=played.now - 1.0)
    }
    assert played.head.pending == {}


def test_an_event_of_a_thread_at_rest_is_answered() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, "changed"))
    assert played.why == "complete"
    assert played.shown() == ["event of remote: changed"]


def test_an_event_is_kept_with_its_provenance() -> None:
    played, id = subscribed()
    by = By("tool", "x", "callback", "k", "h")
    signal = HappenedSignal(
        THREAD,
        "e",
        1.0,
        by,
        trace="own",
        call=id,
        parts=(Text("t"),),
        handle="h1",
        size=9,
        associative=True,
        event_id="ev",
        seq=1,
        occurred_at="then",
        natural_key="n",
    )
    played.absorb(signal)
    assert played.all(Happened) == [
        Happened(
            at=1.0,
            call=id,
            name="remote",
            arguments='{"path": "x"}',
            parts=(Text("t"),),
            handle="h1",
            size=9,
            associative=True,
            signal="e",
            by=by,
            event_id="ev",
            seq=1,
            occurred_at="then",
            natural_key="n",
            trace="own",
        )
    ]


def test_an_event_without_a_trace_takes_that_of_the_slice() -> None:
    played, id = subscribed()
    played.absorb(played.event(id))
    assert played.all(Happened)[0].trace == "trace"


def test_an_event_is_shown_as_news_of_the_call_that_opened_the_subscription() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, "changed"))
    played.reply("seen")
    item = injected(played)
    assert (item.name, item.call, item.arguments, item.source) == ("remote", id, '{"path": "x"}', "event")
    assert item.id == f"news{len(played.messages) - 1}"
    assert item.at == played.all(Happened)[0].at
    assert item.notes == ()


def test_an_event_while_a_call_is_pending_is_recorded_and_withheld() -> None:
    """E43, E44."""
    played, id = subscribed()
    played.absorb(played.text("work"))
    [a] = played.reply(call("read"))
    played.absorb(played.event(id, "changed"))
    assert len(played.all(Happened)) == 1
    assert played.why == "waiting"
    assert played.all(Detached) == []
    played.absorb(played.result(a, "read"))
    assert played.shown() == ["results: read", "event of remote: changed"]


def test_a_duplicate_result_does_not_let_withheld_news_through() -> None:
    """DUP-01, E46."""
    played, id = subscribed()
    played.absorb(played.text("work"))
    [c1] = played.reply(call("read"))
    played.absorb(played.result(c1, "ok"))
    [c2] = played.reply(call("write"))
    played.absorb(played.event(id, "build failed"))
    played.absorb(played.result(c1, "ok"))
    assert played.why == "waiting"
    played.absorb(played.result(c2, "edited"))
    assert played.shown() == ["results: edited", "event of remote: build failed"]


def test_words_let_withheld_news_through_after_the_results() -> None:
    """E47."""
    played, id = subscribed()
    played.absorb(played.text("work"))
    played.reply(call("read"))
    played.absorb(played.event(id, "changed"))
    played.absorb(played.text("and?"))
    assert played.shown()[1:] == ["event of remote: changed", "and?"]


def test_words_of_a_batch_stand_before_its_news() -> None:
    """E51."""
    played, id = subscribed()
    played.absorb(played.event(id, "changed"), played.text("hi"))
    assert played.shown() == ["hi", "event of remote: changed"]


def test_numbered_events_of_a_batch_stand_in_their_order() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, "3", seq=3), played.event(id, "1", seq=1), played.event(id, "2", seq=2))
    assert [event.seq for event in played.all(Happened)] == [1, 2, 3]
    assert [event.gap for event in played.all(Happened)] == [0, 0, 0]


def test_numbering_of_one_source_leaves_the_others_where_they_came() -> None:
    played, id = subscribed()
    played.absorb(played.text("more"))
    [other] = played.reply(call("read"))
    played.absorb(played.result(other, subscription=True))
    played.reply("ok")
    played.absorb(
        played.event(other, "first"),
        played.event(id, "b", seq=2),
        played.event(other, "middle", seq=9),
        played.event(id, "a", seq=1),
        played.event(other, "last"),
    )
    assert [line.split(": ")[1] for line in played.shown()] == ["first", "a", "middle", "b", "last"]


def test_a_missing_number_is_told_and_never_waited_for() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, "1", seq=1))
    played.absorb(played.event(id, "4", seq=4))
    assert [event.gap for event in played.all(Happened)] == [0, 2]
    played.reply("hm")
    assert injected(played).notes == ("2 earlier events of this source did not arrive.",)
    assert played.head.subscriptions[id].seq == 4


def test_the_first_number_tells_what_is_missing_before_it() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, seq=3))
    assert played.all(Happened)[0].gap == 2


def test_an_event_that_comes_after_its_successor_is_shown_all_the_same() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, "2", seq=2))
    played.absorb(played.event(id, "1", seq=1))
    assert [event.gap for event in played.all(Happened)] == [1, 0]
    assert played.head.subscriptions[id].seq == 2
    played.absorb(played.event(id, "3", seq=3))
    assert played.all(Happened)[-1].gap == 0


def test_an_event_without_a_number_tells_of_no_gap() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, seq=2), played.event(id))
    assert [event.gap for event in played.all(Happened)] == [1, 0]
    assert played.head.subscriptions[id].seq == 2


def test_when_an_event_happened_and_that_it_was_the_last_is_told() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, seq=2, occurred_at="2026-01-01T00:00:00Z", final=True))
    played.reply("ok")
    assert injected(played).notes == (
        "It happened at 2026-01-01T00:00:00Z.",
        "1 earlier events of this source did not arrive.",
        "This was the last event of the subscription.",
    )


def test_what_a_source_says_about_the_instant_is_bounded_and_harmless() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, occurred_at="\0" + "9" * 500))
    played.reply("ok")
    assert injected(played).notes == (f"It happened at \ufffd{'9' * 63}.",)


def test_the_last_event_ends_the_subscription() -> None:
    played, id = subscribed()
    opened = played.head.subscriptions[id].at
    step = played.absorb(played.event(id, final=True))
    assert played.head.subscriptions == {}
    assert step.settled == [WaitSettled(id, "subscription", opened, played.now, "final")]
    late = played.event(id)
    played.absorb(late)
    assert played.outcomes[late.id] == "no such subscription"
    assert len(played.all(Happened)) == 1


def test_an_ordinary_event_ends_nothing() -> None:
    played, id = subscribed()
    step = played.absorb(played.event(id))
    assert step.settled == []
    assert id in played.head.subscriptions


def test_an_event_of_an_unknown_subscription_is_dropped_for_a_reason() -> None:
    """E42."""
    played, _ = subscribed()
    signal = played.event("never")
    step = played.absorb(signal)
    assert played.outcomes[signal.id] == "no such subscription"
    assert step.messages == []
    assert played.why == "idle"


def test_an_event_of_a_call_that_opened_no_subscription_is_dropped() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.result(a))
    signal = played.event(a)
    played.absorb(signal)
    assert played.outcomes[signal.id] == "no such subscription"


def test_an_event_before_its_confirmation_is_recorded_and_shown_after_it() -> None:
    """EVT-01."""
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote", '{"n": 1}'))
    played.absorb(played.event(a, "early", seq=1))
    assert played.why == "waiting"
    assert played.all(Happened)[0].arguments == '{"n": 1}'
    played.absorb(played.result(a, "watching", subscription=True))
    assert played.shown() == ["results: watching", "event of remote: early"]
    assert played.head.subscriptions[a].seq == 1
    played.absorb(played.event(a, "next", seq=2))
    assert [event.gap for event in played.all(Happened)] == [0, 0]


def test_an_event_and_its_confirmation_in_one_batch_are_both_taken() -> None:
    """EVT-01."""
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.event(a, "early", seq=1), played.result(a, "watching", subscription=True))
    assert played.shown() == ["results: watching", "event of remote: early"]


def test_a_last_event_before_its_confirmation_leaves_no_subscription_open() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.event(a, "only", final=True, seq=3))
    after = played.event(a, "too late")
    played.absorb(after)
    assert played.outcomes[after.id] == "no such subscription"
    played.absorb(played.event(a, seq=2))
    played.absorb(played.result(a, "watched", subscription=True))
    assert played.head.subscriptions == {}
    assert played.shown() == ["results: watched", "event of remote: only"]


def test_an_early_event_of_a_detached_call_is_shown_at_once() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.text("and?"))
    played.reply("wait")
    played.absorb(played.event(a, "early", seq=1))
    assert played.shown() == ["event of remote: early"]
    assert played.head.detached[a].seq == 1


def test_early_numbers_are_remembered_at_their_highest() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.event(a, seq=2))
    played.absorb(played.event(a, seq=1))
    assert played.head.pending[a].seq == 2
    assert not played.head.pending[a].ended


def test_events_of_a_call_that_a_person_gave_up_are_dropped() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.text("stop", "interrupt"))
    signal = played.event(a)
    played.absorb(signal)
    assert played.outcomes[signal.id] == "no such subscription"


def test_events_of_a_call_that_timed_out_are_still_taken() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("bounded"))
    played.absorb(played.timer(a, "deadline"))
    played.absorb(played.event(a, "alive"))
    assert len(played.all(Happened)) == 1


def test_cancelling_a_subscription_ends_it_and_tells_its_server() -> None:
    played, id = subscribed()
    opened = played.head.subscriptions[id].at
    played.absorb(played.text("no more"))
    [c] = played.reply(call("cancel_subscription", f'{{"tool_call_id": "{id}"}}'))
    assert played.head.subscriptions == {}
    assert played.all(Unsubscribed) == [Unsubscribed(id, "cancelled")]
    assert played.effects[-1] == Cancel(f"{id}/cancel/subscription", id, SERVER)
    assert played.last is not None
    assert {message.trace for message in played.last.messages} == {"trace"}
    assert WaitSettled(id, "subscription", opened, played.now, "cancelled") in played.last.settled
    assert played.shown() == [f"results: The subscription {id} of remote is cancelled."]
    assert played.results()[c] == "decided"
    signal = played.event(id)
    played.absorb(signal)
    assert played.outcomes[signal.id] == "no such subscription"


def test_cancelling_twice_in_one_turn_cancels_once() -> None:
    played, id = subscribed()
    played.absorb(played.text("no more"))
    cancel = call("cancel_subscription", f'{{"tool_call_id": "{id}"}}')
    played.reply(cancel, cancel)
    [shown] = played.shown()
    assert shown == (
        f"results: The subscription {id} of remote is cancelled. | "
        f"Error: '{id}' is not an active subscription of this thread. Active: none."
    )
    assert len(played.all(Unsubscribed)) == 1


def test_cancelling_an_unknown_subscription_names_the_active_ones() -> None:
    played, id = subscribed()
    played.absorb(played.text("no more"))
    played.reply(call("cancel_subscription", '{"tool_call_id": "%s"}' % ("x" * 200)))
    [shown] = played.shown()
    assert played.last_results()[0].is_error
    expected = f"results: Error: '{'x' * 100}' is not an active subscription of this thread. Active: {id}."
    assert shown == expected
    assert id in played.head.subscriptions


def test_active_subscriptions_are_listed_with_commas() -> None:
    played, first = subscribed()
    played.absorb(played.text("more"))
    [second] = played.reply(call("remote"))
    played.absorb(played.result(second, subscription=True))
    played.reply(call("cancel_subscription", '{"tool_call_id": "x"}'))
    [shown] = played.shown()
    assert shown.endswith(f"Active: {first}, {second}.")


def test_a_late_result_that_would_open_a_subscription_is_told_to_end() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.text("stop", "interrupt"))
    signal = played.result(a, "watching", subscription=True)
    played.absorb(signal)
    assert len(played.all(Late)) == 1
    assert played.head.subscriptions == {}
    assert played.effects[-1] == Cancel(f"{signal.id}/cancel/late", a, SERVER)


def test_a_second_confirmation_leaves_the_subscription_as_it_is() -> None:
    played, id = subscribed()
    step = played.absorb(played.result(id, "watching again", subscription=True))
    assert id in played.head.subscriptions
    assert step.effects == []


def test_a_late_result_without_a_subscription_needs_no_notice() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("remote"))
    played.absorb(played.text("stop", "interrupt"))
    assert played.absorb(played.result(a)).effects == []


def test_news_with_its_own_deadline_stops_waiting_when_that_passes() -> None:
    played, id = subscribed()
    played.absorb(played.text("work"))
    [a] = played.reply(call("read"))
    signal = played.event(id, "urgent", start_by=5_000.0)
    played.absorb(signal)
    timer = played.timers[f"{signal.id}/due"]
    assert (timer.due, timer.at, timer.thread) == (5_000.0, played.now, THREAD)
    played.absorb(timer)
    assert played.outcomes[timer.id] == "absorbed"
    assert played.all(Detached) == [Detached((a,), "news")]
    assert played.shown()[1:] == ["event of remote: urgent"]


def test_news_that_could_not_wait_ends_a_sleep_beside_the_work() -> None:
    played, id = subscribed()
    played.absorb(played.text("work"))
    _, b = played.reply(call("read"), call("sleep_until_event_or_input"))
    signal = played.event(id, "urgent", start_by=5_000.0)
    played.absorb(signal)
    played.absorb(played.timers[f"{signal.id}/due"])
    [result] = played.last_results()
    assert (result.call, result.cause) == (b, "woken")
    assert text_of(result.parts) == "Woken after 2 seconds by news that could not wait."


@pytest.mark.parametrize(("after", "outcome"), [(0, "settled already"), (1, "absorbed")])
def test_withheld_news_was_shown_if_it_is_not_after_what_was_answered(after: int, outcome: str) -> None:
    played, _ = subscribed()
    played.absorb(played.text("work"))
    played.reply(call("read"))
    at = played.head.answered + after
    timer = Due(THREAD, "d", played.now, due=played.now, what="withheld", position=at)
    played.absorb(timer)
    assert played.outcomes["d"] == outcome


def test_withheld_news_that_was_shown_in_time_needs_no_more() -> None:
    played, id = subscribed()
    played.absorb(played.text("work"))
    [a] = played.reply(call("read"))
    signal = played.event(id, "urgent", start_by=5_000.0)
    played.absorb(signal)
    played.absorb(played.result(a))
    played.reply(call("write"))
    timer = played.timers[f"{signal.id}/due"]
    played.absorb(timer)
    assert played.outcomes[timer.id] == "settled already"
    assert played.all(Detached) == []


def test_withheld_news_needs_no_more_once_nothing_blocks_it() -> None:
    played, id = subscribed()
    played.absorb(played.text("work"))
    [a] = played.reply(call("read"))
    signal = played.event(id, "urgent", start_by=5_000.0)
    played.absorb(signal)
    played.absorb(played.result(a))
    timer = played.timers[f"{signal.id}/due"]
    played.absorb(timer)
    assert played.outcomes[timer.id] == "settled already"
    assert played.why == "complete"


def test_news_that_nothing_blocks_sets_no_timer() -> None:
    played, id = subscribed()
    played.absorb(played.event(id, start_by=5_000.0))
    assert played.alarms == {}


def test_news_without_a_deadline_of_its_own_sets_no_timer() -> None:
    played, id = subscribed()
    played.absorb(played.text("work"))
    played.reply(call("read"))
    played.absorb(played.event(id))
    assert played.alarms == {}


def test_long_arguments_are_shown_with_later_news_as_a_marked_beginning() -> None:
    long = '{"text": "' + "y" * 5_000 + '"}'
    played, id = subscribed(long)
    played.absorb(played.event(id))
    played.reply("ok")
    item = injected(played)
    assert item.arguments == '{"beginning":"' + long[:2_000].replace('"', '\\"') + '","characters":5012}'
