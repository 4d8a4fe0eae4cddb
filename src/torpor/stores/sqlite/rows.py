"""Between rows of the table ``threads`` and ``Row``."""

from typing import Any

from torpor.ports import Commit, Row


def columns_of(row: Row) -> tuple[Any, ...]:
    """The columns of a new row, as ``threads.sql`` inserts them."""
    version = row.version
    return (
        row.thread,
        row.agent,
        version.counter,
        version.commit_id,
        row.owner,
        row.user_id,
        row.context,
        row.tier,
        row.purpose,
        row.root,
        row.parent,
        row.lineage,
        row.state,
        row.owes,
        row.waits,
        row.attempt,
        row.not_before,
        row.created,
        row.updated,
        row.title,
        row.trace,
        row.length,
        row.shape,
        row.head,
        row.base,
        row.source,
    )


def advance_of(commit: Commit, number: int) -> tuple[Any, ...]:
    """What a commit changes in the row of that inner number."""
    row = commit.row
    return (
        commit.base.counter + 1,
        commit.commit_id,
        row.context,
        row.tier,
        row.state,
        row.owes,
        row.waits,
        row.attempt,
        row.not_before,
        row.updated,
        row.title,
        row.trace,
        row.length,
        row.shape,
        row.head,
        row.base,
        number,
    )


def fixed_of(row: Row) -> list[Any]:
    """The columns that hardly ever change; left alone where they are as before, for their indexes' sake."""
    names = (row.agent, row.owner, row.user_id, row.purpose, row.root, row.parent)
    return [*names, row.lineage, row.created, row.source]
