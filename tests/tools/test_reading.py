"""Reading on in what is shown only in part: whose results may be read, by which names."""

import pytest

from torpor.clock import SystemClock
from torpor.core.codec import encode
from torpor.core.errors import Refused
from torpor.core.messages import (
    File,
    Happened,
    Image,
    Link,
    Message,
    Reported,
    Result,
    Said,
    Text,
    text_of,
)
from torpor.ports import StoredMessage
from torpor.runtime.roster import CallContext
from torpor.stores.memory import MemoryStore
from torpor.testing.samples import commit_on, thread_row
from torpor.tools.functions import BoundTool, read_result
from torpor.tools.reading import Reach, read_range

WHOLE = "0123456789" * 300


async def stored(*messages: Message, thread: str = "parent") -> MemoryStore:
    store = MemoryStore(SystemClock())
    await store.create(thread_row(thread))
    kept = tuple(StoredMessage(place, encode(message)) for place, message in enumerate(messages, 1))
    await store.commit(commit_on(await store.load(thread), messages=kept))
    return store


def result(text: str, **fields: object) -> Result:
    return Result(1.0, "c", (Text(text),), **fields)  # type: ignore[arg-type]


async def read(store: MemoryStore, handle: str, reader: str = "parent", *lineage: Link) -> str:
    return (await read_range(Reach(store, store, reader, lineage), handle, 0, 12_000))[0]


async def refused(store: MemoryStore, handle: str, reader: str = "parent", *lineage: Link) -> bool:
    with pytest.raises(Refused, match="no stored result"):
        await read(store, handle, reader, *lineage)
    return True


async def test_a_message_is_read_by_its_thread_and_position() -> None:
    store = await stored(
        Said(1.0, (Text("words"),)),
        result(WHOLE),
        Happened(2.0, "c", "watch", "{}", (Text("a"), Image("aGk=", "image/png"), File("f", text="b"))),
        Reported(3.0, "child", "report", "c", "spawn_thread", parts=(Text("done"),)),
    )
    assert await read(store, "parent.2") == WHOLE
    assert await read(store, "parent.3") == "a\n[file f (text/plain)]\nb"
    assert await read(store, "parent.4") == "done"
    reach = Reach(store, store, "parent")
    assert await read_range(reach, "parent.2", 2_990, 5) == ("01234", True)
    assert await read_range(reach, "parent.2", 2_995, 5) == ("56789", False)


@pytest.mark.parametrize(
    "handle", ["parent.1", "parent.0", "parent.3", "parent.-1", "parent.x", "parent.", ".2", "parent.²", "."]
)
async def test_what_is_no_result_is_refused(handle: str) -> None:
    store = await stored(Said(1.0, (Text("words"),)), result(WHOLE))
    assert await refused(store, handle)
    assert await refused(store, "parent." + "9" * 400)


async def test_a_lineage_is_read_up_to_where_it_ends() -> None:
    store = await stored(result("one"), result("two"), result("three"))
    link = Link("parent", 2)
    assert await read(store, "parent.2", "child", link) == "two"
    assert await refused(store, "parent.3", "child", link)
    assert await refused(store, "parent.2", "child")
    assert await refused(store, "parent.2", "child", Link("another", 9))


async def test_a_message_whose_text_is_in_a_blob_is_read_whole() -> None:
    store = await stored(result("begi", handle="h1a", size=9), result("begi", handle="h2u", size=9))
    await store.put_blob("parent", "h1a", b"beginning")
    await store.put_blob("parent", "h2u", "beginnüng".encode())
    link = Link("parent", 2)
    assert await read(store, "parent.1", "child", link) == "beginning"
    assert await read(store, "h1a", "child", link) == "beginning"
    assert await read(store, "parent.2") == "beginnüng"
    assert await refused(store, "h1a", "child")


async def test_the_nearest_threads_blob_counts() -> None:
    store = await stored(result("x"))
    for thread in ("root", "parent"):
        await store.put_blob(thread, "ha", thread.encode())
    assert await read(store, "ha", "child", Link("root", 1), Link("parent", 1)) == "parent"


async def test_a_child_reads_with_the_tool_what_its_lineage_holds() -> None:
    store = await stored(result(WHOLE))
    reader = BoundTool(read_result(store, store), store)
    facts = CallContext("child", "c", lineage=(Link("parent", 1),))
    page = await reader.run(facts, {"handle": "parent.1", "start": 2_995})
    assert text_of(page.parts) == "56789\n[characters 2995 to 3000; this is the end]"
    page = await reader.run(facts, {"handle": "child.1"})
    assert page.is_error
