"""What every store must do with blobs and small values."""

import asyncio

from torpor.testing.clock import START, FakeClock
from torpor.testing.opening import Opening, OpensStores
from torpor.testing.samples import fresh, thread_row


class SideContract(OpensStores):
    """The ``Side`` port."""

    async def test_a_blob_is_read_in_ranges(self, opening: Opening) -> None:
        thread = fresh()
        async with opening() as store:
            await store.create(thread_row(thread))
            await store.put_blob(thread, "h", b"0123456789")
            assert await store.get_blob(thread, "h") == b"0123456789"
            assert await store.get_blob(thread, "h", 3) == b"3456789"
            assert await store.get_blob(thread, "h", 3, 4) == b"3456"
            assert await store.get_blob(thread, "h", 8, 99) == b"89"
            assert await store.get_blob(thread, "h", 99, 4) == b""
            assert await store.get_blob(thread, "h", 2, 0) == b""

    async def test_blobs_are_never_shared_across_threads(self, opening: Opening) -> None:
        one, two = fresh(), fresh()
        async with opening() as store:
            for thread in (one, two):
                await store.create(thread_row(thread))
            await store.put_blob(one, "h", b"text")
            assert await store.get_blob(two, "h") is None
            assert await store.get_blob(one, "other") is None

    async def test_a_repeated_blob_is_ignored(self, opening: Opening) -> None:
        thread = fresh()
        async with opening() as store:
            await store.create(thread_row(thread))
            await store.put_blob(thread, "h", b"")
            await store.put_blob(thread, "h", b"text")
            assert await store.get_blob(thread, "h") == b""

    async def test_a_large_blob(self, opening: Opening) -> None:
        thread = fresh()
        body = bytes(range(256)) * 40_000
        async with opening() as store:
            await store.create(thread_row(thread))
            await store.put_blob(thread, "h", body)
            assert await store.get_blob(thread, "h", 9_000_000, 256) == body[9_000_000:9_000_256]
            assert await store.get_blob(thread, "h") == body

    async def test_small_values(self, opening: Opening) -> None:
        async with opening() as store:
            assert await store.get("keys", "a") is None
            await store.put("keys", "b", b"2")
            await store.put("keys", "a", b"1")
            await store.put("keys", "a", b"\x00")
            await store.put("other", "a", b"")
            assert await store.get("keys", "a") == b"\x00"
            assert await store.get("other", "a") == b""
            assert await store.entries("keys") == {"a": b"\x00", "b": b"2"}
            assert await store.entries("none") == {}

    async def test_old_values_of_a_space_are_forgotten(self, opening: Opening, clock: FakeClock) -> None:
        async with opening() as store:
            await store.put("said", "old", b"1")
            await store.put_new("said", "older", b"2")
            await store.put("said", "renewed", b"3")
            await store.put("keys", "old", b"4")
            clock.advance(10)
            await store.put("said", "renewed", b"5")
            assert await store.put_new("said", "older", b"6") == b"2"
            await store.put_new("said", "new", b"7")
            assert await store.forget("said", START) == 0
            assert await store.forget("said", START + 10) == 2
            assert await store.entries("said") == {"new": b"7", "renewed": b"5"}
            assert await store.entries("keys") == {"old": b"4"}
            assert await store.forget("none", START + 10) == 0

    async def test_the_first_of_many_is_kept(self, opening: Opening) -> None:
        async with opening() as store, opening() as other:
            values = [str(place).encode() for place in range(20)]
            kept = await asyncio.gather(
                *(handle.put_new("keys", "k", value) for value in values for handle in (store, other))
            )
            assert len(set(kept)) == 1
            assert await store.get("keys", "k") == kept[0]
            assert await store.put_new("keys", "k", b"late") == kept[0]
