"""Step mode: what is done within a step's deadline, what is left, and that nothing is lost or kept."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runtime.cast import Cast, spawns
from tests.web.places import store_of, until
from torpor import Agent, Refused, Runtime, ToolContext, said, tool
from torpor.core.errors import ModelRefused, Unavailable
from torpor.core.messages import Result, Said, Text, Turn, text_of
from torpor.core.request import Request
from torpor.core.signals import Due, SaidSignal, StoppedSignal
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script, fail, stall, tries
from torpor.ports import Row
from torpor.queues.memory import MemoryQueue
from torpor.runtime import dispatch
from torpor.runtime import stepping as stepping_module
from torpor.runtime.slice import run_slice
from torpor.runtime.stepped import StepResult
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import START, FakeClock
from torpor.testing.samples import commit_on

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@pytest.fixture(autouse=True)
def slow_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what is cut has the time to write that down."""
    monkeypatch.setattr(stepping_module, "SETTLES", 60.0)


@asynccontextmanager
async def stepping(
    store: str = "memory:", *, script: Script = (), tools: Any = (), model: Any = None, **options: Any
) -> AsyncIterator[Runtime]:
    """A runtime without workers."""
    agent = Agent("stepper", model=model or ScriptedModel(script), tools=tools)
    async with Runtime(store, agents=[agent], listen=None, workers=0, **options) as runtime:
        yield runtime


async def started(runtime: Runtime, text: str = "Go.") -> str:
    return (await runtime.start("stepper", text)).id


async def turns(runtime: Runtime, thread: str) -> list[str]:
    history = await runtime.thread(thread).history()
    return [text_of(one.parts) for one in history if isinstance(one, Turn) and text_of(one.parts)]


async def results(runtime: Runtime, thread: str) -> list[tuple[str, str]]:
    history = await runtime.thread(thread).history()
    return [(text_of(one.parts), one.cause) for one in history if isinstance(one, Result)]


def outcomes(result: StepResult) -> list[str]:
    return [one.outcome for one in result.items]


@tool(repeat="safe")
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@STORES
async def test_a_step_goes_on_until_nothing_is_left_to_do(kind: str, tmp_path: Path) -> None:
    script: Script = [
        call("double", number=2),
        [call("double", number=3), call("double", number=4)],
        say("Done."),
    ]
    async with stepping(store_of(kind, tmp_path), script=script, tools=[double]) as runtime:
        thread = await started(runtime)
        (item,) = (await runtime.step(thread)).items
        assert (item.thread, item.outcome, item.again_at, item.error) == (thread, "done", 0.0, "")
        assert item.state == "open"
        # Of two results a slice takes both or one; one that comes as a slice ends rings for another slice.
        assert 3 <= item.slices <= 6
        assert await turns(runtime, thread) == ["Done."]
        first, *both = [text for text, _ in await results(runtime, thread)]
        assert (first, sorted(both)) == ("4", ["6", "8"])
        assert outcomes(await runtime.step(thread)) == ["done"]
        assert await runtime.step() == StepResult(())


@STORES
async def test_signals_are_taken_once_and_in_order(kind: str, tmp_path: Path) -> None:
    async with stepping(store_of(kind, tmp_path), model=ScriptedModel(lambda one: one.text)) as runtime:
        thread = await started(runtime)
        await runtime.step(thread)
        news = [said(thread, f"word {number}", id=f"m{number}") for number in (1, 2, 3)]
        assert outcomes(await runtime.step(*news)) == ["done"] * 3
        again = await runtime.step(*news[1:], said(thread, "word 4", id="m4"))
        assert outcomes(again) == ["done"] * 3
        history = await runtime.thread(thread).history()
        words = [text_of(one.parts) for one in history if isinstance(one, Said)]
        assert words == ["Go.", "word 1", "word 2", "word 3", "word 4"]
        assert all(one.sent_at > 0 or one.at > 0 for one in history if isinstance(one, Said))
        assert len(await turns(runtime, thread)) == 3


@STORES
async def test_what_fails_fails_alone(kind: str, tmp_path: Path) -> None:
    def reply(request: Request) -> Any:
        if request.text == "break":
            raise RuntimeError("no such luck")
        return {"refuse": fail(ModelRefused("never", kind="request")), "busy": fail()}.get(
            request.text, say("fine")
        )

    async with stepping(store_of(kind, tmp_path), script=reply) as runtime:
        ids = [await started(runtime, text) for text in ("hello", "break", "refuse", "busy", "hello")]
        foreign = Due("", "x", 1.0)
        news: list[Any] = [*ids, "nobody", said(ids[0], "more", id=""), 5, foreign, said("gone", "x", id="1")]
        result = await runtime.step(*news)
        names = ["done", "done", "done", "again", "done"]
        assert outcomes(result) == [*names, "failed", "failed", "failed", "failed", "failed"]
        assert [one.state for one in result.items[:5]] == ["open", "parked", "parked", "open", "open"]
        errors = [one.error for one in result.items]
        assert (errors[0], errors[4]) == ("", "")
        for error, words in zip(
            [*errors[1:4], *errors[5:]],
            ("no such luck", "never", "busy", "no thread 'nobody'", "without an id", "not int", "thread id",
             "no thread 'gone'"),
            strict=True,
        ):  # fmt: skip
            assert words in error
        assert result.items[3].again_at > 0
        assert result.again_at == result.items[3].again_at
        assert [thread for thread in ids if await turns(runtime, thread) == ["fine"]] == [ids[0], ids[4]]


async def test_a_signal_that_cannot_be_stored_is_refused_alone() -> None:
    async with stepping(model=ScriptedModel(lambda one: one.text)) as runtime:
        thread = await started(runtime)
        broken = Due(thread, "a\udc00", 1.0)
        result = await runtime.step(broken, said(thread, "fine \udc00", id="m"))
        assert outcomes(result) == ["failed", "done"]
        assert "cannot be stored" in result.items[0].error
        assert await turns(runtime, thread) == ["fine \ufffd"]


async def test_an_agent_that_is_not_known_here_is_said_to_be(tmp_path: Path) -> None:
    store = store_of("sqlite", tmp_path)
    async with stepping(store, script=[say("hi")]) as runtime:
        thread = await started(runtime)
    async with Runtime(store, agents=[], listen=None, workers=0) as other:
        (item,) = (await other.step(thread)).items
        assert (item.outcome, item.again_at > 0) == ("failed", True)
        assert "agent 'stepper'" in item.error


@pytest.mark.parametrize(("deadline", "threads"), [(0.0, 1), (float("nan"), 1), (-1.0, 1), (5.0, 0)])
async def test_a_step_needs_time_and_room(deadline: float, threads: int) -> None:
    async with stepping() as runtime:
        with pytest.raises(Refused, match="deadline"):
            await runtime.step(deadline=deadline, side_by_side=threads)


async def test_no_more_slices_run_at_once_than_asked_for() -> None:
    asked = most = 0
    go = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: Any, attempt: Any) -> Any:
            nonlocal asked, most
            asked += 1
            most = max(most, asked)
            await go.wait()
            async for chunk in super().stream(request, attempt):
                yield chunk
            asked -= 1

    async with stepping(model=Slow(lambda _: say("hi"))) as runtime:
        ids = [await started(runtime) for _ in range(8)]
        step = asyncio.create_task(runtime.step(*ids, side_by_side=3))
        await until(_is(lambda: asked == 3))
        go.set()
        assert outcomes(await step) == ["done"] * 8
        assert most == 3


@STORES
async def test_a_completion_that_takes_too_long_is_cut_and_tried_again(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    script: Script = [tries(stall("I thi"), say("I think."))]
    async with stepping(store_of(kind, tmp_path), script=script, clock=clock) as runtime:
        thread = await started(runtime)
        step = asyncio.create_task(runtime.step(thread, deadline=20.0))
        await until(_is(lambda: runtime.parts.live._running))
        clock.advance(18.1)
        (item,) = (await step).items
        assert (item.outcome, item.slices) == ("again", 1)
        assert "longer than a slice may last" in item.error
        assert item.again_at > clock.now()
        assert await turns(runtime, thread) == []
        clock.advance(item.again_at - clock.now())
        assert outcomes(await runtime.step(thread)) == ["done"]
        assert await turns(runtime, thread) == ["I think."]


async def test_a_thread_is_let_go_however_late_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, go, asked = FakeClock(), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(stepping_module, "SETTLES", 0.1)
    async with stepping(script=[say("Hi."), say("Again.")], clock=clock) as runtime:
        thread, hold = await started(runtime), runtime.parts.store.hold

        async def slow(thread: str, by: str, until: float) -> float:
            if not until:
                asked.set()
                await go.wait()
            return await hold(thread, by, until)

        monkeypatch.setattr(runtime.parts.store, "hold", slow)
        step = asyncio.create_task(runtime.step(thread, deadline=1.0))
        await asked.wait()
        clock.advance(1.0)
        await asyncio.wait([step], timeout=0.5)
        go.set()
        assert outcomes(await step) == ["done"]
        await runtime.thread(thread).send("And?")
        assert outcomes(await runtime.step(thread)) == ["done"]
        assert await turns(runtime, thread) == ["Hi.", "Again."]


async def test_a_hold_that_is_renewed_late_is_let_go_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, go, script = FakeClock(), asyncio.Event(), [tries(stall("I thi"), say("I think."))]
    async with stepping(script=script, clock=clock) as runtime:
        thread, hold = await started(runtime), runtime.parts.store.hold
        sent: list[asyncio.Task[float]] = []

        async def lands(thread: str, by: str, until: float) -> float:
            await go.wait()
            return await hold(thread, by, until)

        async def held(thread: str, by: str, until: float) -> float:
            if clock.now() < begun + 18.0 or not until:
                return await hold(thread, by, until)
            sent.append(asyncio.create_task(lands(thread, by, until)))
            return await asyncio.shield(sent[-1])  # once it is on its way, nobody calls it back

        begun = clock.now()
        monkeypatch.setattr(runtime.parts.store, "hold", held)
        step = asyncio.create_task(runtime.step(thread, deadline=20.0))
        await until(_is(lambda: runtime.parts.live._running))
        clock.advance(18.1)
        await until(_is(lambda: sent))
        await asyncio.wait([step], timeout=0.5)
        go.set()
        (item,) = (await step).items
        await asyncio.gather(*sent)
        clock.advance(item.again_at - clock.now())
        assert outcomes(await runtime.step(thread)) == ["done"]


@STORES
async def test_what_the_deadline_leaves_is_begun_by_another_step(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    runs: list[int] = []

    @tool(repeat="unsafe")
    async def pay() -> str:
        """Pay."""
        runs.append(1)
        clock.advance(15.0)
        return "paid"

    def thinks_long(_: Request) -> Any:
        clock.advance(15.0)
        return call("pay")

    async with stepping(
        store_of(kind, tmp_path), script=[thinks_long, say("It is paid.")], tools=[pay], clock=clock
    ) as runtime:
        thread = await started(runtime)
        first = await runtime.step(thread)
        assert (outcomes(first), first.again_at) == (["again"], clock.now())
        assert not runs
        (left,) = await runtime.parts.store.outbox(thread)
        assert left.attempt == 0
        assert "not begun yet" in (await runtime.thread(thread).explain()).text
        second = await runtime.step(thread)
        assert (outcomes(second), second.again_at, runs) == (["again"], clock.now(), [1])
        assert await turns(runtime, thread) == []
        assert outcomes(await runtime.step(thread)) == ["done"]
        assert (await turns(runtime, thread), runs) == (["It is paid."], [1])
        assert await results(runtime, thread) == [("paid", "")]


def _has(entries: list[Any], count: int) -> bool:
    return len(entries) == count


@STORES
async def test_who_waits_for_a_place_until_the_deadline_has_not_tried(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "FUNCTIONS", 1)
    clock = FakeClock()
    begun: list[tuple[str, int]] = []

    @tool(repeat="safe")
    async def work(context: ToolContext) -> str:
        """Work."""
        begun.append((context.thread, context.attempt))
        if len({thread for thread, _ in begun}) == 1:
            await asyncio.Event().wait()
        return "worked"

    async with stepping(
        store_of(kind, tmp_path), script=[call("work"), say("Well.")], tools=[work], clock=clock
    ) as runtime:
        threads = [await started(runtime) for _ in range(2)]
        for times in range(1, dispatch.RUNS + 1):
            step = asyncio.create_task(runtime.step(*threads, deadline=10.0, side_by_side=1))
            await until(_is(partial(_has, begun, times)))
            clock.advance(9.0)
            assert outcomes(await step) == ["again", "again"]
        assert len({thread for thread, _ in begun}) == 1
        waited = next(thread for thread in threads if thread != begun[0][0])
        assert outcomes(await runtime.step(waited)) == ["done"]
        assert begun[-1] == (waited, 1)


@STORES
@pytest.mark.parametrize(("repeat", "cause", "started_"), [("safe", "", 2), ("unsafe", "unknown", 1)])
async def test_a_function_that_takes_too_long_is_given_back_as_it_may_be(
    kind: str, repeat: str, cause: str, started_: int, tmp_path: Path
) -> None:
    clock = FakeClock()
    attempts: list[int] = []

    @tool(repeat=repeat)
    async def work(context: ToolContext) -> str:
        """Work."""
        attempts.append(context.attempt)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return "worked"

    async with stepping(
        store_of(kind, tmp_path), script=[call("work"), say("Well.")], tools=[work], clock=clock
    ) as runtime:
        thread = await started(runtime)
        step = asyncio.create_task(runtime.step(thread, deadline=10.0))
        await until(_is(lambda: attempts))
        clock.advance(9.0)
        first = await step
        assert (outcomes(first), first.again_at) == (["again"], clock.now())
        assert outcomes(await runtime.step(thread)) == ["done"]
        assert (await turns(runtime, thread), len(attempts)) == (["Well."], started_)
        assert [why for _, why in await results(runtime, thread)] == [cause]


@STORES
async def test_of_two_steps_of_a_thread_one_works(kind: str, tmp_path: Path) -> None:
    go = asyncio.Event()
    asked: list[str] = []

    def reply(request: Request) -> Any:
        asked.append(request.text)
        return stall("Well", until=go) if len(asked) == 1 else say("And?")

    store = store_of(kind, tmp_path)
    async with stepping(store, script=reply) as runtime:
        thread = await started(runtime)
        first = asyncio.create_task(runtime.step(thread))
        await until(_is(lambda: asked))
        (item,) = (await runtime.step(said(thread, "And you?", id="m"))).items
        assert (item.outcome, item.slices) == ("again", 0)
        assert item.again_at > 0
        assert len(asked) == 1
        go.set()
        assert outcomes(await first) == ["done"]
        assert await turns(runtime, thread) == ["Well", "And?"]
        assert outcomes(await runtime.step(thread)) == ["done"]


@STORES
async def test_a_timer_is_named_and_kept(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    script: Script = [call("sleep", seconds=100), say("Awake.")]
    async with stepping(store_of(kind, tmp_path), script=script, clock=clock) as runtime:
        thread = await started(runtime)
        (item,) = (await runtime.step(thread)).items
        assert (item.outcome, round(item.again_at - clock.now())) == ("done", 100)
        clock.advance(50)
        assert (await runtime.step(thread)).items == (_with(item, slices=1),)
        clock.advance(50)
        (item,) = (await runtime.step(thread)).items
        assert (item.outcome, item.again_at) == ("done", 0.0)
        assert await turns(runtime, thread) == ["Awake."]


@pytest.mark.parametrize("late", [False, True])
@STORES
async def test_news_that_comes_during_a_slice_does_not_wait_for_a_timer(
    kind: str, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    script: Script = [call("sleep", seconds=259_200), say("Awake.")]
    async with stepping(store_of(kind, tmp_path), script=script, clock=clock) as runtime:
        thread = await started(runtime)

        async def slow(*given: Any) -> Any:
            monkeypatch.undo()
            outcome = await run_slice(*given)
            await runtime.parts.store.post([said(thread, "Wake up.", id="m")])
            clock.advance(15.0 if late else 0.0)
            return outcome

        monkeypatch.setattr(stepping_module, "run_slice", slow)
        (item,) = (await runtime.step(thread, deadline=20.0)).items
        if late:
            assert (item.outcome, item.again_at <= clock.now()) == ("again", True)
        else:
            assert item.outcome == "done"
            assert await turns(runtime, thread) == ["Awake."]


@STORES
async def test_children_are_worked_on_in_the_same_step(kind: str, tmp_path: Path) -> None:
    cast = Cast(root=[spawns("as helper: help"), say("Waiting."), say("I heard.")], helper=[say("Help!")])
    async with stepping(store_of(kind, tmp_path), model=cast) as runtime:
        thread = await started(runtime)
        result = await runtime.step(thread)
        (child,) = await runtime.thread(thread).children()
        assert outcomes(result) == ["done"]
        assert [(one.thread, one.outcome) for one in result.others] == [(child.id, "done")]
        assert await turns(runtime, child.id) == ["Help!"]
        assert "I heard." in await turns(runtime, thread)


@STORES
async def test_what_others_got_is_named_where_time_is_up(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()

    def late(_: Request) -> Any:
        clock.advance(15.0)
        return spawns("as helper: help")

    cast = Cast(root=[late, say("Waiting."), say("I heard.")], helper=[say("Help!")])
    async with stepping(store_of(kind, tmp_path), model=cast, clock=clock) as runtime:
        thread = await started(runtime)
        result = await runtime.step(thread)
        (child,) = await runtime.thread(thread).children()
        (other,) = result.others
        assert (other.thread, other.outcome, other.again_at) == (child.id, "again", clock.now())
        while left := [one.thread for one in (*result.items, *result.others) if one.outcome == "again"]:
            result = await runtime.step(*left)
        assert "I heard." in await turns(runtime, thread)


@STORES
async def test_an_abandoned_step_loses_nothing(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    attempts = 0

    @tool(repeat="safe")
    async def work() -> str:
        """Work."""
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.Event().wait()
        return "worked"

    script: Script = [tries(stall("Hm"), call("work")), say("Done.")]
    async with stepping(store_of(kind, tmp_path), script=script, tools=[work], clock=clock) as runtime:
        thread = await started(runtime)
        for begun in (lambda: runtime.parts.live._running, lambda: attempts):
            step = asyncio.create_task(runtime.step(thread))
            await until(_is(begun))
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            clock.advance(60)
        assert outcomes(await runtime.step(thread)) == ["done"]
        assert (await turns(runtime, thread), attempts) == (["Done."], 2)
        assert await results(runtime, thread) == [("worked", "")]


@STORES
async def test_a_stop_that_another_step_brings_cuts_the_completion(kind: str, tmp_path: Path) -> None:
    async with stepping(store_of(kind, tmp_path), script=[stall("Once upon")]) as runtime:
        thread = await started(runtime)
        first = asyncio.create_task(runtime.step(thread))
        await until(_is(lambda: runtime.parts.live._running))
        other = await runtime.step(StoppedSignal(thread, "stop/1", 0.0))
        assert outcomes(other) == ["again"]
        (item,) = (await first).items
        assert (item.outcome, item.state) == ("done", "stopped")
        assert await turns(runtime, thread) == ["Once upon"]


@STORES
async def test_nothing_is_kept_between_steps(kind: str, tmp_path: Path) -> None:
    clock = FakeClock()
    script: Script = [call("double", number=2), call("sleep", seconds=100), say("Awake.")]
    async with stepping(store_of(kind, tmp_path), script=script, tools=[double], clock=clock) as runtime:
        before = asyncio.all_tasks()
        await runtime.step(await started(runtime))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert clock.sleepers == 0


class Crash(BaseException):
    """The process dies here."""


class Dying:
    """A store whose process dies before or after its so-manieth write, and does nothing from then on."""

    def __init__(self, store: MemoryStore, at: int, *, after: bool) -> None:
        self._store = store
        self._left = at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name in ("close", "now") or not asyncio.iscoroutinefunction(value):
            return value

        async def mortal(*args: Any, **kwargs: Any) -> Any:
            self._left -= name in WRITES
            if self._left < 0 or (self._left == 0 and name in WRITES and not self._after):
                self._left = -1
                raise Crash
            given = await value(*args, **kwargs)
            if self._left == 0 and name in WRITES:
                self._left = -1
                raise Crash
            return given

        return mortal


WRITES = {"post", "create", "hold", "commit", "finish", "claim", "delivered", "release", "postpone", "note"}


async def test_a_step_may_die_at_any_write() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks of the dead
    deaths = 0
    for at in range(1, 60):
        for after in (False, True):
            deaths += await _dies(at, after=after)
    assert 20 < deaths < 110


async def _dies(at: int, *, after: bool) -> int:
    """A step whose process dies, and those that follow it; says whether it came so far."""
    clock = FakeClock()
    store, died = MemoryStore(clock), 0
    cast = Cast(
        root=[call("double", number=2), spawns("as helper: help"), say("Waiting."), say("I heard.")],
        helper=[say("Help!")],
    )
    agent = Agent("stepper", model=cast, tools=[double])
    words = SaidSignal("t", "said/1", START, parts=(Text("Go."),))
    await store.create(Row(thread="t", agent="stepper", root="t", created=START, updated=START))
    dying: Any = Dying(store, at, after=after)
    try:
        async with Runtime(
            "memory:",
            agents=[agent],
            listen=None,
            workers=0,
            backends=(dying, MemoryQueue(clock)),
            clock=clock,
        ) as runtime:
            await runtime.step(words)
    except Crash:
        died = 1
    clock.advance(60)
    backends = (store, MemoryQueue(clock))
    async with Runtime(
        "memory:", agents=[agent], listen=None, workers=0, backends=backends, clock=clock
    ) as runtime:
        left: set[str] = {"t"}
        result = await runtime.step(words)
        while left := {one.thread for one in (*result.items, *result.others) if one.outcome == "again"}:
            clock.advance(max(0.0, result.again_at - clock.now()))
            result = await runtime.step(*left)
        assert {one.outcome for one in result.items} == {"done"}
        for row in await runtime.threads():  # whom the dead process had rung, its platform would sweep
            assert (await runtime.step(row.thread)).items[0].outcome in ("done", "again")
        await runtime.step(*[row.thread for row in await runtime.threads()])
        history = await runtime.thread("t").history()
        assert [text_of(one.parts) for one in history if isinstance(one, Said)] == ["Go."]
        assert await turns(runtime, "t") == ["Waiting.", "I heard."]
        assert (await results(runtime, "t"))[0] == ("4", "")
        assert len(await results(runtime, "t")) == 2
    return died


async def test_a_store_that_is_away_fails_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stepping(script=[say("hi")]) as runtime:
        thread = await started(runtime)

        async def away(*_: Any, **__: Any) -> Any:
            raise Unavailable("The store is away.")

        with monkeypatch.context() as patched:
            patched.setattr(runtime.parts.store, "post", away)
            with pytest.raises(Unavailable, match="away"):
                await runtime.step(said(thread, "x", id="1"))
            patched.setattr(runtime.parts.store, "load", away)
            (item,) = (await runtime.step(thread)).items
        assert (item.outcome, item.again_at > 0, item.error) == ("again", True, "The store is away.")
        assert outcomes(await runtime.step(thread)) == ["done"]


async def test_what_cannot_be_read_is_set_aside() -> None:
    async with stepping(script=[say("hi")]) as runtime:
        thread, neighbour = await started(runtime), await started(runtime)
        store = runtime.parts.store
        await store.commit(commit_on(await store.load(thread), absorbed={}, row={"head": b"\xc1"}))
        result = await runtime.step(thread, neighbour)
        assert outcomes(result) == ["failed", "done"]
        assert result.items[0].state == "parked"
        assert result.items[0].again_at > 0


def _is(look: Callable[[], object]) -> Any:
    async def found() -> bool:
        return bool(look())

    return found


def _with(value: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(value, **changes)
