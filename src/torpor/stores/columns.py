"""A thread's row from the columns that each store's ``threads.sql`` selects, in their order."""

from collections.abc import Sequence
from typing import Any

from torpor.ports import Row, Version

COLUMNS = 26
"""How many columns a row is made of; what a store selects besides comes after them."""


def row_of(values: Sequence[Any]) -> Row:
    """A thread's row."""
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
        owes=bool(values[13]),
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
