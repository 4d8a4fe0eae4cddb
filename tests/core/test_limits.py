"""Is an answer owed, and how much may one exchange spend?"""

import pytest

from tests.core.playing import Played, call
from torpor.core.chunks import Stop
from torpor.core.definition import Limits
from torpor.core.head import Exchange, Head, OpenCall
from torpor.core.messages import Turn, Usage
from torpor.core.plan import Complete, Exceeded, Yield, exceeded, owes_now, plan

OWING = Head(owed=2, answered=1)
BLOCKED = {"a": OpenCall("read", 1)}
TAIL = "Say something or nudge the thread to let it go on with a fresh allowance."


def test_a_thread_that_owes_an_answer_asks() -> None:
    assert plan(OWING, Limits()) == Complete()
    assert owes_now(OWING)


@pytest.mark.parametrize("state", ["parked", "stopped", "closed"])
def test_a_thread_that_is_not_open_yields_for_that_reason(state: str) -> None:
    head = Head(state=state, owed=2, answered=1)
    assert plan(head, Limits()) == Yield(state)
    assert not owes_now(head)


def test_a_pending_call_blocks() -> None:
    head = Head(owed=2, answered=1, pending=BLOCKED)
    assert plan(head, Limits()) == Yield("waiting")
    assert not owes_now(head)


def test_a_thread_that_owes_nothing_is_idle() -> None:
    head = Head(owed=2, answered=2)
    assert plan(head, Limits()) == Yield("idle")
    assert not owes_now(head)


@pytest.mark.parametrize(
    ("spent", "what"),
    [
        (Exchange(completions=100), "100 completions; the agent's limit is 100"),
        (
            Exchange(loopbacks=20),
            "20 completions in a row without any tool's answer; the agent's limit is 20",
        ),
        (Exchange(tokens=5_000_001), "5000001 tokens; the agent's limit is 5000000"),
        (Exchange(seconds=3600.04), "3600.0 seconds in the model; the agent's limit is 3600.0"),
    ],
)
def test_passing_a_limit_is_told_in_words(spent: Exchange, what: str) -> None:
    assert exceeded(spent, Limits()) == f"This exchange used {what}. {TAIL}"
    head = Head(owed=2, answered=1, exchange=spent)
    assert plan(head, Limits()) == Exceeded(exceeded(spent, Limits()))


@pytest.mark.parametrize(
    "spent",
    [Exchange(completions=99), Exchange(loopbacks=19), Exchange(tokens=4_999_999), Exchange(seconds=3599.9)],
)
def test_below_its_limits_an_exchange_goes_on(spent: Exchange) -> None:
    assert exceeded(spent, Limits()) == ""


def test_a_limit_stops_nothing_that_owes_no_answer() -> None:
    assert plan(Head(exchange=Exchange(completions=100)), Limits()) == Yield("idle")


def test_a_model_that_repeats_an_unknown_tool_is_parked() -> None:
    """E17."""
    played = Played(loopbacks=3)
    played.absorb(played.text())
    for _ in range(3):
        assert played.why == "complete"
        played.reply(call("nothing"))
    assert played.why.startswith("This exchange used 3 completions in a row without any tool's answer")


@pytest.mark.parametrize("name", ["receive_event__injected", "read", "sleep", "cancel_subscription"])
def test_every_call_that_is_refused_or_decided_here_is_a_loop_back(name: str) -> None:
    played = Played()
    played.absorb(played.text())
    text = {"read": "nonsense", "sleep": '{"seconds": 0}', "cancel_subscription": '{"tool_call_id": ""}'}
    played.reply(call(name, text.get(name, "")))
    assert played.head.exchange.loopbacks == 1
    assert played.head.exchange.open
    assert not played.all(Turn)[-1].end


def test_a_tools_answer_ends_a_row_of_loop_backs() -> None:
    played = Played()
    played.absorb(played.text())
    played.reply(call("nothing"))
    [a, _] = played.reply(call("read"), call("nothing"))
    assert played.head.exchange.loopbacks == 0
    played.absorb(played.result(a))
    played.reply(call("quick"))
    assert played.head.exchange.loopbacks == 0


def test_an_exchange_counts_what_it_spends() -> None:
    played = Played()
    played.absorb(played.text())
    since = played.now
    [a] = played.reply(call("read"), stop=Stop(usage=Usage(1, 2, 3, 4, 5)))
    played.absorb(played.result(a))
    played.reply(call("nothing"), stop=Stop())
    assert played.head.exchange == Exchange(
        open=True, since=since, completions=2, loopbacks=1, tokens=15, seconds=1.0
    )
    assert played.head.window == 15
    assert played.head.ordinal == 2


@pytest.mark.parametrize(("seconds", "counted"), [(59.0, 2), (60.0, 1)])
def test_a_nap_is_no_new_exchange_and_a_sleep_is_one(seconds: float, counted: int) -> None:
    """A model that only ever naps is bounded like one that only ever calls."""
    played = Played()
    played.absorb(played.text("go"))
    [nap] = played.reply(call("sleep", f'{{"seconds": {seconds}}}'))
    played.now = played.timer(nap).due
    played.absorb(played.timer(nap))
    played.reply("slept")
    assert played.head.exchange.completions == counted


def test_the_next_exchange_begins_anew() -> None:
    played = Played()
    played.absorb(played.text())
    played.reply("bye", stop=Stop(usage=Usage(7)))
    assert not played.head.exchange.open
    assert played.head.exchange.completions == 1
    played.absorb(played.text())
    assert played.head.exchange == Exchange(open=True, since=played.now)
    assert played.head.window == 7


def test_news_within_an_exchange_does_not_begin_it_anew() -> None:
    played = Played()
    played.absorb(played.text())
    [a] = played.reply(call("read"))
    played.absorb(played.text("and?"))
    assert played.head.exchange.completions == 1
    played.reply("x")
    assert a in played.head.detached


def test_a_turn_ends_its_exchange_unless_something_came_that_it_did_not_see() -> None:
    played = Played()
    played.absorb(played.text("one"))
    played.reply("answer to one", meanwhile=[played.text("two")])
    assert not played.all(Turn)[-1].end
    assert played.head.exchange.open
    assert played.why == "complete"
    assert played.shown() == ["two"]


def test_usage_adds_up_by_classes_that_do_not_overlap() -> None:
    assert Usage(1, 2, 4, 8, 16).total == 31
