"""Subscriptions: confirmed first, then events in order, and silence after the end."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import eventually, talking
from torpor.tools.server import Retry, ToolCall, ToolServer


class Watch:
    """A server with one subscribing tool that tests drive step by step."""

    def __init__(self, path: Path) -> None:
        self.server = ToolServer(
            "watch", outbox=path / "o.db", retry=Retry(first=0.03, longest=0.1), grace=1.0
        )
        self.server.tool(self.watch)
        self.server.tool(self.eager)
        self.news: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()
        self.kept: list[bool] = []
        self.call: ToolCall | None = None

    async def watch(self, call: ToolCall) -> str:
        """Send what the test puts in."""
        self.call = call
        await call.subscribe("Watching.")
        while (news := await self.news.get()) is not None:
            if isinstance(news, BaseException):
                raise news
            self.kept.append(await call.event(**news))
        return "watched it all"

    async def eager(self, call: ToolCall) -> None:
        """Send an event too early."""
        await call.event("too early")


async def test_the_confirmation_comes_first_and_events_follow_in_order(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server, script=[503, 200, 503]) as (peer, stub):
        for number in range(3):
            watch.news.put_nowait({"text": {"number": number}})
        await peer.invoke("watch", call_id="p-1")
        await stub.until(lambda all_: len(all_) >= 6)
        bodies = [one.body for one in stub.received]
        assert [body["type"] for body in bodies] == ["tool_result"] * 2 + ["subscription_event"] * 4
        confirmation = bodies[1]
        assert confirmation["subscription"] is True
        assert confirmation["call_id"] == "p-1"
        assert confirmation["text"] == "Watching. Subscription ID: c-1"
        events = bodies[2:]
        assert events[0] == events[1]
        assert [json.loads(event["text"])["number"] for event in events[1:]] == [0, 1, 2]
        assert [event["seq"] for event in events[1:]] == [1, 2, 3]
        assert len({event["event_id"] for event in events}) == 3
        assert {(event["group_id"], event["tool_call_id"]) for event in events} == {("th-1", "c-1")}
        assert not any("final" in event or "call_id" in event or "id" in event for event in events)
        assert await peer.alive("c-1") is True


async def test_events_say_when_it_happened_and_where_they_belong(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server) as (peer, stub):
        then = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        watch.news.put_nowait({"text": "x", "associative": True, "occurred_at": then})
        await peer.invoke("watch")
        event = (await stub.count(2))[1]
        assert event["associative"] is True
        assert event["occurred_at"] == "2026-01-02T03:04:05.000Z"


async def test_nothing_follows_the_final_event(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server) as (peer, stub):
        watch.news.put_nowait({"text": "last", "final": True})
        watch.news.put_nowait({"text": "too late"})
        await peer.invoke("watch")
        event = (await stub.count(2))[1]
        assert event["final"] is True
        await peer.invoke("eager", ident="c-2")
        await stub.result("c-2")
        assert len(stub.received) == 3
        assert await peer.alive("c-1") is False


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (None, "watched it all"),
        (ValueError("the source is gone"), "Error: the source is gone"),
    ],
)
async def test_a_subscription_whose_function_ends_gets_a_final_event(
    tmp_path: Path, end: BaseException | None, text: str
) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server) as (peer, stub):
        watch.news.put_nowait(end)
        await peer.invoke("watch")
        event = (await stub.count(2))[1]
        assert (event["text"], event["final"]) == (text, True)


async def test_cancelling_silences_events_that_wait_for_a_retry(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server) as (peer, stub):
        await peer.invoke("watch")
        await stub.count(1)
        stub.otherwise = 503
        for number in range(3):
            watch.news.put_nowait({"text": str(number)})
        await stub.count(2)
        assert await peer.cancel("c-1") == (200, b"")
        assert await peer.cancel("c-1") == (200, b"")
        assert await peer.alive("c-1") is False
        seen = len(stub.received)
        stub.otherwise = 200
        assert watch.call is not None
        await asyncio.wait_for(watch.call.cancelled.wait(), 5)
        await peer.invoke("eager", ident="c-2")
        await stub.result("c-2")
        later = [one.body["type"] for one in stub.received[seen:]]
        # One attempt may have been under way when the cancellation came.
        assert later.count("subscription_event") <= 1
        assert not any(one.body.get("final") for one in stub.received)


async def test_a_foreign_thread_cannot_cancel(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server) as (peer, stub):
        await peer.invoke("watch")
        await stub.count(1)
        assert await peer.cancel("c-1", thread="th-2") == (200, b"")
        assert await peer.alive("c-1") is True
        assert await peer.alive("c-1", thread="th-2") is False
        watch.news.put_nowait({"text": "still here"})
        assert (await stub.count(2))[1]["text"] == "still here"


@pytest.mark.parametrize("status", [404, 410])
async def test_a_refused_event_ends_the_subscription(tmp_path: Path, status: int) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server, script=[200, status]) as (peer, stub):
        watch.news.put_nowait({"text": "x"})
        await peer.invoke("watch")
        await stub.count(2)
        assert watch.call is not None
        await asyncio.wait_for(watch.call.cancelled.wait(), 5)
        assert await peer.alive("c-1") is False
        assert len(stub.received) == 2


async def test_without_a_confirmation_there_are_no_events(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server, script=[403]) as (peer, stub):
        watch.news.put_nowait({"text": "x"})
        await peer.invoke("watch")
        await eventually(lambda: watch.call is not None and watch.call.cancelled.is_set())
        await peer.invoke("eager", ident="c-2")
        await stub.result("c-2")
        assert [one.body["type"] for one in stub.received] == ["tool_result"] * 2


async def test_an_event_before_the_confirmation_is_a_mistake(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server) as (peer, stub):
        await peer.invoke("eager")
        assert (await stub.result("c-1"))["text"] == "Error: call subscribe() before sending events"


async def test_a_burst_of_events_is_spaced(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    async with talking(watch.server) as (peer, stub):
        for number in range(50):
            watch.news.put_nowait({"text": str(number)})
        await peer.invoke("watch")
        received = await stub.until(lambda all_: len(all_) == 51)
        assert received[-1].at - received[1].at >= 0.35
        assert [one.body["seq"] for one in received[1:]] == list(range(1, 51))
