"""Where the projections of threads begin: nothing, a summary, or the histories that a thread continues."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from torpor.core.codec import decode_message
from torpor.core.errors import Broken
from torpor.core.messages import Born, Link, Message, Noted, Summary
from torpor.core.projection import Projection
from torpor.core.thread import Head
from torpor.ports import Row, Store, StoredMessage
from torpor.runtime.trees import links_of

PAGE = 500
"""Messages that are read at once."""


class Lineages:
    """Projections of lineages, as children begin with them, up to about ``limit`` bytes.

    A thousand children of one parent decode its history once: a longer lineage goes on from a shorter one.
    Children are given copies, which share the items.
    """

    def __init__(self, store: Store, limit: int = 32 * 1024 * 1024) -> None:
        self._store = store
        self._limit = limit
        self._size = 0
        self._known: OrderedDict[tuple[Link, ...], Projection] = OrderedDict()

    async def begin(self, row: Row, head: Head, history: Sequence[StoredMessage]) -> Projection:
        """The projection to which the messages after the row's ``base`` are added; the caller's own."""
        lineage = head.lineage or links_of(row)
        if head.summary:
            found = [decode_message(one.body) for one in history if one.position == head.summary]
            projection = Projection(row.thread)
            projection.resume(_summary(row.thread, *found), marked=bool(lineage))
            return projection
        if not lineage:
            return Projection(row.thread)
        projection = await self._of(lineage)
        projection.enter(row.thread)
        return projection

    async def _of(self, lineage: tuple[Link, ...]) -> Projection:
        """A copy of a lineage's projection, before anything of the one who continues it."""
        *before, last = lineage
        key, known = self._nearest(lineage)
        if known is not None:
            projection = known.fork()
        else:
            projection = await self._start(tuple(before), last)
        if key != lineage:
            async for message in self._messages(last.thread, projection.position, last.upto):
                projection.add(message)
            self._keep(lineage, projection)
        projection = projection.fork()
        projection.fold(last.folded)
        return projection

    def _nearest(self, lineage: tuple[Link, ...]) -> tuple[tuple[Link, ...], Projection | None]:
        """The longest known beginning of a lineage that ends in the same thread."""
        *before, last = lineage
        alike = [known for known in self._known if [*known[:-1]] == before and _is_beginning(known[-1], last)]
        if not alike:
            return (), None
        key = max(alike, key=lambda known: known[-1].upto)
        self._known.move_to_end(key)
        return key, self._known[key]

    async def _start(self, before: tuple[Link, ...], link: Link) -> Projection:
        """A projection for the messages of a link: all of them, or those after what a summary covers."""
        if link.summary:
            projection = Projection(link.thread)
            born = await self._message(link.thread, 1)
            summary = _summary(link.thread, await self._message(link.thread, link.summary))
            note = born.note if isinstance(born, Noted) else None
            projection.resume(summary, marked=isinstance(note, Born) and bool(note.lineage))
            return projection
        if not before:
            return Projection(link.thread)
        projection = await self._of(before)
        projection.enter(link.thread)
        return projection

    async def _message(self, thread: str, position: int) -> Message:
        async for message in self._messages(thread, position - 1, position):
            return message
        raise Broken(f"The thread {thread} has no message {position}, which another one continues.")

    async def _messages(self, thread: str, after: int, upto: int) -> AsyncIterator[Message]:
        while after < upto:
            page = await self._store.read(thread, after, min(PAGE, upto - after))
            if not page:
                raise Broken(f"The thread {thread} ends before {upto}, up to where another one continues it.")
            for stored in page:
                yield decode_message(stored.body)
            after = page[-1].position

    def _keep(self, lineage: tuple[Link, ...], projection: Projection) -> None:
        former = self._known.pop(lineage, None)
        self._size -= former.size if former else 0
        self._known[lineage] = projection
        self._size += projection.size
        while self._size > self._limit and self._known:
            _, oldest = self._known.popitem(last=False)
            self._size -= oldest.size


async def read_all(store: Store, row: Row) -> tuple[StoredMessage, ...]:
    """All messages of a thread after its row's ``base``, up to its length."""
    found: list[StoredMessage] = []
    after = row.base
    while after < row.length:
        page = await store.read(row.thread, after, min(PAGE, row.length - after))
        if not page:
            raise Broken(f"The thread {row.thread} ends at {after}, before its length of {row.length}.")
        found += page
        after = page[-1].position
    return tuple(found)


def _is_beginning(known: Link, wanted: Link) -> bool:
    """Whether a link goes on where another one ends."""
    same = (known.thread, known.summary, known.base) == (wanted.thread, wanted.summary, wanted.base)
    return same and known.upto <= wanted.upto


def _summary(thread: str, message: Message | None = None) -> Summary:
    if not isinstance(message, Summary):
        raise Broken(f"The thread {thread} has no summary where its history says there is one.")
    return message
