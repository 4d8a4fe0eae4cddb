"""Compaction: when history is folded or summed up, by whom, and what becomes of the summary."""

from torpor.core.signals import Compacted, Due
from torpor.core.step import Step


def compacted(step: Step, signal: Compacted) -> str:
    """A compaction child is done."""
    raise NotImplementedError


def overdue(step: Step, signal: Due) -> str:
    """A compaction child has not come to an end in time."""
    raise NotImplementedError
