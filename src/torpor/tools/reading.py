"""Reading on in results that are shown only in part: blobs, and messages of the history."""

from typing import Protocol

import msgspec

from torpor.core.codec import decode_message
from torpor.core.errors import Refused
from torpor.core.messages import Happened, Link, Part, Reported, Result
from torpor.core.showing import whole_text
from torpor.ports import Side, StoredMessage

PAGE = 12_000
"""Characters that one reading of a stored result gives at most."""

BLOCK = 1024 * 1024
"""Bytes of a stored result that are looked at at once."""

CONTINUING = bytes(range(0x80, 0xC0))
"""Bytes with which no character begins in UTF-8."""

PLACES = 16
"""Digits that no position has."""


class History(Protocol):
    """Where messages are read; every store is one."""

    async def read(self, thread: str, after: int = 0, limit: int = 1000) -> list[StoredMessage]:
        """Messages after a position, in order."""


class Reach(msgspec.Struct, frozen=True):
    """What one thread may read: its own results, and those of its lineage up to where that ends."""

    side: Side
    history: History
    thread: str
    lineage: tuple[Link, ...] = ()

    async def blob(self, handle: str, start: int = 0, size: int = -1) -> bytes | None:
        """The bytes of a blob of any of these threads, the nearest first."""
        for thread in (self.thread, *(link.thread for link in reversed(self.lineage))):
            body = await self.side.get_blob(thread, handle, start, size)
            if body is not None:
                return body
        return None

    async def parts(self, handle: str) -> tuple[tuple[Part, ...], str]:
        """What the message named ``thread.position`` holds, and the blob of its whole text, if any."""
        thread, _, place = handle.rpartition(".")
        position = int(place) if place.isascii() and place.isdecimal() and len(place) < PLACES else 0
        links = [link for link in self.lineage if link.thread == thread and position <= link.upto]
        if position < 1 or not (thread == self.thread or links):
            return (), ""
        for stored in await self.history.read(thread, position - 1, 1):
            message = decode_message(stored.body)
            if isinstance(message, Result | Happened):
                return message.parts, message.handle
            if isinstance(message, Reported):
                return message.parts, ""
        return (), ""


async def read_range(reach: Reach, handle: str, start: int, length: int) -> tuple[str, bool]:
    """Characters ``start`` to ``start + length`` of a stored result, and whether more follow.

    ``handle`` names a blob, or a message by thread and position. ``Refused`` if it is none of this thread's.
    """
    start, length = max(0, start), max(1, min(length, PAGE))
    blob, text = handle, None
    if "." in handle:
        parts, blob = await reach.parts(handle)
        text = whole_text(parts)[start : start + length + 1] if parts else None
    if blob:
        text = await _stored(reach, blob, start, length)
    if text is None:
        raise Refused(f"This thread has no stored result {handle!r}.")
    return text[:length], len(text) > length


async def _stored(reach: Reach, handle: str, start: int, length: int) -> str | None:
    if handle.endswith("a"):
        body = await reach.blob(handle, start, length + 1)
        return None if body is None else body.decode("ascii", "replace")
    return await _counted(reach, handle, start, length + 1)


async def _counted(reach: Reach, handle: str, start: int, length: int) -> str | None:
    """Some characters of a blob in which one may have several bytes: those before them are only counted."""
    at, kept = 0, b""
    while body := await reach.blob(handle, at, BLOCK):
        at += len(body)
        passed = len(body.translate(None, CONTINUING))
        if kept or passed > start:
            kept += body
            if len(kept.translate(None, CONTINUING)) > start + length:
                break
        else:
            start -= passed
    if not at and body is None:
        return None
    return kept.lstrip(CONTINUING).decode("utf-8", "replace")[start : start + length]
