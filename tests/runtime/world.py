"""A whole runtime on a fake clock, in which a process can die before or after any durable action."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, cast

from torpor.agent import Agent
from torpor.core.messages import Born, Call, Message, Noted, Result, Said, Turn, text_of
from torpor.ports import Queue
from torpor.runtime.ids import Ids
from torpor.runtime.sweep import sweep
from torpor.testing.clock import FakeClock
from torpor.wiring import Backend, Parts

DURABLE = {
    "create", "post", "commit", "postpone", "claim", "delivered", "release", "note",
    "put_blob", "put", "put_new", "ring", "done", "retry", "next", "extend",
}  # fmt: skip


class Crash(BaseException):
    """The process dies here."""


class Fate:
    """Counts durable actions; at the chosen one, before or after it, the process dies for good."""

    def __init__(self, at: int = -1, *, after: bool = False) -> None:
        self.at = at
        self.after = after
        self.count = 0
        self.dead = False
        self.where = ""

    async def pass_through(self, name: str, action: Callable[[], Awaitable[Any]]) -> Any:
        if self.dead:
            raise Crash
        here = self.count == self.at
        self.count += 1
        if here and not self.after:
            self._die(name)
        result = await action()
        if here:
            self._die(name)
        if self.dead:
            raise Crash
        return result

    def _die(self, name: str) -> None:
        self.dead = True
        self.where = f"{'after' if self.after else 'before'} {name}"
        raise Crash


class Mortal:
    """A backend as one process sees it."""

    def __init__(self, backend: object, fate: Fate) -> None:
        self._backend = backend
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if name == "close":
            return _nothing
        if name not in DURABLE:
            return value

        async def mortal(*args: Any, **kwargs: Any) -> Any:
            return await self._fate.pass_through(name, lambda: value(*args, **kwargs))

        return mortal


async def _nothing() -> None:
    return None


class World:
    """One store and queue that outlive processes; ``live`` runs a process until nothing is left to do."""

    def __init__(
        self, backends: tuple[object, object], clock: FakeClock, agents: Callable[[], Sequence[Agent]]
    ) -> None:
        self.backends = backends
        self.clock = clock
        self.agents = agents
        self.seed = 0
        self._swept = 0.0

    def parts(self, fate: Fate) -> Parts:
        store = cast(Backend, Mortal(self.backends[0], fate))
        queue = cast(Queue, Mortal(self.backends[1], fate))
        self.seed += 1
        ids = Ids(Random(self.seed))
        return Parts(
            "memory:", self.agents(), clock=self.clock, ids=ids, backends=(store, queue), public_url="http://here"
        )

    async def live(
        self, fate: Fate | None = None, first: Callable[[Parts], Awaitable[None]] | None = None
    ) -> bool:
        """Run a process to the end of its work, or to its death. Says whether it lived."""
        fate = fate or Fate()
        try:
            async with self.parts(fate) as parts:
                if first is not None:
                    await first(parts)
                await self._work(parts, fate)
        except Crash:
            return False
        return not fate.dead

    async def _work(self, parts: Parts, fate: Fate) -> None:
        worker = parts.worker(1)
        try:
            for _ in range(400):
                busy = await worker.run_once()
                await settle(parts)
                if fate.dead:
                    raise Crash
                if not busy and not await self._onward(parts):
                    return
            raise AssertionError("the work never ends")
        finally:
            await bury(parts)

    async def _onward(self, parts: Parts) -> bool:
        """Nothing to do now: move on to when there is."""
        now = self.clock.now()
        soonest = [at for at in (await self._claims(), await parts.queue.next_at()) if at]
        if await sweep(parts.store, parts.queue) and self._swept != now:
            self._swept = now
            return True
        if not soonest:
            return False
        self.clock.advance(max(0.001, min(soonest) - now))
        return True

    # A thread whose lease a dead process held is free again when that lease has run out.
    async def _claims(self) -> float:
        rows = await cast(Backend, self.backends[0]).threads()
        dues = [(await cast(Backend, self.backends[0]).load(row.thread)).next_due for row in rows]
        return min((due for due in dues if due), default=0.0)


async def settle(parts: Parts) -> None:
    """Let functions and deliveries that have begun come to an end."""
    for _ in range(200):
        if not parts.dispatcher.busy:
            return
        await asyncio.sleep(0)


async def bury(parts: Parts) -> None:
    """What a dead process held simply ends."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    others += parts.dispatcher.tasks
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def story(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """A history without ids and times: what happened, in order."""
    names: dict[str, str] = {}
    told: list[tuple[Any, ...]] = []
    for message in messages:
        match message:
            case Said():
                told.append(("said", text_of(message.parts)))
            case Turn():
                calls = [part for part in message.parts if isinstance(part, Call)]
                for call in calls:
                    names[call.id] = f"call {len(names)}"
                told.append(
                    ("turn", text_of(message.parts), [(names[c.id], c.name, c.arguments) for c in calls])
                )
            case Result():
                told.append(("result", names.get(message.call), text_of(message.parts), message.cause))
            case Noted(note=Born()):
                continue
            case _:
                told.append((type(message).__name__, str(getattr(message, "note", ""))[:20]))
    return told
