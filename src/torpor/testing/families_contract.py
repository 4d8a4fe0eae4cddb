"""What every store must do with threads that have parents."""

from typing import Any

from torpor.core.signals import BornSignal, ReportedSignal
from torpor.testing.clock import START
from torpor.testing.opening import Opening, OpensStores
from torpor.testing.samples import fresh, said, thread_row


class FamiliesContract(OpensStores):
    """Trees of threads."""

    async def test_lists_trees_and_children_and_hides_what_writes_summaries(self, opening: Opening) -> None:
        root, other = fresh(), fresh()
        child, event, writer, grandchild = (fresh() for _ in range(4))
        async with opening() as store:
            await store.create(thread_row(root, root=root))
            await store.create(thread_row(other, root=other))
            for id, parent, purpose in (
                (child, root, "child"),
                (event, root, "event"),
                (writer, root, "compaction"),
                (grandchild, child, "child"),
            ):
                await store.create(thread_row(id, root=root, parent=parent, purpose=purpose))

            async def listed(**asked: Any) -> list[str]:
                return [row.thread for row in await store.threads(**asked)]

            assert await listed() == [root, other, child, event, grandchild]
            assert await listed(root=root) == [root, child, event, grandchild]
            assert await listed(root=root, after=root, limit=2) == [child, event]
            assert await listed(root=other) == [other]
            assert await listed(root=child) == []
            assert await listed(parent="") == [root, other]
            assert await listed(parent=root) == [child, event]
            assert await listed(parent=root, purpose="compaction") == [writer]
            assert await listed(parent=root, purpose="child") == [child]
            assert await listed(purpose="event") == [event]
            assert await listed(parent=root, root=other) == []
            assert await listed(parent=child, owner="nobody") == []

    async def test_word_of_its_family_is_found_in_a_closed_thread(self, opening: Opening) -> None:
        row = thread_row(state="closed")
        async with opening() as store:
            await store.create(row, [said(row.thread)])
            assert await store.stranded() == []
            await store.post([ReportedSignal(row.thread, "late", START, child=fresh())])
            assert [(found.thread, since) for found, since in await store.stranded()] == [(row.thread, START)]
            unborn = thread_row(state="closed")
            await store.create(unborn, [BornSignal(unborn.thread, "born", START)])
            assert {found.thread for found, _ in await store.stranded()} == {row.thread, unborn.thread}
