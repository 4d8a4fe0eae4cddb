"""Long histories: folded, summed up by children, refused for their length. Over both stores."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runtime.test_model_failures import Alone
from tests.runtime.test_threads import SOON, Gate
from tests.runtime.world import Fate, bury
from torpor import Agent, Limits, Runtime, tool
from torpor.clock import SystemClock
from torpor.core.errors import ModelRefused, Refused, Unavailable
from torpor.core.messages import (
    Compacting,
    Folded,
    Noted,
    Parked,
    Said,
    Spawned,
    Summary,
    Text,
    Turn,
    Uncompacted,
)
from torpor.core.request import InjectedItem, InputItem, Request, ResultsItem, SummaryItem, TurnItem
from torpor.models import ScriptedModel, call, fail, used
from torpor.models.scripted import Words
from torpor.public import Thread
from torpor.queues.memory import MemoryQueue
from torpor.runtime.sweep import sweep
from torpor.stores.memory import MemoryStore
from torpor.wiring import Parts

WINDOW = 4_000
LONG = "w" * 2_000
"""About 500 tokens."""


def tokens(request: Request) -> int:
    """How long a request is, as the model of these tests counts."""
    return len(msgspec.json.encode(request.items)) // 4


def sums_up(request: Request) -> bool:
    """Whether it is a compaction child that asks."""
    return "Write a summary" in request.text


class Measured:
    """A model that tells what each request takes of its window, and refuses those over its limit."""

    def __init__(
        self,
        answer: Callable[[Request], Words] = lambda request: "ok",
        summary: Callable[[Request], Words] = lambda request: "A summary.",
        *,
        limit: int = 1_000_000,
        window: int = WINDOW,
    ) -> None:
        self.answer, self.summary, self.limit = answer, summary, limit
        self.refused: list[Request] = []
        self.script = ScriptedModel(self._reply, window=window)

    def _reply(self, request: Request) -> Words:
        size = tokens(request)
        if size > self.limit:
            self.refused.append(request)
            return [fail(ModelRefused("The request is too long.", kind="context"))]
        chosen = self.summary if sums_up(request) else self.answer
        return [chosen(request), used(input=size)]

    @property
    def summaries(self) -> list[Request]:
        """What compaction children have asked."""
        return [request for request in self.script.requests if sums_up(request)]

    @property
    def asked(self) -> list[Request]:
        """What others have asked."""
        return [request for request in self.script.requests if not sums_up(request)]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'torpor.db'}"


@asynccontextmanager
async def running(store: str, model: Measured, **agent: Any) -> AsyncIterator[Runtime]:
    agents = [Agent("worker", model=model.script, **agent)]
    async with Runtime(store, agents=agents, listen=None) as runtime:
        yield runtime


async def talk(thread: Thread, times: int, text: str = LONG) -> None:
    """Say something long and hear the answer, so many times."""
    for _ in range(times):
        await thread.send(text)
        await thread.reply(SOON)


async def until(thread: Thread, reached: Callable[[list[Any]], bool]) -> list[Any]:
    """The history of a thread once it is as wanted; notes as their facts."""
    async with asyncio.timeout(SOON):
        while True:
            messages = [
                entry.message if hasattr(entry, "message") else entry for entry in await thread.history()
            ]
            facts = [message.note if isinstance(message, Noted) else message for message in messages]
            if reached(facts):
                return facts
            await asyncio.sleep(0.005)


def number(kind: type[Any], least: int = 1) -> Callable[[list[Any]], bool]:
    """Whether there are so many of a kind."""
    return lambda facts: sum(isinstance(fact, kind) for fact in facts) >= least


def of(kind: type[Any], facts: list[Any]) -> list[Any]:
    return [fact for fact in facts if isinstance(fact, kind)]


# ----------------------------------------------------------- all goes well


async def test_a_long_thread_goes_on_for_ever(store: str) -> None:
    """E93, E95, E96: three summaries in a row, each covering the one before; nothing loops."""
    model = Measured()
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        for summaries in (1, 2, 3):
            facts = await thread_full(thread, summaries)
        assert max(map(tokens, model.asked)) < WINDOW * 5 / 4
        assert [summary.upto for summary in of(Summary, facts)] == sorted(
            {summary.upto for summary in of(Summary, facts)}
        )
        assert len(model.summaries) == 3
        assert isinstance(model.asked[-1].items[0], SummaryItem)
        assert "sum up" not in (await thread.explain()).text
        listed = await runtime.threads()
        assert [row.thread for row in listed] == [thread.id]  # E98


async def thread_full(thread: Thread, summaries: int) -> list[Any]:
    """Talk until one more summary is there."""
    while True:
        facts = await until(thread, lambda facts: True)
        if len(of(Compacting, facts)) >= summaries:
            return await until(thread, number(Summary, summaries))
        await talk(thread, 1)


async def test_a_compaction_child_asks_with_its_parents_own_prefix(store: str) -> None:
    model = Measured()
    async with running(store, model, instructions="Be brief.") as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        await thread_full(thread, 1)
    [asked] = model.summaries
    before = next(request for request in reversed(model.asked) if len(request.items) < len(asked.items))
    shared = asked.items[:-1]
    assert encoded(shared) == encoded(before.items[: len(shared)])
    assert (asked.instructions, asked.tools, asked.epoch) == (before.instructions, before.tools, before.epoch)


def encoded(items: Sequence[Any]) -> list[bytes]:
    return [msgspec.json.encode(item) for item in items]


async def test_cmp_10_what_came_after_the_cut_is_byte_for_byte_as_it_was(store: str) -> None:
    model = Measured()
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        facts = await thread_full(thread, 1)
        await talk(thread, 1)
        [summary] = of(Summary, facts)
        first, *rest = model.asked[-1].items
        assert isinstance(first, SummaryItem)
        assert first.summary == "A summary."
        before = max(
            (request for request in model.asked if not isinstance(request.items[0], SummaryItem)), key=tokens
        )
        kept = before.items[-len(rest) + 2 :]
        assert encoded(rest[: len(kept)]) == encoded(kept)
        assert summary.upto < len(facts)


async def test_e92_a_pending_call_outlives_the_summary(store: str) -> None:
    """The result of a call that a summary covers comes as news, long after."""
    gate = Gate()

    def answer(request: Request) -> Words:
        return call("wait") if len(request.items) == 1 else "ok"

    model = Measured(answer)
    async with running(store, model, tools=[gate.tool]) as runtime:
        thread = await runtime.start("worker", LONG)
        await asyncio.wait_for(gate.begun.wait(), SOON)
        await thread_full(thread, 1)
        await thread_full(thread, 2)
        asked = len(model.asked)
        gate.open.set()
        await until(thread, lambda facts: len(model.asked) > asked)
        [last] = [item for item in model.asked[-1].items if isinstance(item, InjectedItem)]
        assert (last.name, last.source, last.text) == ("wait", "result", "waited")
    assert "Calls that still run" in model.summaries[1].items[0].text


async def test_parallel_calls_under_way_while_their_turn_is_summed_up(store: str) -> None:
    gate = Gate()

    @tool(repeat="safe")
    def quick(what: str) -> str:
        """Answer at once."""
        return f"{what} is there"

    def answer(request: Request) -> Words:
        if len(request.items) == 1:
            return [call("wait"), call("quick", what="a"), call("quick", what="b")]
        return "ok"

    model = Measured(answer)
    async with running(store, model, tools=[gate.tool, quick]) as runtime:
        thread = await runtime.start("worker", LONG)
        await asyncio.wait_for(gate.begun.wait(), SOON)
        await thread_full(thread, 1)
        gate.open.set()
        await until(thread, lambda facts: any(isinstance(i, InjectedItem) for i in model.asked[-1].items))
        await talk(thread, 1)
    texts = [item.text for item in model.asked[-1].items]
    assert texts.count("waited") == 1
    assert not any("is there" in text for text in texts)


# ------------------------------------------------------------------ families


class Family(Measured):
    """A model whose root makes children when it is told to; children answer what they are told."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self._act, **options)

    def _act(self, request: Request) -> Words:
        words = [item.text for item in request.items if isinstance(item, InputItem)]
        asked = [text for text in words if text.startswith("spawn")]
        made = [one for item in request.items if isinstance(item, TurnItem) for one in item.calls]
        if len(asked) > len(made):
            return call("spawn_thread", instructions=f"You are {asked[-1][-1]}.", child_of=["root"])
        return "ok"


async def spawned(thread: Thread, name: str) -> Thread:
    """A new child of a root."""
    before = {child.id for child in await thread.children()}
    await talk(thread, 1, f"spawn {name}")
    async with asyncio.timeout(SOON):
        while True:
            new = [child for child in await thread.children() if child.id not in before]
            if new and any(isinstance(entry.message, Turn) for entry in await entries(new[0])):
                return new[0]
            await asyncio.sleep(0.005)


async def entries(thread: Thread) -> list[Any]:
    return await thread._threads.history(thread.id)


async def test_cmp_05_e94_a_child_is_summed_up_twice_and_its_parent_left_alone(store: str) -> None:
    model = Family()
    async with running(store, model) as runtime:
        root = await runtime.start("worker", "hello")
        await root.reply(SOON)
        await talk(root, 2)
        sibling = await spawned(root, "s")
        child = await spawned(root, "c")
        before = await until(root, number(Spawned, 2))
        await thread_full(child, 1)
        await thread_full(child, 2)
        await talk(child, 1, "what is left?")
        shown = next(request for request in reversed(model.asked) if request.text == "what is left?")
        assert isinstance(shown.items[0], SummaryItem)
        assert sum(isinstance(item, SummaryItem) for item in shown.items) == 1
        assert not of(Summary, await until(root, lambda facts: True))
        assert of(Said, before) == of(Said, await until(root, lambda facts: True))
        await talk(sibling, 1, "and you?")
        old = next(request for request in reversed(model.asked) if request.text == "and you?")
        assert isinstance(old.items[0], InputItem)
        assert old.items[0].text == "hello"
        await talk(root, 1, "and the root?")
        mine = next(request for request in reversed(model.asked) if request.text == "and the root?")
        assert mine.items[0].text == "hello"


async def test_e105_e106_children_keep_the_lineage_they_were_born_with(store: str) -> None:
    """The parent is summed up after a birth: the child sees what it saw; a later one sees the summary."""
    model = Family()
    async with running(store, model) as runtime:
        root = await runtime.start("worker", "hello")
        await root.reply(SOON)
        old = await spawned(root, "o")
        await thread_full(root, 1)
        new = await spawned(root, "n")
        for child, first in ((old, InputItem), (new, SummaryItem)):
            await talk(child, 1, f"you {child.id}")
            shown = next(request for request in reversed(model.asked) if request.text == f"you {child.id}")
            assert isinstance(shown.items[0], first)
            assert sum(isinstance(item, SummaryItem) for item in shown.items) == (first is SummaryItem)
        await thread_full(old, 1)
        await talk(old, 1, "again")
        shown = next(request for request in reversed(model.asked) if request.text == "again")
        assert sum(isinstance(item, SummaryItem) for item in shown.items) == 1


async def test_e104_the_summary_of_a_root_names_its_children(store: str) -> None:
    model = Family()
    async with running(store, model) as runtime:
        root = await runtime.start("worker", "hello")
        await root.reply(SOON)
        child = await spawned(root, "c")
        facts = await thread_full(root, 1)
        assert (
            f"- {child.id} (open)" in of(Summary, facts)[0].facts or child.id in of(Summary, facts)[0].facts
        )


async def test_e107_a_compaction_child_that_calls_tools_is_refused_and_goes_on(store: str) -> None:
    @tool
    def write(what: str) -> str:
        """Write something."""
        raise AssertionError("never called")

    def answer(request: Request) -> Words:
        if any(
            isinstance(item, ResultsItem) and "only writes a summary" in item.text for item in request.items
        ):
            return "A summary after all."
        return "ok"

    model = Measured(answer, lambda request: call("write", what="x"))
    async with running(store, model, tools=[write]) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        facts = await thread_full(thread, 1)
        assert of(Summary, facts)[0].text == "A summary after all."


async def test_a_compaction_child_may_close_itself_with_its_summary(store: str) -> None:
    def summary(request: Request) -> Words:
        text = request.text
        id = text.partition("temporary thread ")[2].partition(" ")[0]
        return call("close_thread", thread_id=id, report_to_parent="In so many words.")

    model = Measured(summary=summary)
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        facts = await thread_full(thread, 1)
        assert of(Summary, facts)[0].text == "In so many words."


# --------------------------------------------------------------- it goes wrong


async def test_cmp_11_e101_empty_summaries_stop_it_after_two_and_the_thread_is_usable(store: str) -> None:
    model = Measured(summary=lambda request: "")
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        while not number(Uncompacted, 2)(await until(thread, lambda facts: True)):
            await talk(thread, 1)
        await talk(thread, 3)
        facts = await until(thread, number(Uncompacted, 3))
        assert len(of(Compacting, facts)) == 2
        assert len(model.summaries) == 2
        assert not of(Summary, facts)
        told = (await thread.explain()).text
        assert "Its history is not summed up by itself any more: It wrote nothing." in told


async def test_a_child_that_is_parked_is_a_failure_and_the_thread_is_usable(store: str) -> None:
    refused = fail(ModelRefused("A filter.", kind="content"))
    model = Measured(summary=lambda request: refused)
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        while not number(Compacting)(await until(thread, lambda facts: True)):
            await talk(thread, 1)
        facts = await until(thread, number(Uncompacted))
        assert "A filter." in of(Uncompacted, facts)[0].reason
        assert "The last try to sum up its history brought nothing" in (await thread.explain()).text
        await talk(thread, 1)


class Hours(Alone):
    """A world whose clock is moved by hand, with a model whose compaction children never come to an end."""

    def __init__(self) -> None:
        super().__init__([])
        away = fail(Unavailable("away"))
        model = Measured(summary=lambda request: away)
        self.agents = lambda: [
            Agent("worker", model=model.script, window=WINDOW, limits=Limits(tries=10_000))
        ]
        self.outside = self.parts(Fate())

    async def slices(self, number: int = 1) -> None:
        """So many processes, each of which does all that may be done now."""
        for _ in range(number):
            async with self.parts(Fate()) as parts:
                await sweep(parts.store, parts.queue)
                await run(parts)
                await bury(parts)

    def facts(self, kind: type[Any]) -> list[Any]:
        return [noted.note for noted in self.all(Noted) if isinstance(noted.note, kind)]


async def test_e102_a_child_that_never_comes_to_an_end_is_given_up_after_an_hour() -> None:
    """Its model is away for good. The parent goes on meanwhile, and after that as well."""
    world = Hours()
    await world.begin()
    await world.slices()
    while not world.facts(Compacting):
        await world.outside.threads.say("t", [Text(LONG)])
        await world.slices()
    [begun] = world.facts(Compacting)
    waits = (await world.outside.threads.explain("t")).waits
    assert [(wait.kind, wait.blocks) for wait in waits] == [("summary", False)]
    for _ in range(11):
        world.clock.advance(300)
        await world.slices()
    assert world.facts(Uncompacted) == []
    world.clock.advance(310)
    await world.slices(2)
    failed = Uncompacted(begun.child, "It was not done within 3600 seconds.")
    assert world.facts(Uncompacted) == [failed]
    assert (await world.outside.threads.row(begun.child)).state == "closed"
    turns = len(world.all(Turn))
    await world.outside.threads.say("t", [Text("Still there?")])
    await world.slices()
    assert len(world.all(Turn)) == turns + 1


def spoil(world: Hours, thread: str) -> None:
    """A thread's row becomes one that cannot be read."""
    rows = world.backends[0]._threads[thread]  # type: ignore[attr-defined]
    rows.row = msgspec.structs.replace(rows.row, head=b"\xc1")


async def test_a_child_that_cannot_be_read_is_a_failure_at_once() -> None:
    world = Hours()
    await world.begin()
    while not world.facts(Compacting):
        await world.outside.threads.say("t", [Text(LONG)])
        await world.slices()
    [begun] = world.facts(Compacting)
    await world.slices()
    spoil(world, begun.child)
    world.clock.advance(300)
    await world.slices(2)
    [failed] = world.facts(Uncompacted)
    assert failed.child == begun.child
    assert "cannot be read" in failed.reason


# -------------------------------------------------------- refused for length


async def test_a_refused_request_waits_for_a_summary_and_is_answered(store: str) -> None:
    """The window is not known: the provider's refusal is the first word of it."""
    model = Measured(limit=2_500, window=0)
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        await talk(thread, 12)
        facts = await until(thread, lambda facts: True)
        begun = of(Compacting, facts)
        assert begun
        assert all(one.blocking for one in begun)
        assert not of(Parked, facts)
        assert len(of(Turn, facts)) == 13
        assert max(map(tokens, model.summaries)) <= 2_500


async def test_long_results_are_folded_before_anything_is_summed_up(store: str) -> None:
    @tool(repeat="safe")
    def read(what: str) -> str:
        """Read something long."""
        return f"beginning of {what} " + "x" * 8_000

    def answer(request: Request) -> Words:
        last = request.items[-1]
        return call("read", what=last.text) if isinstance(last, InputItem) and "read" in last.text else "ok"

    model = Measured(answer)
    async with running(store, model, tools=[read]) as runtime:
        thread = await runtime.start("worker", "hello")
        await thread.reply(SOON)
        await talk(thread, 2, "read")
        await talk(thread, 1, "go on")
        facts = await until(thread, number(Turn, 6))
        assert len(of(Folded, facts)) == 1
        assert not of(Compacting, facts)
        results = [item for item in model.asked[-1].items if isinstance(item, ResultsItem)]
        assert "beginning of" in results[0].text
        assert f'Call read_result with handle "{thread.id}.' in results[0].text
        assert len(results[0].text) < 1_500


async def test_a_result_that_does_not_fit_is_a_beginning_and_a_handle(store: str) -> None:
    """No turn has seen it, and the model reads what it wants of it."""

    @tool(repeat="safe")
    def read() -> str:
        """Read something too long."""
        return "the beginning " + "x" * 9_000 + " the end"

    def answer(request: Request) -> Words:
        last = request.items[-1]
        if isinstance(last, InputItem):
            return call("read")
        _, found, rest = last.text.partition('handle "')
        return call("read_result", handle=rest.partition('"')[0], start=9_000, length=100) if found else "ok"

    model = Measured(answer, limit=2_000, window=0)
    async with running(store, model, tools=[read]) as runtime:
        thread = await runtime.start("worker", "hello")
        assert (await thread.reply(SOON)).text == "ok"
        facts = await until(thread, number(Turn, 3))
        assert len(of(Folded, facts)) == 1
        first, second = [item for item in model.asked[-1].items if isinstance(item, ResultsItem)]
        assert first.text.startswith("the beginning x")
        assert " the end" in second.text
        assert len(model.refused) == 1


async def test_what_nothing_helps_parks_the_thread_and_says_which_part_is_too_big(store: str) -> None:
    """The last input is to blame: it is set aside, and the thread goes on without it."""
    model = Measured(limit=1_500, window=0)
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", "hello")
        await thread.reply(SOON)
        await thread.send("w" * 20_000)
        with pytest.raises(Refused, match=r"What came last takes about 50\d\d tokens"):
            await thread.reply(SOON)
        [parked] = of(Parked, await until(thread, number(Parked)))
        assert (parked.kind, parked.aside) == ("context", True)
        await talk(thread, 1, "still there?")


async def test_cmp_08_instructions_that_fill_the_window(store: str) -> None:
    model = Measured(limit=10)
    async with running(store, model, instructions="i" * 20_000) as runtime:
        thread = await runtime.start("worker", "hello")
        with pytest.raises(Refused, match="instructions and tools alone take about"):
            await thread.reply(SOON)
        [parked] = of(Parked, await until(thread, number(Parked)))
        assert not parked.aside
        assert not model.summaries


async def test_two_summaries_without_gain_and_the_thread_says_so(store: str) -> None:
    """Summaries as long as what they stand for: at most two, then a person is told."""
    model = Measured(summary=lambda request: "s" * 6_000, limit=2_500, window=0)
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", LONG)
        await thread.reply(SOON)
        with pytest.raises(Refused, match="Nothing can be left out of the request"):
            await talk(thread, 12)
        assert 1 <= len(model.summaries) <= 3


# -------------------------------------------------------------- by hand, entry


async def test_e100_a_person_has_it_summed_up_once_at_a_time(store: str) -> None:
    model = Measured(window=0)
    async with running(store, model) as runtime:
        thread = await runtime.start("worker", "hello")
        await thread.reply(SOON)
        await asyncio.gather(*(thread.compact() for _ in range(3)))
        facts = await until(thread, number(Summary))
        assert len(of(Compacting, facts)) == len(of(Summary, facts)) == len(model.summaries) == 1
        await talk(thread, 1, "go on")
        assert isinstance(model.asked[-1].items[0], SummaryItem)
        await thread.close()
        await until(thread, lambda facts: type(facts[-1]).__name__ == "Closed")
        with pytest.raises(Refused, match="closed"):
            await thread.compact()


async def test_words_that_cannot_fit_are_refused_to_their_sender(store: str) -> None:
    model = Measured()
    async with running(store, model) as runtime:
        with pytest.raises(Refused, match="8004 characters, about 2001 tokens: more than half of the 4000"):
            await runtime.start("worker", "w" * 8_004)
        thread = await runtime.start("worker", "w" * 8_000)
        await thread.reply(SOON)
        with pytest.raises(Refused, match="more than half"):
            await thread.send("w" * 9_000)
        assert len(await thread.history()) == 3


# ------------------------------------------------------------------ large trees


class Counting:
    """A store that counts whose rows and messages are read."""

    def __init__(self, store: object) -> None:
        self._store = store
        self.read_of: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in ("load", "read", "row", "inbox", "outbox"):
            return verb

        def counted(thread: str, *given: Any, **named: Any) -> Any:
            self.read_of.add(thread)
            return verb(thread, *given, **named)

        return counted


@pytest.mark.parametrize("many", [60, 999])
async def test_a_tree_is_not_loaded_to_sum_up_its_root(many: int) -> None:
    def answer(request: Request) -> Words:
        if len(request.items) > 1:
            return "ok"
        return [call("spawn_thread", instructions=f"{i}", child_of=["root"]) for i in range(many)]

    model = Measured(answer, window=0)
    clock = SystemClock()
    store = Counting(MemoryStore(clock))
    agents = [Agent("worker", model=model.script, limits=Limits(children=many, completions=2_000))]
    async with Parts("memory:", agents, clock=clock, backends=(store, MemoryQueue(clock))) as parts:
        await parts.threads.start("worker", [Text("Make many.")], thread="t")
        await run(parts)
        rows = await parts.threads.tree("t")
        assert len(rows) == many + 1
        assert all(row.state == "open" and not row.owes for row in rows)
        store.read_of.clear()
        parts.kit.hot.clear()
        await parts.threads.compact("t")
        await run(parts)
        [begun] = [found for found in await facts_of(parts, "t") if isinstance(found, Compacting)]
        [summary] = [found for found in await facts_of(parts, "t") if isinstance(found, Summary)]
        assert store.read_of == {"t", begun.child}
        assert summary.facts.endswith(f"- and {many - 50} more")


async def run(parts: Parts) -> None:
    """Run slices until nothing is left to do."""
    worker = parts.worker(1)
    while await worker.run_once() or parts.dispatcher.busy:
        await asyncio.sleep(0)


async def facts_of(parts: Parts, thread: str) -> list[Any]:
    messages = [entry.message for entry in await parts.threads.history(thread)]
    return [message.note if isinstance(message, Noted) else message for message in messages]
