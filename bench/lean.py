"""Lean loops: the same work with nothing but threads, an encoder and an event loop: a floor for its cost.

No validation, no limits, no events, no records, no leases, no outbox, no retries, no projection: history is
decoded whole in each slice and new messages are appended. See docs/performance.md for what that leaves out.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Protocol
from uuid import UUID

import msgspec
from workload import ARGUMENTS, SEED, Texts

SLOTS = 8
GROUP = 64
"""Slices in one transaction of the lean SQLite loop with group commit."""

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE messages (
    number INTEGER PRIMARY KEY, agent INTEGER NOT NULL, position INTEGER NOT NULL, body BLOB
);
CREATE UNIQUE INDEX messages_of_agent ON messages (agent, position);
CREATE TABLE states (agent INTEGER PRIMARY KEY, version INTEGER NOT NULL, head BLOB);
"""


class Lean(msgspec.Struct, frozen=True, gc=False):
    """Settings shared by the lean messages."""


class Said(Lean, frozen=True, tag="s"):
    """A person's words."""

    at: float
    text: str


class Turn(Lean, frozen=True, tag="t"):
    """An answer, and its call if it has one."""

    at: float
    text: str
    call: str = ""
    name: str = ""
    arguments: str = ""


class Result(Lean, frozen=True, tag="r"):
    """What a call brought."""

    at: float
    call: str
    text: str


Message = Said | Turn | Result

encode = msgspec.msgpack.Encoder().encode
decode: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Model:
    """The scripted model, in the leanest form: pieces of text, then the call if one is due."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._random = Random(SEED)  # noqa: S311 - the same in each run

    async def stream(self, agent: int, request: list[Message]) -> AsyncIterator[str | tuple[str, str, str]]:
        """Text pieces; and a call after words, but not after a result."""
        for piece in self._texts.pieces(f"agent-{agent}", len(request) // 2):
            yield piece
        if not isinstance(request[-1], Result):
            yield str(UUID(int=self._random.getrandbits(128))), "run_command", ARGUMENTS


async def completed(model: Model, agent: int, history: list[Message]) -> Turn:
    """One completion over a decoded history."""
    pieces: list[str] = []
    call = name = arguments = ""
    async for chunk in model.stream(agent, history):
        if isinstance(chunk, str):
            pieces.append(chunk)
        else:
            call, name, arguments = chunk
    return Turn(0.0, "".join(pieces), call, name, arguments)


class Kept(Protocol):
    """Where a lean loop keeps its histories."""

    def history(self, agent: int) -> list[Message]:
        """All messages, decoded."""

    def append(self, agent: int, length: int, messages: list[Message]) -> None:
        """Add messages after ``length`` others."""

    def commit(self) -> None:
        """Make what was appended durable."""

    def close(self) -> None:
        """Let go."""


class Blobs:
    """Histories as msgpack bytes in RAM, one piece a message."""

    def __init__(self) -> None:
        self._blobs: dict[int, list[bytes]] = {}

    def history(self, agent: int) -> list[Message]:
        return [decode.decode(blob) for blob in self._blobs.get(agent, ())]

    def append(self, agent: int, length: int, messages: list[Message]) -> None:  # noqa: ARG002
        # An encoder's bytes hold room to grow; a copy does not.
        blobs = [bytes(memoryview(encode(message))) for message in messages]
        self._blobs.setdefault(agent, []).extend(blobs)

    def commit(self) -> None:
        """Nothing is durable here."""

    def close(self) -> None:
        """Nothing is held."""


class Rows:
    """Histories as rows of a SQLite log, and a state row an agent, with full durability."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(SCHEMA)
        self._connection.execute(f"PRAGMA synchronous = {synchronous}")
        self._open = False

    def history(self, agent: int) -> list[Message]:
        rows = self._connection.execute(
            "SELECT body FROM messages WHERE agent = ? ORDER BY position", (agent,)
        )
        return [decode.decode(body) for (body,) in rows]

    def append(self, agent: int, length: int, messages: list[Message]) -> None:
        if not self._open:
            self._connection.execute("BEGIN IMMEDIATE")
            self._open = True
        self._connection.executemany(
            "INSERT INTO messages (agent, position, body) VALUES (?, ?, ?)",
            [(agent, length + i, encode(message)) for i, message in enumerate(messages)],
        )
        version = length + len(messages)
        self._connection.execute(
            "INSERT INTO states VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET version = ?2, head = ?3",
            (agent, version, encode({"length": version, "pending": len(messages) == 2})),
        )

    def commit(self) -> None:
        if self._open:
            self._connection.execute("COMMIT")
            self._open = False

    def close(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


class Loop:
    """Slots that take agents with news and run a slice of each; tools run as tasks and post their result."""

    def __init__(self, kept: Kept, texts: Texts, group: int = 1) -> None:
        self.kept = kept
        self.completions = 0
        self._texts = texts
        self._group = group
        self._model = Model(texts)
        self._inbox: dict[int, deque[Message]] = {}
        self._ready: asyncio.Queue[int] = asyncio.Queue()
        self._waiting: list[tuple[int, str]] = []
        """Calls that go out after the next commit."""
        self._sliced = 0
        self._tools: set[asyncio.Task[None]] = set()
        self._target = 0
        self._reached = asyncio.Event()

    async def turn(self, agents: range, number: int) -> None:
        """Say something to each agent, and wait for two completions of each."""
        self._reached.clear()
        self._target = self.completions + 2 * len(agents)
        for agent in agents:
            self._post(agent, Said(0.0, self._texts.said(agent, number)))
        await self._reached.wait()
        self._flush()

    async def serve(self) -> None:
        """Run slices for ever."""
        while True:
            agent = await self._ready.get()
            await self._slice(agent)

    def _post(self, agent: int, message: Message) -> None:
        self._inbox.setdefault(agent, deque()).append(message)
        self._ready.put_nowait(agent)

    async def _slice(self, agent: int) -> None:
        history = self.kept.history(agent)
        length = len(history)
        news = self._inbox.pop(agent)
        history.extend(news)
        turn = await completed(self._model, agent, history)
        self.kept.append(agent, length, [*news, turn])
        if turn.call:
            self._waiting.append((agent, turn.call))
        self._sliced += 1
        if self._sliced >= self._group or self._ready.empty():
            self._flush()
        self.completions += 1
        if self.completions >= self._target:
            self._reached.set()

    def _flush(self) -> None:
        self.kept.commit()
        self._sliced = 0
        waiting, self._waiting = self._waiting, []
        for agent, call in waiting:
            task = asyncio.create_task(self._run(agent, call))
            self._tools.add(task)
            task.add_done_callback(self._tools.discard)

    async def _run(self, agent: int, call: str) -> None:
        self._post(agent, Result(0.0, call, self._texts.output(call)))


async def run_lean(kept: Kept, texts: Texts, wave: range, turns: int, group: int = 1) -> int:
    """All turns of a wave of agents; gives how many completions there were."""
    loop = Loop(kept, texts, group)
    slots = [asyncio.create_task(loop.serve()) for _ in range(SLOTS)]
    for number in range(turns):
        await loop.turn(wave, number)
    for slot in slots:
        slot.cancel()
    await asyncio.gather(*slots, return_exceptions=True)
    return loop.completions
