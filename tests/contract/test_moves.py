"""A thread goes from one kind of store to another."""

from pathlib import Path

import msgspec
import pytest

from torpor.core.errors import TorporError
from torpor.ports import Exported
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.opening import FullStore
from torpor.testing.samples import commit_on, invoke, message, said, slice_record, thread_row


async def _exported(store: FullStore) -> Exported:
    row = thread_row()
    await store.create(row, [said(row.thread, id="told")])
    snapshot = await store.load(row.thread)
    record = slice_record(row.thread)
    await store.commit(commit_on(snapshot, "a", effects=(invoke("e"),), record=record))
    await store.post([said(row.thread, id="waits")])
    await store.put_blob(row.thread, "h", b"blob")
    return await store.export(row.thread)


async def test_a_thread_is_the_same_in_every_store_it_passes(tmp_path: Path) -> None:
    first, last = MemoryStore(), MemoryStore()
    file = SqliteStore(Database.open(tmp_path / "store.db"))
    given = await _exported(first)
    assert await file.take_in(given)
    passed = await file.export(given.row.thread)
    assert passed == given
    assert await last.take_in(passed)
    assert await last.export(given.row.thread) == given
    await file.close()


async def test_what_cannot_be_taken_in_whole_is_not_taken_in(tmp_path: Path) -> None:
    file = SqliteStore(Database.open(tmp_path / "store.db"))
    given = await _exported(MemoryStore())
    twice = msgspec.structs.replace(given, messages=(message(1, "a"), message(1, "b")))
    with pytest.raises(TorporError):
        await file.take_in(twice)
    assert await file.row(given.row.thread) is None
    assert await file.take_in(given)
    assert await file.export(given.row.thread) == given
    await file.close()
