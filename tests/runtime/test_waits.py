"""Waits of people in whole runtimes: asked, answered once, expired; only what was approved runs."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runtime.cast import Cast, reports, spawns
from tests.runtime.scenes import Effects
from tests.runtime.shown import story
from tests.runtime.test_crash_points import Backends, begin, check, memory, play, sqlite
from tests.runtime.world import SERVER, Fate, Input, World, after, finishes, says, stops
from torpor import Agent, Approvals, RapServer, Refused, Runtime, Settled, ToolContext, tool
from torpor.core import consent
from torpor.core.codec import decode_effect, encode
from torpor.core.effects import Choose, Invoke
from torpor.core.messages import OpenWait, Reported, Result, Text, Turn, text_of
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Script
from torpor.public import Thread
from torpor.runtime.questions import Question, Value, value_of
from torpor.stores.memory import MemoryStore
from torpor.stores.sqlite import SqliteStore
from torpor.testing.clock import START, FakeClock
from torpor.tools.functions import FunctionTool
from torpor.tools.schema import fits
from torpor.wiring import Parts

SOON = 10.0


# ---------------------------------------------------- played on a fake clock


@dataclass
class Scene:
    """A script, what comes from outside, and an agent whose function ``pay`` needs approval."""

    script: Callable[[], Script]
    inputs: Callable[[], Sequence[Input]] = list
    answers: dict[str, str] = field(default_factory=dict)
    approvals: Approvals = field(default_factory=Approvals)
    words: str = "Pay."
    """What ``pay`` says it does."""
    about: Callable[[World], object] = lambda world: None

    def agents(self, effects: Effects) -> Callable[[], list[Agent]]:
        def made() -> list[Agent]:
            @tool(repeat="keyed", needs_approval=True, description=self.words)
            async def pay(amount: int, context: ToolContext) -> str:
                return effects.pay(amount, context)

            model = ScriptedModel(self.script())
            return [Agent("worker", model=model, tools=[pay, RapServer(SERVER)], approvals=self.approvals)]

        return made


def answers(value: Value, number: int = 0, comment: str = "") -> Callable[[World], Awaitable[object]]:
    """Answer the wait that was opened as the so-manieth of those open."""

    async def act(world: World) -> None:
        asked = await world.outside.threads.waits("t")
        await world.outside.threads.answer(asked[number].id, value, comment=comment)

    return act


def asks(name: str, **fields: Any) -> Callable[[World], Awaitable[object]]:
    """A tool server asks a person for its call of this name; twice, as happens."""

    async def act(world: World) -> None:
        id, token = world.tools.tokens[name]
        body = json.dumps({"group_id": "t", "id": id, **fields}).encode()
        for _ in range(2):
            outcome = await world.outside.callbacks.receive(token, body)
            assert outcome.status == 200, outcome
            assert outcome.ring
            await world.outside.queue.ring([outcome.ring])

    return act


CHOICE = {
    "type": "user_choice", "prompt": "Which?", "choices": ["red", "green"], "default": 1,
    "response_url": f"{SERVER}/choices",
}  # fmt: skip
OAUTH = {"type": "oauth", "auth_url": "https://login.test/x"}


def paying(amount: int = 10) -> Script:
    """Who is asked again before the result is there would pay another amount."""

    def reply(request: Any) -> Any:
        return say(f"It says: {request.results[0].text}") if request.results else call("pay", amount=amount)

    return [reply, lambda request: reply(request) if request.results else call("pay", amount=9999)]


SCENES = {
    "approve": Scene(paying, lambda: [Input(after(note="Requested"), answers("approve"))]),
    "deny": Scene(paying, lambda: [Input(after(note="Requested"), answers(False, comment="No."))]),
    "expire": Scene(paying, approvals=Approvals(seconds=86_400.0)),
    "beside": Scene(
        lambda: [call("pay", amount=10), say("Not yet."), say("Paid now.")],
        lambda: [
            Input(after(note="Requested"), says("Well?")),
            Input(after(2), answers(True)),
        ],
    ),
    "choice": Scene(
        lambda: [call("build", what="x"), say("Built.")],
        lambda: [
            Input(after(1, invoked="build"), asks("build", **CHOICE)),
            Input(after(note="Requested"), answers("green")),
            Input(lambda world: bool(world.tools.choices), finishes("build", "in green")),
        ],
    ),
    "authorization": Scene(
        lambda: [call("build", what="x"), say("Built.")],
        lambda: [
            Input(after(1, invoked="build"), asks("build", **OAUTH)),
            Input(after(note="Requested"), answers("done")),
            Input(after(note="Answered"), finishes("build", "as you")),
        ],
    ),
    "stop": Scene(
        lambda: [call("build", what="x"), say("Hello.")],
        lambda: [
            Input(after(1, invoked="build"), asks("build", **CHOICE)),
            Input(after(note="Requested"), stops),
            Input(after(note="Stopped"), says("Hello?")),
        ],
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_every_death_ends_in_the_undisturbed_history(name: str) -> None:
    """APR-10: also between the approval and the call; what runs is what was approved."""

    async def every_death() -> None:
        world, effects = await play(SCENES[name], memory, [counted := Fate()])  # type: ignore[arg-type]
        expected = story(world.messages)
        for at in range(counted.count):
            for after_it in (False, True) if name in ("approve", "choice") else (False,):
                fate = Fate(at, after=after_it)
                world, effects = await play(SCENES[name], memory, [fate])  # type: ignore[arg-type]
                assert story(world.messages) == expected, f"died {fate.where} (action {at})"
                assert set(effects.runs) <= {"pay 10"}

    asyncio.run(every_death())


@asynccontextmanager
async def played(name: str, backends: Backends) -> AsyncIterator[tuple[World, Effects]]:
    """A scene to its end; all that must hold then is looked at."""
    scene, clock, effects = SCENES[name], FakeClock(), Effects()
    world = World(backends(clock), clock, scene.agents(effects), inputs=scene.inputs())
    async with world.outside:
        await world.live(None, begin)
        await check(world, effects)
        yield world, effects
    await world.store.close()


BACKENDS = pytest.mark.parametrize("kind", ["memory", "sqlite"])


def backends_of(kind: str, folder: Path) -> Backends:
    return memory if kind == "memory" else sqlite(folder / "t.db")


def results(world: World) -> list[tuple[str, str]]:
    return [(one.cause, text_of(one.parts)) for one in world.messages if isinstance(one, Result)]


@BACKENDS
async def test_apr_08_nobody_answers_for_a_day(kind: str, tmp_path: Path) -> None:
    async with played("expire", backends_of(kind, tmp_path)) as (world, effects):
        [(cause, text)] = results(world)
        assert cause == "expired"
        assert text.endswith("No person has denied it.")
        assert effects.runs == []
        assert world.clock.now() - START >= 86_400.0
        settled = [one for record in await world.store.records("t") for one in record.settled]
        told = [(one.kind, one.outcome, round(one.settled_at - one.opened_at)) for one in settled]
        assert told == [("approval", "expired", 86_400), ("call", "expired", 86_400)]


@BACKENDS
async def test_the_notice_goes_before_the_default_choice(kind: str, tmp_path: Path) -> None:
    async with played("stop", backends_of(kind, tmp_path)) as (world, _):
        [told] = world.tools.choices
        assert told[1] == 1
        assert world.tools.cancelled == [told[0]]
        kinds = [type(effect).__name__ for effect in world.decided]
        assert kinds.index("Cancel") < kinds.index("Choose")
        assert isinstance(world.messages[-1], Turn)


# ------------------------------------------------- what runs is what was approved


def alter(world: World, change: Callable[[Invoke], Invoke]) -> None:
    """Somebody writes into the store's outbox."""
    if isinstance(world.backends[0], MemoryStore):
        for waiting in world.backends[0]._threads["t"].outbox.values():
            if isinstance(waiting.effect, Invoke):
                waiting.effect = change(waiting.effect)
        return
    store = world.backends[0]
    assert isinstance(store, SqliteStore)
    with closing(sqlite3.connect(store.database.path)) as connection, connection:
        for number, body in connection.execute("SELECT number, body FROM outbox").fetchall():
            effect = decode_effect(body)
            assert isinstance(effect, Invoke)
            changed = (encode(change(effect)), number)
            connection.execute("UPDATE outbox SET body = ? WHERE number = ?", changed)


def other_arguments(effect: Invoke) -> Invoke:
    return msgspec.structs.replace(effect, arguments='{"amount": 9999}')


def as_if_approved(effect: Invoke) -> Invoke:
    """Arguments and their digest are altered together."""
    spec = [
        one.spec for one in SCENES["approve"].agents(Effects())()[0].tools if isinstance(one, FunctionTool)
    ]
    digest = consent.digest(Approvals(), spec[0], '{"amount": 9999}')
    return msgspec.structs.replace(effect, arguments='{"amount": 9999}', digest=digest)


def as_if_nobody_asked(effect: Invoke) -> Invoke:
    return msgspec.structs.replace(effect, digest="")


@asynccontextmanager
async def dead_before_the_call(
    kind: str, folder: Path, **fields: Any
) -> AsyncIterator[tuple[World, Scene, Effects]]:
    """A world whose process has died between the commit that decided the call and the call."""
    for at in range(7, 100):
        scene, clock, effects = replace(SCENES["approve"], **fields), FakeClock(), Effects()
        (folder / str(at)).mkdir()
        backends = backends_of(kind, folder / str(at))(clock)
        world = World(backends, clock, scene.agents(effects), inputs=scene.inputs())
        async with world.outside:
            await world.live(Fate(at), begin)
            if any(isinstance(effect, Invoke) for effect in world.decided):
                assert effects.runs == []
                yield world, scene, effects
                await world.store.close()
                return
        await world.store.close()
    raise AssertionError("no call was decided")


@BACKENDS
@pytest.mark.parametrize("change", [other_arguments, as_if_approved, as_if_nobody_asked])
async def test_an_altered_row_is_not_run(
    kind: str, change: Callable[[Invoke], Invoke], tmp_path: Path
) -> None:
    async with dead_before_the_call(kind, tmp_path) as (world, _, effects):
        alter(world, change)
        await world.live()
        assert effects.runs == []
        assert [cause for cause, _ in results(world)] == ["stale"]
        assert "It says: Error: pay was not run, because" in words(world)


@BACKENDS
async def test_a_tool_that_was_deployed_anew_meanwhile_is_not_run(kind: str, tmp_path: Path) -> None:
    async with dead_before_the_call(kind, tmp_path) as (world, scene, effects):
        scene.words = "Pay, and tell everybody."
        await world.live()
        assert effects.runs == []
        assert [cause for cause, _ in results(world)] == ["stale"]


async def test_what_is_not_altered_is_run(tmp_path: Path) -> None:
    """The same without an alteration, so that those above can fail."""
    async with dead_before_the_call("sqlite", tmp_path) as (world, _, effects):
        alter(world, lambda effect: effect)
        await world.live()
        assert effects.runs == ["pay 10"]
        assert results(world) == [("", "paid 10")]


@BACKENDS
async def test_a_stricter_policy_holds_for_what_waits_to_run(kind: str, tmp_path: Path) -> None:
    lax = {"approvals": Approvals("never"), "inputs": list}
    async with dead_before_the_call(kind, tmp_path, **lax) as (world, scene, effects):
        scene.approvals = Approvals()
        await world.live()
        assert effects.runs == []
        assert [cause for cause, _ in results(world)] == ["stale"]
        assert "the tool needs a person's approval by now" in words(world)


def words(world: World) -> str:
    return "\n".join(text_of(one.parts) for one in world.messages if isinstance(one, Turn))


# ------------------------------------------------------- asked and answered


@tool(needs_approval=True)
async def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    return f"paid {amount} for {context.context.get('user', 'nobody')}"


@asynccontextmanager
async def running(script: Script, store: str = "memory:", **agent: Any) -> AsyncIterator[Runtime]:
    agents = [Agent("worker", model=ScriptedModel(script), tools=[pay], **agent)]
    async with Runtime(store, agents=agents, listen=None, workers=2) as runtime:
        yield runtime


def store_of(kind: str, folder: Path) -> str:
    return "memory:" if kind == "memory" else f"sqlite:///{folder / 'threads.db'}"


async def asked(thread: Thread, number: int = 1) -> list[Question]:
    """What people are asked, once it is so much."""
    async with asyncio.timeout(SOON):
        while len(found := await thread.waits()) < number:
            await asyncio.sleep(0.01)
    return found


def last(request: Any) -> Any:
    return say(" | ".join(result.text for result in request.results) or request.text)


@BACKENDS
async def test_apr_01_apr_02_several_at_once_in_another_order(kind: str, tmp_path: Path) -> None:
    """Ids are the same after a restart; each answer goes to its call; the model is asked once more."""
    script: Script = [[call("pay", amount=amount) for amount in (1, 2, 3)], last]
    store = store_of("sqlite", tmp_path)
    async with running(script, store) as runtime:
        thread = await runtime.start("worker", "Pay all.")
        before = await asked(thread, 3)
        assert await thread.answer(before[2].id, True) == Settled(before[2].id, "received")
    async with running(script, store) as runtime:
        thread = runtime.thread(thread.id)
        ids = [one.id for one in before]
        assert [one.id for one in await thread.waits()] in (ids, ids[:2])
        await thread.answer(ids[1], "deny", comment="Not this one.", by="ada")
        await thread.answer(ids[0], True)
        reply = await thread.reply(SOON)
        assert reply.text == (
            "paid 1 for nobody | Error: pay was not run: ada denied it. What they say: Not this one. | "
            "paid 3 for nobody"
        )
        assert await thread.waits() == []
        assert sum(isinstance(one, Turn) for one in await thread.history()) == 2


@BACKENDS
async def test_a_question_says_all_that_is_needed(kind: str, tmp_path: Path) -> None:
    script: Script = [call("pay", amount=1), last]
    async with running(script, store_of(kind, tmp_path), approvals=Approvals(seconds=500.0)) as runtime:
        thread = await runtime.start("worker", "Pay.")
        [question] = await asked(thread)
        assert question.id == f"{thread.id}.{question.call}.approval"
        assert (question.thread, question.kind, question.name) == (thread.id, "approval", "pay")
        assert (question.arguments, question.default) == ('{"amount": 1}', "deny")
        assert question.until == question.since + 500.0
        assert question.answers == ("approve", "deny")
        told = await thread.explain()
        assert [(wait.kind, wait.id) for wait in told.waits] == [
            ("call", question.call), ("approval", question.id)
        ]  # fmt: skip
        assert told.waits[1].until == question.until
        assert "not begun: no person has approved it yet" in told.text
        assert "a person's approval for pay" in told.text
        assert 'its arguments are {"amount": 1}' in told.text


@BACKENDS
async def test_apr_05_the_first_answer_counts(kind: str, tmp_path: Path) -> None:
    script: Script = [call("pay", amount=1), last]
    async with running(script, store_of(kind, tmp_path)) as runtime:
        thread = await runtime.start("worker", "Pay.")
        [question] = await asked(thread)
        given = await asyncio.gather(*(thread.answer(question.id, value) for value in (True, True, False)))
        assert given[0].taken
        assert (await thread.reply(SOON)).text == "paid 1 for nobody"
        for value in (True, False):
            assert await thread.answer(question.id, value) == Settled(question.id, "approved")
        assert sum(isinstance(one, Turn) for one in await thread.history()) == 2


async def test_answers_that_no_slice_has_read_yet() -> None:
    agents = [Agent("worker", model=ScriptedModel([call("pay", amount=1), last]), tools=[pay])]
    clock = FakeClock()
    async with Parts("memory:", agents, clock=clock) as parts:
        begun = await parts.threads.start("worker", (Text("Pay."),))
        worker = parts.worker(1)
        await worker.run_once()
        [question] = await parts.threads.waits(begun.row.thread)
        given = [await parts.threads.answer(question.id, value) for value in (False, "deny", True)]
        assert [one.outcome for one in given] == ["received", "received", "answered"]
        assert (await parts.threads.answer(question.id, False, comment="Why?")).outcome == "answered"
        while await worker.run_once():
            pass
        assert (await parts.threads.answer(question.id, True)).outcome == "denied"


@BACKENDS
async def test_answers_to_what_never_was_or_is_over(kind: str, tmp_path: Path) -> None:
    script: Script = [call("pay", amount=1), say("Hello.")]
    async with running(script, store_of(kind, tmp_path)) as runtime:
        thread = await runtime.start("worker", "Pay.")
        [question] = await asked(thread)
        threads = runtime.parts.threads
        for unknown in ("", "nothing", "no.such.wait", f"{thread.id}.x.approval", "\ud800"):
            assert (await threads.answer(unknown, True)).outcome == "unknown"
        other = await runtime.start("worker")
        assert (await other.answer(question.id, True)).outcome == "unknown"
        await thread.stop()
        async with asyncio.timeout(SOON):
            while await thread.waits():
                await asyncio.sleep(0.01)
        assert (await thread.answer(question.id, True)).outcome == "stopped"
        await thread.send("hello")
        assert (await thread.reply(SOON)).text == "Hello."


@pytest.mark.parametrize("value", ["yes", "dismiss", None, 1, 0, "", 1.0])
async def test_what_is_no_answer_is_refused_with_what_is(value: Any) -> None:
    async with running([call("pay", amount=1), last]) as runtime:
        thread = await runtime.start("worker", "Pay.")
        [question] = await asked(thread)
        with pytest.raises(Refused, match=r"no answer to this approval. Answers: 'approve', 'deny'\."):
            await thread.answer(question.id, value)
        with pytest.raises(Refused, match="at most 2,000 characters"):
            await thread.answer(question.id, True, comment="x" * 2_001)
        assert await thread.waits() == [question]


def wait(kind: str, *choices: str) -> OpenWait:
    return OpenWait("t.c.x", kind, "c", "tool", choices=choices, default="0")


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("choice", "green", "1"), ("choice", 0, "0"), ("choice", "2", "2"), ("choice", "7", "3"),
        ("choice", None, "dismiss"), ("choice", "dismiss", "dismiss"),
        ("approval", True, "approve"), ("approval", False, "deny"),
        ("authorization", True, "done"), ("authorization", "done", "done"),
        ("authorization", None, "dismiss"),
    ],
)  # fmt: skip
def test_answers_are_understood(kind: str, given: Value, value: str) -> None:
    choices = ("red", "green", "blue", "7") if kind == "choice" else ()
    assert value_of(wait(kind, *choices), given, fits) == value


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("choice", "Red"), ("choice", 4), ("choice", -1), ("choice", "4"), ("choice", True),
        ("choice", "twice"), ("choice", "9" * 50), ("choice", ""),
        ("approval", "done"), ("authorization", False), ("authorization", "approve"),
    ],
)  # fmt: skip
def test_answers_that_are_none(kind: str, given: Value) -> None:
    choices = ("red", "twice", "twice", "last") if kind == "choice" else ()
    with pytest.raises(Refused, match="is no answer to this"):
        value_of(wait(kind, *choices), given, fits)


def test_a_choice_may_be_called_dismiss() -> None:
    assert value_of(wait("choice", "keep", "dismiss"), "dismiss", fits) == "1"
    assert value_of(wait("choice", "keep", "dismiss"), None, fits) == "dismiss"


FORM = OpenWait(
    "t.c.form", "form", "c", "tool",
    schema='{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}',
)  # fmt: skip


def test_what_is_filled_in_fits_its_form() -> None:
    assert value_of(FORM, {"age": 7}, fits) == '{"age":7}'
    assert [value_of(FORM, given, fits) for given in ("decline", "dismiss", None)] == [
        "decline", "dismiss", "dismiss",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"age": "7"}, "does not fit the form: .*age"),
        ({}, "does not fit the form: .*age"),
        ({"age": 7, "more": "x" * 20_000}, "may have 16,000 bytes"),
        ({"age": b"\xff"}, "does not fit the form"),
        ({"age": object()}, "no JSON form"),
        ("7", "or an object that fits its schema"),
        (True, "or an object that fits its schema"),
    ],
)
def test_what_does_not_fit_a_form_is_refused(given: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        value_of(FORM, given, fits)


def test_a_form_whose_schema_cannot_be_used_takes_no_object() -> None:
    with pytest.raises(Refused, match="schema"):
        value_of(replace_schema(FORM, '{"type": 3}'), {}, fits)


def replace_schema(wait: OpenWait, schema: str) -> OpenWait:
    return msgspec.structs.replace(wait, schema=schema)


@BACKENDS
async def test_a_choice_and_an_authorization_as_they_are_asked(kind: str, tmp_path: Path) -> None:
    """RT-71, RT-77: where to authorize, prompt and choices; not the address that takes the choice."""
    seen: list[Question] = []

    async def look(world: World) -> None:
        seen[:] = await world.outside.threads.waits("t")
        text = (await world.outside.threads.explain("t")).text
        assert 'asked is: "Which?" (red | green)' in text
        assert "a person's authorization for build" in text
        await finishes("build", "done without")(world)

    async def both(world: World) -> None:
        await asks("build", **CHOICE)(world)
        await asks("build", **OAUTH)(world)

    inputs = [
        Input(after(1, invoked="build"), both),
        Input(lambda world: world.notes.count("Requested") == 2, look),
    ]
    clock = FakeClock()
    world = World(
        backends_of(kind, tmp_path)(clock), clock, SCENES["choice"].agents(Effects()), inputs=inputs
    )
    async with world.outside:
        await world.live(None, begin)
        first, second = seen
        assert (first.prompt, first.choices, first.default) == ("Which?", ("red", "green"), "green")
        assert (first.url, first.answers) == ("", ("red", "green", "dismiss"))
        assert (second.url, second.answers) == ("https://login.test/x", ("done", "dismiss"))
        assert await world.outside.threads.waits("t") == []
        assert (await world.outside.threads.answer(first.id, 0)).outcome == "settled"
        assert not [effect for effect in world.decided if isinstance(effect, Choose)]
    await world.store.close()


@BACKENDS
async def test_apr_14_what_the_thread_was_started_with_reaches_the_tool(kind: str, tmp_path: Path) -> None:
    async with running([call("pay", amount=1), last], store_of(kind, tmp_path)) as runtime:
        thread = await runtime.start("worker", "Pay.", context={"user": 7})
        [question] = await asked(thread)
        await thread.answer(question.id, True)
        assert (await thread.reply(SOON)).text == "paid 1 for 7"


async def test_apr_16_a_child_that_waits_for_approval_outlives_a_restart(tmp_path: Path) -> None:
    played: dict[str, str] = {}
    store = store_of("sqlite", tmp_path)

    def cast() -> Cast:
        return Cast(
            played,
            root=[spawns("as payer: pay 1."), call("sleep_until_event_or_input"), last],
            payer=[call("pay", amount=1), lambda request: reports(request.results[0].text), say("Done.")],
        )

    @asynccontextmanager
    async def process() -> AsyncIterator[Runtime]:
        agents = [Agent("worker", model=cast(), tools=[pay])]
        async with Runtime(store, agents=agents, listen=None, workers=2) as runtime:
            yield runtime

    async with process() as runtime:
        root = await runtime.start("worker", "Have 1 paid.")
        async with asyncio.timeout(SOON):
            while not (children := await root.children()):
                await asyncio.sleep(0.01)
        [question] = await asked(children[0])
    async with process() as runtime:
        child = runtime.thread(children[0].id)
        assert await child.waits() == [question]
        await child.answer(question.id, "approve")
        async with asyncio.timeout(SOON):
            while not (
                reported := [one for one in await root_history(runtime, root.id) if isinstance(one, Reported)]
            ):
                await asyncio.sleep(0.01)
        assert [text_of(one.parts) for one in reported if one.what == "report"] == ["paid 1 for nobody"]


async def root_history(runtime: Runtime, id: str) -> list[Any]:
    return list(await runtime.thread(id).history())


def test_approvals_of_agents() -> None:
    model = ScriptedModel(["x"])
    assert Agent("a", model=model).approvals == Approvals()
    assert Agent("a", model=model, approvals="always").approvals == Approvals("always")
    for wrong, complaint in (
        ("sometimes", "no policy for approvals 'sometimes'"),
        (True, "must be a policy or Approvals"),
        (Approvals(default="maybe"), "no default for approvals 'maybe'"),
        (Approvals(seconds=-1.0), "seconds of approvals must be a finite number"),
        (Approvals(seconds=float("nan")), "seconds of approvals must be a finite number"),
    ):
        with pytest.raises(Refused, match=complaint):
            Agent("a", model=model, approvals=wrong)  # type: ignore[arg-type]
