"""Threads as rows say that they belong together: lists of any length, trees, and what each continues."""

from typing import Unpack

import msgspec

from torpor.core.messages import Link
from torpor.ports import Asked, Row, Store

PAGE = 500
"""Rows that are read at once."""

_links = msgspec.msgpack.Decoder(tuple[Link, ...])


async def listed(store: Store, **asked: Unpack[Asked]) -> list[Row]:
    """All threads that are asked for, by id."""
    rows: list[Row] = []
    while True:
        after = rows[-1].thread if rows else ""
        page = await store.threads(after=after, limit=PAGE, **asked)
        rows += page
        if len(page) < PAGE:
            return rows


async def family(store: Store, root: str) -> list[Row]:
    """All threads of a root's tree, those that only write summaries too."""
    return [*await listed(store, root=root), *await listed(store, root=root, purpose="compaction")]


def links_of(row: Row) -> tuple[Link, ...]:
    """The histories that a thread continues, as its row keeps them."""
    return _links.decode(row.lineage) if row.lineage else ()
