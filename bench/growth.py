"""What a slice costs as its thread grows: `python bench/growth.py --json`.

A thread's history grows to 10,000 messages, a parent's children to 10,000, an inbox to 10,000 signals. At
some sizes a few slices are measured: CPU time of all threads of the process, without the building of the
request, which has to grow with what the model is shown. ``warm``: the thread was worked on here lately;
``cold``: it was not, so that a long history is read and decoded for the request, which is told apart.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
from measuring import machine
from placing import PAGE, placed, told_of

from torpor import Agent, Limits
from torpor.core.chunks import AnyChunk, CallDelta, CallStart, Stop, TextDelta
from torpor.core.codec import decode_head
from torpor.core.messages import Text, Usage
from torpor.core.request import Attempt, Request, ResultsItem
from torpor.runtime import completion
from torpor.runtime.slice import run_slice
from torpor.runtime.state import Running
from torpor.wiring import Parts, open_parts

AGENT = "grower"
THREAD = "growing"
WORDS = "The suite ran to its end, and each failure below belongs to a module that one change touched. " * 4
SPAWN = "Please spawn"
ARGUMENTS = f'{{"child_of":["{THREAD}"],"instructions":"Say that you are there, and wait."}}'
SPAWNS = 50
"""Children of one turn."""
BAR = 1.5


class Cost(msgspec.Struct, frozen=True):
    """What slices cost at one size, in microseconds of CPU time: the median, and the request's part apart."""

    of: str
    size: int
    state: str
    us: float
    request_us: float
    head_bytes: int


class Asides:
    """CPU time spent on building requests, which is told apart from the rest."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._build = completion._question  # noqa: SLF001 - measured, not used

    def __enter__(self) -> Self:
        completion._question = self._timed  # noqa: SLF001
        return self

    def __exit__(self, *_: object) -> None:
        completion._question = self._build  # noqa: SLF001

    async def _timed(self, slice: Any) -> Request:
        begun = time.process_time()
        try:
            return await self._build(slice)
        finally:
            self.seconds += time.process_time() - begun


class Growing:
    """Says some words; a parent that is told so spawns children instead."""

    name = "scripted:growth"

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        """The ``Model`` port."""
        last = request.items[-1]
        if attempt.thread == THREAD and SPAWN in str(last) and not isinstance(last, ResultsItem):
            for index in range(SPAWNS):
                yield CallStart(index, "spawn_thread", f"call-{attempt.ordinal}-{index}")
                yield CallDelta(index, ARGUMENTS)
            yield Stop("calls", Usage())
            return
        yield TextDelta(WORDS)
        yield Stop("end", Usage())


class Bench:
    """A thread, and its slices one by one."""

    def __init__(self, parts: Parts, asides: Asides) -> None:
        self._parts = parts
        self._asides = asides
        self.costs: list[Cost] = []

    async def slice(self) -> tuple[str, float, float]:
        """Run the next slice of any thread; gives its thread, its CPU seconds, and those of its request."""
        queue = self._parts.queue
        [lease] = await queue.next("growth", wait=30.0)
        before, begun = self._asides.seconds, time.process_time()
        outcome = await run_slice(self._parts.kit, Running(lease, since=time.time()))
        spent = time.process_time() - begun
        await queue.done(lease, again_at=outcome.again_at)
        return lease.thread, spent - (request := self._asides.seconds - before), request

    async def say(self, text: str = WORDS) -> None:
        """Speak to the thread."""
        if await self._parts.store.row(THREAD) is None:
            await self._parts.threads.start(AGENT, (Text(text),), thread=THREAD)
        else:
            await self._parts.threads.say(THREAD, (Text(text),))

    async def drained(self) -> None:
        """Run slices until nothing has work."""
        while await self._parts.queue.size():
            await self.slice()

    async def cost(self, of: str, size: int, state: str, count: int) -> None:
        """Measure some slices that answer words."""
        spent: list[tuple[float, float]] = []
        for _ in range(count):
            if state == "cold":
                self._parts.kit.hot.clear()
            await self.say()
            _, own, request = await self.slice()
            spent.append((own, request))
            await self.drained()
        await self.noted(of, size, state, spent)

    async def noted(self, of: str, size: int, state: str, spent: list[tuple[float, float]]) -> None:
        """Keep what was measured."""
        row = await self._parts.store.row(THREAD)
        assert row is not None
        own, request = (1e6 * statistics.median(part) for part in zip(*spent, strict=True))
        self.costs.append(Cost(of, size, state, round(own, 1), round(request, 1), len(row.head)))

    async def history(self, sizes: list[int], count: int) -> None:
        """Let the history grow."""
        for size in sizes:
            while await self._length() < size:
                await self.say()
                await self.drained()
            for state in ("warm", "cold"):
                await self.cost("history", size, state, count)

    async def children(self, sizes: list[int], count: int) -> None:
        """Let children become more."""
        for size in sizes:
            while len(await self._children()) < size:
                await self.say(SPAWN)
                await self.drained()
            for state in ("warm", "cold"):
                await self.cost("children", size, state, count)

    async def inbox(self, sizes: list[int], count: int) -> None:
        """Let news gather that nobody has looked at; the slices that absorb it are measured."""
        for size in sizes:
            await self.say()
            await self.drained()
            for _ in range(size):
                await self.say("News.")
            spent = [(await self.slice())[1:] for _ in range(min(count, max(1, size // 100)))]
            await self.noted("inbox", size, "warm", spent)
            await self.drained()

    async def _length(self) -> int:
        row = await self._parts.store.row(THREAD)
        return 0 if row is None else row.length

    async def _children(self) -> dict[str, Any]:
        row = await self._parts.store.row(THREAD)
        return {} if row is None else decode_head(row.head, row.shape).children


def agents() -> list[Agent]:
    """One that may have children without a bound."""
    most = 1_000_000
    limits = Limits(
        parallel=SPAWNS, completions=most, loopbacks=most, tokens=10**12, children=most, threads=most
    )
    model: Any = Growing()
    return [Agent(AGENT, model=model, limits=limits)]


@asynccontextmanager
async def fresh(store: str, asides: Asides) -> AsyncIterator[Bench]:
    """A bench over a new store of that kind."""
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        url = f"sqlite:///{Path(folder) / 'growth.db'}" if store == "sqlite:" else store
        async with open_parts(url, agents()) as parts:
            yield Bench(parts, asides)
            await parts.dispatcher.drain(5.0)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Every growth in a store of its own."""
    costs: list[Cost] = []
    grown: dict[str, Callable[[Bench], Any]] = {
        "history": lambda bench: bench.history(options.messages, options.count),
        "children": lambda bench: bench.children(options.children, options.count),
        "inbox": lambda bench: bench.inbox(options.signals, options.count),
    }
    with Asides() as asides:
        for name in options.of:
            async with fresh(options.store, asides) as bench:
                await grown[name](bench)
                costs += bench.costs
    return {
        "store": options.store.partition(":")[0],
        "bar": BAR,
        "rises": rises(costs),
        "costs": msgspec.to_builtins(costs),
        "machine": msgspec.to_builtins(machine()),
    }


def rises(costs: list[Cost]) -> dict[str, float]:
    """By what a slice's cost is multiplied from the smallest size (100, say) to the largest."""
    found: dict[str, float] = {}
    for one in costs:
        row = [other for other in costs if (other.of, other.state) == (one.of, one.state)]
        low, high = min(row, key=lambda cost: cost.size), max(row, key=lambda cost: cost.size)
        found[f"{one.of}, {one.state}"] = round(high.us / low.us, 2)
    return found


def table(told: dict[str, Any]) -> list[str]:
    """The figures as a table."""
    columns = "| what grows | size | us CPU of a slice | request, us | head |"
    rows = [columns, "|---|---|---|---|---|"]
    rows += [
        f"| {cost['of']}, {cost['state']} | {cost['size']:,} | {cost['us']:,.0f} "
        f"| {cost['request_us']:,.0f} | {cost['head_bytes']:,} B |"
        for cost in told["costs"]
    ]
    ended = ", ".join(f"{name} {rise:.2f}" for name, rise in told["rises"].items())
    return [*rows, "", f"From the smallest size to the largest a slice costs so many times as much: {ended}."]


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add, sizes = parser.add_argument, [100, 1_000, 10_000]
    add("--store", default="sqlite:", choices=("memory:", "sqlite:"))
    add("--of", nargs="+", default=["history", "children", "inbox"], choices=("history", "children", "inbox"))
    add("--messages", type=int, nargs="+", default=sizes)
    add("--children", type=int, nargs="+", default=sizes)
    add("--signals", type=int, nargs="+", default=sizes)
    add("--count", type=int, default=25, help="slices measured at each size")
    add("--json", action="store_true")
    add("--write", action="store_true", help="into docs/performance.md")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    told = asyncio.run(measure(options))
    if options.write:
        placed(PAGE, "growth", [told_of(told["machine"]), "", *table(told)])
    print(json.dumps(told, indent=1) if options.json else "\n".join(table(told)))


if __name__ == "__main__":
    main()
