"""The notebook of a slice goes back to a mark; kinds of signals, and which of them cannot wait."""

import pytest

from tests.core.playing import Played, call
from torpor.core.answer import Asked, answer
from torpor.core.chunks import Stop
from torpor.core.messages import Result, Text
from torpor.core.signals import (
    AnySignal,
    ClosedSignal,
    Due,
    Finished,
    HappenedSignal,
    Nudged,
    SaidSignal,
    StoppedSignal,
    is_urgent,
    kind_of,
)
from torpor.core.step import Step

SIGNALS: list[tuple[AnySignal, str, bool]] = [
    (SaidSignal("t", "1", 1.0, mode="steer"), "said", False),
    (SaidSignal("t", "1", 1.0, mode="queue"), "said", False),
    (SaidSignal("t", "1", 1.0, mode="interrupt"), "interrupt", True),
    (Finished("t", "1", 1.0), "finished", False),
    (HappenedSignal("t", "1", 1.0), "happened", False),
    (Due("t", "1", 1.0), "due", False),
    (StoppedSignal("t", "1", 1.0), "stopped", True),
    (ClosedSignal("t", "1", 1.0), "closed", True),
    (Nudged("t", "1", 1.0), "nudged", True),
]


@pytest.mark.parametrize(("signal", "kind", "urgent"), SIGNALS)
def test_a_signal_has_a_kind_and_some_cannot_wait(signal: AnySignal, kind: str, urgent: bool) -> None:
    assert kind_of(signal) == kind
    assert is_urgent(signal) is urgent


def grown(step: Step) -> list[object]:
    kept = (step.messages, step.effects, step.timers, step.cancelled, step.settled, step.opened)
    return [step.head, step.now, *(tuple(each) for each in kept)]


def test_a_step_goes_back_to_its_mark_and_keeps_what_was_before_it() -> None:
    played = Played()
    played.absorb(played.text("go"))
    [a] = played.reply(call("remote"))
    step = played.absorb(played.result(a))
    before, mark = grown(step), step.mark()
    raw = (call("bounded"), call("sleep", '{"seconds": 60}'), call("nothing"), call("quick"))
    [run] = answer(step, raw, Stop(), Asked(step.head.length, "x"))
    step.settle(Result(step.now, run.call, (Text("ran"),)))
    step.cancelled.append("timer")
    step.now += 5.0
    after = grown(step)
    assert all(one != other for one, other in zip(before, after, strict=True))
    step.back(mark)
    assert grown(step) == before
    assert played.outcomes.keys() >= step.outcomes.keys() != set()


def test_a_timer_that_was_lifted_since_a_mark_is_there_again() -> None:
    played = Played()
    played.absorb(played.text("go"))
    step = played._step()
    step.timers += [Due("t", "first", 1.0), Due("t", "second", 1.0)]
    mark = step.mark()
    step.drop_timer("first")
    step.closing = "bye"
    step.back(mark)
    assert [timer.id for timer in step.timers] == ["first", "second"]
    assert step.cancelled == []
    assert step.closing is None
