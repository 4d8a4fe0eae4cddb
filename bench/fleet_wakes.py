"""How soon a callback wakes its thread: from its having come to the model being asked, in another process."""

import asyncio
import json
import statistics
import time
from collections import defaultdict, deque
from contextlib import AsyncExitStack

import aiohttp
import msgspec
from fleet_chain import begun, crew
from fleet_process import AnyLine, Asked, Received, Sent, opened

PATIENCE = 120.0
WARMING = 3.0
SENDERS = 64


class Wakes(msgspec.Struct, frozen=True):
    """What was seen."""

    workers: int
    slots: int
    threads: int
    most_per_s: float
    """Wakes a second when each call is answered at once."""
    rate: float
    """Wakes a second at which the following was measured."""
    wakes: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class Desk:
    """Answers calls of the workers' threads over HTTP, at once or at a rate."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._waiting: deque[Sent] = deque()
        self._threads: dict[str, str] = {}
        """By token of the callback."""
        self._came: defaultdict[str, list[float]] = defaultdict(list)
        self._asked: defaultdict[str, list[float]] = defaultdict(list)
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(SENDERS)
        self.at_once = False
        self.asked = 0

    @property
    def waiting(self) -> int:
        """Calls that nobody has answered."""
        return len(self._waiting)

    def hear(self, line: AnyLine) -> None:
        """A worker has said something."""
        if isinstance(line, Asked):
            self.asked += 1
            self._asked[line.thread].append(line.at)
        elif isinstance(line, Received):
            self._came[self._threads.pop(line.token)].append(line.at)
        elif isinstance(line, Sent):
            self._threads[line.callback.rpartition("/")[2]] = line.thread
            self._waiting.append(line)
            if self.at_once:
                self.answer()

    def waits(self, since: float) -> list[float]:
        """Seconds from each callback that has come since to the model being asked for its thread.

        The first completion of each thread answers a person.
        """
        found = []
        for thread, came in self._came.items():
            pairs = zip(came, self._asked[thread][1:], strict=False)
            found += [asked - at for at, asked in pairs if at >= since]
        return found

    def answer(self) -> None:
        """Answer the call that has waited longest."""
        if self._waiting:
            task = asyncio.create_task(self._post(self._waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _post(self, sent: Sent) -> None:
        body = {"type": "tool_result", "group_id": sent.thread, "id": sent.call, "text": "built"}
        async with self._places, self._session.post(sent.callback, data=json.dumps(body)) as answer:
            if answer.status != 200:
                raise RuntimeError(await answer.text())


async def wakes(store: str, workers: int, slots: int, threads: int, seconds: float) -> Wakes:
    """Measure the most that is possible, and then how long wakes take at half of that."""
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(opened(store, "wakes", 0))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        desk = Desk(session)
        receiver = await stack.enter_async_context(crew(desk.hear, store, "receive", 1, 0, 0))
        receiver.go()
        running = await stack.enter_async_context(crew(desk.hear, store, "wakes", workers, slots, 0))
        await begun(parts, threads)
        running.go()
        await _until(desk, threads)
        most = await _most(desk, seconds)
        await _until(desk, threads)
        rate = most / 2
        await _at(desk, rate, WARMING)
        since = time.monotonic()
        await _at(desk, rate, seconds)
        found = sorted(desk.waits(since))
    cuts = statistics.quantiles(found, n=100)
    p50, p90, p99 = (round(1e3 * cuts[percent - 1], 1) for percent in (50, 90, 99))
    return Wakes(workers, slots, threads, round(most, 1), round(rate, 1), len(found), p50, p90, p99)


async def _most(desk: Desk, seconds: float) -> float:
    """Wakes a second when every call is answered at once."""
    desk.at_once = True
    for _ in range(desk.waiting):
        desk.answer()
    await asyncio.sleep(WARMING)
    before, began = desk.asked, time.perf_counter()
    await asyncio.sleep(seconds)
    most = (desk.asked - before) / (time.perf_counter() - began)
    desk.at_once = False
    return most


async def _at(desk: Desk, rate: float, seconds: float) -> None:
    """Answer so many calls a second, evenly."""
    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        desk.answer()
    await asyncio.sleep(1.0)


async def _until(desk: Desk, waiting: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while desk.waiting < waiting:  # noqa: ASYNC110 - workers tell the desk, not us
            await asyncio.sleep(0.05)
