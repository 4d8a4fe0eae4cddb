"""One run of a runtime under test: its tool servers, a model that does what it is told, and the ledger."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from torpor.conformance.harness import Line, Reply, Running, RuntimeUnderTest, Server, Shown, Wish
from torpor.conformance.ledger import Ledger
from torpor.conformance.tool_stub import Request, ToolStub

CALL = "CALL "
FAIL = "FAIL"
CREDENTIAL = "conformance-credential"


class Pace(msgspec.Struct, frozen=True):
    """How long to wait, in seconds."""

    within: float = 15.0
    """For what must come."""
    quiet: float = 1.2
    """How long nothing must come, where nothing may."""
    at_once: float = 2.5
    """What takes no longer counts as side by side, or as not waiting."""


class Trial(msgspec.Struct, frozen=True):
    """What every check is given."""

    ledger: Ledger
    runtime: RuntimeUnderTest
    pace: Pace


class Brain:
    """A model that makes the calls which fresh words or events ask for, and else says that it noted."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.shown: list[Shown] = []
        self._changed = asyncio.Condition()

    async def think(self, shown: Shown) -> Reply:
        """Answer by what is fresh."""
        async with self._changed:
            self.shown.append(shown)
            self._changed.notify_all()
        for line in shown.fresh:
            if line.kind in ("said", "event") and CALL in line.text:
                told, _ = json.JSONDecoder().raw_decode(line.text.partition(CALL)[2])
                return [Wish(name, _text(arguments)) for name, arguments in told]
            if line.kind == "said" and FAIL in line.text:
                raise RuntimeError("the model fails, as it was told to")
        return "noted"

    async def until(self, holds: Callable[[Shown], object], within: float = 0) -> Shown | None:
        """The first that it was shown of which something holds; None if there is none in time."""

        def found() -> Shown | None:
            return next((one for one in self.shown if holds(one)), None)

        try:
            async with asyncio.timeout(within or self._pace.within), self._changed:
                await self._changed.wait_for(lambda: found() is not None)
        except TimeoutError:
            pass
        return found()

    async def saw(self, text: str, within: float = 0) -> Shown | None:
        """The first that it was shown with a line that has these words."""
        return await self.until(lambda shown: any(text in line.text for line in shown.lines), within)


class Stage:
    """A runtime that runs, with the stubs it was given."""

    def __init__(self, trial: Trial, running: Running, brain: Brain) -> None:
        self.ledger = trial.ledger
        self.pace = trial.pace
        self.running = running
        self.brain = brain

    async def call(self, stub: ToolStub, *wishes: tuple[str, Any], thread: str = "") -> list[Request]:
        """Have the model make calls of one stub; gives those that arrive there, in no certain order."""
        before = len(stub.calls)
        words = CALL + json.dumps(wishes)
        if thread:
            await self.running.say(thread, words)
        else:
            await self.running.start(words)
        await stub.until(lambda: len(stub.calls) >= before + len(wishes), self.pace.within)
        return stub.calls[before:]

    async def one(
        self, stub: ToolStub, name: str = "echo", arguments: Any = None, thread: str = ""
    ) -> Request:
        """The same for one call. TimeoutError if it does not arrive."""
        came = await self.call(stub, (name, arguments or {}), thread=thread)
        if not came:
            raise TimeoutError(f"a call of {name!r} did not arrive at its tool server")
        return came[0]

    async def told(self, stubs: Sequence[ToolStub], path: str) -> list[bool]:
        """Whether each stub is asked for a path in time."""
        waits = (stub.until(partial(stub.at, path), self.pace.within) for stub in stubs)
        return await asyncio.gather(*waits)

    async def results(self, thread: str, call: str = "") -> list[Line]:
        """The results in a history, or those of one call."""
        lines = await self.running.history(thread)
        return [line for line in lines if line.kind == "result" and call in ("", line.call)]

    async def result(self, thread: str, call: str, within: float = 0) -> Line | None:
        """The result of a call, once it is there; None if it does not come."""
        return await self.line(thread, lambda line: line.kind == "result" and line.call == call, within)

    async def line(self, thread: str, holds: Callable[[Line], object], within: float = 0) -> Line | None:
        """The first line of a history of which something holds, once it is there."""
        try:
            async with asyncio.timeout(within or self.pace.within):
                while True:
                    for line in await self.running.history(thread):
                        if holds(line):
                            return line
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return None


@asynccontextmanager
async def staged(trial: Trial, stubs: Sequence[ToolStub]) -> AsyncIterator[Stage]:
    """A runtime with these tool servers, while the block runs."""
    brain = Brain(trial.pace)
    servers = [Server(stub.url, CREDENTIAL) for stub in stubs]
    async with trial.runtime.running(servers, brain.think) as running:
        yield Stage(trial, running, brain)


def _text(arguments: Any) -> str:
    """Arguments as text; a text is taken as it is, valid or not."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
