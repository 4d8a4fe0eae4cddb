"""Whether anything leaks: `make soak TIME=1h STORE=sqlite`, `--write` for docs/soak.md.

Real processes (two lasting workers, one that is killed, an API, two tool servers, and a wire between them
that doubles, loses and refuses callbacks) do mixed work while faults strike; models fail in every way.
Meanwhile memory, handles, threads, tasks, rows and disk are sampled. At the end all threads must have come
to their end, with effects exactly as decided, and nothing may grow.
"""

import argparse
import asyncio
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import psycopg
from measuring import Machine, machine
from reporting import where
from soak_check import Checked, Traces
from soak_crew import LASTING, Crew
from soak_load import Crowd
from soak_process import Order
from soak_slopes import WARM, Slope, slope
from soak_watch import BOUNDS, Sample, Watch

from torpor.core.errors import TorporError
from torpor.runtime.retention import Keep, prune
from torpor.testing.postgres import Missing, free_port, server
from torpor.wiring import Parts, open_parts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "soak.md"
MOST_ALIVE = 150
SETTLING = 150.0
"""Seconds in which all threads must come to their end once nobody starts more and no fault strikes."""
PRUNE_EVERY = 10.0
LEASE, CLAIM = 3.0, 4.0


class Soaked(msgspec.Struct, frozen=True):
    """All that came of a soak."""

    store: str
    seconds: float
    rate: float
    cpu: float
    """Of one core, the share that all processes took."""
    machine: Machine
    done: dict[str, int]
    struck: dict[str, int]
    found: Checked
    stuck: list[str]
    samples: list[Sample]
    load: float
    """How many processes wanted to run on the machine, its mean over all samples."""
    day: str
    warm: float = 600.0
    """Seconds at the beginning that tell nothing, at least."""

    @property
    def slopes(self) -> list[Slope]:
        """What was sampled, by unit and name."""
        names = sorted(
            {(unit, name) for one in self.samples for unit, of in one.values.items() for name in of}
        )
        return [_slope(name, unit, self.samples, self.warm) for unit, name in names]

    @property
    def good(self) -> bool:
        """Nothing lost, nothing stuck, nothing grows."""
        return not self.stuck and not self.found.faults and all(one.flat for one in self.slopes)


def main() -> int:
    """The command."""
    given = _arguments().parse_args()
    try:
        soaked = _saved(given.saved) if given.saved else _run(given)
    except Missing as reason:
        print(f"soak: {reason}", file=sys.stderr)
        return 1
    if given.save:
        given.save.write_bytes(msgspec.json.encode(soaked))
    print("\n".join(told(soaked)))
    if given.write:
        written(PAGE, given.block or soaked.store, told(soaked))
    return 0 if soaked.good else 1


def _run(given: argparse.Namespace) -> Soaked:
    with _placed(given.store) as (store, folder, process):
        return asyncio.run(Soak(given, store, folder, process).run())


def _saved(path: Path) -> Soaked:
    return msgspec.json.decode(path.read_bytes(), type=Soaked, strict=False)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    add = parser.add_argument
    add("--time", type=seconds, default=60.0, help="such as 90s, 20m or 1h")
    add("--warm", type=seconds, default=600.0, help="time at the beginning that tells nothing, at least")
    add("--store", choices=["sqlite", "postgres"], default="sqlite")
    add("--rate", type=float, default=0.8, help="threads that are started a second")
    add("--every", type=float, default=15.0, help="seconds between two faults")
    add("--write", action="store_true", help="into docs/soak.md")
    add("--block", default="", help="name of the page's block, if not the store's")
    add("--save", type=Path, help="all that was sampled, as JSON")
    add("--saved", type=Path, help="tell of an earlier run, in place of a new one")
    return parser


def seconds(text: str) -> float:
    """A time as people write it: ``90``, ``90s``, ``20m``, ``1h``. ``ValueError`` for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None:
        raise ValueError(text)
    return float(found[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0}[found[2]]


@contextmanager
def _placed(kind: str) -> Iterator[tuple[str, Path, int]]:
    """A store's URL, a folder for all else, and the server's process."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torpor-soak-")))
        for name in ("effects", "pulse"):
            (folder / name).mkdir()
        if kind == "sqlite":
            yield f"sqlite:///{folder}/soak.db", folder, 0
            return
        running = stack.enter_context(server({"log_min_messages": "fatal"}))
        with psycopg.connect(running.url(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE soak")
        yield running.url("soak"), folder, running.process


class Soak:
    """One run."""

    def __init__(self, given: argparse.Namespace, store: str, folder: Path, process: int) -> None:
        self._given = given
        self._folder = folder
        ports = {role: free_port() for role in ("serve", "wire", "steady", "frail")}
        keep = Keep(closed=45.0, records=30.0, ids=120.0, awake=10.0)
        self._order = Order(store, str(folder), secrets.token_urlsafe(16), ports, LEASE, CLAIM, keep)
        self._watch = Watch(store, folder, process)
        self._crew = Crew(self._order, folder / "log", given.every)
        self._told = 0

    async def run(self) -> Soaked:
        """All of it."""
        parts = open_parts(self._order.store)
        async with parts:
            self._crowd = Crowd(
                self._order.url("serve"), self._order.token, parts, Traces(self._folder / "effects")
            )
            try:
                await self._crew.begin()
                await self._work(parts)
                stuck = await self._settle(parts)
                return self._soaked(stuck)
            finally:
                self._tell_log()
                await self._crew.end()

    async def _work(self, parts: Parts) -> None:
        """The time that was asked for."""
        self._began = time.monotonic()
        async with _meanwhile(self._prune(parts)):
            self._tending = asyncio.create_task(self._crowd.tend_for_ever())
            async with _meanwhile(
                self._crowd.start_for_ever(self._given.rate, MOST_ALIVE), self._crew.harm()
            ) as tasks:
                while self._past() < self._given.time:
                    await asyncio.sleep(min(max(self._given.time / 360, 1.0), 10.0))
                    self._sample()
                    _raise([*tasks, self._tending])

    async def _settle(self, parts: Parts) -> list[str]:
        """No more is begun and no fault strikes: all must come to an end. What has not."""
        await self._crew.heal()
        self._say("no more is begun, no fault strikes")
        deadline = time.monotonic() + SETTLING
        async with _meanwhile(self._prune(parts)):
            while self._crowd.alive and time.monotonic() < deadline:
                await asyncio.sleep(1.0)
                _raise([self._tending])
        self._tending.cancel()
        stuck = await self._crowd.stuck()
        held = [row for row, _ in await parts.store.stranded(1_000)]
        missing = [f"the process {name} ended by itself" for name in self._crew.missing()]
        return [*stuck, *(f"{row.thread} holds work that nobody does" for row in held), *missing]

    async def _prune(self, parts: Parts) -> None:
        while True:
            await asyncio.sleep(PRUNE_EVERY)
            try:
                await prune(parts.backend, self._order.keep)
            except TorporError as error:
                self._say(f"nothing could be pruned: {error}")

    def _sample(self) -> None:
        told_before = len(self._watch.samples)
        for fault in self._crowd.found.faults[self._told :]:
            self._say(f"WRONG: {fault}")
        self._told = len(self._crowd.found.faults)
        self._watch.look({"driver": os.getpid(), **self._crew.ids}, {"driver", *LASTING})
        if told_before % 6 == 0:
            self._progress(self._watch.samples[-1])

    def _progress(self, sample: Sample) -> None:
        memory, rows, disk = (sum(sample.values[unit].values()) for unit in ("MiB", "rows", "MiB on disk"))
        done, struck = sum(self._crowd.done.values()), sum(self._crew.struck.values())
        self._say(
            f"{done} done, {len(self._crowd.alive)} alive, {struck} faults struck, "
            f"{memory:.0f} MiB, {rows:.0f} rows, {disk:.1f} MiB on disk, CPU {100 * self._cpu():.0f} %"
            + (f", WRONG: {len(self._crowd.found.faults)}" if self._crowd.found.faults else "")
        )

    def _cpu(self) -> float:
        """Share of a core that all took, without the beginning."""
        samples = self._watch.samples[len(self._watch.samples) // 4 :]
        if len(samples) < 2:
            return 0.0
        return (samples[-1].cpu - samples[0].cpu) / (samples[-1].at - samples[0].at)

    def _past(self) -> float:
        return time.monotonic() - self._began

    def _say(self, what: str) -> None:
        print(f"{self._past():7.0f} s  {what}", file=sys.stderr, flush=True)

    def _tell_log(self) -> None:
        """The last words of all processes, if anything went wrong."""
        log = self._folder / "log"
        if log.exists() and (self._crowd.found.faults or self._crowd.alive):
            print(log.read_text(errors="replace")[-6_000:], file=sys.stderr)

    def _soaked(self, stuck: list[str]) -> Soaked:
        samples = self._watch.samples
        return Soaked(
            store=self._given.store,
            seconds=round(samples[-1].at - samples[0].at),
            rate=self._given.rate,
            cpu=self._cpu(),
            machine=machine(),
            done=dict(self._crowd.done),
            struck=dict(self._crew.struck),
            found=self._crowd.found,
            stuck=stuck,
            samples=samples,
            load=round(sum(one.load for one in samples) / len(samples), 1),
            warm=self._given.warm,
            day=time.strftime("%Y-%m-%d", time.gmtime()),
        )


def _slope(name: str, unit: str, samples: Sequence[Sample], warm: float) -> Slope:
    points = [(one.at, one.values[unit][name]) for one in samples if name in one.values.get(unit, ())]
    return slope(name, unit, BOUNDS.get(unit, 3.0), points, warm=warm)


@asynccontextmanager
async def _meanwhile(*works: "asyncio._CoroutineLike[None]") -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Have things go on while the block runs."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield tasks  # type: ignore[misc]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _raise(tasks: "Sequence[asyncio.Task[None]]") -> None:
    """What has ended should not have."""
    for task in tasks:
        if task.done():
            task.result()


def told(soaked: Soaked) -> list[str]:
    """All of it, as it stands on the page."""
    found = soaked.found
    lines = [
        f"Machine: {where(soaked.machine)}; {soaked.day}, mean load {soaked.load} (others work on it too).",
        f"{soaked.seconds / 60:.0f} minutes at {soaked.rate} threads a second, of which slopes leave out the "
        f"first {max(soaked.warm, WARM * soaked.seconds) / 60:.0f}: all processes together took "
        f"{100 * soaked.cpu:.0f} % of a core.",
        "",
        "| what was done | |",
        "|---|---|",
        f"| threads that people started | {sum(soaked.done.values()):,} ({_counted(soaked.done)}) |",
        f"| threads in all, turns, calls | {found.threads:,}, {found.turns:,}, {found.calls:,} |",
        f"| effects in the world; again under their id | {found.effects:,}; {found.repeats:,} |",
        f"| calls that ended with an error | {_counted(found.errors)} |",
        f"| faults that struck | {_counted(soaked.struck)} |",
        f"| lost, doubled or wrong | {len(found.faults)} |",
        f"| stuck at the end | {len(soaked.stuck)} |",
        "",
        *_table(soaked.slopes),
        "",
        *[f"- {fault}" for fault in [*found.faults[:20], *soaked.stuck[:20]]],
    ]
    return [*lines, verdict(soaked)]


def _counted(counts: "dict[str, int]") -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"


def _table(slopes: Sequence[Slope]) -> list[str]:
    lines = ["| what | of | mean | growth an hour | flat below | |", "|---|---|---|---|---|---|"]
    return lines + [
        f"| {one.unit} | {one.name} | {one.mean:,.1f} | {one.an_hour:+,.1f} ± {one.error:,.1f} "
        f"| {one.bound:,.0f} | {one.verdict} |"
        for one in slopes
    ]


def verdict(soaked: Soaked) -> str:
    """The end of it in plain words."""
    grown = [f"{one.unit} of {one.name}" for one in soaked.slopes if not one.flat]
    said = [f"grows: {', '.join(grown)}" if grown else "nothing grows"]
    wrong = len(soaked.found.faults)
    said.append(f"{wrong} things are wrong" if wrong else "nothing was lost or done without being decided")
    stuck = len(soaked.stuck)
    said.append(f"{stuck} threads or processes are stuck" if stuck else "all came to their end")
    return f"Verdict: {'; '.join(said)}."


def written(page: Path, store: str, lines: Sequence[str]) -> None:
    """Put lines between the marks of a store's block. ``ValueError`` if the page has no such block."""
    begin, end = f"<!-- {store}: written by `make soak` -->", f"<!-- end of {store} -->"
    text = page.read_text("utf-8")
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not block.search(text):
        raise ValueError(f"{page.name} has no block {store!r}")
    new = "\n".join([begin, "", *lines, "", end])
    page.write_text(block.sub(lambda _: new, text), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
