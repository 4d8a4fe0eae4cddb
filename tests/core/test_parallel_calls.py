"""Calls of one turn: side by side, bounded, and shown together in call order."""

import itertools
from typing import Any

import pytest

from tests.core.playing import SERVER, THREAD, Played, call, tool
from torpor.core.definition import Definition, Limits
from torpor.core.effects import Invoke
from torpor.core.messages import By, Call, Detached, Late, Result, Segment, Sent, Turn
from torpor.core.request import ResultsItem
from torpor.core.thread import OpenCall


def asked(*names: str, **fields: Any) -> tuple[Played, list[str]]:
    """A thread whose model has just made these calls."""
    played = Played(**fields)
    played.absorb(played.text("go"))
    return played, played.reply(*(call(name) for name in names))


def test_all_calls_of_a_turn_go_out_at_once() -> None:
    played, ids = asked("read", "write", "remote")
    assert played.invoked == ids
    assert played.why == "waiting"
    assert not played.owes


def test_an_invocation_carries_what_its_tool_needs() -> None:
    played = Played()
    played.absorb(played.text())
    [id] = played.reply(call("remote", ' {"n": 1} ', provider_id="call_0"))
    assert played.effects == [
        Invoke(f"{id}/invoke", id, "remote", ' {"n": 1} ', SERVER, "unsafe", played.now, "trace")
    ]


def test_the_head_keeps_what_later_slices_need_of_a_call() -> None:
    played, [a, b] = asked("read", "remote")
    assert played.head.pending == {
        a: OpenCall("read", 3, 0, repeat="safe", at=played.now),
        b: OpenCall("remote", 3, 1, server=SERVER, repeat="unsafe", at=played.now),
    }


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_results_are_shown_in_call_order_whatever_order_they_came_in(order: tuple[int, ...]) -> None:
    """ORD-01, ORD-04."""
    played, ids = asked("read", "read", "write")
    for which in order:
        assert played.why == "waiting"
        played.absorb(played.result(ids[which], f"{which}"))
    assert played.why == "complete"
    assert played.owes
    assert played.shown() == ["results: 0 | 1 | 2"]


def test_results_of_one_batch_are_shown_in_call_order() -> None:
    played, [a, b] = asked("read", "read")
    played.absorb(played.result(b, "2"), played.result(a, "1"))
    assert played.shown() == ["results: 1 | 2"]


def test_a_call_refused_at_once_waits_for_its_slow_neighbour() -> None:
    """ORD-07."""
    played, [a, b] = asked("read", "nothing")
    assert played.results().keys() == {b}
    assert played.why == "waiting"
    played.absorb(played.result(a, "ok"))
    [shown] = played.shown()
    assert shown.startswith("results: ok | Error: there is no tool 'nothing'.")


def test_calls_over_the_limit_go_out_in_call_order_as_places_free() -> None:
    played, [a, b, c, d] = asked("read", "write", "remote", "read", parallel=2)
    assert played.invoked == [a, b]
    played.absorb(played.result(b))
    assert played.invoked == [a, b, c]
    played.absorb(played.result(a), played.result(c))
    assert played.invoked == [a, b, c, d]
    assert [note.calls for note in played.all(Sent)] == [(c,), (d,)]
    assert played.why == "waiting"
    played.absorb(played.result(d))
    assert played.why == "complete"


def test_a_limit_of_one_gives_one_call_at_a_time() -> None:
    played, ids = asked("read", "read", "read", parallel=1)
    for n, id in enumerate(ids, 1):
        assert played.invoked == ids[:n]
        played.absorb(played.result(id))
    assert played.shown() == ["results: done | done | done"]


def test_a_call_sent_late_carries_its_arguments_whole_and_the_head_then_keeps_a_beginning() -> None:
    played = Played(parallel=1)
    played.absorb(played.text())
    long = '{"text": "' + "x" * 5_000 + '"}'
    a, b = played.reply(call("write"), call("remote", long))
    assert played.head.pending[b].arguments == long
    assert played.head.pending[b].held
    played.absorb(played.result(a))
    assert played.effects[-1] == Invoke(
        f"{b}/invoke", b, "remote", long, SERVER, "unsafe", played.now, "trace"
    )
    assert len(played.head.pending[b].arguments) < 2_100
    assert not played.head.pending[b].held


def test_only_calls_that_are_sent_take_places() -> None:
    played, [_, _, _, d, e, f] = asked("sleep", "nothing", "quick", "read", "read", "read", parallel=2)
    assert played.invoked == [d, e]
    turn = played.all(Turn)[-1]
    assert [part.held for part in turn.parts if isinstance(part, Call)] == [False] * 5 + [True]
    assert f in played.head.pending


def test_a_call_that_timed_out_frees_its_place() -> None:
    played, [a, b] = asked("bounded", "read", parallel=1)
    played.absorb(played.timer(a, "deadline"))
    assert played.invoked == [a, b]


def test_places_are_counted_for_each_turn_alone() -> None:
    played, [a] = asked("read", parallel=1)
    played.absorb(played.text("meanwhile"))
    [b, c] = played.reply(call("read"), call("read"))
    assert played.invoked == [a, b]
    played.absorb(played.result(a))
    assert played.invoked == [a, b]
    played.absorb(played.result(b))
    assert played.invoked == [a, b, c]


def test_a_call_bound_in_time_sets_a_timer_when_it_is_sent_and_not_before() -> None:
    played, [a, b] = asked("bounded", "bounded", parallel=1)
    assert list(played.alarms) == [f"{a}/deadline"]
    assert played.timer(a, "deadline").due == played.now + 60.0
    played.absorb(played.result(a))
    assert list(played.alarms) == [f"{b}/deadline"]
    timer = played.timer(b, "deadline")
    assert (timer.due, timer.call, timer.what, timer.at) == (played.now + 60.0, b, "deadline", played.now)
    assert timer.thread == THREAD


def test_a_call_whose_tool_has_gone_meanwhile_is_sent_all_the_same_without_a_timer() -> None:
    played, [a, b] = asked("bounded", "bounded", parallel=1)
    played.definition = Definition("tester", limits=Limits(parallel=1))
    played.absorb(played.result(a))
    assert played.invoked == [a, b]
    assert played.alarms == {}


def test_a_function_may_be_bound_in_time_and_needs_no_timer_of_the_threads() -> None:
    played = Played()
    played.definition.tools["timed"] = tool("timed", timeout=60.0)
    played.absorb(played.text())
    played.reply(call("timed"))
    assert played.timers == {}


def test_an_invocation_says_whether_it_may_be_repeated() -> None:
    played, _ = asked("read", "write", parallel=1)
    played.absorb(played.result(played.invoked[0]))
    assert [getattr(effect, "repeat", "") for effect in played.effects] == ["safe", "unsafe"]


def test_a_result_lifts_the_calls_timers() -> None:
    played, [a] = asked("bounded")
    step = played.absorb(played.result(a))
    assert step.cancelled == [f"{a}/sleep", f"{a}/deadline", f"{a}/status/0", f"{a}/status/1"]
    assert played.timers == {}


def test_two_results_for_one_call_count_once_and_the_second_is_kept() -> None:
    """INT-11, DUP-01."""
    played, [a, b] = asked("read", "read")
    first, second = played.result(a, "old"), played.result(a, "new", is_error=True)
    played.absorb(first, second)
    assert played.outcomes[first.id] == "absorbed"
    assert played.outcomes[second.id] == "late"
    assert played.all(Late) == [Late(a, second.parts, True, signal=second.id)]
    played.absorb(played.result(a, "third"))
    assert played.why == "waiting"
    assert played.head.pending.keys() == {b}
    played.absorb(played.result(b))
    assert played.shown() == ["results: old | done"]


def test_a_result_for_no_call_is_kept_and_wakes_nobody() -> None:
    """E41."""
    played = Played()
    step = played.absorb(played.result("never", "what"))
    assert list(step.outcomes.values()) == ["late"]
    assert played.why == "idle"
    assert step.effects == []


def test_a_provider_that_reuses_its_ids_gets_ours_and_loses_nothing() -> None:
    """WIR-02, WIR-04, DUP-08, E60."""
    played = Played()
    played.absorb(played.text())
    for turn in range(50):
        [a, b] = played.reply(
            call("read", provider_id="call_0"), call("read", provider_id="call_0"), signals=()
        )
        played.absorb(played.result(a, f"a{turn}"), played.result(b, f"b{turn}"))
    played.reply("done")
    shown = [item for item in played.requests[-1].items if isinstance(item, ResultsItem)]
    assert [[view.text for view in item.results] for item in shown] == [[f"a{n}", f"b{n}"] for n in range(50)]
    assert len({view.call for item in shown for view in item.results}) == 100
    kept = [part for turn in played.all(Turn) for part in turn.parts if isinstance(part, Call)]
    assert {call.provider_id for call in kept} == {"call_0"}


def test_waking_at_each_result_detaches_the_rest() -> None:
    played, [a, b, c] = asked("read", "remote", "write", wake="each")
    assert played.why == "waiting"
    played.absorb(played.result(b, "two"))
    assert played.all(Detached) == [Detached((a, c), "each")]
    running = "Still running. Its result will come as an event."
    assert played.shown() == [f"results: {running} | two | {running}"]
    played.reply("I see")
    played.absorb(played.result(a, "one"))
    assert played.shown() == ["result of read: one"]
    played.reply("and so on")
    played.absorb(played.result(c, "three"))
    assert played.shown() == ["result of write: three"]


def test_waking_at_each_takes_results_that_came_together_together() -> None:
    played, [a, b, c] = asked("read", "remote", "write", wake="each")
    played.absorb(played.result(c, "3"), played.result(a, "1"))
    assert [note.calls for note in played.all(Detached)] == [(b,)]


def test_waking_at_each_is_not_done_by_an_event() -> None:
    played, [a] = asked("remote", wake="each")
    played.absorb(played.result(a, subscription=True))
    played.reply(call("read"), call("write"))
    played.absorb(played.event(a))
    assert played.all(Detached) == []
    assert played.why == "waiting"


def test_waking_at_each_needs_nothing_detached_when_all_are_settled() -> None:
    played, [a] = asked("read", wake="each")
    played.absorb(played.result(a))
    assert played.all(Detached) == []
    assert played.why == "complete"


def test_a_late_result_wakes_a_thread_that_wakes_at_each() -> None:
    played, [a, b] = asked("read", "write", wake="each")
    played.absorb(played.result(a))
    [c] = played.reply(call("read"))
    played.absorb(played.result(b, "late"))
    assert [note.calls for note in played.all(Detached)] == [(b,), (c,)]
    assert played.why == "complete"


def test_a_detached_call_over_the_limit_is_sent_all_the_same() -> None:
    played, [a, b, c] = asked("read", "write", "remote", wake="each", parallel=1)
    played.absorb(played.result(a))
    assert played.invoked == [a, b]
    assert played.head.detached.keys() == {b, c}
    played.reply("hm")
    played.absorb(played.result(b))
    assert played.invoked == [a, b, c]
    assert not played.head.detached[c].held


def test_waking_when_all_are_settled_does_not_detach() -> None:
    played, [a, _] = asked("read", "write")
    played.absorb(played.result(a))
    assert played.all(Detached) == []


def test_a_result_keeps_where_it_came_from() -> None:
    played, [a] = asked("remote")
    signal = played.result(
        a,
        "text",
        handle="h1",
        size=9_000,
        event_id="e",
        occurred_at="yesterday",
        trace="own",
        is_error=True,
        by=By("tool", "x", "callback", "k", "h"),
        display=(Segment("html", "{}"),),
        subscription=True,
    )
    played.absorb(signal)
    [result] = played.all(Result)
    assert result == Result(
        at=played.now,
        call=a,
        parts=signal.parts,
        is_error=True,
        handle="h1",
        size=9_000,
        signal=signal.id,
        by=signal.by,
        event_id="e",
        occurred_at="yesterday",
        trace="own",
        display=(Segment("html", "{}"),),
        subscription=True,
    )


def test_a_result_without_a_trace_takes_that_of_the_slice() -> None:
    played, [a] = asked("read")
    played.absorb(played.result(a))
    assert played.all(Result)[-1].trace == "trace"


@pytest.mark.parametrize(
    ("is_error", "cause", "outcome"),
    [(False, "", "result"), (True, "", "error"), (True, "undelivered", "undelivered")],
)
def test_a_settled_call_is_recorded_with_how_it_ended(is_error: bool, cause: str, outcome: str) -> None:
    played, [a] = asked("read")
    opened = played.now
    step = played.absorb(played.result(a, is_error=is_error, cause=cause))
    [wait] = step.settled
    assert (wait.id, wait.kind, wait.opened_at, wait.settled_at) == (a, "call", opened, played.now)
    assert wait.outcome == outcome
