"""A model that fails: one request a try, bounded tries, pauses as rows, what nobody can cure set aside."""

from itertools import pairwise
from typing import Any

import pytest

from tests.runtime.test_crash_points import memory
from tests.runtime.world import SERVER, Fate, Tools, World, bury, nudges, says, settle, stops
from torpor import Agent, Limits, RapServer
from torpor.core.errors import Broken, ModelRefused, Refused, Unavailable
from torpor.core.messages import Noted, Parked, Said, Text, Turn, text_of
from torpor.core.request import item_text
from torpor.core.signals import HappenedSignal
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script, fail, tries
from torpor.runtime.sweep import sweep
from torpor.testing.clock import START, FakeClock


def agents(script: Script, **options: Any) -> list[Agent]:
    return [Agent("worker", model=ScriptedModel(script), **options)]


class Alone(World):
    """A world in which processes live only for what may run now."""

    def __init__(self, script: Script, **options: Any) -> None:
        clock = FakeClock()
        super().__init__(memory(clock), clock, lambda: agents(script, **options))

    async def begin(self) -> None:
        await self.outside.__aenter__()  # it holds nothing that would have to be given back
        await self.outside.threads.start("worker", [Text("go")], thread="t")

    async def slices(self, number: int = 1) -> None:
        """So many processes, each of which sweeps, runs what may run now, and ends."""
        for _ in range(number):
            async with self.parts(Fate()) as parts:
                await sweep(parts.store, parts.queue)
                while await parts.worker(1).run_once():
                    pass
                await bury(parts)

    async def finish(self) -> None:
        while not await self.live():
            pass

    @property
    def times(self) -> list[float]:
        return [one.at - START for one in self.asked]

    def all(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.messages if isinstance(message, kind)]

    def parked(self) -> list[Parked]:
        return [noted.note for noted in self.all(Noted) if isinstance(noted.note, Parked)]


async def test_retry_after_is_kept_whatever_comes_meanwhile() -> None:
    """Neither new words nor the sweep nor a new process breaks it, and one request is one try."""
    world = Alone([tries(fail(Unavailable("busy", retry_after=37)), say("There."))])
    await world.begin()
    await world.slices()
    assert len(world.asked) == 1
    assert "retry" in {wait.kind for wait in (await world.outside.threads.explain("t")).waits}
    for _ in range(6):
        world.clock.advance(6)
        await world.outside.threads.say("t", [Text("Well?")])
        await world.slices(2)
    assert len(world.asked) == 1
    await world.finish()
    assert world.times[0] == 0
    assert 37 <= world.times[1] < 40
    assert len(world.all(Said)) == 7
    assert [text_of(turn.parts) for turn in world.all(Turn)] == ["There."]


async def test_days_of_retry_after_hold_no_process_and_are_shown_with_their_end() -> None:
    world = Alone([tries(fail(Unavailable("busy", retry_after=1_382_400)), say("There."))])
    await world.begin()
    await world.slices(3)
    assert len(world.asked) == 1
    explained = await world.outside.threads.explain("t")
    [waiting] = explained.waits
    assert waiting.until == pytest.approx(START + 1_382_400, abs=2)
    assert "; it is asked again at 2001-09-25" in explained.text
    await world.finish()
    assert world.times[1] >= 1_382_400


async def test_other_threads_of_the_model_wait_too_and_cost_nothing_meanwhile() -> None:
    script = [tries(fail(Unavailable("busy", retry_after=100)), say("There."))]
    world = Alone(script)
    await world.begin()
    await world.slices()
    await world.outside.threads.start("worker", [Text("me too")], thread="u")
    await world.slices()
    assert len(world.asked) == 1
    store = world.store
    loads: list[str] = []
    load = store.load

    async def counted(thread: str, **options: Any) -> Any:
        loads.append(thread)
        return await load(thread, **options)

    store.load = counted  # type: ignore[method-assign]
    for _ in range(5):
        world.clock.advance(10)
        await world.slices()
    assert loads == []
    store.load = load  # type: ignore[method-assign]
    world.clock.advance(60)
    await world.slices(3)
    assert [one.attempt.thread for one in world.asked[1:]] == ["t", "u"]


async def test_all_classes_of_passing_failure_share_one_budget_of_tries() -> None:
    errors = [Unavailable("429"), Unavailable("529 overloaded"), Unavailable("Zu viele Anfragen")]
    world = Alone([tries(*map(fail, errors))], limits=Limits(tries=3))
    await world.begin()
    await world.finish()
    assert len(world.asked) == 3
    assert all(later > earlier for earlier, later in pairwise(world.times))
    [parked] = world.parked()
    assert parked.reason == "Gave up after 3 tries: Zu viele Anfragen"
    assert not parked.aside


async def test_the_budget_of_tries_begins_anew_with_each_completion() -> None:
    flaky = tries(fail(Unavailable("503")), fail(Unavailable("503")), call("sleep", seconds=0))
    world = Alone([flaky, flaky, say("There.")], limits=Limits(tries=3))
    await world.begin()
    await world.finish()
    assert [one.attempt.attempt for one in world.asked] == [0, 1, 2, 0, 1, 2, 0]
    assert world.parked() == []


@pytest.mark.parametrize(
    ("error", "aside"),
    [
        (ModelRefused("insufficient_quota", kind="quota"), False),
        (ModelRefused("bad key", kind="auth"), False),
        (ModelRefused("too long", kind="context"), True),
        (ModelRefused("not that", kind="content"), True),
        (Refused("no"), True),
        (Broken("we cannot read that"), True),
        (ValueError("a bug in an adapter"), True),
    ],
)
async def test_what_trying_again_cannot_cure_is_tried_once(error: Exception, aside: bool) -> None:
    def reply(request: Any) -> Any:
        if "go" in [item_text(item) for item in request.items]:
            raise error
        return say("Better.")

    world = Alone(reply)
    await world.begin()
    await world.finish()
    assert len(world.asked) == 1
    [parked] = world.parked()
    assert str(error) in parked.reason
    assert parked.aside == aside
    await world.outside.threads.say("t", [Text("Something else.")])
    await world.finish()
    last = world.messages[-1]
    if aside:
        assert isinstance(last, Turn)
        assert "go" not in [item_text(item) for item in world.asked[-1].request.items]
        said = [text_of(message.parts) for message in world.all(Said)]
        assert said == ["go", "Something else."]
    else:
        assert len(world.parked()) == 2


async def test_a_stop_ends_a_long_pause_even_behind_much_news() -> None:
    """A hundred and more events that came meanwhile do not hide it."""
    world = Alone([tries(fail(Unavailable("busy", retry_after=86_400)), say("There."))])
    await world.begin()
    await world.slices()
    for number in range(150):
        await world.store.post([HappenedSignal("t", f"c/event/{number}", START, call="c")])
    await world.slices()
    assert world.turns == 0
    await world.outside.threads.stop("t")
    await world.slices()
    assert "Stopped" in world.notes
    assert len(world.asked) == 1


async def paused() -> Alone:
    """A thread whose model failed once, and is to be asked again in a second."""
    answers: Any = iter([fail(Unavailable("503")), say("There.")])
    world = Alone(lambda request: next(answers))
    await world.begin()
    await world.slices()
    row = await world.store.row("t")
    assert row is not None
    assert row.not_before > START
    return world


async def state_of(world: Alone) -> str:
    row = await world.store.row("t")
    assert row is not None
    return row.state


async def test_a_stop_ends_the_pause_after_a_failure_and_stays() -> None:
    """The words that are not answered yet came before it: they do not undo it."""
    world = await paused()
    await stops(world)
    await world.finish()
    assert (await state_of(world), world.turns, len(world.asked)) == ("stopped", 0, 1)
    await nudges(world)
    await world.finish()
    assert [text_of(turn.parts) for turn in world.all(Turn)] == ["There."]


@pytest.mark.parametrize("ending", [nudges, says("Now!", "interrupt")])
async def test_a_nudge_and_an_interrupt_end_the_pause_after_a_failure(ending: Any) -> None:
    world = await paused()
    await ending(world)
    await world.slices()
    assert world.times == [0, 0]
    assert world.turns == 1


async def test_an_interrupt_is_heard_although_a_provider_wants_to_be_left_alone() -> None:
    world = Alone([tries(fail(Unavailable("busy", retry_after=100)), say("There."))])
    await world.begin()
    await world.slices()
    await says("Now!", "interrupt")(world)
    await world.slices(2)
    assert [text_of(said.parts) for said in world.all(Said)] == ["go", "Now!"]
    assert len(world.asked) == 1
    await world.finish()
    assert world.turns == 1
    assert world.times[1] >= 100


async def test_a_failed_try_leaves_its_record_with_its_cost() -> None:
    world = Alone([tries(fail(Unavailable("503: busy")), say("There."))])
    await world.begin()
    await world.finish()
    records = await world.store.records("t")
    assert [(record.yielded, record.attempt) for record in records] == [("failed", 0), ("idle", 1)]
    assert records[0].error == "503: busy"
    assert records[0].ordinal == records[1].ordinal == 0


class Flaky(Tools):
    """A tool server that is away when the first build is handed over."""

    async def take(self, facts: dict[str, Any], key: str) -> None:
        if facts["name"] == "build" and self.handed_over < 2:
            self.handed_over += 1
            raise Unavailable("nobody is there")
        await super().take(facts, key)


async def test_effects_go_on_while_the_model_rests() -> None:
    """A tool server that could not be reached is tried again, although the model's pause is long."""
    busy = tries(fail(Unavailable("busy", retry_after=1_000)), say("There."))
    script: Script = [[call("check", what="y"), call("build", what="x")], busy]
    tools = [RapServer(SERVER)]
    world = Alone(script, tools=tools, wake="each")
    world.tools = Flaky(world, {"check": "checked"})
    await world.begin()
    for _ in range(20):
        async with world.parts(Fate()) as parts:
            await sweep(parts.store, parts.queue)
            while await parts.worker(1).run_once():
                await settle(parts)
            await bury(parts)
        world.clock.advance(2)
    assert len(world.asked) == 2
    assert len(world.tools.done) == 2
