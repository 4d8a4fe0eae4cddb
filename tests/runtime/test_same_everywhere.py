"""The same conversation over each store, with one worker, two and eight: the same requests, the same head."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runtime.conversation import LAST, agent, normal, requests, tool_server
from torpor import Runtime
from torpor.core.codec import decode_head
from torpor.core.messages import Message, Noted, Turn
from torpor.public import Thread

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
News = dict[str, "asyncio.Queue[str]"]


class Talk:
    """The person's side: each thing is sent when the history has come to its point."""

    def __init__(self, thread: Thread, folder: Path, news: "asyncio.Queue[str]") -> None:
        self.thread = thread
        self.folder = folder
        self.news = news

    async def hold(self) -> None:
        """The whole conversation."""
        await self._until(lambda messages: "saw c" in str(messages))
        self._let_go("b")
        await self._until(lambda messages: "held b" in str(messages))
        self._let_go("d")
        await self._turn(1)
        await self._say("Hold x.", after=1)
        await self._say("How far is it?", after=2)
        await self._turn(3)
        self._let_go("x")
        await self._say("Hold y.", after=4)
        await self._turn(5)
        await self.thread.send("And then rest.", "queue")
        await self._until(lambda messages: _notes(messages, "Queued") == 1)
        self._let_go("y")
        await self._say("Hold z.", after=8)
        await self._turn(9)
        await self._until(lambda messages: "saw z" in str(messages))
        await self.thread.send("Leave it.", "interrupt")
        await self._say("Watch the door.", after=10)
        await self._turn(12)
        await self.news.put("it opened")
        await self._turn(13)
        await self.news.put("last: it closed")
        await self._say("Look around.", after=14)
        await self._until(lambda messages: _notes(messages, "Parked") == 1)
        await self.thread.send("Enough.")
        await self._turn(LAST)

    def _let_go(self, what: str) -> None:
        (self.folder / f"go {what}").touch()

    async def _say(self, text: str, *, after: int) -> None:
        await self._turn(after)
        await self.thread.send(text)

    async def _turn(self, ordinal: int) -> None:
        await self._until(lambda m: any(isinstance(one, Turn) and one.ordinal == ordinal for one in m))

    async def _until(self, holds: Callable[[Sequence[Message]], bool]) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while not holds(await self.thread.history()):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(
                f"{(await self.thread.explain()).text} {await self.thread.history()}"
            ) from None


def _notes(messages: Sequence[Message], kind: str) -> int:
    return sum(type(message.note).__name__ == kind for message in messages if isinstance(message, Noted))


@asynccontextmanager
async def workers(store: str, folder: Path, tools: str, number: int) -> AsyncIterator[None]:
    """So many worker processes."""
    command = ["-m", "tests.runtime.conversation", store, str(folder), tools, str(number)]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT)
    try:
        yield
    finally:
        (folder / "stop").touch()
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == 0


def shared_store(folder: Path) -> str:
    """The URL of a store for many processes."""
    return f"sqlite:///{folder}/store.db"


async def held(root: Path, tools: str, news: News, kind: str, number: int) -> tuple[list[Any], Any]:
    """The requests and the final head of one conversation."""
    name = f"{kind}{number}"
    folder = root / name
    folder.mkdir()
    queue = news[name] = asyncio.Queue[str]()
    store = "memory:" if kind == "memory" else shared_store(folder)
    here = number if kind == "memory" else 0
    async with Runtime(store, agents=[agent(folder, tools)], workers=here) as runtime:
        thread = await runtime.start("talker", "Look at all of it.", thread=name)
        talk = Talk(thread, folder, queue)
        if kind == "memory":
            await talk.hold()
        else:
            async with workers(store, folder, tools, number):
                await talk.hold()
        row = await runtime.parts.threads.row(name)
        head = decode_head(row.head, row.shape)
        assert await runtime.parts.store.stranded() == []
    return requests(folder), normal(msgspec.json.encode(head))


@pytest.mark.slow
async def test_the_same_conversation_is_the_same_everywhere(tmp_path: Path) -> None:
    news: News = {}
    async with tool_server(tmp_path / "outbox.db", news).listening() as tools:
        kinds = [(kind, number) for kind in ("memory", "sqlite") for number in (1, 2, 8)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(held(tmp_path, tools, news, *one)) for one in kinds]
    talks = [task.result() for task in tasks]
    asked, head = talks[0]
    assert len(asked) == LAST + 1
    assert head["ordinal"] == LAST + 1
    assert "state" not in head, "open is the default, which is left out"
    for kind, (others, other_head) in zip(kinds, talks, strict=True):
        for ordinal, (one, other) in enumerate(zip(asked, others, strict=True)):
            assert one == other, (kind, ordinal)
        assert head == other_head, kind
