"""Where projections begin: read from the store in pages, kept for siblings, bounded."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from torpor.core.codec import encode
from torpor.core.errors import Broken
from torpor.core.messages import (
    Born,
    Call,
    Folded,
    Happened,
    Link,
    Message,
    Noted,
    Reported,
    Result,
    Said,
    Summary,
    Text,
    Turn,
)
from torpor.core.projection import Projection
from torpor.core.request import AnyItem, item_text
from torpor.core.thread import fold
from torpor.ports import Row, StoredMessage
from torpor.runtime.hot import Warm, warm_up
from torpor.runtime.lineages import PAGE, Lineages
from torpor.runtime.posting import lineage_bytes
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.samples import commit_on, thread_row


class Counting(SqliteStore):
    """A store that counts the messages it gives."""

    given = 0

    async def read(self, thread: str, after: int = 0, limit: int = 1000) -> list[StoredMessage]:
        found = await super().read(thread, after, limit)
        self.given += len(found)
        return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Counting]:
    store = Counting(Database.open(tmp_path / "store.db", synchronous="NORMAL", writer="inline"))
    yield store
    await store.close()


def said(text: str) -> Said:
    return Said(10.0, (Text(text),))


def turn(*parts: Any, upto: int, ordinal: int = 0) -> Turn:
    return Turn(11.0, upto, ordinal, parts)


def talk(turns: int) -> list[Message]:
    """A birth, then words and turns: the n-th turn stands at 2n + 1 and is the one of call n."""
    history: list[Message] = [Noted(1.0, Born("adder"))]
    for number in range(1, turns + 1):
        history.append(said(f"words {number}"))
        history.append(turn(Call(f"c{number}", "spawn_thread"), upto=len(history), ordinal=number - 1))
    return history


async def keep(store: SqliteStore, thread: str, messages: Sequence[Message], **fields: Any) -> Row:
    """A thread with this history, as slices would have stored it."""
    head = fold(messages)
    row = thread_row(thread, lineage=lineage_bytes(head.lineage), **fields)
    await store.create(row)
    kept = tuple(StoredMessage(place, encode(message)) for place, message in enumerate(messages, 1))
    changes = {"head": encode(head), "length": head.length, "base": head.base}
    await store.commit(commit_on(await store.load(thread), messages=kept, row=changes))
    loaded = await store.row(thread)
    assert loaded is not None
    return loaded


def birth(call: str, *lineage: Link, purpose: str = "child") -> list[Message]:
    parent = lineage[-1].thread
    ancestors = tuple(link.thread for link in lineage)
    born = Born("adder", purpose=purpose, parent=parent, ancestors=ancestors, call=call, lineage=lineage)
    word = Reported(20.0, parent, "born", call, "spawn_thread", parts=(Text("Do."),), purpose=purpose)
    return [Noted(20.0, born), word]


async def loaded(lineages: Lineages, store: SqliteStore, thread: str) -> Projection:
    """A thread's projection as a slice makes it that finds nothing warm."""
    snapshot = await store.load(thread)
    warm = await warm_up(lineages, snapshot.row, snapshot.history or ())
    projection = whole_of(warm)
    projection.show()
    assert projection.position == snapshot.row.length
    return projection


def whole_of(warm: Warm) -> Projection:
    """A projection whose history was loaded."""
    projection = warm.whole()
    assert projection is not None
    return projection


def added(messages: Sequence[Message], to: Projection) -> Projection:
    for message in messages:
        to.add(message)
    return to


def items(projection: Projection) -> list[AnyItem]:
    projection.show()
    return projection.items


async def test_a_root_begins_with_nothing(store: Counting) -> None:
    await keep(store, "root", talk(2))
    projection = await loaded(Lineages(store), store, "root")
    assert items(projection) == items(added(talk(2), Projection("root")))


async def test_a_child_begins_with_its_lineage_and_so_does_its_own(store: Counting) -> None:
    await keep(store, "root", talk(4))
    first = birth("c2", Link("root", 5))
    child = [*first, turn(Call("k", "spawn_thread"), upto=2), Result(21.0, "k", (Text("of the child"),))]
    await keep(store, "kid", child)
    await keep(store, "grandkid", birth("k", Link("root", 5), Link("kid", 3)))
    expected = added(talk(2), Projection("root"))
    prefix = list(expected.items)
    expected.enter("kid")
    added(child[:3], expected).enter("grandkid")
    added(birth("k", Link("root", 5), Link("kid", 3)), expected)
    found = await loaded(Lineages(store), store, "grandkid")
    assert found.items == items(expected)
    assert found.digest == expected.digest
    assert found.items[: len(prefix)] == prefix
    assert (await loaded(Lineages(store), store, "kid")).items[: len(prefix)] == prefix


async def test_a_child_whose_head_is_not_written_yet_begins_with_what_its_row_says(store: Counting) -> None:
    await keep(store, "root", talk(2))
    row = thread_row("kid", lineage=lineage_bytes((Link("root", 5),)))
    await store.create(row)
    warm = await warm_up(Lineages(store), row, ())
    seen = items(added(birth("c2", Link("root", 5)), whole_of(warm)))
    assert [item_text(item) for item in seen[:4:3]] == ["words 1", "words 2"]
    assert "inside the new thread kid" in item_text(seen[-1])


async def test_a_thousand_children_of_one_parent_read_its_history_once(store: Counting) -> None:
    await keep(store, "root", talk(300))
    lineages = Lineages(store)
    for number in range(1_000):
        upto = 401 if number < 500 else 601
        row = thread_row(f"kid{number}", lineage=lineage_bytes((Link("root", upto),)))
        await warm_up(lineages, row, ())
    assert store.given == 601


async def test_long_lineages_are_read_in_pages(store: Counting) -> None:
    await keep(store, "root", talk(PAGE))
    row = thread_row("kid", lineage=lineage_bytes((Link("root", 2 * PAGE + 1),)))
    warm = await warm_up(Lineages(store), row, ())
    assert store.given == 2 * PAGE + 1
    assert len(whole_of(warm).items) == len(items(added(talk(PAGE), Projection("root")))) - 1


async def test_what_is_kept_for_siblings_is_bounded(store: Counting) -> None:
    await keep(store, "root", talk(20))
    lineages = Lineages(store, limit=1)
    for _ in range(2):
        await warm_up(lineages, thread_row("kid", lineage=lineage_bytes((Link("root", 41),))), ())
    assert store.given == 82


async def test_siblings_do_not_see_each_other(store: Counting) -> None:
    await keep(store, "root", talk(2))
    lineages = Lineages(store)
    row = thread_row("kid", lineage=lineage_bytes((Link("root", 5),)))
    one, two = [whole_of(await warm_up(lineages, row, ())) for _ in range(2)]
    added([*birth("c2", Link("root", 5)), said("one's own")], one).show()
    assert "one's own" not in " ".join(map(item_text, items(added(birth("c2", Link("root", 5)), two))))


SUMMED = [
    *talk(3),
    Noted(15.0, Folded(2)),
    Happened(16.0, "c1", "watch", "{}", (Text("x" * 5_000),)),
    turn(Text("ok"), upto=9, ordinal=3),
    said("more"),
    Summary(18.0, 4, "What was.", calls=(Call("c1", "spawn_thread"),)),
    turn(Call("late", "spawn_thread"), upto=12, ordinal=4),
]
"""Position 12 is the summary, which covers up to 4."""


async def test_what_a_summary_covers_is_not_loaded(store: Counting) -> None:
    await keep(store, "root", SUMMED)
    assert [stored.position for stored in (await store.load("root")).history or ()] == [*range(5, 14)]
    found = await loaded(Lineages(store), store, "root")
    assert found.items == items(added(SUMMED, Projection("root")))
    assert found.items[0].summary == "What was."  # type: ignore[union-attr]


async def test_a_child_of_a_thread_with_a_summary_begins_with_that(store: Counting) -> None:
    await keep(store, "root", SUMMED)
    first = birth("late", Link("root", 13, 12, 4, 9))
    await keep(store, "kid", first)
    found = await loaded(Lineages(store), store, "kid")
    assert store.given == 1 + 1 + 9  # the birth, the summary, and what it does not cover
    parent = added(SUMMED, Projection("root"))
    parent.fold(9)
    assert found.items[: len(parent.items)] == parent.items
    assert '"root.9"' in item_text(parent.items[-4])


async def test_a_summary_of_a_child_stands_for_its_lineage_which_is_not_read(store: Counting) -> None:
    await keep(store, "root", talk(2))
    own = [*birth("c2", Link("root", 5)), turn(Text("mine"), upto=2), said("more")]
    event = Happened(21.0, "w", "watch", "{}", (Text("e"),))
    whole = [*own, Summary(22.0, 2, "All."), event, turn(Call("k", "spawn_thread"), upto=6, ordinal=1)]
    await keep(store, "kid", whole)
    lineages = Lineages(store)
    found = await loaded(lineages, store, "kid")
    assert store.given == 0
    assert [item_text(item) for item in found.items[1:4]] == ["mine", "more", "e"]
    assert found.items[3].id == "news6-kid"  # type: ignore[union-attr]
    await keep(store, "grandkid", birth("k", Link("kid", 7, 5, 2)))
    after = await loaded(lineages, store, "grandkid")
    assert after.items[:5] == found.items[:5]


async def test_a_fold_after_the_birth_is_not_the_childs(store: Counting) -> None:
    history: list[Message] = [said("go"), turn(Call("r", "read"), upto=1)]
    history += [Result(12.0, "r", (Text("x" * 5_000),)), turn(Call("s", "spawn_thread"), upto=3, ordinal=1)]
    history += [Noted(13.0, Folded(3))]
    await keep(store, "root", history)
    lineages = Lineages(store)
    sizes = []
    for links in ((Link("root", 4),), (Link("root", 4, folded=3),), (Link("root", 4),)):
        warm = await warm_up(lineages, thread_row("kid", lineage=lineage_bytes(links)), ())
        sizes.append(whole_of(warm).size)
    assert sizes[0] == sizes[2] > sizes[1] + 4_000


@pytest.mark.parametrize("link", [Link("root", 99), Link("root", 5, 4, 2), Link("root", 5, 40, 2)])
async def test_a_lineage_that_is_not_there_is_broken(store: Counting, link: Link) -> None:
    await keep(store, "root", talk(2))
    with pytest.raises(Broken, match="root"):
        await warm_up(Lineages(store), thread_row("kid", lineage=lineage_bytes((link,))), ())
