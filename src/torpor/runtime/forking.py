"""A fork: what a new root thread takes over of another one's history, as of a position."""

from collections.abc import Sequence

import msgspec

from torpor.core.errors import Refused
from torpor.core.messages import By, Link
from torpor.core.signals import BornSignal, ForkedSignal
from torpor.core.thread import Head, fold
from torpor.ports import Row
from torpor.runtime.posting import lineage_bytes
from torpor.runtime.replies import Entry


class Fork(msgspec.Struct, frozen=True):
    """A thread as it was at a position, to be continued by another."""

    source: str
    at: int
    head: Head
    """The source's, as of that position."""

    @property
    def lineage(self) -> tuple[Link, ...]:
        """What the heir continues. Where there is a summary, nothing before it."""
        head = self.head
        link = Link(self.source, self.at, head.summary, head.base, head.folded)
        return (link,) if head.summary else (*head.lineage, link)

    @property
    def bytes(self) -> bytes:
        """The lineage as a row keeps it."""
        return lineage_bytes(self.lineage)

    @property
    def title(self) -> str:
        """The title that it had then; empty: none of its own."""
        return self.head.title

    def born(self, row: Row, by: By) -> BornSignal:
        """The first signal of the heir, whose row is given."""
        return BornSignal(
            thread=row.thread,
            id="born",
            at=row.created,
            by=by,
            purpose="root",
            lineage=self.lineage,
            toolsets=self.head.toolsets,
            title=self.title,
        )

    def signal(self, row: Row, by: By) -> ForkedSignal:
        """Word to the source that it has an heir."""
        return ForkedSignal(
            self.source, f"fork/{row.thread}", row.created, by, heir=row.thread, position=self.at
        )


def forked(source: str, history: Sequence[Entry], at: int | None) -> Fork:
    """The fork of a thread at a position; None: at its end. ``Refused`` if there is no such position."""
    if not history:
        raise Refused("The thread has no history yet that could be continued.")
    position: object = len(history) if at is None else at
    if isinstance(position, bool) or not isinstance(position, int) or not 1 <= position <= len(history):
        raise Refused(f"A fork begins at a position from 1 to {len(history)}, not {position!r}.")
    return Fork(source, position, fold(entry.message for entry in history[:position]))
