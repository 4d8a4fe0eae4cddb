"""The store or the queue is away for a while, in the middle of anything: nothing is lost."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.runtime.scenes import SCENES, Effects, Scene
from tests.runtime.shown import story, without_order
from tests.runtime.test_crash_points import begin, check, memory
from tests.runtime.world import DURABLE, Fate, World, bury, settle
from torpor import Agent, Runtime, Thread, tool
from torpor.core.errors import Broken, Refused, TorporError, Unavailable
from torpor.core.messages import Call, Result, Turn, text_of
from torpor.models import ScriptedModel, call, say
from torpor.ports import Backend, Ring
from torpor.queues.memory import MemoryQueue
from torpor.runtime.sweep import sweep_always
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock

SOON = 10.0


class Outage(Fate):
    """From one durable action on, so many of them fail: nobody dies of that."""

    def __init__(self, at: int, length: int) -> None:
        super().__init__()
        self.begins = at
        self.ends = at + length

    async def pass_through(self, name: str, action: Callable[[], Any]) -> Any:
        here, self.count = self.count, self.count + 1
        if self.begins <= here < self.ends:
            self.where = self.where or name
            raise Unavailable("the disk is full")
        return await action()


async def lived_through(scene: Scene, fate: Fate) -> tuple[World, Effects]:
    """One process that goes on through an outage, as a worker does."""
    clock, effects = FakeClock(), Effects()
    world = World(memory(clock), clock, scene.agents(effects), inputs=scene.inputs(), answers=scene.answers)
    async with world.outside:
        await begin(world.outside)
        async with world.parts(fate) as parts:
            worker = parts.worker(1)
            worker.start()
            sweeping = asyncio.create_task(sweep_always(parts.store, parts.queue, clock, parts.roster.names))
            for _ in range(3_000):
                for _ in range(20):
                    await asyncio.sleep(0)
                await settle(parts)
                if await _is_over(world):
                    break
                clock.advance(max(0.05, min(clock.next_wake or 1e12, clock.now() + 5.0) - clock.now()))
            sweeping.cancel()
            await worker.stop(0)
            await bury(parts)
        await check(world, effects)
    return world, effects


async def _is_over(world: World) -> bool:
    done = all(effect.id in world.delivered for effect in world.decided)
    return done and world.awaited == 0 and not await world.store.inbox("t") and _has_ended(world)


def _has_ended(world: World) -> bool:
    last = world.messages[-1] if world.messages else None
    return bool(getattr(last, "end", False))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["functions", "tool server", "steer", "inline"])
def test_an_outage_anywhere_changes_nothing(name: str) -> None:
    async def every_outage() -> None:
        scene = SCENES[name]
        counted = Outage(10**9, 0)
        world, _ = await lived_through(scene, counted)
        expected = without_order(story(world.messages))
        for at in range(0, counted.count, 3):
            outage = Outage(at, 1 + at % 7)
            world, _ = await lived_through(scene, outage)
            assert without_order(story(world.messages)) == expected, f"away at {outage.where} ({at})"

    asyncio.run(every_outage())


class Faulty:
    """A backend that raises instead of doing some of its methods, while it is told to."""

    def __init__(self, backend: object, methods: set[str]) -> None:
        self.error: TorporError | None = None
        self.refused = 0
        self._backend = backend
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if name not in self._methods:
            return value

        async def perhaps(*args: Any, **kwargs: Any) -> Any:
            if self.error is not None:
                self.refused += 1
                raise self.error
            return await value(*args, **kwargs)

        return perhaps


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not holds():
            await asyncio.sleep(0.005)


async def test_an_unsafe_function_whose_result_cannot_be_stored_is_heard_later() -> None:
    store, queue = Faulty(MemoryStore(), {"finish"}), MemoryQueue()

    @tool
    async def mail() -> str:
        """Send a mail."""
        store.error = Unavailable("the disk is full")
        return "sent"

    model = ScriptedModel([call("mail"), lambda request: say(request.results[0].text)])
    agents = [Agent("worker", model=model, tools=[mail])]
    backends = (cast(Backend, store), queue)
    async with Runtime("memory:", agents=agents, listen=None, backends=backends) as runtime:
        thread = await runtime.start("worker", "go")
        await until(lambda: store.refused >= 2)
        store.error = None
        assert (await thread.reply(SOON)).text == "sent"
        results = [message for message in await thread.history() if isinstance(message, Result)]
        assert [text_of(result.parts) for result in results] == ["sent"]


class Late:
    """A store that writes a call's result as the call is given up, and whose word of that never comes."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.given_up, self._written = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delivered(self, *args: Any) -> None:
        self.given_up.set()
        await self._written.wait()
        await self._store.delivered(*args)

    async def finish(self, *args: Any) -> None:
        await self._store.finish(*args)
        self._written.set()
        await asyncio.Event().wait()


async def test_a_result_that_is_written_as_its_call_is_cancelled_is_taken_from_the_inbox() -> None:
    store, begun = Late(), asyncio.Event()

    @tool(repeat="safe")
    async def look() -> str:
        """Look."""
        begun.set()
        await store.given_up.wait()
        return "seen"

    agents = [Agent("worker", model=ScriptedModel([call("look")]), tools=[look])]
    backends = (cast(Backend, store), MemoryQueue())
    async with Runtime("memory:", agents=agents, listen=None, backends=backends) as runtime:
        thread = await runtime.start("worker", "go")
        await begun.wait()
        await thread.close()
        await store.given_up.wait()
        async with asyncio.timeout(SOON / 2):  # sooner than the sweep looks
            while await store.outcome(thread.id, f"{await _call_of(thread)}/result") != "closed":
                await asyncio.sleep(0.005)
        assert await store.inbox(thread.id) == []


async def _call_of(thread: Thread) -> str:
    [turn] = [message for message in await thread.history() if isinstance(message, Turn)]
    return next(part.id for part in turn.parts if isinstance(part, Call))


@pytest.mark.parametrize("error", [Refused("read-only"), Broken("odd"), Unavailable("full")])
async def test_slots_and_sweep_outlive_any_error_of_the_store(error: TorporError) -> None:
    """A file that was made read-only for a while, a disk that was full: work goes on afterwards."""
    store, queue = Faulty(MemoryStore(), DURABLE), Faulty(MemoryQueue(lease=0.2), DURABLE)
    agents = [Agent("worker", model=ScriptedModel(lambda request: say("Yes.")))]
    backends = (cast(Backend, store), cast(Any, queue))
    async with Runtime("memory:", agents=agents, listen=None, backends=backends, workers=1) as runtime:
        thread = await runtime.start("worker", "one")
        await thread.reply(SOON)
        store.error = queue.error = error
        await queue._backend.ring([Ring(thread.id, 0.0, agent="worker")])  # type: ignore[attr-defined]
        await until(lambda: queue.refused >= 2)
        with pytest.raises(type(error)):
            await thread.send("two")
        store.error = queue.error = None
        await thread.send("three")
        assert (await thread.reply(SOON)).text == "Yes."
