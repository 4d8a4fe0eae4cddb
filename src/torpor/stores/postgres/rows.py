"""Between rows of the tables and values of ours."""

from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core.codec import decode_effect, encode
from torpor.core.signals import AnySignal, kind_of
from torpor.ports import Commit, OutboxRow, Row

Given = dict[str, Any]
"""Parameters of a statement, by name."""


def columns_of(row: Row) -> Given:
    """The columns of a new row."""
    version = row.version
    return {**msgspec.structs.asdict(row), "counter": version.counter, "commit_id": version.commit_id}


def moved_of(commit: Commit) -> Given:
    """What a commit makes of a row, and where it expects it."""
    return {
        **msgspec.structs.asdict(commit.row),
        "thread": commit.thread,
        "counter": commit.base.counter,
        "before": commit.base.commit_id,
        "commit_id": commit.commit_id,
    }


def signal_of(signal: AnySignal) -> Given:
    """The columns of one signal."""
    return {
        "thread": signal.thread,
        "id": signal.id,
        "kind": kind_of(signal),
        "due": float(signal.due),
        "body": encode(signal),
    }


def signals_of(signals: Sequence[AnySignal]) -> Given:
    """The columns of several signals, each as a list."""
    return {
        "ids": [signal.id for signal in signals],
        "kinds": [kind_of(signal) for signal in signals],
        "dues": [float(signal.due) for signal in signals],
        "bodies": [encode(signal) for signal in signals],
    }


def outbox_row(values: Sequence[Any]) -> OutboxRow:
    """An outbox row from its body, attempt, earliest instant, and the end of its claim."""
    body, attempt, not_before, claimed_until = values
    return OutboxRow(decode_effect(body), attempt, not_before, claimed_until)
