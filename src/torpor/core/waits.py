"""Waits of people: choices, authorizations and approvals; each has an id and is settled once."""

from torpor.core.signals import AnsweredSignal, Due, RequestedSignal
from torpor.core.step import Step


def requested(step: Step, signal: RequestedSignal) -> str:
    """A tool server needs a person for one of its calls."""
    raise NotImplementedError


def answered(step: Step, signal: AnsweredSignal) -> str:
    """A person has answered."""
    raise NotImplementedError


def expired(step: Step, signal: Due) -> str:
    """Nobody has answered in time."""
    raise NotImplementedError
