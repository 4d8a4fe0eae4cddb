"""A store with threads that wait for calls, and the desk at which callbacks for them are handed in."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from torpor.clock import SystemClock
from torpor.core.codec import encode
from torpor.core.signals import AnySignal, Finished, HappenedSignal
from torpor.core.thread import Head, OpenCall, Subscription
from torpor.ports import Clock, Commit, Row
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import SqliteStore
from torpor.tools.callbacks import Callbacks, Outcome
from torpor.tools.tokens import Keys

SERVER = "http://127.0.0.1:8801"


@dataclass
class Desk:
    """One store, its keys, and callbacks to it. ``settings`` go to ``Callbacks``."""

    settings: dict[str, Any] = field(default_factory=dict)
    store: MemoryStore | SqliteStore = field(default_factory=lambda: MemoryStore(SystemClock()))
    clock: Clock = field(default_factory=SystemClock)
    keys: Keys = field(init=False)
    callbacks: Callbacks = field(init=False)

    async def open(self) -> "Desk":
        self.keys = await Keys.open(self.store)
        self.callbacks = Callbacks(self.store, self.store, self.keys, self.clock, **self.settings)
        return self

    async def thread(self, id: str = "T", **head: Any) -> None:
        """Add a thread whose head has these fields; by default it waits for call_1."""
        given = head or {"pending": {"call_1": waiting()}}
        row = Row(
            thread=id, agent="a", owner="o", tier="async", head=encode(Head(length=2, **given)), length=2
        )
        assert await self.store.create(row)

    async def becomes(self, thread: str, absorbed: tuple[str, ...] = (), **head: Any) -> None:
        """Commit a slice after which the thread's head has these fields."""
        row = await self.store.row(thread)
        assert row is not None
        changed = msgspec.structs.replace(row, head=encode(Head(length=3, **head)), length=3)
        await self.store.commit(
            Commit(
                thread=thread,
                base=row.version,
                commit_id=f"k{row.version.counter}",
                row=changed,
                absorbed=dict.fromkeys(absorbed, "absorbed"),
            )
        )

    async def post(
        self,
        body: object,
        *,
        thread: str = "T",
        call: str = "call_1",
        scope: str = "call",
        headers: Sequence[tuple[str, str]] = (),
    ) -> Outcome:
        """Hand in a body (bytes as they are, all else as JSON) with the token of a call."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.callbacks.receive(self.keys.mint(thread, call, scope), raw, headers)

    async def results(self, thread: str = "T") -> list[Finished]:
        """The results in a thread's inbox."""
        return [signal for signal in await self.inbox(thread) if isinstance(signal, Finished)]

    async def events(self, thread: str = "T") -> list[HappenedSignal]:
        """The events in a thread's inbox."""
        return [signal for signal in await self.inbox(thread) if isinstance(signal, HappenedSignal)]

    async def inbox(self, thread: str = "T") -> list[AnySignal]:
        return await self.store.inbox(thread)


def waiting(**more: Any) -> OpenCall:
    """A call that a tool server works on."""
    return OpenCall("build", 2, server=SERVER, **more)


def subscribed() -> Subscription:
    """A subscription that a tool server keeps."""
    return Subscription("watch", "{}", SERVER, 3)


def result(text: object = "done", **more: Any) -> dict[str, Any]:
    """A body that settles call_1."""
    return {"type": "tool_result", "group_id": "T", "id": "call_1", "text": text, **more}


def event(text: str = "tick", **more: Any) -> dict[str, Any]:
    """A body that reports an event of call_1."""
    return {"type": "subscription_event", "group_id": "T", "tool_call_id": "call_1", "text": text, **more}


__all__ = ["SERVER", "Desk", "event", "result", "subscribed", "waiting"]
