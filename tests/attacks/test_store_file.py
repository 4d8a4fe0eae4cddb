"""A store's file that is taken away while processes write to it: nothing may be lost that was promised."""

from pathlib import Path

import pytest

from torpor.core.errors import Unavailable
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.samples import thread_row


@pytest.mark.parametrize("replaced", [False, True])
async def test_nothing_is_promised_for_a_file_that_is_gone(replaced: bool, tmp_path: Path) -> None:
    file, away = tmp_path / "store.db", tmp_path / "away.db"
    store = SqliteStore(Database.open(file))
    assert await store.create(thread_row("one"))
    file.rename(away)
    if replaced:
        file.write_bytes(b"")
    with pytest.raises(Unavailable, match="gone"):
        await store.create(thread_row("two"))
    away.rename(file)
    assert await store.create(thread_row("two"))
    await store.close()
