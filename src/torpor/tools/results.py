"""Results as parts of bounded size: the same rule for functions, callbacks and events.

Text over the limit goes to a blob whole, and the parts keep its beginning. Images that are too large, or no
images at all, are replaced by a line that says so.
"""

import asyncio
import base64
import binascii
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar

import msgspec

from torpor.core.messages import File, Image, Part, Text, text_of
from torpor.core.text import clean

RESULT_KEPT = 16_000
"""Characters of a result that stay in the history; more goes to a blob."""

IMAGE_KEPT = 3_750_000
"""Bytes of one image that stay in the history (5 MB as base64, what models commonly take)."""

PARTS_KEPT = 64
"""Parts of one result; where there are more, texts are joined and images beyond ``OTHERS_KEPT`` left out."""

OTHERS_KEPT = 20

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

HEAVY = 256 * 1024
"""Bytes or characters above which work on them leaves the event loop."""

P = ParamSpec("P")
T = TypeVar("T")

PutBlob = Callable[[str, bytes], Awaitable[None]]
"""Keeps bytes of this thread under a handle."""


class Bounded(msgspec.Struct, frozen=True):
    """Parts of bounded size; ``handle`` names the blob with the whole text of ``size`` characters, if any."""

    parts: tuple[Part, ...]
    handle: str = ""
    size: int = 0


def image_type(body: bytes) -> str:
    """The media type that the first bytes show, or an empty text for what is no known image."""
    for magic, media_type in _MAGIC:
        if body.startswith(magic):
            return media_type
    return "image/webp" if body[:4] == b"RIFF" and body[8:12] == b"WEBP" else ""


def image_part(data: str, *, limit: int = IMAGE_KEPT) -> Part:
    """An image from base64 text, typed by its own bytes; else a text that says why it is none."""
    size = len(data) * 3 // 4
    if size > limit:
        return Text(f"[image left out: it has {size} bytes, the limit is {limit}]")
    try:
        body = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Text("[image left out: it is not valid base64]")
    media_type = image_type(body)
    if not media_type:
        return Text("[image left out: its bytes are no PNG, JPEG, GIF or WebP image]")
    return Image(data, media_type)


async def bounded(parts: Iterable[Part], put_blob: PutBlob, *, limit: int = RESULT_KEPT) -> Bounded:
    """Parts with at most ``limit`` characters of text; a longer text is kept whole by ``put_blob``."""
    given = list(parts)
    kept, body = await aside(sum(map(_weight, given)), _bounded, given, limit)
    if kept.handle:
        await put_blob(kept.handle, body)
    return kept


async def aside(size: int, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Do work on something of this size: here if it is small, else in a thread, so that others go on."""
    return work(*args, **options) if size <= HEAVY else await asyncio.to_thread(work, *args, **options)


def _bounded(parts: Sequence[Part], limit: int) -> tuple[Bounded, bytes]:
    checked = _few([_checked(part) for part in parts])
    whole = text_of(checked)
    if len(whole) <= limit:
        return Bounded(checked), b""
    handle, body = _handle(whole)
    return Bounded(_beginning(checked, limit), handle, len(whole)), body


def _weight(part: Part) -> int:
    return len(part.text) if isinstance(part, Text) else len(part.data)


def _handle(whole: str) -> tuple[str, bytes]:
    """A name for a text and its bytes. Its last letter says whether a character is a byte."""
    body = whole.encode()
    width = "a" if len(body) == len(whole) else "u"
    return hashlib.sha256(body).hexdigest()[:32] + width, body


def _checked(part: Part) -> Part:
    match part:
        case Text():
            return Text(clean(part.text))
        case Image() if not part.handle:
            return image_part(part.data)
        case File() if len(part.data) + len(part.text) > IMAGE_KEPT:
            return Text(f"[file {clean(part.name)[:200]!r} left out: it is too large]")
        case _:
            return part


def _few(parts: Sequence[Part]) -> tuple[Part, ...]:
    """No text is lost where there are too many parts: texts side by side become one."""
    if len(parts) <= PARTS_KEPT:
        return tuple(parts)
    room = iter(range(OTHERS_KEPT))
    left_out = Text(f"[left out: one result keeps at most {OTHERS_KEPT} images and files]")
    kept = (part if isinstance(part, Text) or next(room, None) is not None else left_out for part in parts)
    few: list[Part] = []
    for is_text, run in itertools.groupby(kept, lambda part: isinstance(part, Text)):
        same = tuple(run)
        few += (Text(text_of(same)),) if is_text else same
    return tuple(few)


def _beginning(parts: tuple[Part, ...], limit: int) -> tuple[Part, ...]:
    """The parts up to ``limit`` characters of text; images among and after them stay."""
    kept: list[Part] = []
    for part in parts:
        if not isinstance(part, Text):
            kept.append(part)
        elif limit > 0:
            kept.append(Text(part.text[:limit]))
            limit -= len(part.text)
    return tuple(kept)
