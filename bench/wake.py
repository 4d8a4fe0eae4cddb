"""How long a callback takes to wake its thread: `python bench/wake.py --json`.

Threads sleep until their tool server calls back. A process serves them; callbacks come to it over HTTP, at
random instants and for random threads. Of each: when its news was durable (it was answered), when the slice
began, and when the model was asked, in milliseconds after it was sent.
"""

import argparse
import asyncio
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec
from bulk import filled
from measuring import machine
from placing import PAGE, placed, told_of
from sleepers import PATIENCE, Ended, call_of, name_of, served

from torpor.core.record import SliceRecord
from torpor.wiring import Parts, open_parts

STAGES = ("durable", "started", "asked")
SEED = 20_261_201
CONNECTIONS = 64
SETTLING = 1.0
"""Seconds between the start of a process and the first wake."""


class Wake(msgspec.Struct):
    """One callback, and the instants of what it brought about."""

    thread: str
    call: str
    path: str
    body: bytes
    sent: float = 0.0
    answered: float = 0.0
    started: float = 0.0
    asked: float = 0.0


class Load(msgspec.Struct, frozen=True):
    """What came of one load. Percentiles in milliseconds after a callback was sent."""

    sleeping: int
    per_s: float
    """Callbacks a second that were wanted."""
    sent_per_s: float
    wakes: int
    late_p99_ms: float
    """How much later than it should the client sent them: the machine is busy."""
    durable: dict[str, float]
    started: dict[str, float]
    asked: dict[str, float]


def chosen(count: int, many: int) -> list[int]:
    """Numbers of threads, at random, each once."""
    return Random(SEED).sample(range(count), many)  # noqa: S311 - the same in each run


async def prepared(parts: Parts, numbers: list[int]) -> list[Wake]:
    """Callbacks for threads of those numbers."""
    wakes = []
    for number in numbers:
        thread = name_of(number)
        call = await call_of(parts, thread)
        result = {"group_id": thread, "id": call, "type": "tool_result", "text": "It is built. " * 25}
        path = f"/callbacks/{parts.keys.mint(thread, call)}"
        wakes.append(Wake(thread, call, path, msgspec.json.encode(result)))
    return wakes


async def sent(url: str, wakes: list[Wake], per_s: float) -> tuple[float, list[float]]:
    """Send callbacks at random instants; gives the seconds it took and how late each was."""
    random = Random(SEED)  # noqa: S311 - the same in each run
    late: list[float] = []
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(url, connector=connector) as session, asyncio.TaskGroup() as group:
        begun = due = time.perf_counter()
        for wake in wakes:
            due += random.expovariate(per_s)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late.append(time.perf_counter() - due)
            group.create_task(_send(session, wake))
        seconds = time.perf_counter() - begun
    return seconds, late


async def _send(session: aiohttp.ClientSession, wake: Wake) -> None:
    wake.sent = time.time()
    async with session.post(wake.path, data=wake.body) as response:
        await response.read()
        wake.answered = time.time()
        if response.status != 200:
            raise RuntimeError(f"a callback was answered {response.status}")


async def seen(parts: Parts, wakes: list[Wake]) -> None:
    """Wait until each thread was asked about its news, and note when."""
    async with asyncio.timeout(PATIENCE):
        for wake in wakes:
            while (record := await _record(parts, wake)) is None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
            wake.started, wake.asked = record.leased_at, record.model_from


async def _record(parts: Parts, wake: Wake) -> SliceRecord | None:
    """The record of the slice that a callback woke."""
    last = await parts.store.last_record(wake.thread)
    signal = f"{wake.call}/result/{hashlib.sha256(wake.body).hexdigest()[:32]}"
    return last if last is not None and signal in last.woken_by and last.model_from else None


async def loaded(parts: Parts, url: str, numbers: list[int], per_s: float) -> tuple[Load, list[Wake]]:
    """Wake those threads at a rate."""
    wakes = await prepared(parts, numbers)
    seconds, late = await sent(url, wakes, per_s)
    await seen(parts, wakes)
    for wake in wakes:
        if not wake.sent < wake.started < wake.asked:
            raise RuntimeError(f"the instants of a wake are out of order: {wake}")
    load = Load(
        sleeping=0,
        per_s=per_s,
        sent_per_s=round(len(wakes) / seconds, 1),
        wakes=len(wakes),
        late_p99_ms=percentiles(late)["p99"],
        durable=percentiles([wake.answered - wake.sent for wake in wakes]),
        started=percentiles([wake.started - wake.sent for wake in wakes]),
        asked=percentiles([wake.asked - wake.sent for wake in wakes]),
    )
    return load, wakes


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Three of them, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=1000, method="inclusive")
    return {name: round(1e3 * cuts[at - 1], 2) for name, at in (("p50", 500), ("p99", 990), ("p99.9", 999))}


async def measure(options: argparse.Namespace, store: str) -> dict[str, Any]:
    """All loads with all numbers of sleeping threads, in one store that grows."""
    loads: list[Load] = []
    took: list[Ended | None] = []
    each = [max(20, round(rate * options.seconds)) for rate in options.rates]
    for sleeping in sorted(set(options.sleeping)):
        count = sleeping + sum(each)
        await filled(store, count)
        free = chosen(count, sum(each))
        async with open_parts(store) as parts, served(store, options.slots) as there:
            await asyncio.sleep(SETTLING)
            for rate, many in zip(options.rates, each, strict=True):
                numbers, free = free[:many], free[many:]
                load, _ = await loaded(parts, there.url, numbers, rate)
                loads.append(msgspec.structs.replace(load, sleeping=sleeping))
        took.append(there.ended)
    return {
        "store": store.partition(":")[0],
        "machine": msgspec.to_builtins(machine()),
        "seconds_of_each": options.seconds,
        "loads": msgspec.to_builtins(loads),
        "processes": msgspec.to_builtins(took),
    }


@asynccontextmanager
async def somewhere(store: str) -> AsyncIterator[str]:
    """A store of that URL; ``sqlite:`` is a temporary file."""
    if store != "sqlite:":
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="wake-") as folder:
        yield f"sqlite:///{Path(folder) / 'sleepers.db'}"


async def _run(options: argparse.Namespace) -> dict[str, Any]:
    async with somewhere(options.store) as store:
        return await measure(options, store)


def table(told: dict[str, Any]) -> list[str]:
    """The figures as a table."""
    heads = [f"{stage} p50 / p99 / p99.9, ms" for stage in STAGES]
    rows = ["| sleeping | callbacks / s | " + " | ".join(heads) + " |", "|---" * (2 + len(STAGES)) + "|"]
    for load in told["loads"]:
        cells = [" / ".join(f"{load[stage][cut]:.1f}" for cut in load[stage]) for stage in STAGES]
        rows.append(f"| {load['sleeping']:,} | {load['per_s']:g} | " + " | ".join(cells) + " |")
    return rows


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--store", default="sqlite:", help="sqlite: (a temporary file), sqlite:///path or postgresql://…")
    add("--sleeping", type=int, nargs="+", default=[0, 100_000], help="threads that sleep meanwhile")
    add("--rates", type=float, nargs="+", default=[10.0, 100.0, 300.0], help="callbacks a second")
    add("--seconds", type=float, default=15.0, help="of each load")
    add("--slots", type=int, default=16, help="slices side by side")
    add("--json", action="store_true")
    add("--write", action="store_true", help="into docs/performance.md")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    told = asyncio.run(_run(options))
    if options.write:
        placed(PAGE, "wake", [told_of(told["machine"]), "", *table(told)])
    print(json.dumps(told, indent=1) if options.json else "\n".join(table(told)))


if __name__ == "__main__":
    main()
