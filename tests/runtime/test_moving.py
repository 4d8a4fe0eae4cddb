"""A tree goes from one store to another, in memory and in files: whole, or not at all."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.cast import Cast, reports, spawns, tells
from tests.web.places import store_of, until
from torpor import Agent, Runtime
from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Arrived, Message, Moved, Noted, Reported, Turn, text_of
from torpor.core.thread import fold
from torpor.models import call, say

WAYS = pytest.mark.parametrize(("kind", "other"), [("memory", "sqlite"), ("sqlite", "memory")])
SOON = 10.0
PARTS: dict[str, Any] = {
    "root": [spawns("as kid: count"), say("Counting."), tells("now"), say("Told."), say("It is 2.")],
    "kid": [call("sleep_until_event_or_input"), reports("It is 2."), say("Reported.")],
}


class Pair:
    """Two runtimes over two stores, whose models play the same threads."""

    def __init__(self, here: Runtime, there: Runtime, played: dict[str, str]) -> None:
        self.here = here
        self.there = there
        self.played = played

    def thread(self, part: str) -> str:
        return next(thread for thread, played in self.played.items() if played == part)

    async def state(self, runtime: Runtime, part: str) -> str:
        row = await runtime.parts.store.row(self.thread(part))
        return row.state if row else ""

    async def rows(self, runtime: Runtime) -> dict[str, str]:
        """State by part."""
        rows = await runtime.threads()
        return {self.played[row.thread]: row.state for row in rows}


async def history(runtime: Runtime, thread: str) -> list[Message]:
    return await runtime.thread(thread).history()


async def is_quiet(runtime: Runtime) -> None:
    """Wait until nothing is owed, under way or unread."""
    store = runtime.parts.store

    async def nothing() -> bool:
        rows = await runtime.threads()
        busy = [row for row in rows if row.owes or await store.outbox(row.thread)]
        news = [row for row in rows if any(not one.due for one in await store.inbox(row.thread))]
        return not (busy or news)

    await until(nothing)


async def check_heads(*runtimes: Runtime) -> None:
    """Each head is the fold of its messages, wherever it is."""
    for runtime in runtimes:
        for row in await runtime.threads():
            messages = await runtime.parts.store.read(row.thread)
            assert decode_head(row.head, row.shape) == fold(decode_message(one.body) for one in messages)


@asynccontextmanager
async def pair(
    kind: str, other: str, path: Path, tools: Sequence[Any] = (), parts: dict[str, Any] | None = None
) -> AsyncIterator[Pair]:
    played: dict[str, str] = {}
    first, second = path / "first", path / "second"
    for folder in (first, second):
        folder.mkdir()

    def agents() -> list[Agent]:
        return [Agent("worker", model=Cast(played, **(parts or PARTS)), tools=list(tools))]

    async with (
        Runtime(store_of(kind, first), agents=agents(), listen=None) as here,
        Runtime(store_of(other, second), agents=agents(), listen=None) as there,
    ):
        yield Pair(here, there, played)


@WAYS
async def test_a_tree_goes_on_where_it_moves(kind: str, other: str, tmp_path: Path) -> None:
    async with pair(kind, other, tmp_path) as two:
        root = await two.here.start("worker", "go", user_id="u", context={"a": 1})
        assert (await root.reply(SOON)).text == "Counting."
        await until(lambda: _has(two.here, two, "kid", Turn))
        await is_quiet(two.here)
        before = {part: await history(two.here, two.thread(part)) for part in ("root", "kid")}
        waits = await root.explain()
        moved = await two.here.move(root.id, two.there)
        assert moved == [two.thread("root"), two.thread("kid")]
        assert await two.rows(two.here) == {"root": "moved", "kid": "moved"}
        assert await two.rows(two.there) == {"root": "open", "kid": "open"}
        for part in ("root", "kid"):
            *same, note = await history(two.there, two.thread(part))
            assert same == before[part]
            assert isinstance(note, Noted)
            assert note.note == Arrived(two.here.parts.url)
            *same, note = await history(two.here, two.thread(part))
            assert same == before[part]
            assert isinstance(note, Noted)
            assert note.note == Moved(two.there.parts.url)
        there = two.there.thread(root.id)
        assert (await there.explain()).waits == waits.waits
        assert (await there.row()).context == '{"a":1}'
        await there.send("tell it")
        await until(lambda: _said(two.there, root.id, "It is 2."))
        await is_quiet(two.there)
        assert [one.what for one in await history(two.there, root.id) if isinstance(one, Reported)]
        await check_heads(two.here, two.there)
        assert await two.here.parts.store.stranded() == []
        assert [row.thread for row in await two.here.threads(state="moved")] == sorted(moved)


async def _has(runtime: Runtime, two: Pair, part: str, kind: type) -> bool:
    if part not in two.played.values():
        return False
    return any(isinstance(one, kind) for one in await history(runtime, two.thread(part)))


async def _said(runtime: Runtime, thread: str, text: str) -> bool:
    return any(isinstance(one, Turn) and text_of(one.parts) == text for one in await history(runtime, thread))
