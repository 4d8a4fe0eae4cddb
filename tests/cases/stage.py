"""A runtime on a fake clock that a case's steps drive: processes live and die between them."""

import asyncio
import itertools
import weakref
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from random import Random
from typing import Any, cast

from tests.cases.tools import Works, function, is_function, is_offered, manifest
from tests.runtime.shown import Asked, Watched
from tests.runtime.world import SERVER, Crash, Fate, Mortal, Tools, Wire, World
from torpor import Agent, RapServer
from torpor.core.codec import decode_message
from torpor.core.effects import Invoke
from torpor.core.messages import Call, Message, Turn
from torpor.core.signals import AnySignal
from torpor.ports import Backend, Commit, Model, Queue
from torpor.runtime.ids import Ids
from torpor.runtime.sweep import sweep
from torpor.testing.clock import FakeClock
from torpor.tools.callbacks import Outcome
from torpor.wiring import Parts

ROOT = "t"
Headers = Sequence[tuple[str, str]]
PROCESS: ContextVar[int] = ContextVar("process", default=0)
"""Whose tasks are begun; 0: the case's own."""
TOO_MANY = 500
"""Rounds of work after which a run is taken to be endless."""

STILL = 100
"""Turns of the event loop in which nothing happens but waiting, before time passes."""
PATIENCE = 60.0
"""Seconds after which a test is taken to hang."""

POINTS = {
    "before_persist": ("before", "turn"),
    "after_persist": ("after", "turn"),
    "after_persist_before_dispatch": ("after", "calls"),
    "before_dispatch": ("before", "invoke"),
    "after_dispatch": ("after", "invoke"),
    "after_effect_before_result": ("before", "finish"),
    "after_result_before_wake": ("before", "ring"),
}
"""Crash points by name: before or after which durable action. Any other is ``before NAME`` or ``after NAME``;
besides names of actions there are ``turn``, ``calls`` and ``invokes``, for commits of a turn, of one with
calls, and of calls to be sent.
"""


class Doom(Fate):
    """A process dies at a named point, when it comes to it for the so-manieth time."""

    def __init__(self, point: str, number: int = 1) -> None:
        super().__init__()
        self.when, self.what = POINTS.get(point) or point.split()
        self.left = number
        self.commit: Commit | None = None

    async def pass_through(self, name: str, action: Callable[[], Awaitable[Any]]) -> Any:
        if self.dead:
            raise Crash
        here = self._is_it(name)
        self.left -= here
        dies = here and not self.left
        if dies and self.when == "before":
            self._fall(name)
        result = await action()
        if dies:
            self._fall(name)
        return result

    def _fall(self, name: str) -> None:
        self.dead = True
        self.where = f"{self.when} {name}"
        raise Crash

    def _is_it(self, name: str) -> bool:
        if name != "commit" or self.what not in ("turn", "calls", "invokes") or self.commit is None:
            return name == self.what
        if self.what == "invokes":
            return any(isinstance(effect, Invoke) for effect in self.commit.effects)
        turns = [decode_message(message.body) for message in self.commit.messages]
        calls = [isinstance(part, Call) for turn in turns if isinstance(turn, Turn) for part in turn.parts]
        return any(calls) if self.what == "calls" else any(isinstance(one, Turn) for one in turns)


class Door(Mortal):
    """A backend as one process sees it; it notes what was posted, and may fail or dawdle."""

    def __getattr__(self, name: str) -> Any:
        action = super().__getattr__(name)
        stage = cast("Stage", self._world)
        if name == "commit":
            return self._committing(action)
        if name in ("post", "create", "finish"):
            return self._posting(name, action, stage)
        if name in ("ring", "claim", "next", "done") and stage.dice is not None:
            return self._dawdling(action, stage)
        return action

    def _committing(self, action: Callable[[Commit], Awaitable[Any]]) -> Any:
        async def commit(given: Commit) -> Any:
            stage = cast("Stage", self._world)
            await stage.dawdle()
            if isinstance(self._fate, Doom):
                self._fate.commit = given
            await stage.fail_if_told("commit")
            return await action(given)

        return commit

    def _posting(self, name: str, action: Callable[..., Awaitable[Any]], stage: "Stage") -> Any:
        async def posting(first: Any, *args: Any, **kwargs: Any) -> Any:
            await stage.dawdle()
            await stage.fail_if_told(name)
            result = await action(first, *args, **kwargs)
            stage.noted(name, first, args, result)
            await stage.dawdle()
            return result

        return posting

    def _dawdling(self, action: Callable[..., Awaitable[Any]], stage: "Stage") -> Any:
        async def dawdling(*args: Any, **kwargs: Any) -> Any:
            await stage.dawdle()
            return await action(*args, **kwargs)

        return dawdling


class Server(Tools):
    """The tool server: it takes each call once by its key, and posts what a case says."""

    def __init__(self, world: World, told: dict[str, dict[str, Any]]) -> None:
        super().__init__(world, {})
        self.told = told
        self.taken: Counter[str] = Counter()
        """How often each call was handed over."""

    async def take(self, facts: dict[str, Any], key: str) -> None:
        self.taken[facts["call"]] += 1
        told = self.told.get(facts["name"], {})
        await super().take(facts, key)
        if "answers" in told:
            await cast("Stage", self.world).answer_at_once(facts["call"], str(told["answers"]))


class Line(Wire):
    """The way to the tool server, which offers what the case names."""

    def __init__(self, stage: "Stage", fate: Fate) -> None:
        super().__init__(stage.tools, fate)
        self._stage = stage

    async def discover(self, server: str) -> bytes:
        return self._stage.manifest


class Stage(World):
    """One case's world. ``model`` plays all its threads, in every process."""

    def __init__(
        self,
        backends: tuple[object, object],
        clock: FakeClock,
        *,
        model: Model,
        names: Sequence[str],
        told: dict[str, dict[str, Any]],
        agent: dict[str, Any],
        seed: int = 0,
    ) -> None:
        self.model = model
        self.works = Works()
        self.manifest = manifest([name for name in names if is_offered(told.get(name, {}))], told, SERVER)
        self._told = told
        self._agent = agent
        self.dice: Random | None = Random(seed) if seed else None
        self.posted: list[AnySignal] = []
        """News that the store has taken, once each."""
        self.failures: list[tuple[str, Any]] = []
        """What the store's next action of a kind fails with."""
        self.alive = 0
        """Processes under way; each has a watch, which waits for the clock."""
        self.disturbed = False
        """A process died or was paused, rings were lost, or the store was away: a sweep may help."""
        self.unrung = 0
        """Threads with work that a sweep found, and no ring had told of."""
        self._processes = itertools.count(1)
        self._held: defaultdict[int, weakref.WeakSet[asyncio.Task[Any]]] = defaultdict(weakref.WeakSet)
        self.statuses: list[int] = []
        """How callbacks were answered."""
        super().__init__(backends, clock, self._agents)
        self.quiet = 0.0
        self.tools: Server = Server(self, told)

    def _agents(self) -> list[Agent]:
        functions = [
            function(name, told, self.works) for name, told in self._told.items() if is_function(told)
        ]
        return [Agent("worker", model=self.model, tools=[*functions, RapServer(SERVER)], **self._agent)]

    def parts(self, fate: Fate) -> Parts:
        store = cast(Backend, Door(self.backends[0], fate, self))
        queue = cast(Queue, Door(self.backends[1], fate, self))
        self.seed += 1
        agents = self._agents()
        for agent in agents:
            agent.model = Watched(cast(Model, agent.model), self.asked, self.clock)
        transport = Line(self, fate) if hasattr(self, "tools") else None
        return Parts(
            "memory:",
            agents,
            clock=self.clock,
            ids=Ids(Random(self.seed)),
            backends=(store, queue),
            transport=transport,
            public_url="http://here",
        )

    # ------------------------------------------------------------ processes

    async def process(self, fate: Fate | None = None) -> Fate:
        """Run a process until nothing is to be done now, or to its death. Processes may run side by side."""
        fate = fate or Fate()
        before = PROCESS.set(next(self._processes))
        self.alive += 1
        try:
            await self._lives(fate)
        finally:
            PROCESS.reset(before)
            self.works.hanging = 0
            self.alive -= 1
        self.disturbed = self.disturbed or fate.dead
        return fate

    async def _lives(self, fate: Fate) -> None:
        parts, held = self.parts(fate), self._held[PROCESS.get()]
        try:
            async with parts:
                try:
                    await self._until_quiet(parts, fate)
                finally:
                    await _buried({*held, *parts.dispatcher.tasks})
        except Crash:
            fate.dead = True

    async def _until_quiet(self, parts: Parts, fate: Fate) -> None:
        worker = parts.worker(self.slots)
        watch = asyncio.create_task(worker._watch())
        swept = 0
        for _ in range(TOO_MANY):
            busy = await asyncio.create_task(worker.run_once())
            await self._settle(parts, fate)
            if fate.dead:
                raise Crash
            if busy:
                swept = 0
            elif swept or not (swept := await self._sweep(parts)):
                watch.cancel()
                return
        raise AssertionError("the work never ends")

    async def _sweep(self, parts: Parts) -> int:
        """Ring whoever has work; says how many had work that nobody had rung for."""
        found = await sweep(parts.store, parts.queue)
        self.unrung += found if self.dice is None and not self.disturbed else 0
        return found

    async def _settle(self, parts: Parts, fate: Fate) -> None:
        """Let all that was begun come to an end, but what hangs."""
        idle = 0
        while parts.dispatcher.busy > self.works.hanging and not fate.dead:
            await asyncio.sleep(0)
            waits = self.clock.sleepers > self.alive
            idle = idle + 1 if waits else 0
            if idle > STILL:  # all wait for time to pass
                self.clock.advance(self.clock.next_wake - self.clock.now())

    def owning(self) -> None:
        """From here on each task is known by the process that began it, and ends with it."""

        def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
            self._held[PROCESS.get()].add(task)
            return task

        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        loop.set_exception_handler(lambda *_: None)  # tasks of the dead

    async def wait(self, seconds: float, *, down: bool = False) -> None:
        """Let time pass, with a process that does what becomes due, or with none."""
        end = self.clock.now() + seconds
        while not down and 0 < (at := await self._soonest()) <= end:
            self.clock.advance(max(0.001, at - self.clock.now()))
            await self.process()
        self.clock.advance(max(0.0, end - self.clock.now()))
        if not down:
            await self.process()

    async def _soonest(self) -> float:
        """When something becomes due next: a ring, a timer, or the end of a dead process' claim."""
        queue = cast(Queue, self.backends[1])
        found = [at for at in (await queue.next_at(), await self._next_sweep()) if at]
        return min(found, default=0.0)

    # ------------------------------------------------------------ what is noted

    def noted(self, name: str, first: Any, args: tuple[Any, ...], result: Any) -> None:
        """Keep what the store has taken for the first time."""
        if name == "create":
            self.posted += list(args[0] if args else ()) if result else []
            return
        given, outcomes = ([first], [result]) if name == "finish" else (first, result)
        self.posted += [one for one, how in zip(given, outcomes, strict=True) if how.outcome == "new"]

    async def dawdle(self) -> None:
        """In runs with chance: let others go first, perhaps."""
        if self.dice is not None:
            for _ in range(self.dice.randrange(4)):
                await asyncio.sleep(0)

    async def fail_if_told(self, name: str) -> None:
        for number, (kind, error) in enumerate(self.failures):
            if kind == name:
                self.disturbed = True
                del self.failures[number]
                raise error

    async def answer_at_once(self, call: str, text: str) -> None:
        await self.tools.answer(call, text)

    async def receive(
        self, token: str, body: bytes, headers: Headers = (), fate: Fate | None = None
    ) -> Outcome | None:
        """A callback arrives at a process, which may die; None: it did, and nobody was answered."""
        if fate is None:
            return await self._taken(self.outside, token, body, headers)
        try:
            async with self.parts(fate) as parts:
                return await self._taken(parts, token, body, headers)
        except Crash:
            self.disturbed = True
            return None

    async def _taken(self, parts: Parts, token: str, body: bytes, headers: Headers) -> Outcome:
        outcome = await parts.callbacks.receive(token, body, headers)
        if outcome.ring:
            await parts.queue.ring([outcome.ring])
        self.statuses.append(outcome.status)
        return outcome

    def thread_of(self, call: str) -> str:
        """The thread whose turn has a call."""
        for thread, messages in self.histories.items():
            if any(call == one.id for one in calls_of(messages)):
                return thread
        raise AssertionError(f"no turn has the call {call}")


def calls_of(messages: Sequence[Message]) -> list[Call]:
    """All calls of a history."""
    turns = [message for message in messages if isinstance(message, Turn)]
    return [part for turn in turns for part in turn.parts if isinstance(part, Call)]


async def _buried(tasks: set[asyncio.Task[Any]]) -> None:
    """What a process held ends with it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["POINTS", "ROOT", "Asked", "Doom", "Stage", "calls_of"]
