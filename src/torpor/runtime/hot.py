"""Threads seen lately, decoded: a slice that finds its thread here at the same version decodes nothing.

Measured in the agent_scale workload: about three times the slices a second of decoding all of a history each
time. Switch it off with a limit of 0.
"""

from collections import OrderedDict

import msgspec

from torpor.core.codec import decode_head, decode_message
from torpor.core.prompt import Projection
from torpor.core.thread import Head
from torpor.ports import Row, StoredMessage, Version
from torpor.runtime.lineages import Lineages

FOLDED_AT = 256
"""Undecoded messages that are folded into the projection although nobody has asked for it."""


class Warm(msgspec.Struct, eq=False):
    """A thread as of one version: its head, its projection, and about how many bytes they stand for.

    ``later`` are messages that the projection does not hold yet: they are decoded when a model is asked, so
    that a slice which only absorbs reads the head alone. Without a projection all history is read then.
    """

    version: Version
    head: Head
    projection: Projection | None
    size: int
    later: tuple[StoredMessage, ...] = ()

    def whole(self) -> Projection | None:
        """The projection of all messages, as of this version; None if they are to be read."""
        projection = self.projection
        if projection is not None and self.later:
            for stored in self.later:
                projection.add(decode_message(stored.body))
            self.later = ()
        return projection

    def take(self) -> None:
        """Somebody lets the projection grow: should that come to nothing, history is read again."""
        self.projection = None

    def grown(self, version: Version, head: Head, messages: tuple[StoredMessage, ...]) -> "Warm":
        """The thread after messages that no model was asked about."""
        if self.projection is None:
            return Warm(version, head, None, self.size)
        later = (*self.later, *messages)
        grown = Warm(version, head, self.projection, self.size + weight(messages), later)
        if len(later) >= FOLDED_AT:
            grown.whole()
        return grown


def weight(messages: tuple[StoredMessage, ...]) -> int:
    """About how many bytes messages take, decoded."""
    return sum([200 + len(message.body) for message in messages])


class Hot:
    """Warm threads up to ``limit`` bytes of history; those used longest ago go first."""

    def __init__(self, limit: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._size = 0
        self._threads: OrderedDict[str, Warm] = OrderedDict()

    def get(self, thread: str) -> Warm | None:
        """A thread, if it is warm."""
        warm = self._threads.get(thread)
        if warm is not None:
            self._threads.move_to_end(thread)
        return warm

    def put(self, thread: str, warm: Warm) -> None:
        """Keep a thread as of its newest version; not a closed one, which hardly ever wakes again."""
        self.drop(thread)
        if warm.head.state == "closed":
            return
        self._threads[thread] = warm
        self._size += warm.size
        while self._size > self._limit and self._threads:
            _, oldest = self._threads.popitem(last=False)
            self._size -= oldest.size

    def drop(self, thread: str) -> None:
        """Forget a thread."""
        known = self._threads.pop(thread, None)
        if known is not None:
            self._size -= known.size

    def clear(self) -> None:
        """Forget all."""
        self._threads.clear()
        self._size = 0


async def warm_up(lineages: Lineages, row: Row, history: tuple[StoredMessage, ...] | None) -> Warm:
    """A thread from its row and the history that was loaded; of its own, only the head is decoded."""
    head = decode_head(row.head, row.shape)
    if history is None:
        return Warm(row.version, head, None, len(row.head))
    projection = await lineages.begin(row, head, history)
    size = len(row.head) + projection.size + sum([len(stored.body) for stored in history])
    return Warm(row.version, head, projection, size, history)
