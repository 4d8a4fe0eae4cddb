"""What a client waits for, in one short text that it may hold: nothing of it is kept here."""

import base64
import re
from typing import Self

import msgspec

from torpor.core.errors import Refused

LONGEST = 2_000
"""Characters of a ticket."""

LATEST = 1e11
"""No wait begins at a later instant, in seconds since the epoch: dates end there."""

_FITS = re.compile(r"[A-Za-z0-9_-]+")


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """A wait of a client. Whoever holds one may ask what it says, no more: it is checked like any request."""

    thread: str
    signal: str = ""
    """The words whose answer is waited for; empty: the last ones."""
    after: int = -1
    """Wait for what ends an exchange after this position instead; below 0: do not."""
    calls: bool = False
    """Of a thread that makes one call: wait for its result, or for the next event of what it opened."""
    since: int = 0
    """Progress is told of what comes after this position."""
    began: float = 0.0

    @property
    def text(self) -> str:
        """The ticket as a client holds it."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Self:
        """The ticket again. ``Refused`` if it is none of ours."""
        try:
            if len(text) > LONGEST or not _FITS.fullmatch(text):
                raise ValueError
            body = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            found = msgspec.msgpack.decode(body, type=cls)
            if not 0 <= found.began < LATEST:
                raise ValueError
        except (ValueError, msgspec.MsgspecError):
            raise Refused(f"There is no such wait: {text[:100]!a}.") from None
        return found
