"""Events that become threads: each is given to one child, whatever comes at once, and nobody is held up."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_thousand_callbacks import TOOLS, Silent
from tests.runtime.cast import Cast, closes, reports, shown
from tests.web.places import store_of, until
from torpor import Agent, Events, Limits, RapServer, Runtime, Thread
from torpor.core.codec import decode_head
from torpor.core.head import Head
from torpor.core.messages import Happened, Message, Noted, Reported, Spawned, Turn, text_of
from torpor.core.request import Request
from torpor.core.thread import evolve, fold
from torpor.models import call, say

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])
SOON = 10.0
ANY, AS_USUAL = Events(), Limits()


class Watched:
    """A thread with a subscription, and its source."""

    def __init__(self, runtime: Runtime, cast: Cast, thread: Thread, tools: Silent) -> None:
        self.runtime = runtime
        self.cast = cast
        self.thread = thread
        self.tools = tools
        self.call, url = tools.callbacks[thread.id]
        self._token = url.rsplit("/", 1)[1]

    async def send(self, type: str, **fields: Any) -> None:
        body = {"type": type, "group_id": self.thread.id, **fields}
        parts = self.runtime.parts
        outcome = await parts.callbacks.receive(self._token, json.dumps(body).encode())
        assert outcome.status == 200, outcome
        if outcome.ring:
            await parts.queue.ring([outcome.ring])

    async def event(self, id: str, text: str = "", **fields: Any) -> None:
        named = {"tool_call_id": self.call, "event_id": id, "text": text or f"event {id}"}
        await self.send("subscription_event", **named, **fields)

    async def head(self) -> Head:
        row = await self.thread.row()
        return decode_head(row.head, row.shape)

    async def children(self) -> list[list[Message]]:
        """The histories of all threads made for events."""
        return [await child.history() for child in await self.thread.children()]

    async def given(self) -> list[list[str]]:
        """What each of them was given."""
        histories = await self.children()
        return [[text_of(one.parts) for one in told if isinstance(one, Happened)] for told in histories]

    async def all_over(self) -> None:
        """Wait until no event waits, and no thread works on one."""

        async def over() -> bool:
            # Looked at first: what is taken from there meanwhile shows in the head.
            inbox = [one for one in await self.runtime.parts.store.inbox(self.thread.id) if not one.due]
            head = await self.head()
            return not (head.gathered or head.children or inbox)

        await until(over)


@asynccontextmanager
async def watching(
    store: str, *, events: Events = ANY, limits: Limits = AS_USUAL, workers: int = 4, **parts: Any
) -> AsyncIterator[Watched]:
    tools, cast = Silent(), Cast(**{"root": [call("watch", what="door"), say("I watch.")], **parts})
    agents = [
        Agent("worker", model=cast, tools=[RapServer(TOOLS)], events=events, limits=limits),
    ]
    options: dict[str, Any] = {"transport": tools, "public_url": "http://here", "listen": None}
    async with Runtime(store, agents=agents, workers=workers, **options) as runtime:
        thread = await runtime.start("worker", "go")

        async def invoked() -> bool:
            return thread.id in tools.callbacks

        await until(invoked)
        watched = Watched(runtime, cast, thread, tools)
        await watched.send("tool_result", id=watched.call, text="watching", subscription=True)
        assert (await thread.reply(SOON)).text == "I watch."
        yield watched


@STORES
async def test_an_event_is_worked_on_by_a_temporary_thread(kind: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "root": [call("watch", what="door"), say("I watch."), say("I hear it was opened.")],
        "event": [reports("the door was opened"), say("Told.")],
    }
    async with watching(store_of(kind, tmp_path), **parts) as watched:
        await watched.event("e1", "the door moved")
        await watched.all_over()
        history = await watched.thread.history()
        (event,) = [one for one in history if isinstance(one, Happened)]
        assert (event.threaded, text_of(event.parts)) == (True, "the door moved")
        words = [(one.what, text_of(one.parts), one.purpose) for one in history if isinstance(one, Reported)]
        assert words == [("report", "the door was opened", "event"), ("closed", "", "event")]
        await until_said(watched.thread, "I hear it was opened.")
        assert [text_of(one.parts) for one in history if isinstance(one, Turn)][:2] == ["", "I watch."]
        (child,) = await watched.children()
        assert [text_of(one.parts) for one in child if isinstance(one, Happened)] == ["the door moved"]
        (row,) = await watched.runtime.threads(parent=watched.thread.id)
        assert (row.purpose, row.state) == ("event", "closed")
        asked = next(request for part, request in watched.cast.asked if part == "event")
        assert "the door moved" in asked.text
        assert "I watch." in shown(asked)
        root = [request for part, request in watched.cast.asked if part == "root"]
        assert "the door moved" not in shown(root[-1])
        assert asked.items[: len(root[1].items)] == root[1].items, "it begins as its parent does"


async def until_said(thread: Thread, text: str) -> None:
    async def said() -> bool:
        return any(isinstance(one, Turn) and text_of(one.parts) == text for one in await thread.history())

    await until(said)


@STORES
async def test_an_event_thread_that_says_nothing_wakes_nobody(kind: str, tmp_path: Path) -> None:
    async with watching(store_of(kind, tmp_path), event=[say("Nothing of note.")]) as watched:
        await watched.event("e1")
        await watched.all_over()
        assert [part for part, _ in watched.cast.asked].count("root") == 2
        (word,) = [one for one in await watched.thread.history() if isinstance(one, Reported)]
        assert (word.what, word.owes) == ("closed", False)
        await watched.event("e2", "of interest to all", associative=True)
        await until_said_by_root(watched)


async def until_said_by_root(watched: Watched) -> None:
    async def asked() -> bool:
        return [part for part, _ in watched.cast.asked].count("root") == 3

    await until(asked)


async def test_events_within_a_window_are_given_to_one_thread() -> None:
    events = Events(window=0.3, most=3)
    async with watching("memory:", events=events, event=lambda _: say("Seen.")) as watched:
        for number in range(2):
            await watched.event(f"e{number}")
        assert "2 events gathered" in (await until_explained(watched, "gathered"))
        await watched.all_over()
        assert await watched.given() == [["event e0", "event e1"]]
        for number in range(2, 6):
            await watched.event(f"e{number}")
        await watched.all_over()
        given = sorted(await watched.given())
        assert given == [["event e0", "event e1"], ["event e2", "event e3", "event e4"], ["event e5"]]


async def until_explained(watched: Watched, text: str) -> str:
    async def told() -> bool:
        return text in (await watched.thread.explain()).text

    await until(told)
    return (await watched.thread.explain()).text


async def test_events_that_are_not_signed_are_dropped_where_that_is_asked_for() -> None:
    events = Events(verified="signature")
    async with watching("memory:", events=events, event=lambda _: say("Seen.")) as watched:
        await watched.event("e1")
        await watched.all_over()
        woken = [id for record in await watched.thread.records() for id in record.woken_by]
        store, thread = watched.runtime.parts.store, watched.thread.id
        assert "unverified source" in [await store.outcome(thread, id) for id in woken]
        assert not any(isinstance(one, Happened) for one in await watched.thread.history())


@STORES
async def test_a_thousand_events_in_a_second(kind: str, tmp_path: Path) -> None:
    """None lost, none doubled, a bounded number of threads, and the thread itself answers meanwhile."""
    count, places = 1_000, 4

    def root(request: Request) -> Any:
        return say(f"echo {request.text}")

    parts: dict[str, Any] = {
        "root": [call("watch", what="door"), say("I watch."), root],
        "event": [say("Seen.")],
    }
    limits = Limits(events=places)
    async with watching(store_of(kind, tmp_path), limits=limits, **parts) as watched:

        async def flood() -> None:
            for first in range(0, count, 50):
                numbers = [*range(first, first + 50), *range(first, first + 50, 3)]  # some twice, as happens
                await asyncio.gather(*(watched.event(f"e{number}") for number in numbers))

        loop = asyncio.get_running_loop()
        flooding = asyncio.create_task(flood())
        await asyncio.sleep(0.05)
        asked = loop.time()
        await watched.thread.send("still there?")
        assert (await watched.thread.reply(SOON)).text == "echo still there?"
        answered = loop.time() - asked
        await flooding
        await watched.all_over()
        given = [text for texts in await watched.given() for text in texts]
        assert sorted(given) == sorted(f"event e{number}" for number in range(count))
        assert all(len(texts) <= 20 for texts in await watched.given())
        history = await watched.thread.history()
        assert 1 < most_at_work(history) <= places
        assert fold(history) == await watched.head()
        assert {row.state for row in await watched.runtime.threads(purpose="event")} == {"closed"}
        assert answered < 3.0


def most_at_work(history: list[Message]) -> int:
    """How many children for events lived at the same time, at most."""
    head, most = Head(), 0
    for message in history:
        head = evolve(head, message)
        if isinstance(message, Noted) and isinstance(message.note, Spawned):
            most = max(most, sum(child.purpose == "event" for child in head.children.values()))
    return most


async def test_an_event_thread_may_close_itself_with_a_report() -> None:
    parts: dict[str, Any] = {
        "root": [call("watch", what="door"), say("I watch."), say("So it is shut.")],
        "event": [closes("it is shut")],
    }
    async with watching("memory:", **parts) as watched:
        await watched.event("e1")
        await until_said(watched.thread, "So it is shut.")
        words = [one for one in await watched.thread.history() if isinstance(one, Reported)]
        assert [(one.what, text_of(one.parts), one.owes) for one in words] == [("closed", "it is shut", True)]


@STORES
async def test_a_fork_has_the_tools_of_its_source_and_none_of_its_subscriptions(
    kind: str, tmp_path: Path
) -> None:
    async with watching(store_of(kind, tmp_path), event=lambda _: say("Seen.")) as watched:
        heir = await watched.thread.fork()
        await heir.send("and you?")

        async def invoked() -> bool:
            return heir.id in watched.tools.callbacks

        await until(invoked)
        assert "watch" in {shown.name for shown in watched.cast.asked[-1][1].tools}
        row = await heir.row()
        head = decode_head(row.head, row.shape)
        assert head.toolsets == (await watched.head()).toolsets
        assert (list(head.pending), head.subscriptions) == ([watched.tools.callbacks[heir.id][0]], {})
        store = watched.runtime.parts.side
        for hash in head.toolsets.values():
            assert await store.get_blob(heir.id, hash), "a fork needs nothing of its source's blobs"
        await watched.event("e1")
        await watched.all_over()
        assert not any(isinstance(one, Happened) for one in await heir.history())
