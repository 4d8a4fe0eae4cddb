"""Views and progress: what people see while a tool works, in order, and what is left when it has ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import StubRuntime, eventually, talking
from torpor.tools.server import Retry, ToolCall, ToolServer

FAST = Retry(first=0.02, longest=0.1)


class Showing:
    """A server whose tool does what the test puts in."""

    def __init__(self, path: Path) -> None:
        self.server = ToolServer("showing", outbox=path / "o.db", retry=FAST, grace=0.5)
        self.server.tool(self.work)
        self.steps: asyncio.Queue[Any] = asyncio.Queue()

    async def work(self, call: ToolCall) -> str:
        """Work."""
        while (step := await self.steps.get()) is not None:
            kind, *values = step
            if kind == "progress":
                await call.progress(*values)
            elif kind == "subscribe":
                await call.subscribe("Working.")
            else:
                await call.view(kind, *values)
        return "worked"


@pytest.fixture
def showing(tmp_path: Path) -> Showing:
    return Showing(tmp_path)


def views(stub: StubRuntime, kind: str) -> list[dict[str, Any]]:
    bodies = [one.body for one in stub.received]
    return [body for body in bodies if body["type"] == "view_update" and body["view_type"] == kind]


async def until(stub: StubRuntime, kind: str, number: int) -> list[dict[str, Any]]:
    await stub.until(lambda _: len(views(stub, kind)) >= number)
    return views(stub, kind)


async def test_a_view_is_shown_numbered_and_cleared(showing: Showing) -> None:
    async with talking(showing.server) as (peer, stub):
        await peer.invoke("work")
        for content in ({"patch": "+1"}, {"patch": "+2", "deep": [1.5, None, {"ü": True}]}, {}):
            showing.steps.put_nowait(("diff", content))
            await until(stub, "diff", len(views(stub, "diff")) + 1)
        first, second, third = await until(stub, "diff", 3)
        assert set(first) == {
            "type", "group_id", "view_type", "content", "event_id", "seq", "occurred_at",
        }  # fmt: skip
        assert first["group_id"] == "th-1"
        assert second["content"] == {"patch": "+2", "deep": [1.5, None, {"ü": True}]}
        assert third["content"] == {}
        assert [one["seq"] for one in (first, second, third)] == [1, 2, 3]
        assert len({one["event_id"] for one in (first, second, third)}) == 3


async def test_numbers_count_for_each_view_and_go_on_after_a_restart(tmp_path: Path) -> None:
    for turn in range(2):
        showing = Showing(tmp_path)
        async with talking(showing.server) as (peer, stub):
            await peer.invoke("work", ident=f"c-{turn}")
            for kind in ("diff", "map"):
                showing.steps.put_nowait((kind, {"turn": turn}))
            showing.steps.put_nowait(None)
            await stub.count(3)
            [diff], [shown] = views(stub, "diff"), views(stub, "map")
            assert diff["seq"] == shown["seq"] == turn + 1


async def test_a_view_that_is_not_taken_gives_way_to_the_next_and_holds_up_nothing(showing: Showing) -> None:
    async with talking(showing.server, otherwise=503) as (peer, stub):
        await peer.invoke("work")
        for number in range(20):
            showing.steps.put_nowait(("diff", {"number": number}))
        await eventually(showing.steps.empty)
        await until(stub, "diff", 2)
        stub.otherwise = 200
        await stub.until(lambda _: views(stub, "diff")[-1]["content"] == {"number": 19})
        assert len({one["seq"] for one in views(stub, "diff")}) <= 3
        showing.steps.put_nowait(None)
        assert (await stub.result("c-1"))["text"] == "worked"


async def test_a_refused_view_ends_nothing(showing: Showing) -> None:
    async with talking(showing.server, script=[200, 410]) as (peer, stub):
        await peer.invoke("work")
        showing.steps.put_nowait(("subscribe",))
        await stub.count(1)
        showing.steps.put_nowait(("diff", {"a": 1}))
        await until(stub, "diff", 1)
        assert await peer.alive("c-1") is True


async def test_a_settled_call_with_a_view_to_send_is_not_alive(showing: Showing) -> None:
    async with talking(showing.server, otherwise=503) as (peer, stub):
        await peer.invoke("work")
        showing.steps.put_nowait(("diff", {"a": 1}))
        await until(stub, "diff", 1)
        await peer.cancel("c-1")
        await stub.result("c-1")
        stub.otherwise = 200
        await eventually(lambda: is_dead(peer))


async def is_dead(peer: Any) -> bool:
    return not await peer.alive("c-1")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("diff", [1]),
        ("diff", None),
        ("diff", {"a": object()}),
        ("", {}),
        ("a\nb", {}),
        ("x", {"a": "b" * 300_000}),
    ],
)
async def test_what_is_no_view_is_a_mistake(showing: Showing, kind: str, content: Any) -> None:
    async with talking(showing.server) as (peer, stub):
        await peer.invoke("work")
        showing.steps.put_nowait((kind, content))
        assert (await stub.result("c-1"))["is_error"] is True
        assert len(stub.received) == 1


async def test_ex_07_progress_is_shown_until_the_function_ends(showing: Showing) -> None:
    async with talking(showing.server) as (peer, stub):
        await peer.invoke("work")
        showing.steps.put_nowait(("progress", 0.25, "two of eight"))
        [first] = await until(stub, "x-progress", 1)
        assert first["content"] == {
            "tool_call_id": "c-1", "fraction": 0.25, "message": "two of eight", "done": False,
        }  # fmt: skip
        assert "seq" not in first
        showing.steps.put_nowait(None)
        last = (await until(stub, "x-progress", 2))[-1]
        assert last["content"] == {}
        assert (await stub.result("c-1"))["text"] == "worked"


async def test_of_much_progress_the_latest_is_sent(showing: Showing) -> None:
    async with talking(showing.server) as (peer, stub):
        await peer.invoke("work")
        for number in range(101):
            showing.steps.put_nowait(("progress", number / 100))
        await stub.until(
            lambda _: any(one["content"].get("fraction") == 1.0 for one in views(stub, "x-progress"))
        )
        assert len(views(stub, "x-progress")) <= 3


async def test_fractions_are_kept_in_bounds_and_may_be_unknown(showing: Showing) -> None:
    async with talking(showing.server) as (peer, stub):
        for place, (given, shown) in enumerate(((7.0, 1.0), (-1, 0.0), (None, None))):
            await peer.invoke("work", ident=f"c-{place}")
            showing.steps.put_nowait(("progress", given))
            await until(stub, "x-progress", 2 * place + 1)
            assert views(stub, "x-progress")[-1]["content"].get("fraction") == shown
            showing.steps.put_nowait(None)
            await until(stub, "x-progress", 2 * place + 2)


async def test_what_is_no_number_is_no_progress(showing: Showing) -> None:
    async with talking(showing.server) as (peer, stub):
        await peer.invoke("work")
        showing.steps.put_nowait(("progress", float("nan")))
        assert (await stub.result("c-1"))["text"].startswith("Error: progress is a fraction")


async def test_a_call_that_showed_nothing_clears_nothing(showing: Showing) -> None:
    async with talking(showing.server) as (peer, stub):
        await peer.invoke("work")
        showing.steps.put_nowait(None)
        await stub.result("c-1")
        assert len(stub.received) == 1
