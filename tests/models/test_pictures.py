import base64
import struct
import zlib

import pytest

from torpor.core.messages import Image
from torpor.core.request import InputItem, Request
from torpor.models import Anthropic
from torpor.models.pictures import size_of


def png(width: int, height: int) -> bytes:
    """A whole black picture."""

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


def jpeg(width: int, height: int, before: bytes = b"") -> bytes:
    """The beginning of a picture, after an application segment with these bytes."""
    first = b"\xff\xd8\xff\xe1" + struct.pack(">H", 2 + len(before)) + before
    tables = b"\xff\xc4" + struct.pack(">H", 4) + b"\0\0"
    return first + tables + b"\xff\xc2" + struct.pack(">HBHHB", 8, 8, height, width, 3)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + struct.pack("<I", len(body)) + body


def image(body: bytes, media_type: str = "image/png") -> Image:
    return Image(base64.b64encode(body).decode(), media_type)


@pytest.mark.parametrize(
    "body",
    [
        png(300, 20),
        jpeg(300, 20),
        jpeg(300, 20, b"exif" * 9_000),
        b"GIF89a" + struct.pack("<HH", 300, 20) + b"\0\0\0",
        webp(b"VP8X", b"\0\0\0\0" + (299).to_bytes(3, "little") + (19).to_bytes(3, "little")),
        webp(b"VP8L", b"\x2f" + (299 | 19 << 14).to_bytes(4, "little")),
        webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 300 | 1 << 14, 20)),
    ],
)
def test_the_size_of_each_kind(body: bytes) -> None:
    assert size_of(image(body)) == (300, 20)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8",
        jpeg(1, 1)[:-5],
        b"\xff\xd8\0\0\0\0",
        webp(b"VP9 ", b""),
        b"BM",
    ],
)
def test_bytes_that_do_not_tell(body: bytes) -> None:
    assert size_of(image(body)) is None


def test_text_that_is_no_base64() -> None:
    assert size_of(Image("äöü!", "image/png")) is None


def asked(*images: Image) -> Request:
    return Request("t", "m", "", (), tuple(InputItem(float(n), (one,)) for n, one in enumerate(images)))


def sent(request: Request) -> list[str]:
    """The type of the last block of each message."""
    return [message["content"][-1]["type"] for message in Anthropic("m").wire(request)["messages"]]


SMALL = image(png(10, 10))


@pytest.mark.parametrize("count", [1, 20, 21, 40])
def test_one_limit_holds_however_many_images_there_are(count: int) -> None:
    """Case WIR-16: a request with many images takes only small ones, so none that is sent may be large."""
    large = image(png(2162, 322))
    kinds = sent(asked(large, *([SMALL] * (count - 1))))
    assert kinds == ["text", *["image"] * (count - 1)]


def test_an_image_that_is_never_taken() -> None:
    (message,) = Anthropic("m").wire(asked(image(png(2001, 1))))["messages"]
    assert "2001 x 1 pixels, at most 2000" in message["content"][0]["text"]


def test_larger_ones_are_taken_where_it_is_said() -> None:
    (message,) = Anthropic("m", image_side=8_000).wire(asked(image(png(8000, 1))))["messages"]
    assert message["content"][-1]["type"] == "image"
