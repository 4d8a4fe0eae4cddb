"""What weather has found in the runtime, each fault by itself."""

from torpor.core.absorb import absorb
from torpor.core.definition import Definition
from torpor.core.head import Head
from torpor.core.messages import Text
from torpor.core.signals import AnySignal, BornSignal, SaidSignal, StoppedSignal
from torpor.core.step import Step
from torpor.runtime.slice import _batches


def test_a_child_that_is_spoken_to_and_stopped_before_its_first_slice_is_born_first() -> None:
    signals: list[AnySignal] = [
        BornSignal("c", "c/born", 1.0, parent="p", ancestors=("p",), parts=(Text("Do it."),)),
        SaidSignal("c", "said/1", 2.0, parts=(Text("And hurry."),)),
        StoppedSignal("c", "stop/1", 3.0),
    ]
    step = Step("c", Head(), 4.0, Definition("worker"))
    for batch in _batches(signals):
        absorb(step, batch)
    assert set(step.outcomes.values()) == {"absorbed"}
    assert (step.head.parent, step.head.state) == ("p", "stopped")
