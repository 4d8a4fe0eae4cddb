"""A fork begins with the history of another thread, and is asked nothing."""

from torpor.core.absorb import absorb
from torpor.core.definition import Definition, Limits
from torpor.core.messages import Born, Forked, Link, Noted
from torpor.core.plan import Yield, plan
from torpor.core.signals import BornSignal, ForkedSignal
from torpor.core.step import Step
from torpor.core.thread import Head

NOW = 1_796_000_000.0
LINEAGE = (Link("source", 7),)


def test_a_fork_is_born_with_a_lineage_and_rests() -> None:
    step = Step("heir", Head(), NOW, Definition("worker"))
    born = BornSignal("heir", "born", NOW, purpose="root", lineage=LINEAGE, toolsets={"s": "h"}, title="Sums")
    absorb(step, [born])
    assert step.messages == [
        Noted(NOW, Born("worker", lineage=LINEAGE, toolsets={"s": "h"}, title="Sums")),
    ]
    assert step.outcomes == {"born": "absorbed"}
    assert (step.head.purpose, step.head.parent, step.head.lineage) == ("root", "", LINEAGE)
    assert plan(step.head, Limits()) == Yield("idle")
    absorb(step, [born])
    assert step.outcomes == {"born": "born already"}


def test_its_source_knows_of_it() -> None:
    step = Step("source", Head(agent="worker", length=9), NOW, Definition("worker"))
    absorb(step, [ForkedSignal("source", "fork/heir", NOW, heir="heir", position=7)])
    assert step.messages == [Noted(NOW, Forked("heir", 7))]
    assert step.head.heirs == {"heir": 7}
