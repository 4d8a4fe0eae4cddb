import base64
import threading

import pytest

from torpor.clock import SystemClock
from torpor.core.errors import Refused
from torpor.core.messages import File, Image, Part, Text, text_of
from torpor.stores.memory import MemoryStore
from torpor.tools.reading import Reach, read_range
from torpor.tools.results import HEAVY, Bounded, aside, bounded, image_part, image_type

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\x00" * 20).decode()


class Shelf:
    """Keeps blobs in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, handle: str, body: bytes) -> None:
        self.kept[handle] = body


async def cut(*parts: Part, limit: int = 10) -> tuple[Bounded, dict[str, bytes]]:
    shelf = Shelf()
    return await bounded(parts, shelf.put, limit=limit), shelf.kept


async def test_what_is_short_enough_is_kept_as_it_is() -> None:
    parts = (Text("12345"), Image(PNG, "image/png"), Text("6789"))
    found, kept = await cut(*parts)
    assert found == Bounded(parts)
    assert kept == {}


async def test_one_character_too_many_goes_to_a_blob_whole() -> None:
    parts = (Text("12345"), Image(PNG, "image/png"), Text("67890"), Text("x"))
    found, kept = await cut(*parts)
    assert found.parts == (Text("12345"), Image(PNG, "image/png"), Text("67890"))
    assert found.size == len("12345\n67890\nx")
    assert kept == {found.handle: b"12345\n67890\nx"}


async def test_the_same_text_has_the_same_handle() -> None:
    one, _ = await cut(Text("x" * 20))
    two, _ = await cut(Text("x" * 20))
    other, _ = await cut(Text("y" * 20))
    assert one.handle == two.handle != other.handle


async def test_a_thousand_small_parts_become_few_and_no_text_is_lost() -> None:
    texts, _ = await cut(*[Text("x")] * 1_000, limit=16_000)
    assert texts.parts == (Text("\n".join("x" * 1_000)),)
    three: list[Part] = [Text("x"), Image(PNG, "image/png"), Text("y")]
    mixed, _ = await cut(*three * 1_000, limit=100_000)
    assert len(mixed.parts) == 41
    assert sum(isinstance(part, Image) for part in mixed.parts) == 20
    words = text_of(mixed.parts).split("\n")
    assert (words.count("x"), words.count("y")) == (1_000, 1_000)
    assert text_of(mixed.parts).count("[left out: one result keeps at most 20 images and files]") == 980


async def test_no_parts_stay_no_parts() -> None:
    assert (await cut())[0] == Bounded(())


async def test_images_and_files_that_are_too_large_are_replaced() -> None:
    huge = Image(base64.b64encode(b"\x00" * 6_500_000).decode(), "image/png")
    found, kept = await cut(huge, File("a\ud800", data="x" * 4_000_000), File("b", text="x"), limit=1_000)
    assert text_of(found.parts[:1]) == "[image left out: it has 6500001 bytes, the limit is 3750000]"
    assert found.parts[1:] == (Text("[file 'a\ufffd' left out: it is too large]"), File("b", text="x"))
    assert kept == {}


async def test_an_image_that_is_kept_elsewhere_is_left_alone() -> None:
    elsewhere = Image("", "image/png", handle="h")
    assert (await cut(elsewhere))[0].parts == (elsewhere,)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", ""),
        (b"<svg/>", ""),
        (b"", ""),
    ],
)
def test_an_image_is_known_by_its_first_bytes(body: bytes, media_type: str) -> None:
    assert image_type(body) == media_type


@pytest.mark.parametrize("data", ["=", "a", "é", "A===", PNG + " ", "-_-_"])
def test_base64_is_read_strictly(data: str) -> None:
    assert isinstance(image_part(data), Text)


async def test_a_range_is_of_characters_for_any_text() -> None:
    side = MemoryStore(SystemClock())
    reach = Reach(side, side, "t")
    for text in ("0123456789" * 3, "aé\U0001f600" * 10):

        async def put(handle: str, body: bytes) -> None:
            await side.put_blob("t", handle, body)

        handle = (await bounded([Text(text)], put, limit=5)).handle
        assert await read_range(reach, handle, 7, 5) == (text[7:12], True)
        assert await read_range(reach, handle, 25, 5) == (text[25:], False)
        assert await read_range(reach, handle, 99, 5) == ("", False)
        with pytest.raises(Refused):
            await read_range(Reach(side, side, "u"), handle, 0, 5)


async def test_what_is_large_leaves_the_event_loop_and_what_is_small_does_not() -> None:
    here = threading.get_ident()
    assert await aside(HEAVY, threading.get_ident) == here
    assert await aside(HEAVY + 1, threading.get_ident) != here
