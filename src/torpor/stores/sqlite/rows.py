"""Between rows of the table ``threads`` and ``Row``."""

from typing import Any

from torpor.ports import Commit, Row, Version


def row_of(values: tuple[Any, ...]) -> Row:
    """A thread's row from the columns that ``threads.sql`` selects."""
    return Row(
        thread=values[0],
        agent=values[1],
        version=Version(values[2], values[3]),
        owner=values[4],
        user_id=values[5],
        context=values[6],
        tier=values[7],
        purpose=values[8],
        root=values[9],
        parent=values[10],
        lineage=values[11],
        state=values[12],
        owes=values[13] != 0,
        waits=values[14],
        attempt=values[15],
        not_before=values[16],
        created=values[17],
        updated=values[18],
        title=values[19],
        trace=values[20],
        length=values[21],
        shape=values[22],
        head=values[23],
        base=values[24],
        source=values[25],
    )


NUMBER = 26
"""Where the thread's inner number stands in those columns."""


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
