"""What callers of threads are given and refused."""

import msgspec

from torpor.core.codec import decode_head
from torpor.core.errors import Refused, Unavailable
from torpor.core.moves import ARRIVING, MOVED, MOVING
from torpor.ports import Row, Store

MOMENT = 2.0
"""Seconds after which it is worth asking again for a thread that moves."""


class UnknownThread(Refused):
    """There is no thread of this id."""


class Contradicts(Refused):
    """What was done before stands against it: an id or key that is taken, a thread that is closed."""


def here(row: Row) -> Row:
    """A thread that lives in this store. ``Unavailable`` while it moves; ``Contradicts`` where it left."""
    if row.state == MOVING:
        text = f"The thread {row.thread!r} is moving to another store. Try again in a moment."
        raise Unavailable(text, retry_after=MOMENT)
    if row.state == ARRIVING:
        raise Unavailable(f"Only a copy of the thread {row.thread!r} is here; it lives in another store.")
    if row.state == MOVED:
        why = decode_head(row.head, row.shape).reason or "Only its history is, which others continue."
        raise Contradicts(f"The thread {row.thread!r} is not here. {why}")
    return row


async def still_here(store: Store, thread: str) -> None:
    """Raise, after something was stored for a thread, if that has left meanwhile: it may not follow."""
    row = await store.row(thread)
    if row is not None and row.state == MOVED:
        here(row)


class Receipt(msgspec.Struct, frozen=True):
    """What a sender holds: the signal's id, and the mode that was applied.

    ``mode`` is the best that is known when the words are stored: ``queue`` text that finds nothing to wait
    for is said at once (``steer``). What happens until a slice reads it may change that.
    """

    signal: str
    mode: str
    repeat: bool = False
    """It had been sent before; nothing was added."""


class Begun(msgspec.Struct, frozen=True):
    """A thread that was started. ``repeat``: its key had started it before."""

    row: Row
    receipt: Receipt | None
    repeat: bool = False
