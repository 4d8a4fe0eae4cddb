"""Views of threads: kept as they came, bounded, told to watchers, never a reason to wake."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tests.protocol.desk import Desk, subscribed, waiting
from torpor.core.views import PROGRESS_SPACE, Progress, View, views_space
from torpor.ports import LiveEvent
from torpor.tools.views import CLEARED_KEPT, VIEW_LIMIT, VIEWS_KEPT


class Watching:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.told: list[tuple[str, LiveEvent]] = []

    def publish(self, thread: str, event: LiveEvent) -> None:
        self.told.append((thread, event))


@pytest.fixture
async def desk() -> Desk:
    desk = await Desk({"live": Watching()}).open()
    await desk.thread()
    return desk


def told(desk: Desk) -> list[tuple[str, str]]:
    """The views that watchers of T were told of: type and content."""
    watching: Watching = desk.settings["live"]
    assert all(thread == "T" and event.kind == "view" for thread, event in watching.told)
    return [(event.name, event.text) for _, event in watching.told]


def view(content: object, type: str = "diff", **more: Any) -> dict[str, Any]:
    """A body that changes a view."""
    return {"type": "view_update", "group_id": "T", "view_type": type, "content": content, **more}


async def kept(desk: Desk, thread: str = "T") -> dict[str, View]:
    """The views of a thread as they are kept."""
    entries = await desk.store.entries(views_space(thread))
    return {type: msgspec.msgpack.decode(value, type=View) for type, value in entries.items()}


async def shown(desk: Desk) -> dict[str, str]:
    """What is shown."""
    return {type: one.content for type, one in (await kept(desk)).items() if one.content}


async def test_the_last_content_is_kept_and_told_and_nobody_is_woken(desk: Desk) -> None:
    for patch in ("1", "2", "3"):
        outcome = await desk.post(view({"patch": patch}))
        assert (outcome.status, outcome.ring) == (200, None)
    await desk.post(view({"n": 1}, "stats"))
    assert await shown(desk) == {"diff": '{"patch": "3"}', "stats": '{"n": 1}'}
    assert told(desk)[-2:] == [("diff", '{"patch": "3"}'), ("stats", '{"n": 1}')]
    assert not await desk.inbox()


async def test_content_is_kept_number_for_number_and_member_for_member(desk: Desk) -> None:
    content = (
        '{"z":1.10,"a":123456789012345678901234567890,"m":[1e5,{"deep":{"x":"é\\u00e9 \\ud83d\\ude00"}}]}'
    )
    body = f'{{"content": {content}, "type":"view_update","group_id":"T","view_type":"odd"}}'
    assert (await desk.post(body.encode())).status == 200
    assert await shown(desk) == {"odd": content}
    assert told(desk) == [("odd", content)]


async def test_half_a_pair_of_surrogates_can_be_kept(desk: Desk) -> None:
    body = rb'{"type":"view_update","group_id":"T","view_type":"odd","content":{"s":"%s"}}'
    assert (await desk.post(body % rb"\ud800 \\ud800 \ud83d\ude00")).status == 200
    assert json.loads((await shown(desk))["odd"]) == {"s": "\ufffd \\ud800 \U0001f600"}


async def test_an_empty_object_clears(desk: Desk) -> None:
    await desk.post(view({}, "never"))
    assert await kept(desk) == {}
    await desk.post(view({"patch": "x"}))
    await desk.post(view({}))
    assert await shown(desk) == {}
    assert told(desk)[-1] == ("diff", "{}")


async def test_an_older_number_changes_nothing(desk: Desk) -> None:
    for seq, patch in ((2, "new"), (1, "old"), (2, "repeat")):
        assert (await desk.post(view({"patch": patch}, seq=seq))).status == 200
    assert await shown(desk) == {"diff": '{"patch": "new"}'}
    await desk.post(view({}, seq=5))
    await desk.post(view({"patch": "late"}, seq=4))
    assert await shown(desk) == {}
    await desk.post(view({"patch": "unnumbered"}))
    await desk.post(view({"patch": "late"}, seq=4))
    assert await shown(desk) == {"diff": '{"patch": "unnumbered"}'}
    await desk.post(view({}, "cleared before it came", seq=2))
    await desk.post(view({"patch": "late"}, "cleared before it came", seq=1))
    assert "cleared before it came" not in await shown(desk)


async def test_views_at_once_are_kept_in_their_order(desk: Desk) -> None:
    bodies = [view({"n": number}, seq=number) for number in (3, 9, 1, 7)]
    await asyncio.gather(*(desk.post(body) for body in bodies))
    assert await shown(desk) == {"diff": '{"n": 9}'}


async def test_a_view_has_a_largest_size_and_settles_nothing(desk: Desk) -> None:
    fits = {"p": "x" * (VIEW_LIMIT - 9)}
    assert len(json.dumps(fits)) == VIEW_LIMIT
    assert (await desk.post(view(fits))).status == 200
    assert (await desk.post(view({"p": "x" * (VIEW_LIMIT - 8)}))).status == 413
    assert (await desk.post(view({"p": "é" * (VIEW_LIMIT // 6)}))).status == 413, "as it came, escapes count"
    assert not await desk.inbox()


async def test_a_thread_shows_a_hundred_types_at_a_time(desk: Desk) -> None:
    for number in range(VIEWS_KEPT):
        assert (await desk.post(view({"n": 1}, f"v{number}"))).status == 200
    assert (await desk.post(view({"n": 1}, "one more"))).status == 400
    assert (await desk.post(view({"n": 2}, "v7"))).status == 200
    assert (await desk.post(view({}, "v8"))).status == 200
    assert (await desk.post(view({"n": 1}, "one more"))).status == 200
    assert (await desk.post(view({"n": 1}, "v8"))).status == 400
    assert not await desk.inbox()


async def test_types_that_were_cleared_are_bounded_too(desk: Desk) -> None:
    gone = msgspec.msgpack.encode(View("gone"))
    for number in range(CLEARED_KEPT):
        await desk.store.put(views_space("T"), f"v{number}", gone)
    assert (await desk.post(view({"n": 1}, "new"))).status == 400
    assert (await desk.post(view({}, "new", seq=1))).status == 400
    assert (await desk.post(view({"n": 1}, "v1"))).status == 200


@pytest.mark.parametrize(
    "body",
    [view([]), view(None), view("x"), view({}, ""), view({}, "a\nb"), view({}, "x" * 257), view({}, 3)],  # type: ignore[arg-type]
)
async def test_a_malformed_view_settles_nothing(desk: Desk, body: dict[str, Any]) -> None:
    assert (await desk.post(body)).status == 400
    assert not await desk.inbox()
    assert await kept(desk) == {}


async def test_a_view_may_come_before_and_after_its_call_is_settled_but_not_for_another_thread(
    desk: Desk,
) -> None:
    await desk.thread("U")
    await desk.becomes("T", subscriptions={"call_2": subscribed()})
    assert (await desk.post(view({"n": 1}))).status == 200
    assert (await desk.post(view({"n": 2}, group_id="U"))).status == 403
    assert (await desk.post(view({"n": 2}, group_id="gone"), thread="gone")).status == 404
    assert await shown(desk) == {"diff": '{"n": 1}'}
    assert await kept(desk, "U") == {}


async def test_a_closed_thread_shows_what_it_showed(desk: Desk) -> None:
    await desk.post(view({"n": 1}))
    await desk.becomes("T", state="closed")
    outcome = await desk.post(view({"n": 2}))
    assert (outcome.status, outcome.ring) == (200, None)
    assert await shown(desk) == {"diff": '{"n": 1}'}
    assert len(told(desk)) == 1


async def progress(desk: Desk) -> dict[str, Progress]:
    """What is known of the progress of T's calls."""
    value = await desk.store.get(PROGRESS_SPACE, "T")
    found = msgspec.msgpack.decode(value, type=dict[str, Progress]) if value else {}
    assert all(one.at > 0 for one in found.values())
    return {call: msgspec.structs.replace(one, at=0.0) for call, one in found.items()}


async def test_progress_is_kept_by_call_until_the_call_is_done_or_settled(desk: Desk) -> None:
    await desk.becomes("T", pending={"a": waiting()}, detached={"b": waiting()})
    half = {"tool_call_id": "a", "fraction": 0.5, "message": "compiling\x1b\n parts"}
    await desk.post(view(half, "x-progress"), call="a")
    await desk.post(view({"message": "queued", "fraction": True}, "x-progress"), call="b")
    assert await progress(desk) == {"a": Progress(0.5, "compiling parts"), "b": Progress(-1.0, "queued")}
    assert Progress(0.5, "compiling").words == "50% done: compiling"
    assert [type for type, _ in told(desk)] == ["x-progress", "x-progress"]
    await desk.post(view({"tool_call_id": "b", "fraction": 0.9}, "x-progress"), call="a")
    assert (await progress(desk))["b"].fraction == -1.0, "a tool speaks for its own calls"
    await desk.post(view({}, "x-progress"), call="a")
    assert set(await progress(desk)) == {"b"}
    await desk.becomes("T", pending={"a": waiting()})
    for fraction in (7, -0.1, int("9" * 400)):
        assert (await desk.post(view({"fraction": fraction}, "x-progress"), call="a")).status == 200
        assert await progress(desk) == {"a": Progress()}
    await desk.post(view({"fraction": 1.0, "done": True}, "x-progress"), call="a")
    assert await progress(desk) == {}
