"""Threads and their children: born, told, reporting, stopped and closed together. All by signals."""

from torpor.core.calls import give_up_all, note
from torpor.core.effects import Cancel, Notify
from torpor.core.messages import By, Closed
from torpor.core.signals import BornSignal, ReportedSignal, StoppedSignal, Told
from torpor.core.step import Step


def born(step: Step, signal: BornSignal) -> str:
    """The first signal of a child."""
    raise NotImplementedError


def reported(step: Step, signal: ReportedSignal) -> str:
    """A child speaks, or something became of it."""
    raise NotImplementedError


def told(step: Step, signal: Told) -> str:
    """The parent speaks, or something could not be delivered."""
    raise NotImplementedError


def undelivered(step: Step, signal: ReportedSignal | BornSignal) -> None:
    """What came for this closed thread is lost: who sent it is told."""
    raise NotImplementedError


def stopped(step: Step, signal: StoppedSignal) -> None:
    """Stop what lives below, and tell the parent, if it was not the parent that stopped this thread."""


def close(step: Step, by: By) -> None:
    """End the thread for good, with all that it holds."""
    give_up_all(step, "stopped", "Stopped: the thread was closed.")
    for id, subscription in step.head.subscriptions.items():
        step.effects.append(Cancel(f"{id}/cancel/subscription", id, subscription.server))
        step.unsubscribed(id, subscription, "closed")
    note(step, Closed())
    step.effects.append(Notify(f"{step.thread}/closed"))


def park(step: Step, reason: str, kind: str, *, aside: bool = False) -> None:
    """Set the thread aside; its parent is told."""
    raise NotImplementedError


def rest(step: Step) -> None:
    """A turn is done: a child whose exchange has ended without a report tells its parent its last words."""
