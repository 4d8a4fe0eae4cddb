"""The agent of agent_scale: its model, its tool, and the observer that counts."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any
from uuid import UUID

from workload import ARGUMENTS, SEED, Texts

from torpor import Agent, ToolContext, tool
from torpor.core.chunks import AnyChunk, CallDelta, CallStart, Stop, TextDelta
from torpor.core.messages import Usage
from torpor.core.request import Attempt, Request, ResultsItem
from torpor.ports import LiveEvent
from torpor.runtime.live import LocalLive

AGENT = "bencher"


class Scripted:
    """The scripted model: 12 pieces of text, and a call after words, but not after a result."""

    name = "scripted:agent_scale"

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._random = Random(SEED)  # noqa: S311 - the same in each run
        self._deltas: dict[tuple[str, ...], tuple[TextDelta, ...]] = {}

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        """The ``Model`` port."""
        for delta in self._text(attempt):
            yield delta
        if isinstance(request.items[-1], ResultsItem):
            yield Stop("end", Usage())
            return
        yield CallStart(0, "run_command", str(UUID(int=self._random.getrandbits(128))))
        yield CallDelta(0, ARGUMENTS)
        yield Stop("calls", Usage())

    def _text(self, attempt: Attempt) -> tuple[TextDelta, ...]:
        pieces = self._texts.pieces(attempt.thread, attempt.ordinal)
        known = self._deltas.get(pieces)
        if known is None:
            known = self._deltas[pieces] = tuple(TextDelta(piece) for piece in pieces)
        return known


class Observer(LocalLive):
    """Is told every event of every thread, counts them, and says when enough were committed."""

    def __init__(self) -> None:
        super().__init__()
        self.has_watchers = True
        self.events = 0
        self.commits = 0
        self._target = 0
        self._reached = asyncio.Event()

    def watched(self, thread: str) -> bool:  # noqa: ARG002
        """Always: the cost of events is part of the work."""
        return True

    def streamed(self, thread: str, chunk: AnyChunk) -> None:  # noqa: ARG002
        """Count it."""
        self.events += 1

    def publish(self, thread: str, event: LiveEvent) -> None:  # noqa: ARG002
        """Count it."""
        self.events += 1
        if event.kind == "committed":
            self.commits += 1
            if self.commits >= self._target:
                self._reached.set()

    def expect(self, commits: int) -> None:
        """From now on, so many more commits are waited for."""
        self._target = self.commits + commits
        self._reached.clear()

    async def reached(self, seconds: float) -> None:
        """Wait for them; ``TimeoutError`` if they do not come."""
        async with asyncio.timeout(seconds):
            await self._reached.wait()


def bencher(texts: Texts) -> Agent:
    """The agent: a model that follows the workload, and one tool beside the built-in ones."""

    @tool(repeat="safe")
    async def run_command(command: str, context: ToolContext) -> str:  # noqa: ARG001
        """Run a command and give what it prints."""
        return texts.output(context.call)

    model: Any = Scripted(texts)
    return Agent(AGENT, model=model, tools=[run_command])
