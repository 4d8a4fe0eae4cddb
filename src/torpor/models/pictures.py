"""How large an image is, as its bytes tell."""

import base64
import struct
from functools import lru_cache

from torpor.core.messages import Image

LOOKED_AT = 200_000
"""Characters of base64 that are searched for the size; it stands near the beginning."""

PNG = b"\x89PNG\r\n\x1a\n"
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that begin a frame."""

Size = tuple[int, int]


def size_of(image: Image) -> Size | None:
    """Width and height in pixels; None where the bytes do not tell."""
    return _measured(image.data[:LOOKED_AT])


@lru_cache(maxsize=64)
def _measured(beginning: str) -> Size | None:
    try:
        return _size(base64.b64decode(beginning[: len(beginning) // 4 * 4]))
    except (ValueError, struct.error):
        return None


def _size(body: bytes) -> Size | None:
    if body.startswith(PNG):
        return _pair(">II", body, 16)
    if body[:6] in (b"GIF87a", b"GIF89a"):
        return _pair("<HH", body, 6)
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return _webp(body)
    return _jpeg(body) if body[:2] == b"\xff\xd8" else None


def _pair(form: str, body: bytes, at: int) -> Size:
    first, second = struct.unpack_from(form, body, at)
    return int(first), int(second)


def _webp(body: bytes) -> Size | None:
    kind = body[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[24:27], "little"), 1 + int.from_bytes(body[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(body[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = _pair("<HH", body, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(body: bytes) -> Size | None:
    at = 2
    while at + 4 <= len(body) and body[at] == 0xFF:
        marker, length = struct.unpack_from(">BH", body, at + 1)
        if marker in FRAMES:
            height, width = _pair(">HH", body, at + 5)
            return width, height
        at += 2 + length
    return None
