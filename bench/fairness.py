"""How long owners wait for their wakes while one of them floods: `python bench/fairness.py --json`.

All but one of the owners get news at a steady rate, some at once, first without a flood, then with one: all
threads of the last owner then have work, all the time. A wake is from the news being sent to the model being
asked. What takes less than FLOOR counts as that: it is as long as a few slices keep the event loop.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from torpor import Agent, Runtime
from torpor.core.chunks import AnyChunk, Stop, TextDelta
from torpor.core.messages import Usage
from torpor.core.request import Attempt, Request

NO_CAP = 1_000_000
FLOOR = 0.010
BURST = 4
"""Owners that get news at the same instant."""


class Slow:
    """A model that takes its time, and notes when it is asked for which thread."""

    name = "scripted:fairness"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.asked: dict[str, float] = {}
        self.flooding: asyncio.Queue[str] = asyncio.Queue()
        self.completions = 0

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:  # noqa: ARG002
        """The ``Model`` port."""
        self.completions += 1
        self.asked.setdefault(attempt.thread, time.perf_counter())
        self.flooding.put_nowait(attempt.thread)
        await asyncio.sleep(self._seconds)
        yield TextDelta("Done.")
        yield Stop("end", Usage())


class Bench:
    """A runtime with a thread for each owner, and many for the one that floods."""

    def __init__(self, runtime: Runtime, model: Slow, options: argparse.Namespace) -> None:
        self._runtime = runtime
        self._model = model
        self._options = options
        self._quiet: list[Any] = []
        self._flood: dict[str, Any] = {}

    async def start(self) -> None:
        """Make the threads, and wait until they rest."""
        for number in range(1, self._options.owners):
            self._quiet.append(await self._runtime.start("agent", "Hello.", owner=f"owner-{number}"))
        for _ in range(self._options.flood):
            thread = await self._runtime.start("agent", "Hello.", owner="flood")
            self._flood[thread.id] = thread
        for thread in [*self._quiet, *self._flood.values()]:
            await thread.reply(timeout=60)

    async def wakes(self) -> list[float]:
        """Seconds of each wake, news coming at the rate."""
        found: list[asyncio.Task[float]] = []
        begun = time.perf_counter()
        for number in range(self._options.news):
            at = begun + number // BURST * BURST / self._options.rate
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            found.append(asyncio.create_task(self._wake(self._quiet[number % len(self._quiet)])))
        wakes = await asyncio.gather(*found)
        for thread in self._quiet:
            await thread.reply(timeout=60)
        return wakes

    async def _wake(self, thread: Any) -> float:
        self._model.asked.pop(thread.id, None)
        begun = time.perf_counter()
        await thread.send("News.")
        while thread.id not in self._model.asked:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)
        return self._model.asked[thread.id] - begun

    async def flooded(self) -> list[float]:
        """The same while all of the flood's threads have work."""
        while not self._model.flooding.empty():
            self._model.flooding.get_nowait()
        for thread in self._flood.values():
            await thread.send("Flood.")
        flooding = asyncio.create_task(self._keep_flooding())
        try:
            return await self.wakes()
        finally:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
            for thread in self._flood.values():
                await thread.reply(timeout=60)

    async def _keep_flooding(self) -> None:
        while True:
            thread = self._flood.get(await self._model.flooding.get())
            if thread is not None:
                await thread.send("More.")


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Rounds without and with a flood, in turns."""
    model = Slow(options.model_ms / 1_000)
    agent = Agent("agent", model=model, instructions="Be quick.")
    still: list[float] = []
    flooded: list[float] = []
    runtime = Runtime(
        options.store, agents=[agent], listen=None, workers=options.workers, owner_cap=options.cap
    )
    async with runtime:
        bench = Bench(runtime, model, options)
        await bench.start()
        for _ in range(options.rounds):
            still += await bench.wakes()
            flooded += await bench.flooded()
    return {
        "store": options.store.partition(":")[0],
        "owners": options.owners,
        "workers": options.workers,
        "cap": options.cap or (options.workers + 1) // 2,
        "wakes": len(still),
        "still_p50_ms": _percentile(still, 50),
        "still_p99_ms": _percentile(still, 99),
        "flooded_p50_ms": _percentile(flooded, 50),
        "flooded_p99_ms": _percentile(flooded, 99),
        "rise": round(_percentile(flooded, 99) / max(_percentile(still, 99), FLOOR * 1_000), 2),
    }


def _percentile(seconds: list[float], percent: int) -> float:
    return round(statistics.quantiles(seconds, n=100)[percent - 1] * 1_000, 2)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="memory:")
    parser.add_argument("--owners", type=int, default=50)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--cap", type=int, default=0, help=f"0: half of the workers; {NO_CAP}: none")
    parser.add_argument("--flood", type=int, default=100, help="threads of the owner that floods")
    parser.add_argument("--model-ms", type=float, default=150.0)
    parser.add_argument("--rate", type=float, default=12.0, help="news a second, of all others together")
    parser.add_argument("--news", type=int, default=160, help="in each round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    if options.store == "sqlite:":
        with tempfile.TemporaryDirectory() as folder:
            options.store = f"sqlite:///{Path(folder) / 'fairness.db'}"
            told = asyncio.run(measure(options))
    else:
        told = asyncio.run(measure(options))
    print(json.dumps(told) if options.json else "\n".join(f"{key}: {value}" for key, value in told.items()))


if __name__ == "__main__":
    main()
