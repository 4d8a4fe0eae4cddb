"""A whole runtime on a fake clock, in which a process can die before or after any durable action."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from tests.runtime.shown import Asked, Watched
from torpor.agent import Agent
from torpor.core.codec import decode_message
from torpor.core.effects import Effect
from torpor.core.messages import Message, Noted, Text, Turn
from torpor.core.signals import AnySignal
from torpor.ports import Backend, Commit, Model, Posted, Queue, Version
from torpor.runtime.ids import Ids
from torpor.runtime.sweep import EVERY, sweep
from torpor.testing.clock import FakeClock
from torpor.tools.server import ToolServer
from torpor.wiring import Parts

DURABLE = {
    "create", "post", "finish", "commit", "postpone", "claim", "delivered", "release", "hasten", "note",
    "put_blob", "put", "put_new", "take_in", "ring", "done", "retry", "next", "extend", "delete", "erase",
    "prune", "forget", "forget_records",
}  # fmt: skip

SERVER = "http://127.0.0.1:1"
"""Where the tool server of these tests would be; nothing listens there."""


QUIET = 3_000.0
"""Seconds after which nothing comes but questions to tool servers about what is open, which never end: for
worlds that end with something open; see ``World.quiet``."""


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

    def __init__(self, backend: object, fate: Fate, world: "World") -> None:
        self._backend = backend
        self._fate = fate
        self._world = world

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if name == "close":
            return _nothing
        if name not in DURABLE:
            return value
        action = {
            "commit": self._commit,
            "delivered": self._delivered,
            "finish": self._finish,
        }.get(name, value)

        async def mortal(*args: Any, **kwargs: Any) -> Any:
            return await self._fate.pass_through(name, lambda: action(*args, **kwargs))

        return mortal

    async def _commit(self, commit: Commit) -> Version:
        version: Version = await cast(Any, self._backend).commit(commit)
        await self._world.committed(commit)
        return version

    async def _delivered(self, thread: str, ids: Sequence[str]) -> None:
        await cast(Any, self._backend).delivered(thread, ids)
        self._world.delivered.update(ids)

    async def _finish(self, signal: AnySignal, effect: str) -> Posted:
        posted: Posted = await cast(Any, self._backend).finish(signal, effect)
        self._world.delivered.add(effect)
        return posted


async def _nothing() -> None:
    return None


@dataclass
class Input:
    """Something that comes from outside once ``when`` holds."""

    when: "Callable[[World], bool]"
    act: "Callable[[World], Awaitable[object]]"


class Tools:
    """A tool server that outlives processes and does each call once, however often it is handed over."""

    def __init__(self, world: "World", answers: dict[str, str]) -> None:
        self.world = world
        self.answers = answers
        """Tools that answer at once; the others when an input says so."""
        self.subscribing: set[str] = set()
        """Those of them whose answers open a subscription."""
        self.statuses = {200}
        """How callbacks may be answered."""
        self.done: list[str] = []
        """Calls whose effect happened."""
        self.handed_over = 0
        self.cancelled: list[str] = []
        self.closed: list[str] = []
        self.choices: list[tuple[str, int]] = []
        self.standing: dict[str, str] = {}
        """What it says of calls when asked, where that is not ``alive``."""
        self.tokens: dict[str, tuple[str, str]] = {}
        """The last call of each tool, and the token of its callback URL."""
        self.threads: dict[str, str] = {}
        """The thread of each call."""
        self.urls: dict[str, str] = {}
        """The token of each call that was handed over."""

    async def take(self, facts: dict[str, Any], key: str) -> None:
        self.handed_over += 1
        assert key == facts["call"]
        self.threads[facts["call"]] = facts["thread"]
        token = self.urls[facts["call"]] = facts["callback"].rsplit("/", 1)[1]
        self.tokens[facts["name"]] = (facts["call"], token)
        if key not in self.done:
            self.done.append(key)
        if facts["name"] in self.answers:
            name = facts["name"]
            await self.result(name, self.answers[name], subscription=name in self.subscribing)
        await self.world.news()

    async def chosen(self, call: str, selected: int) -> None:
        self.choices.append((call, selected))
        await self.world.news()

    async def result(self, name: str, text: str, *, subscription: bool = False) -> None:
        await self.answer(self.tokens[name][0], text, subscription=subscription)

    async def event(
        self, name: str, id: str, text: str, *, final: bool = False, associative: bool = True
    ) -> None:
        await self.tell(self.tokens[name][0], id, text, final=final, associative=associative)

    async def answer(self, call: str, text: str, *, subscription: bool = False) -> None:
        body = {"type": "tool_result", "id": call, "text": text, "subscription": subscription}
        await self._send(self.urls[call], {"group_id": self.threads[call], **body})

    async def tell(
        self, call: str, id: str, text: str, *, final: bool = False, associative: bool = True
    ) -> None:
        body = {"type": "subscription_event", "tool_call_id": call, "text": text, "event_id": id}
        more = {"group_id": self.threads[call], "final": final, "associative": associative}
        await self._send(self.urls[call], {**body, **more})

    async def _send(self, token: str, body: dict[str, Any]) -> None:
        """Twice, as happens."""
        for _ in range(2):
            sent = json.dumps({"group_id": "t", **body}).encode()
            outcome = await self.world.outside.callbacks.receive(token, sent)
            assert outcome.status in self.statuses, outcome
            if outcome.ring:
                await self.world.outside.queue.ring([outcome.ring])


class Wire:
    """The way of one process to the tool server."""

    def __init__(self, tools: Tools, fate: Fate) -> None:
        self._tools = tools
        self._fate = fate

    async def discover(self, server: str) -> bytes:
        return MANIFEST

    async def invoke(self, server: str, endpoint: str, body: Any, key: str) -> None:
        await self._fate.pass_through("invoke", lambda: self._tools.take(dict(body), key))

    async def cancel(self, server: str, thread: str, call: str, trace: str = "") -> None:
        self._tools.cancelled.append(call)

    async def close_thread(self, server: str, thread: str, trace: str = "") -> None:
        self._tools.closed.append(thread)

    async def choose(
        self, server: str, url: str, call: str, selected: int, key: str, trace: str = ""
    ) -> None:
        await self._fate.pass_through("choose", lambda: self._tools.chosen(call, selected))

    async def status(self, server: str, thread: str, call: str, trace: str = "") -> str:
        return self._tools.standing.get(call, "alive")

    async def migrate(self, server: str, session: str, destination: str, trace: str = "") -> None:
        raise AssertionError("no session moves in these tests")

    async def close(self) -> None:
        return None


def _manifest() -> bytes:
    server = ToolServer("depots", outbox=":memory:")

    @server.tool(idempotent=True)
    async def build(what: str) -> str:
        """Build something; takes long."""
        return what

    @server.tool(idempotent=True)
    async def check(what: str) -> str:
        """Check something."""
        return what

    @server.tool(idempotent=True)
    async def watch(what: str) -> str:
        """Watch something: a subscription."""
        return what

    return json.dumps(server.manifest(f"{SERVER}/invoke")).encode()


MANIFEST = _manifest()


class World:
    """One store and queue that outlive processes; ``live`` runs a process until nothing is left to do."""

    def __init__(
        self,
        backends: tuple[object, object],
        clock: FakeClock,
        agents: Callable[[], Sequence[Agent]],
        *,
        inputs: Sequence[Input] = (),
        answers: dict[str, str] | None = None,
        slots: int = 1,
    ) -> None:
        self.backends = backends
        self.clock = clock
        self.agents = agents
        self.seed = 0
        self.slots = slots
        self.quiet = math.inf
        """Seconds: if nothing is due sooner, the world is at its end."""
        self.asked: list[Asked] = []
        self.messages: list[Message] = []
        """All that was committed, in order."""
        self.histories: dict[str, list[Message]] = {}
        """The same, by thread."""
        self.decided: list[Effect] = []
        self.delivered: set[str] = set()
        self.tools = Tools(self, answers or {})
        self._inputs = list(inputs)
        self._swept = 0.0
        self.outside = self.parts(Fate())
        """The process that takes callbacks and the person's words; it never dies."""

    @property
    def store(self) -> Backend:
        return cast(Backend, self.backends[0])

    @property
    def turns(self) -> int:
        return sum(isinstance(message, Turn) for message in self.messages)

    @property
    def notes(self) -> list[str]:
        return [type(message.note).__name__ for message in self.messages if isinstance(message, Noted)]

    def parts(self, fate: Fate) -> Parts:
        store = cast(Backend, Mortal(self.backends[0], fate, self))
        queue = cast(Queue, Mortal(self.backends[1], fate, self))
        self.seed += 1
        agents = list(self.agents())
        for agent in agents:
            agent.model = Watched(cast(Model, agent.model), self.asked, self.clock)
        return Parts(
            "memory:",
            agents,
            clock=self.clock,
            ids=Ids(Random(self.seed)),
            backends=(store, queue),
            transport=Wire(self.tools, fate),
            public_url="http://here",
        )

    async def committed(self, commit: Commit) -> None:
        messages = [decode_message(message.body) for message in commit.messages]
        self.messages += messages
        self.histories.setdefault(commit.thread, []).extend(messages)
        self.decided += commit.effects
        await self.news()

    async def news(self) -> None:
        """Let everything come from outside whose point is reached."""
        while self._inputs and self._inputs[0].when(self):
            await self._inputs.pop(0).act(self)

    def skip(self) -> None:
        """What comes next comes now."""
        self._inputs[0].when = lambda world: True

    @property
    def awaited(self) -> int:
        """Inputs whose point was never reached."""
        return len(self._inputs)

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
        worker = parts.worker(self.slots)
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
        """Nothing to do now: move on to when there is, and sweep as a process does now and then."""
        now = self.clock.now()
        if self._swept != now:
            self._swept = now
            if await sweep(parts.store, parts.queue):
                return True
        soonest = [at for at in (await parts.queue.next_at(), await self._next_sweep()) if at]
        if not soonest or min(soonest) - now > self.quiet:
            return False
        self.clock.advance(max(0.001, min(soonest) - now))
        return True

    async def _next_sweep(self) -> float:
        """When to sweep for what the queue does not know: timers, and claims of the dead."""
        rows = await self.store.threads(limit=1_000)
        instants = [(await self.store.load(row.thread)).next_due for row in rows]
        due = min([instant for instant in instants if instant], default=0.0)
        if all(effect.id in self.delivered for effect in self.decided):
            return due
        soon = self.clock.now() + EVERY
        return min(due or soon, soon)


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


def after(turns: int = 0, *, note: str = "", invoked: str = "", came: str = "") -> Callable[[World], bool]:
    """A point: so many turns are committed, such a note or message is, such a tool has begun."""

    def reached(world: World) -> bool:
        return (
            world.turns >= turns
            and (not note or note in world.notes)
            and (not invoked or invoked in world.tools.tokens)
            and (not came or any(type(message).__name__ == came for message in world.messages))
        )

    return reached


def says(text: str, mode: str = "steer") -> Callable[[World], Awaitable[object]]:
    return lambda world: world.outside.threads.say("t", (Text(text),), mode=mode, key=text)


def stops(world: World) -> Awaitable[object]:
    return world.outside.threads.stop("t")


def nudges(world: World) -> Awaitable[object]:
    return world.outside.threads.nudge("t")


def finishes(name: str, text: str, *, subscription: bool = False) -> Callable[[World], Awaitable[object]]:
    return lambda world: world.tools.result(name, text, subscription=subscription)


def happens(name: str, id: str, text: str, *, final: bool = False) -> Callable[[World], Awaitable[object]]:
    return lambda world: world.tools.event(name, id, text, final=final)
