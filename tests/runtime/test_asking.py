"""Choices told to tool servers, and questions whether calls are alive: by effect, and at the start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.protocol.tool_stub import CANCEL_PATH, ToolStub, tool_stub
from torpor import Agent, RapServer
from torpor.core.codec import encode
from torpor.core.effects import Cancel, Check, Choose, Effect, Invoke, Notify
from torpor.core.messages import text_of
from torpor.core.signals import AnySignal, Finished, HappenedSignal
from torpor.core.thread import Head, OpenCall, Subscription
from torpor.models import ScriptedModel
from torpor.ports import OutboxRow, Row
from torpor.runtime.asking import TELLINGS
from torpor.runtime.scan import AT_ONCE, PAGE, SELDOM
from torpor.testing.clock import START, FakeClock
from torpor.testing.samples import commit_on
from torpor.tools.protocol import STATUS_PATH
from torpor.wiring import Parts

CHOICE = "/user_choice_response"
ALIVE, DEAD = {"alive": True}, {"alive": False}


@dataclass
class Server(ToolStub):
    """A tool server that knows which calls are alive."""

    alive: set[str] = field(default_factory=set)
    hold: asyncio.Event | None = None
    under_way: int = 0
    most: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path != STATUS_PATH or self.script.get(STATUS_PATH):
            return await super().answer(request)
        await super().answer(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.hold is not None:
            await self.hold.wait()
        self.under_way -= 1
        return web.json_response({"alive": self.seen[-1].body["tool_call_id"] in self.alive})


class Place:
    """A runtime without workers on a fake clock, and threads in its store."""

    def __init__(self, parts: Parts, stubs: list[Server]) -> None:
        self.parts = parts
        self.stub, self.other = stubs
        assert isinstance(parts.clock, FakeClock)
        self.clock = parts.clock

    async def thread(self, thread: str = "t", *effects: Effect, **head: Any) -> Row:
        """A thread with decided effects that nobody has claimed."""
        given = head or {"pending": {"c1": self.call()}}
        row = Row(thread=thread, agent="worker", head=encode(Head(length=1, **given)), length=1)
        assert await self.parts.store.create(row)
        if effects:
            snapshot = await self.parts.store.load(thread)
            await self.parts.store.commit(commit_on(snapshot, effects=effects))
        return row

    def call(self, server: str = "", **more: Any) -> OpenCall:
        return OpenCall("build", 1, server=server or self.stub.url, **more)

    def choose(self, path: str = CHOICE, call: str = "c1") -> Choose:
        return Choose(f"t.{call}.choice/choice", call, self.stub.url, self.stub.url + path, 1)

    def check(self, **more: Any) -> Check:
        return Check("c1/check/1", "c1", self.stub.url, **more)

    async def perform(self, row: Row) -> list[OutboxRow]:
        """Perform what is free; gives what is left in the outbox."""
        store = self.parts.store
        left = (await store.load(row.thread)).outbox
        held = await store.claim(row.thread, [one.effect.id for one in left], self.clock.now() + 30)
        self.parts.dispatcher.start(row, held)
        await self.settled()
        return await store.outbox(row.thread)

    async def settled(self) -> None:
        """Wait until nothing is being performed."""
        async with asyncio.timeout(60):
            while self.parts.dispatcher.tasks:
                await asyncio.wait(self.parts.dispatcher.tasks)

    async def inbox(self, thread: str = "t") -> list[AnySignal]:
        return await self.parts.store.inbox(thread)

    async def restart(self) -> None:
        """Another process starts on the same store, and has asked all that it asks."""
        async with self.parts.working(0):
            await ended("torpor-scan")

    async def rung(self) -> int:
        return await self.parts.queue.size()


async def ended(name: str) -> None:
    """Wait for the tasks of a name."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == name]
    assert tasks
    async with asyncio.timeout(60):
        await asyncio.wait(tasks)


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[Place]:
    stub, other = Server(), Server()
    async with tool_stub(stub), tool_stub(other):
        tools = [RapServer(stub.url, **settings), RapServer(other.url)]
        agent = Agent("worker", model=ScriptedModel([]), tools=tools)
        async with Parts("memory:", [agent], clock=FakeClock()) as parts:
            yield Place(parts, [stub, other])


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with opened() as place:
        yield place


def statuses(*codes: int) -> list[web.Response]:
    return [web.Response(status=code) for code in codes]


# ------------------------------------------------------------------ choices


async def test_a_choice_is_told_once_and_acknowledged(place: Place) -> None:
    row = await place.thread("t", place.choose(CHOICE + "?k=1"))
    assert await place.perform(row) == []
    [told] = place.stub.seen
    assert (told.path, told.body) == (CHOICE + "?k=1", {"id": "c1", "selected": 1})
    assert await place.inbox() == []


async def test_a_choice_is_told_again_until_it_is_taken(place: Place) -> None:
    place.stub.script[CHOICE] = statuses(503, 500, 503)
    row = await place.thread("t", place.choose())
    waits: list[float] = []
    for _ in range(3):
        [left] = await place.perform(row)
        assert left.not_before > place.clock.now()
        assert waits or await place.parts.queue.next_at() == left.not_before
        waits.append(left.not_before - place.clock.now())
        place.clock.advance(waits[-1])
    assert await place.perform(row) == []
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0 <= waits[2] <= 2.0
    assert len(place.stub.at(CHOICE)) == 4
    assert await place.inbox() == []


async def test_a_server_may_say_when_to_tell_it_again(place: Place) -> None:
    place.stub.script[CHOICE] = [web.Response(status=503, headers={"Retry-After": "120"})]
    [left] = await place.perform(await place.thread("t", place.choose()))
    assert left.not_before == START + 120


async def given_up(place: Place) -> None:
    """The call was settled with an error, and all servers were told that it is no longer wanted."""
    [settled] = await place.inbox()
    assert isinstance(settled, Finished)
    assert (settled.call, settled.cause, settled.is_error) == ("c1", "undelivered", True)
    assert "choice could not be told" in text_of(settled.parts)
    assert place.stub.at(CANCEL_PATH)[0].body == {"thread_id": "t", "tool_call_id": "c1"}
    assert len(place.other.at(CANCEL_PATH)) == 1
    assert await place.rung() == 1


@pytest.mark.parametrize("status", [400, 404, 302])
async def test_a_choice_that_is_refused_ends_its_call_at_once(place: Place, status: int) -> None:
    place.stub.script[CHOICE] = statuses(status)
    assert await place.perform(await place.thread("t", place.choose())) == []
    assert len(place.stub.at(CHOICE)) == 1
    await given_up(place)


async def test_a_choice_that_nobody_takes_ends_its_call_after_some_tries(place: Place) -> None:
    place.stub.script[CHOICE] = statuses(*[500] * 20)
    row = await place.thread("t", place.choose())
    for _ in range(TELLINGS):
        assert await place.inbox() == []
        await place.perform(row)
        place.clock.advance(100)
    assert len(place.stub.at(CHOICE)) == TELLINGS
    assert await place.parts.store.outbox("t") == []
    await given_up(place)


async def test_cbk_07_a_choice_for_an_inner_address_is_not_sent(place: Place) -> None:
    away = Choose("t.c1.choice/choice", "c1", place.stub.url, "http://10.0.0.5/x", 1)
    assert await place.perform(await place.thread("t", away)) == []
    await given_up(place)


async def test_what_is_no_longer_wanted_is_said_before_the_choice_of_the_default(place: Place) -> None:
    row = await place.thread("t", Cancel("c1/cancel", "c1", place.stub.url), place.choose())
    assert await place.perform(row) == []
    assert [one.path for one in place.stub.seen] == [CANCEL_PATH, CHOICE]
    assert await place.inbox() == []


async def test_a_choice_waits_while_another_process_holds_what_goes_first(place: Place) -> None:
    row = await place.thread("t", Cancel("c1/cancel", "c1", place.stub.url), place.choose())
    store = place.parts.store
    assert await store.claim("t", ["c1/cancel"], START + 1_000, holder="another")
    left = await place.perform(row)
    assert [one.not_before > START for one in left] == [False, True]
    assert place.stub.seen == []
    await store.delivered("t", ["c1/cancel"])
    place.clock.advance(2)
    assert await place.perform(row) == []
    assert [one.path for one in place.stub.seen] == [CHOICE]


# ------------------------------------------------------------------ checks


async def test_a_call_that_is_alive_goes_on(place: Place) -> None:
    place.stub.alive = {"c1"}
    assert await place.perform(await place.thread("t", place.check())) == []
    assert place.stub.seen[0].body == {"thread_id": "t", "tool_call_id": "c1"}
    assert place.other.seen == []
    assert (await place.inbox(), await place.rung()) == ([], 0)


async def test_a_call_that_is_lost_is_settled_by_the_runtime(place: Place) -> None:
    assert await place.perform(await place.thread("t", place.check())) == []
    [settled] = await place.inbox()
    assert isinstance(settled, Finished)
    assert (settled.id, settled.cause, settled.by.kind) == ("c1/dead", "dead", "runtime")
    assert settled.is_error
    assert await place.rung() == 1


async def test_a_subscription_that_is_lost_gets_a_last_event_by_the_runtime(place: Place) -> None:
    row = await place.thread("t", place.check(subscription=True), subscriptions={"c1": subscription(place)})
    assert await place.perform(row) == []
    [happened] = await place.inbox()
    assert isinstance(happened, HappenedSignal)
    assert (happened.final, happened.associative, happened.by.kind) == (True, True, "runtime")
    assert "no longer holds" in text_of(happened.parts)


def subscription(place: Place) -> Subscription:
    return Subscription("watch", "{}", place.stub.url, 1)


@pytest.mark.parametrize(
    ("before", "answer", "lost"),
    [
        (None, web.Response(status=404), False),
        (None, web.Response(status=405), False),
        (None, web.Response(status=501), False),
        (ALIVE, web.Response(status=404), True),
        (DEAD, web.Response(status=405), True),
        (ALIVE, web.Response(status=501), False),
        (None, web.Response(text="OK"), True),
        (None, web.json_response({"alive": "yes"}), True),
        (None, web.Response(status=400), True),
        (ALIVE, web.Response(status=500), False),
        (ALIVE, web.Response(status=503), False),
        (ALIVE, web.Response(status=302), False),
    ],
)
async def test_what_means_that_a_call_is_lost(
    place: Place, before: object, answer: web.Response, lost: bool
) -> None:
    if before:
        place.stub.script[STATUS_PATH] = [web.json_response(before)]
        await place.perform(await place.thread("before", place.check()))
    place.stub.script[STATUS_PATH] = [answer]
    assert await place.perform(await place.thread("t", place.check())) == []
    assert bool(await place.inbox()) == lost


async def test_that_a_server_answers_is_known_to_the_next_process_too(place: Place) -> None:
    place.stub.alive = {"c1"}
    await place.perform(await place.thread("before", place.check()))
    agents = place.parts.agents
    backends: Any = (place.parts.store, place.parts.queue)
    async with Parts("memory:", agents, backends=backends, clock=place.clock) as parts:
        later = Place(parts, [place.stub, place.other])
        place.stub.script[STATUS_PATH] = statuses(404)
        await later.perform(await later.thread("t", place.check()))
        assert len(await later.inbox()) == 1


async def test_a_server_that_is_away_says_nothing_of_its_calls(place: Place) -> None:
    gone = Check("c1/check/1", "c1", "http://127.0.0.1:1")
    unreachable = Agent("worker", model=ScriptedModel([]), tools=[RapServer("http://127.0.0.1:1")])
    for agents in ([unreachable], []):
        async with Parts("memory:", agents, clock=FakeClock()) as parts:
            away = Place(parts, [place.stub, place.other])
            assert await away.perform(await away.thread("t", gone)) == []
            assert await away.inbox() == []


async def test_a_call_that_was_not_handed_over_yet_is_not_lost(place: Place) -> None:
    invoke = Invoke("c1/invoke", "c1", "build", "{}", place.stub.url)
    row = await place.thread("t", place.check(), invoke)
    await place.parts.store.claim("t", ["c1/invoke"], START + 1_000, holder="another")
    assert [one.effect for one in await place.perform(row)] == [invoke]
    assert (place.stub.seen, await place.inbox()) == ([], [])


async def test_what_is_cut_short_is_given_back(place: Place) -> None:
    server = place.stub
    server.hold = asyncio.Event()
    row = await place.thread("t", place.check())
    store, dispatcher = place.parts.store, place.parts.dispatcher
    dispatcher.start(row, await store.claim("t", ["c1/check/1"], START + 30))
    while not server.seen:
        await asyncio.sleep(0.001)
    await dispatcher.drain(0)
    server.hold.set()
    [left] = await store.outbox("t")
    assert (left.claimed_until, left.not_before) == (0.0, 0.0)
    assert await place.rung() == 1


# ------------------------------------------------------------------ at the start


async def test_all_that_is_open_is_asked_of_its_own_server_when_a_runtime_starts(place: Place) -> None:
    place.stub.alive = {"c1"}
    await place.thread(
        "t",
        pending={"c1": place.call(), "nap": OpenCall("sleep", 1, passive=True), "f": OpenCall("add", 1)},
        detached={"c2": place.call(place.other.url), "over": place.call(given_up="dead")},
        subscriptions={"s1": subscription(place)},
    )
    await place.thread("u", pending={"c3": place.call("http://127.0.0.1:1"), "h": place.call(held=True)})
    await place.thread("closed", pending={"c4": place.call()}, state="closed")
    await place.restart()
    assert {one.body["tool_call_id"] for one in place.stub.seen} == {"c1", "s1"}
    assert {one.body["tool_call_id"] for one in place.other.seen} == {"c2"}
    told = {(type(signal), signal.id) for signal in await place.inbox()}
    assert told == {(HappenedSignal, "s1/lost"), (Finished, "c2/dead")}
    assert await place.inbox("u") == []
    assert await place.rung() == 1


async def test_however_often_runtimes_start_a_server_is_asked_so_once_in_ten_minutes(place: Place) -> None:
    await place.restart()
    place.stub.alive = {"c1"}
    await place.thread()
    for _ in range(3):
        await place.restart()
    assert len(place.stub.seen) == 1, "the first time nothing was open, so it did not count"
    place.clock.advance(SELDOM)
    await place.restart()
    assert len(place.stub.seen) == 2


async def test_many_calls_are_asked_some_at_a_time_and_over_pages(place: Place) -> None:
    server = place.stub
    server.alive = {f"c{number}" for number in range(PAGE + 20)}
    server.hold = asyncio.Event()
    for number in range(PAGE + 20):
        await place.thread(f"t{number:04d}", pending={f"c{number}": place.call()})
    async with place.parts.working(0):
        while server.under_way < AT_ONCE:
            await asyncio.sleep(0.001)
        server.hold.set()
        await ended("torpor-scan")
    assert server.most == AT_ONCE
    assert len({one.body["tool_call_id"] for one in server.seen}) == len(server.seen) == PAGE + 20


async def test_a_server_that_is_away_is_left_alone_and_the_others_are_asked() -> None:
    tried: list[str] = []
    async with opened() as place:
        for number in range(30):
            calls = {
                f"a{number}": place.call("http://127.0.0.1:1"),
                f"b{number}": place.call(place.other.url),
            }
            await place.thread(f"t{number:02d}", pending=calls)
        place.other.alive = {f"b{number}" for number in range(30)}
        status = place.parts.transport.status

        async def counted(server: str, *rest: Any) -> str:
            tried.append(server)
            return await status(server, *rest)

        place.parts.servers["http://127.0.0.1:1"] = RapServer("http://127.0.0.1:1")
        place.parts.transport._servers["http://127.0.0.1:1"] = RapServer("http://127.0.0.1:1")  # type: ignore[attr-defined]
        place.parts.transport.status = counted  # type: ignore[method-assign,assignment]
        await place.restart()
        assert 1 <= tried.count("http://127.0.0.1:1") <= AT_ONCE
        assert tried.count(place.other.url) == 30
        assert all([await place.inbox(f"t{number:02d}") == [] for number in range(30)])


async def test_a_scan_that_hangs_holds_nothing_up(place: Place) -> None:
    server = place.stub
    server.hold = asyncio.Event()
    await place.thread()
    async with asyncio.timeout(60), place.parts.working(1):
        while not server.under_way:
            await asyncio.sleep(0.001)
    server.hold.set()


# ------------------------------------------------------------------ what goes along


async def test_calls_of_children_name_the_threads_above_them_and_all_that_is_told_has_a_trace(
    place: Place,
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    place.parts.public_url = "http://here"
    invoke = Invoke("c1/invoke", "c1", "ping", "{}", place.stub.url)
    notices: list[Effect] = [Cancel("c2/cancel", "c2", place.stub.url), Notify("close")]
    calls = {"c1": place.call()}
    row = await place.thread("t", invoke, *notices, pending=calls, ancestors=("root", "mid"), parent="mid")
    assert await place.perform(msgspec.structs.replace(row, trace=trace)) == []
    [called] = place.stub.at("/invoke")
    assert called.body["thread_ancestors"] == ["root", "mid"]
    told = [one for one in place.stub.seen if one.method == "POST"]
    assert len(told) == 3
    assert all(one.headers["traceparent"].startswith(f"00-{trace}-") for one in told)
    assert len({one.headers["traceparent"] for one in told}) == 3
    root = await place.thread("r", invoke, pending=calls)
    await place.perform(root)
    assert "thread_ancestors" not in place.stub.at("/invoke")[1].body
