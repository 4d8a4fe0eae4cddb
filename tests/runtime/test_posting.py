"""Births and posts: in order to each thread, durable before they are acknowledged, never forgotten."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from torpor.core.codec import encode
from torpor.core.effects import Effect, Post, Spawn
from torpor.core.errors import Unavailable
from torpor.core.messages import By, Happened, Link, Message, Said, Text
from torpor.core.signals import AnySignal, BornSignal, ClosedSignal, StoppedSignal, Told
from torpor.ports import Commit, OutboxRow, Posted, Ring, Row, StoredMessage
from torpor.runtime.ids import Ids
from torpor.runtime.posting import TRIES, TURN, Posting
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import START, FakeClock

CLAIM = 30.0
EVENT = Happened(START, "c1", "watch", "{}", (Text("it changed"),), threaded=True)


class Bell:
    """A queue that only remembers what it was rung for."""

    def __init__(self) -> None:
        self.rings: list[Ring] = []

    async def ring(self, rings: Sequence[Ring]) -> None:
        self.rings += rings


class Place:
    """A store with a parent thread, and what performs its births and posts."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.bell = Bell()
        self.posting = self.process()
        self.row = Row(
            thread="parent", agent="worker", owner="ann", user_id="u1", context='{"a":1}', tier="async",
            root="root", parent="root", purpose="child", trace="00-ab",
        )  # fmt: skip

    def process(self) -> Posting:
        return Posting(self.store, self.bell, self.clock, Ids(Random(1)), CLAIM)  # type: ignore[arg-type]

    async def decide(self, *effects: Effect, messages: Sequence[Message] = (), held: bool = True) -> None:
        """Commit a slice of the parent."""
        found = await self.store.load("parent")
        first = len(found.history or ()) + 1
        stored = tuple(StoredMessage(at, encode(message)) for at, message in enumerate(messages, first))
        await self.store.commit(
            Commit(
                thread="parent",
                base=found.row.version,
                commit_id=f"commit{found.row.version.counter}",
                row=msgspec.structs.replace(found.row, length=first - 1 + len(stored)),
                messages=stored,
                effects=effects,
                claimed_until=self.clock.now() + CLAIM if held else 0.0,
            )
        )

    async def perform(self, *effects: str) -> None:
        assert self.posting.begin(self.row, effects)
        await self.posting.run(self.row)

    async def left(self) -> list[OutboxRow]:
        return list(await self.store.outbox("parent"))

    async def take_up(self) -> None:
        """As a slice does with what nobody holds."""
        ids = [one.effect.id for one in (await self.store.load("parent")).outbox]
        await self.store.claim("parent", ids, self.clock.now() + CLAIM)
        await self.perform(*ids)


@pytest.fixture(params=["memory", "sqlite"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    clock = FakeClock()
    if request.param == "memory":
        store: Any = MemoryStore(clock)
    else:
        store = SqliteStore(
            Database.open(tmp_path / "threads.db", clock=clock, writer="inline", synchronous="NORMAL")
        )
    there = Place(store, clock)
    await store.create(there.row)
    yield there
    await store.close()


def birth(child: str = "kid", **fields: Any) -> BornSignal:
    return BornSignal(child, f"{child}/born", START, parent="parent", ancestors=("root", "parent"), **fields)


def words(to: str, text: str, id: str) -> Told:
    return Told(to, id, START, sender="parent", parts=(Text(text),))


async def test_a_child_is_born_as_its_parents_child_and_then_spoken_to(place: Place) -> None:
    born = birth(title="Depot", lineage=(Link("parent", 4),), parts=(Text("look"),))
    told = words("kid", "faster", "told/1")
    await place.decide(Spawn("spawn/kid", born), Post("post/1", told))
    await place.perform("spawn/kid", "post/1")
    child = await place.store.row("kid")
    assert (child.agent, child.owner, child.user_id, child.context) == ("worker", "ann", "u1", '{"a":1}')
    assert (child.tier, child.purpose, child.root, child.parent) == ("async", "child", "root", "parent")
    assert (child.title, child.trace) == ("Depot", "00-ab")
    assert msgspec.msgpack.decode(child.lineage, type=tuple[Link, ...]) == (Link("parent", 4),)
    assert await place.store.inbox("kid") == [born, told]
    assert await place.left() == []
    assert [ring.thread for ring in place.bell.rings] == ["kid", "kid"]
    assert not any(ring.cut for ring in place.bell.rings)


async def test_what_was_done_before_a_crash_is_not_done_twice(place: Place) -> None:
    born, told = birth(), words("kid", "faster", "told/1")
    await place.decide(Spawn("spawn/kid", born), Post("post/1", told))
    await place.store.create(Row(thread="kid", agent="worker"), [born])
    await place.store.post([told])
    await place.perform("spawn/kid", "post/1")
    assert await place.store.inbox("kid") == [born, told]
    assert await place.left() == []
    assert {ring.thread for ring in place.bell.rings} == {"kid"}


async def test_an_event_child_is_given_the_events_by_position(place: Place) -> None:
    events = [msgspec.structs.replace(EVENT, parts=(Text(f"event {number}"),)) for number in range(4)]
    said = Said(START, (Text("hello"),))
    spawn = Spawn("spawn/kid", birth(purpose="event"), events=(1, 3, 4))
    await place.decide(spawn, messages=[events[0], said, events[1], events[2]])
    await place.perform("spawn/kid")
    (born,) = await place.store.inbox("kid")
    assert born.events == tuple(events[:3])
    assert (await place.store.row("kid")).purpose == "event"


async def test_events_that_are_not_there_leave_the_birth_in_the_outbox(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await place.decide(Spawn("spawn/kid", birth(purpose="event"), events=(1,)), messages=[Said(START, ())])
    await place.perform("spawn/kid")
    assert await place.store.row("kid") is None
    assert [one.effect.id for one in await place.left()] == ["spawn/kid"]
    assert "no events at [1]" in caplog.text


async def test_what_ends_a_thread_is_rung_with_a_cut(place: Place) -> None:
    await place.store.create(Row(thread="kid", agent="other", tier="batch", owner="bob"))
    signals: list[AnySignal] = [
        words("kid", "go on", "told/1"),
        StoppedSignal("kid", "stop/1", START, By("thread", "parent")),
        ClosedSignal("kid", "close/1", START, By("thread", "parent")),
    ]
    effects = [Post(f"post/{number}", signal) for number, signal in enumerate(signals)]
    await place.decide(*effects)
    await place.perform(*(effect.id for effect in effects))
    assert await place.store.inbox("kid") == signals
    told, stop, close = place.bell.rings
    assert (told.tier, told.cut, told.agent, told.owner) == ("batch", False, "other", "bob")
    assert [(ring.tier, ring.cut, ring.not_before) for ring in (stop, close)] == [
        ("realtime", True, START)
    ] * 2


async def test_a_post_waits_for_a_birth_that_another_process_holds(place: Place) -> None:
    await place.decide(Spawn("spawn/kid", birth()), held=False)
    await place.store.claim("parent", ["spawn/kid"], START + 20, holder="another")
    await place.decide(
        Post("post/1", words("kid", "faster", "told/1")), Post("post/2", words("root", "x", "t"))
    )
    await place.store.create(Row(thread="root", agent="worker"))
    await place.perform("post/1", "post/2")
    assert [one.effect.id for one in await place.left()] == ["spawn/kid", "post/1", "post/2"]
    assert await place.store.inbox("root") == [], "nobody hears of a thread that is not there"
    (later,) = [ring for ring in place.bell.rings if ring.thread == "parent"]
    assert later.not_before == START + TURN
    place.clock.advance(25)  # the other process is gone, and its claim with it
    await place.take_up()
    assert [one.id for one in await place.store.inbox("kid")] == ["kid/born", "told/1"]
    assert [one.id for one in await place.store.inbox("root")] == ["t"]
    assert await place.left() == []


async def test_a_post_that_another_process_holds_holds_up_its_own_thread_alone(place: Place) -> None:
    await place.store.create(Row(thread="kid", agent="worker"))
    await place.store.create(Row(thread="root", agent="worker"))
    await place.decide(Post("post/0", words("kid", "first", "told/0")), held=False)
    await place.store.claim("parent", ["post/0"], START + 20, holder="another")
    await place.decide(
        Post("post/1", words("kid", "faster", "told/1")), Post("post/2", words("root", "x", "t"))
    )
    await place.perform("post/1", "post/2")
    assert [one.effect.id for one in await place.left()] == ["post/0", "post/1"]
    assert [one.id for one in await place.store.inbox("root")] == ["t"]


async def test_a_free_birth_that_stands_before_ours_is_taken(place: Place) -> None:
    await place.decide(Spawn("spawn/kid", birth()), held=False)
    await place.decide(Post("post/1", words("kid", "faster", "told/1")))
    await place.perform("post/1")
    assert [one.id for one in await place.store.inbox("kid")] == ["kid/born", "told/1"]
    assert await place.left() == []


@pytest.mark.parametrize("back", [True, False])
async def test_a_thread_that_is_not_there_is_tried_again_and_then_the_sender_is_told(
    place: Place, back: bool
) -> None:
    await place.decide(
        Post("post/1", words("nobody", "hello", "told/1"), back=back), Post("post/2", words("root", "x", "t"))
    )
    await place.store.create(Row(thread="root", agent="worker"))
    await place.perform("post/1", "post/2")
    assert [one.id for one in await place.store.inbox("root")] == ["t"]
    tries = 1
    while await place.left():
        assert await place.store.inbox("parent") == []
        place.clock.advance(100)
        await place.take_up()
        tries += 1
    assert tries == TRIES
    told = await place.store.inbox("parent")
    if back:
        assert [(one.what, one.sender, one.id) for one in told] == [
            ("undelivered", "nobody", "post/1/undelivered")
        ]
    else:
        assert told == []


async def test_a_birth_under_way_elsewhere_is_waited_for(place: Place) -> None:
    await place.decide(Post("post/1", words("kid", "hello", "told/1"), back=True))
    await place.perform("post/1")
    await place.store.create(Row(thread="kid", agent="worker"))
    place.clock.advance(2)
    await place.take_up()
    assert [one.id for one in await place.store.inbox("kid")] == ["told/1"]
    assert await place.store.inbox("parent") == []


async def test_a_store_that_is_away_is_waited_for(place: Place) -> None:
    await place.store.create(Row(thread="kid", agent="worker"))
    await place.decide(Post("post/1", words("kid", "hello", "told/1")))
    post, failures = place.store.post, iter([Unavailable("away"), Unavailable("away")])

    async def failing(signals: Sequence[AnySignal]) -> list[Posted]:
        for failure in failures:
            raise failure
        return await post(signals)  # type: ignore[no-any-return]

    place.store.post = failing
    performing = asyncio.create_task(place.perform("post/1"))
    for _ in range(50):
        await asyncio.sleep(0)
        place.clock.advance(10)
    await asyncio.wait_for(performing, 60)
    assert [one.id for one in await place.store.inbox("kid")] == ["told/1"]
    assert await place.left() == []


async def test_a_process_that_goes_down_gives_back_what_is_not_done(place: Place) -> None:
    await place.decide(Post("post/1", words("kid", "hello", "told/1")))

    async def stuck(signals: Sequence[AnySignal]) -> list[Posted]:
        await asyncio.Event().wait()
        return []

    place.store.post = stuck
    performing = asyncio.create_task(place.perform("post/1"))
    for _ in range(20):
        await asyncio.sleep(0)
    performing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await performing
    (left,) = await place.left()
    assert (left.claimed_until, left.not_before) == (0.0, 0.0)
    assert [ring.thread for ring in place.bell.rings] == ["parent"]
    assert place.posting.held() == {}


async def test_what_another_took_over_is_left_to_it(place: Place) -> None:
    await place.decide(Post("post/1", words("nobody", "hello", "told/1")), held=False)
    await place.store.claim("parent", ["post/1"], START + 20, holder="another")
    assert place.posting.begin(place.row, ["post/1"])
    place.posting.lose("parent", "post/1")
    await place.posting.run(place.row)
    assert [one.claimed_until for one in await place.left()] == [START + 20]


async def test_what_is_decided_meanwhile_joins_the_row(place: Place) -> None:
    await place.store.create(Row(thread="kid", agent="worker"))
    await place.decide(Post("post/1", words("kid", "one", "told/1")))
    assert place.posting.begin(place.row, ["post/1"])
    await place.decide(Post("post/2", words("kid", "two", "told/2")))
    assert not place.posting.begin(place.row, ["post/2"])
    await place.posting.run(place.row)
    assert [one.id for one in await place.store.inbox("kid")] == ["told/1", "told/2"]
    assert await place.left() == []
