"""What callers of threads are given and refused."""

import msgspec

from torpor.core.errors import Refused
from torpor.ports import Row


class UnknownThread(Refused):
    """There is no thread of this id."""


class Contradicts(Refused):
    """What was done before stands against it: an id or key that is taken, a thread that is closed."""


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
