"""Two stores between which a small tree moves, and what holds of it before and after."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from tests.runtime.world import Fate, Mortal
from torpor.core.codec import decode_head, decode_message, encode
from torpor.core.effects import Effect, Invoke
from torpor.core.errors import Refused
from torpor.core.messages import Born, Call, Equipped, Message, Moved, Noted, Result, Said, Text, Turn
from torpor.core.moves import MOVED
from torpor.core.signals import Due, HappenedSignal
from torpor.core.thread import fold
from torpor.ports import FORWARDS, Commit, Exported, Row, StoredMessage, Version
from torpor.queues.memory import MemoryQueue
from torpor.runtime.ids import Ids
from torpor.runtime.moving import Mover, stay
from torpor.runtime.moving_plan import MOVES
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import Database, SqliteStore
from torpor.testing.clock import FakeClock

OLD, NEW = "http://old", "http://new"
SERVERS = {OLD: NEW}
HERE, THERE = "sqlite:///here.db", "sqlite:///there.db"
Fresh = Callable[[FakeClock, str], Any]


class Servers:
    """The way to tool servers; what it does outlives the process."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.refuses = ""

    async def keeps_state(self, thread: str, manifest: str) -> bool:
        assert thread in ("root", "heir", "other")
        return manifest == "keeps"

    async def keeps_state_now(self, server: str) -> bool:
        return server == NEW

    def signs(self, server: str) -> bool:
        return False

    async def migrate(self, server: str, session: str, destination: str, trace: str) -> None:
        self.told.append(f"migrate {server} {session} {destination}")
        if self.refuses:
            raise Refused(self.refuses)

    async def closed(self, row: Row, servers: tuple[str, ...]) -> None:
        self.told.append(f"closed {row.thread} {' '.join(servers)}")


def place(url: str, store: Any, queue: Any) -> Any:
    async def callback_url(thread: str, call: str, server: str = "", *, signs: bool = False) -> str:
        return f"{url}/{thread}/{call}/{server}"

    return SimpleNamespace(
        url=url, backend=store, store=store, side=store, queue=queue, callback_url=callback_url
    )


class Scene:
    """Two stores that outlive processes."""

    def __init__(self, fresh: Fresh) -> None:
        self.clock = FakeClock()
        self.servers = Servers()
        self.stores = [fresh(self.clock, name) for name in ("here", "there")]
        self.queues = [MemoryQueue(self.clock), MemoryQueue(self.clock)]

    @property
    def here(self) -> Any:
        return self.stores[0]

    @property
    def there(self) -> Any:
        return self.stores[1]

    def places(self, fate: Fate) -> list[Any]:
        world = cast(Any, SimpleNamespace(committed=_nothing, delivered=set()))
        mortal = [(Mortal(store, fate, world), Mortal(queue, fate, world)) for store, queue in self.backends]
        return [place(url, *pair) for url, pair in zip((HERE, THERE), mortal, strict=True)]

    @property
    def backends(self) -> list[tuple[Any, Any]]:
        return list(zip(self.stores, self.queues, strict=True))

    async def move(self, fate: Fate | None = None, **options: Any) -> list[str]:
        here, there = self.places(fate or Fate())
        servers = options.pop("servers", SERVERS)
        mover = Mover(here, there, self.servers, self.clock, Ids(), **options)
        return await mover.move("root", servers)

    async def stay(self) -> None:
        assert await stay(self.places(Fate())[0], "root", self.clock, Ids(), self.there)

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


async def _nothing(commit: Commit) -> None:
    return None


def memory(clock: FakeClock, name: str) -> Any:
    return MemoryStore(clock)


def sqlite(path: Path) -> Fresh:
    def fresh(clock: FakeClock, name: str) -> Any:
        database = Database.open(path / f"{name}.db", clock=clock, writer="inline", synchronous="NORMAL")
        return SqliteStore(database)

    return fresh


def lived(thread: str, purpose: str) -> tuple[Message, ...]:
    calls = (
        Call("c-1", "build", server=OLD, repeat="keyed"),
        Call("c-2", "pay", repeat="unsafe"),
        Call("c-3", "watch", server=OLD),
        Call("c-4", "sleep", passive=True),
    )
    born = Born("worker", purpose=purpose)
    if purpose != "root":
        born = msgspec.structs.replace(born, parent="root", ancestors=("root",))
    return (
        Noted(1, born),
        Noted(1, Equipped(OLD, "keeps")),
        Said(1, (Text("go"),), "said/1"),
        Turn(2, 3, 0, calls),
        Result(3, "c-3", subscription=True),
    )


async def begin(store: Any, thread: str, *effects: Effect, **row: Any) -> None:
    """A thread with history, a timer, news, and effects."""
    messages = lived(thread, row.get("purpose", "root"))
    head = fold(messages)
    first = Row(thread=thread, agent="worker", trace="a" * 32, **{"root": "root", **row})
    news = HappenedSignal(thread, "e-1", 3.0, call="c-3", parts=(Text("news"),))
    await store.create(first, [Due(thread, "c-4/sleep", 2.0, due=2e9, call="c-4"), news])
    stored = tuple(StoredMessage(place, encode(one)) for place, one in enumerate(messages, 1))
    await store.commit(
        Commit(
            thread=thread,
            base=Version(),
            commit_id="first",
            row=msgspec.structs.replace(first, head=encode(head), length=len(messages), waits=3),
            messages=stored,
            effects=effects,
        )
    )


async def tree(store: Any) -> None:
    await store.put_blob("root", "keeps", b"{}")
    build = Invoke("c-1/invoke", "c-1", "build", "{}", OLD, "keyed")
    await begin(store, "root", build, title="The root")
    await begin(store, "kid", parent="root", purpose="child", created=5.0)
    await begin(store, "sum", parent="root", purpose="compaction", created=6.0)


async def whole(store: Any) -> dict[str, Exported]:
    """All threads, without what tells one commit from another."""
    rows = [*await store.threads(), *await store.threads(purpose="compaction")]
    found = [await store.export(row.thread) for row in rows]
    return {one.row.thread: _without_version(one) for one in found}


def _without_version(one: Exported) -> Exported:
    return msgspec.structs.replace(one, row=msgspec.structs.replace(one.row, version=Version()))


async def moved(scene: Scene) -> None:
    """What holds once the move is complete."""
    here, there = await whole(scene.here), await whole(scene.there)
    assert list(here) == list(there) == ["kid", "root", "sum"]
    for thread in here:
        assert (here[thread].row.state, there[thread].row.state) == (MOVED, "open")
        assert there[thread].messages[:-1] == here[thread].messages[:-1]
        head = decode_head(there[thread].row.head)
        assert head == fold(decode_message(one.body) for one in there[thread].messages)
        assert {call.server for call in head.pending.values()} == {NEW, ""}
        assert [signal.id for signal, _ in there[thread].inbox] == ["c-4/sleep", "e-1"]
        assert (here[thread].inbox, here[thread].outbox) == ((), ())
        assert await scene.here.get(FORWARDS, f"{thread}/c-3") == f"{THERE}/{thread}/c-3/{NEW}".encode()
        told = decode_message(here[thread].messages[-1].body)
        assert isinstance(told, Noted)
        assert told.note == Moved(THERE)
    [(build, _)] = there["root"].outbox
    assert (build.effect, build.attempt) == (Invoke("c-1/invoke", "c-1", "build", "{}", NEW, "keyed"), 0)
    assert there["root"].blobs == {"keeps": b"{}"}
    assert await scene.here.stranded() == []
    assert {row.thread for row, _ in await scene.there.stranded()} == {"kid", "root", "sum"}
    assert scene.servers.told[0] == f"migrate {OLD} root {NEW}"
    assert f"closed root {OLD}" in scene.servers.told
    assert await scene.queues[1].size() == 3


async def stays(scene: Scene, before: dict[str, Exported]) -> None:
    """A move that was given up: nothing of it is left, but tries of effects."""
    if await scene.here.get(MOVES, "root"):
        await scene.stay()
    after = await whole(scene.here)
    assert after.keys() == before.keys()
    for thread, was in before.items():
        now = after[thread]
        assert now.row == was.row
        assert (now.messages, now.inbox, now.absorbed) == (was.messages, was.inbox, was.absorbed)
        assert [one.effect for one, _ in now.outbox] == [one.effect for one, _ in was.outbox]
        free = await scene.here.claim(thread, [one.effect.id for one, _ in was.outbox], 2e9, holder="anybody")
        assert len(free) == len(was.outbox)
    assert await whole(scene.there) == {}
    assert [await scene.there.footprint(thread) for thread in before] == [{}] * len(before)
    assert await scene.there.deleted() == []
