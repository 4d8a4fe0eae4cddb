"""Threads and their children as they live: spawned, told, reporting, stopped and closed, on every store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.cast import Cast, closes, reports, shown, spawns, spawns_here, tells
from tests.web.places import store_of, until
from torpor import Agent, Limits, Refused, Runtime, Thread, tool
from torpor.core.effects import Cancel, Post, Spawn
from torpor.core.messages import Message, Noted, Reported, Result, Turn, text_of
from torpor.core.request import Request
from torpor.models import call, say
from torpor.models.scripted import stall

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])
SOON = 10.0


class Family:
    """A running tree, its model, and looks at its threads."""

    def __init__(self, runtime: Runtime, cast: Cast, root: Thread) -> None:
        self.runtime = runtime
        self.cast = cast
        self.root = root

    def thread(self, part: str) -> Thread:
        return self.root if part == "root" else self.runtime.thread(self.cast.thread(part))

    async def state(self, part: str) -> str:
        return (await self.thread(part).row()).state if part in self.cast.played.values() else ""

    async def words(self, part: str = "root") -> list[tuple[str, str]]:
        """What other threads have said to one, as it has recorded it."""
        return [
            (message.what, text_of(message.parts))
            for message in await self.thread(part).history()
            if isinstance(message, Reported)
        ]

    async def turns(self, part: str = "root") -> list[str]:
        return [text_of(one.parts) for one in await self.thread(part).history() if isinstance(one, Turn)]

    async def results(self, part: str = "root") -> list[str]:
        return [text_of(one.parts) for one in await self.thread(part).history() if isinstance(one, Result)]

    async def notes(self, part: str = "root") -> list[str]:
        history = await self.thread(part).history()
        return [type(one.note).__name__ for one in history if isinstance(one, Noted)]

    async def has(self, part: str, find: Callable[[Message], object]) -> None:
        """Wait until a thread's history has a message."""

        async def found() -> bool:
            if part != "root" and part not in self.cast.played.values():
                return False
            return any(find(message) for message in await self.thread(part).history())

        await until(found)

    async def said(self, part: str, text: str) -> None:
        """Wait until a thread's model has said something."""
        await self.has(part, lambda one: isinstance(one, Turn) and text_of(one.parts) == text)

    async def told(self, part: str, what: str) -> None:
        await self.has(part, lambda one: isinstance(one, Reported) and one.what == what)

    async def is_state(self, part: str, state: str) -> None:
        async def reached() -> bool:
            return await self.state(part) == state

        await until(reached)

    async def quiet(self) -> None:
        """Wait until nothing is to be done in any thread."""
        store = self.runtime.parts.store

        async def nothing() -> bool:
            rows = await store.threads(limit=1_000) + await store.threads(purpose="compaction")
            return not any([row.owes or await self._has_work(row.thread) for row in rows])

        await until(nothing)

    async def _has_work(self, thread: str) -> bool:
        store = self.runtime.parts.store
        posts = [one for one in await store.outbox(thread) if isinstance(one.effect, Post | Spawn | Cancel)]
        return bool(posts) or any(not signal.due for signal in await store.inbox(thread))


@asynccontextmanager
async def family(
    store: str, tools: Any = (), *, played: dict[str, str] | None = None, workers: int = 4,
    agent: dict[str, Any] | None = None, thread: str = "", **parts: Any,
) -> AsyncIterator[Family]:  # fmt: skip
    cast = Cast(played, **parts)
    agents = [Agent("worker", model=cast, tools=tools, **(agent or {}))]
    async with Runtime(store, agents=agents, listen=None, workers=workers) as runtime:
        root = runtime.thread(thread) if thread else await runtime.start("worker", "go")
        yield Family(runtime, cast, root)


class Gate:
    """A function that waits until it is let go; ``calls`` counts how often it has begun."""

    def __init__(self) -> None:
        self.calls = 0
        self.open = asyncio.Event()

    @property
    def tool(self) -> Any:
        @tool(repeat="safe")
        async def wait() -> str:
            """Wait."""
            self.calls += 1
            await self.open.wait()
            return "waited"

        return wait


@STORES
async def test_a_child_is_made_told_reports_and_closes(kind: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "root": [
            spawns("as kid: count"),
            say("Counting."),
            tells("and once more"),
            say("Again."),
            say("It is 2."),
        ],
        "kid": [reports("It is 1."), say("Reported."), closes("It is 2.")],
    }
    async with family(store_of(kind, tmp_path), **parts) as tree:
        assert (await tree.root.reply(SOON)).text == "Counting."
        await tree.said("root", "It is 2.")
        assert await tree.words() == [("report", "It is 1."), ("rested", ""), ("closed", "It is 2.")]
        assert await tree.words("kid") == [("born", "as kid: count"), ("told", "and once more")]
        assert await tree.state("kid") == "closed"
        (child,) = await tree.root.children()
        row = await child.row()
        assert (child.id, row.parent, row.root, row.purpose) == (
            tree.cast.thread("kid"), tree.root.id, tree.root.id, "child",
        )  # fmt: skip
        assert row.title == "as kid: count"
        assert await tree.root.explain() is not None
        assert "idle" in (await tree.root.explain()).text
        await tree.quiet()


@STORES
async def test_a_child_is_shown_what_its_parent_was_shown_and_then_its_seed(
    kind: str, tmp_path: Path
) -> None:
    parts: dict[str, Any] = {
        "root": [spawns("as kid: count"), say("Counting."), say("Good.")],
        "kid": [closes("done")],
    }
    async with family(store_of(kind, tmp_path), **parts) as tree:
        await tree.said("root", "Good.")
        first = next(request for part, request in tree.cast.asked if part == "root")
        child = next(request for part, request in tree.cast.asked if part == "kid")
        assert child.items[: len(first.items)] == first.items
        assert (child.tools, child.instructions) == (first.tools, first.instructions)
        seed = child.results[-1]
        assert seed.name == "spawn_thread"
        assert "You are now inside the new thread" in text_of(seed.parts)
        assert "as kid: count" in text_of(seed.parts)


async def test_a_child_with_a_fresh_context_sees_nothing_of_its_parent() -> None:
    parts: dict[str, Any] = {
        "root": [spawns("as kid: count", fresh_context=True), say("x")],
        "kid": [closes("done")],
    }
    async with family("memory:", **parts) as tree:
        await tree.told("root", "closed")
        child = next(request for part, request in tree.cast.asked if part == "kid")
        assert len(child.items) == 1
        assert "go" not in shown(child).split()


@STORES
async def test_sub_01_a_child_that_ends_itself_ends_nobody_else(kind: str, tmp_path: Path) -> None:
    """SUB-01: the parent is told, and its own history is what it was."""
    parts: dict[str, Any] = {
        "root": [spawns("as kid: give up"), say("Waiting."), say("A pity.")],
        "kid": [closes()],
    }
    async with family(store_of(kind, tmp_path), **parts) as tree:
        await tree.said("root", "A pity.")
        assert [what for what, _ in await tree.words()] == ["closed"]
        assert await tree.turns() == ["", "Waiting.", "A pity."]
        assert await tree.state("root") == "open"
        assert await tree.state("kid") == "closed"


@STORES
async def test_sub_02_a_stop_stops_the_whole_subtree(kind: str, tmp_path: Path) -> None:
    """SUB-02: no completion starts in it afterwards, and open calls are cancelled."""
    gate = Gate()
    parts: dict[str, Any] = {
        "root": [[spawns("as one: x"), spawns("as two: y")], say("Two work."), say("never")],
        "one": [spawns_here("as grandchild: z"), [say("thinking"), stall()], say("never")],
        "two": [call("wait"), say("never")],
        "grandchild": [call("wait"), say("never")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], **parts) as tree:

        async def under_way() -> bool:
            return gate.calls == 2 and [part for part, _ in tree.cast.asked].count("one") == 2

        await until(under_way)
        await tree.said("root", "Two work.")
        await tree.root.stop()
        for part in ("root", "one", "two", "grandchild"):
            await tree.is_state(part, "stopped")
        await tree.quiet()
        begun = len(tree.cast.asked)
        gate.open.set()
        await tree.quiet()
        assert len(tree.cast.asked) == begun == 6
        assert await tree.words() == [], "who stops a child needs not be told that it is stopped"
        for part in ("two", "grandchild"):
            assert (await tree.results(part))[-1].startswith("Stopped")
        await tree.root.nudge()
        await tree.said("root", "never")
        assert await tree.state("one") == "stopped", "each is let go on by itself"


@STORES
async def test_a_child_that_a_person_stops_tells_its_parent(kind: str, tmp_path: Path) -> None:
    gate = Gate()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting."), say("It was stopped.")],
        "kid": [call("wait"), say("On again."), say("more")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.said("root", "Waiting.")
        await tree.thread("kid").stop()
        await tree.told("root", "stopped")
        await tree.quiet()
        assert (await tree.turns())[-1] == "Waiting.", "no answer is owed to that"
        assert await tree.state("root") == "open"
        await tree.thread("kid").send("go on")
        await tree.said("kid", "On again.")
        await tree.told("root", "ended")


async def test_sub_04_a_stopped_child_stays_stopped_over_a_restart(tmp_path: Path) -> None:
    """SUB-04: what its call still brings starts nothing."""
    gate, played = Gate(), dict[str, str]()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting.")],
        "kid": [call("wait"), say("never")],
    }
    store = f"sqlite:///{tmp_path / 'threads.db'}"
    async with family(store, [gate.tool], played=played, **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.said("root", "Waiting.")
        await tree.root.stop()
        await tree.is_state("kid", "stopped")
        root = tree.root.id
    async with family(store, [gate.tool], played=played, thread=root, **parts) as tree:
        gate.open.set()
        await tree.quiet()
        await asyncio.sleep(0.05)
        await tree.quiet()
        assert tree.cast.asked == []
        assert [await tree.state(part) for part in ("root", "kid")] == ["stopped", "stopped"]


async def test_a_stop_whose_worker_comes_later_reaches_the_children(tmp_path: Path) -> None:
    """The stop is in the inbox, its words to the children in the outbox: a restart finds both."""
    played = dict[str, str]()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting.")],
        "kid": [call("sleep", seconds=1_000), say("never")],
    }
    store = f"sqlite:///{tmp_path / 'threads.db'}"
    async with family(store, played=played, **parts) as tree:
        await tree.said("root", "Waiting.")
        await tree.has("kid", lambda one: isinstance(one, Turn))
        root = tree.root.id
    async with family(store, played=played, thread=root, workers=0, **parts) as tree:
        await tree.root.stop()
    async with family(store, played=played, thread=root, **parts) as tree:
        await tree.is_state("kid", "stopped")
        assert tree.cast.asked == []


@STORES
async def test_evt_02_forty_reports_at_random_moments_are_forty_reports(kind: str, tmp_path: Path) -> None:
    """EVT-02: also those that come while the parent's model is at work."""

    def root(request: Request) -> Any:
        if not any("has been made" in text_of(result.parts) for result in request.results):
            return say("Noted.")
        return say("All begun.")

    parts: dict[str, Any] = {
        "root": [[spawns(f"as kid: number {number}") for number in range(40)], *[root] * 60],
        "kid": lambda request: closes(shown(request).rsplit("as kid: ", 1)[1].split("\n")[0])(request),
    }
    async with family(store_of(kind, tmp_path), workers=8, **parts) as tree:

        async def all_came() -> bool:
            return len(await tree.words()) == 40

        await until(all_came)
        await tree.quiet()
        words = await tree.words()
        assert sorted(text for _, text in words) == sorted(f"number {number}" for number in range(40))
        seen = shown([request for part, request in tree.cast.asked if part == "root"][-1])
        assert all(f"number {number}\n" in f"{seen}\n" for number in range(40))
        history = await tree.root.history()
        by_sender = {one.thread: text_of(one.parts) for one in history if isinstance(one, Reported)}
        for thread in tree.cast.threads("kid"):  # each id is the writer's
            assert _first_words(await tree.runtime.thread(thread).history()).endswith(by_sender[thread])


def _first_words(history: list[Message]) -> str:
    return next(text_of(one.parts) for one in history if isinstance(one, Reported))


@STORES
async def test_evt_04_a_child_that_closes_with_work_open_cancels_it_and_says_so(
    kind: str, tmp_path: Path
) -> None:
    gate = Gate()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting."), say("I see.")],
        "kid": [call("wait"), closes("I gave up.")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.said("root", "Waiting.")
        await tree.thread("kid").send("leave it")
        await tree.said("root", "I see.")
        (word,) = await tree.words()
        assert word[0] == "closed"
        assert "I gave up." in word[1]
        assert "of wait, cancelled" in word[1]
        gate.open.set()
        await tree.quiet()
        assert await tree.turns() == ["", "Waiting.", "I see."]


@STORES
async def test_evt_05_a_child_that_waits_for_its_own_work_has_not_ended(kind: str, tmp_path: Path) -> None:
    """EVT-05: its end is told once, when nothing of it is open."""
    gate = Gate()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting."), say("It has ended.")],
        "kid": [call("wait"), say("It still runs."), say("It is done.")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.thread("kid").send("how far are you?")
        await tree.said("kid", "It still runs.")
        await tree.quiet()
        assert await tree.words() == []
        assert "word of its child" in (await tree.root.explain()).text
        gate.open.set()
        await tree.said("root", "It has ended.")
        await tree.quiet()
        assert await tree.words() == [("ended", "It is done.")]


@STORES
async def test_e84_a_child_that_closes_closes_its_own_children(kind: str, tmp_path: Path) -> None:
    gate = Gate()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting."), say("I see.")],
        "kid": [spawns_here("as grandchild: y"), say("Begun."), closes("done")],
        "grandchild": [call("wait"), say("never")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.said("kid", "Begun.")
        await tree.thread("kid").send("close")
        await tree.is_state("grandchild", "closed")
        await tree.said("root", "I see.")
        ((what, text),) = await tree.words()
        assert what == "closed"
        assert "child thread" in text
        assert await tree.words("kid") == [("born", "as kid: x")], "who closes a child needs no word of that"
        assert (await tree.results("grandchild"))[-1].startswith("Stopped")
        await tree.quiet()


@STORES
async def test_e84_orphans_are_adopted_where_the_agent_says_so(kind: str, tmp_path: Path) -> None:
    gate = Gate()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting."), say("Kid is done."), say("Grandchild is done.")],
        "kid": [spawns_here("as grandchild: y"), say("Begun."), closes("done")],
        "grandchild": [call("wait"), reports("waited long"), say("Bye.")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], agent={"orphans": "adopt"}, **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.said("kid", "Begun.")
        await tree.thread("kid").send("close")
        await tree.is_state("kid", "closed")
        await tree.told("grandchild", "adopted")
        await tree.told("root", "adopted")
        await tree.said("root", "Kid is done.")
        row = await tree.thread("grandchild").row()
        assert (row.parent, row.root, row.state) == (tree.root.id, tree.root.id, "open")
        assert {child.id for child in await tree.root.children()} == {
            tree.cast.thread("kid"), tree.cast.thread("grandchild"),
        }  # fmt: skip
        gate.open.set()
        await tree.said("root", "Grandchild is done.")
        assert ("report", "waited long") in await tree.words()
        await tree.quiet()


@STORES
async def test_e85_a_report_to_a_closed_parent_comes_back(kind: str, tmp_path: Path) -> None:
    """E85: nobody is told that a report arrived which did not; and nothing goes back and forth for ever."""
    gate = Gate()
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting.")],
        "kid": [spawns_here("as grandchild: y"), say("Begun."), say("never")],
        "grandchild": [call("wait"), reports("late"), say("Bye."), say("never")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.said("kid", "Begun.")
        store = tree.runtime.parts.store
        # The report is under way when the parent closes: its word of the end comes behind it.
        report = tree.cast.thread("grandchild"), tree.cast.thread("kid")
        await tree.thread("kid").close()
        await tree.is_state("kid", "closed")
        await tree.is_state("grandchild", "closed")
        gate.open.set()
        await tree.quiet()
        assert await store.outbox(report[0]) == []
        assert await tree.words("root") == [w for w in await tree.words("root") if w[0] == "closed"]


async def test_a_birth_and_its_end_in_one_breath() -> None:
    """A parent that spawns and is closed at once: no child is left that nobody ends."""
    parts: dict[str, Any] = {
        "root": [[spawns("as kid: x"), say("Bye.")], say("x")],
        "kid": [[say("hm"), stall()], say("never")],
    }
    async with family("memory:", workers=0, **parts) as tree:
        worker = tree.runtime.parts.worker(1)
        await worker.run_once()
        await tree.root.close()

        async def all_closed() -> bool:
            await worker.run_once()
            rows = await tree.runtime.threads()
            return len(rows) == 2 and all(row.state == "closed" for row in rows)

        await until(all_closed)


@STORES
async def test_a_child_that_parks_tells_its_parent(kind: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting."), tells("go on"), say("Asked."), say("Good.")],
        "kid": [*[call("sleep", seconds=0)] * 3, closes("done")],
    }
    agent = {"limits": Limits(completions=3)}
    async with family(store_of(kind, tmp_path), agent=agent, **parts) as tree:
        await tree.said("root", "Good.")
        words = await tree.words()
        assert [what for what, _ in words] == ["parked", "closed"]
        assert "the agent's limit is 3" in words[0][1]


@STORES
async def test_word_to_a_child_that_has_just_closed_comes_back(kind: str, tmp_path: Path) -> None:
    gate, spoken = Gate(), asyncio.Event()

    def late(request: Request) -> Any:
        return [*stall(until=spoken), tells("are you there?")(request)]

    parts: dict[str, Any] = {
        "root": [spawns("as kid: x"), say("Waiting."), late, say("Gone."), say("Gone.")],
        "kid": [call("wait"), closes("done")],
    }
    async with family(store_of(kind, tmp_path), [gate.tool], **parts) as tree:

        async def waits() -> bool:
            return gate.calls == 1

        await until(waits)
        await tree.said("root", "Waiting.")
        await tree.root.send("ask it")

        async def asked() -> bool:
            return [part for part, _ in tree.cast.asked].count("root") == 3

        await until(asked)
        gate.open.set()
        await tree.is_state("kid", "closed")
        spoken.set()
        await tree.told("root", "undelivered")
        await tree.said("root", "Gone.")
        await tree.quiet()
        assert [what for what, _ in await tree.words()] == ["closed", "undelivered"]
        assert "is closed" in (await tree.words())[1][1]


@STORES
async def test_a_title_is_seen_from_outside(kind: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {"root": [call("set_title", title="Counting\ncrates"), say("Titled.")]}
    async with family(store_of(kind, tmp_path), **parts) as tree:
        await tree.said("root", "Titled.")
        assert (await tree.root.row()).title == "Counting crates"
        assert (await (await tree.root.fork()).row()).title == "Counting crates"


@STORES
async def test_forks_go_on_by_themselves(kind: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {"root": lambda request: say(f"echo {request.text}")}
    async with family(store_of(kind, tmp_path), **parts) as tree:
        await tree.root.reply(SOON)
        await tree.root.send("two")
        await tree.root.reply(SOON)
        heir = await tree.root.fork(at=3)
        await heir.send("other two")
        assert (await heir.reply(SOON)).text == "echo other two"
        last = tree.cast.asked[-1][1]
        assert "go" in shown(last)
        assert "echo go" in shown(last)
        assert "\ntwo" not in shown(last)
        assert not any(isinstance(message, Reported) for message in await heir.history())
        row = await heir.row()
        assert (row.parent, row.root, row.purpose) == ("", heir.id, "root")
        await tree.has("root", lambda one: type(getattr(one, "note", None)).__name__ == "Forked")
        assert await tree.turns() == ["echo go", "echo two"]
        assert await tree.words() == []
        everything = await tree.root.fork()
        await everything.send("three")
        assert (await everything.reply(SOON)).text == "echo three"
        again = await heir.fork()
        await again.send("four")
        assert (await again.reply(SOON)).text == "echo four"
        assert "echo other two" in shown(tree.cast.asked[-1][1])
        await tree.quiet()


async def test_a_fork_at_no_position_is_refused() -> None:
    parts: dict[str, Any] = {"root": [say("x")]}
    async with family("memory:", **parts) as tree:
        await tree.root.reply(SOON)
        for at in (0, -1, 4, True, "2"):
            with pytest.raises(Refused, match="from 1 to 3"):
                await tree.root.fork(at=at)  # type: ignore[arg-type]
        empty = await tree.runtime.start("worker")
        if not await empty.history():
            with pytest.raises(Refused, match="no history yet"):
                await empty.fork()
        first = await tree.root.fork(at=2, key="k1")
        assert (await tree.root.fork(at=2, key="k1")).id == first.id
        with pytest.raises(Refused, match="used before"):
            await tree.root.fork(at=1, key="k1")
