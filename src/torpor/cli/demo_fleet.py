"""``torpor demo --fleet``: many agents, four workers, and three of these come to harm.

Everything is real: a PostgreSQL server of its own, a receiver, a tool server and worker processes, of which
two are killed and one is stopped until others have taken over what it held. Only the model is scripted.
"""

import asyncio
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from torpor.cli.demo_audit import Audit, audit
from torpor.cli.visible import visible
from torpor.core.codec import decode_head
from torpor.core.errors import Refused
from torpor.core.messages import Text
from torpor.ports import Row

if TYPE_CHECKING:
    from torpor.wiring import Parts

AGENTS = 200
WORKERS = 4
LEASE = 2.0
CLAIM = 3.0
PAUSE = LEASE + CLAIM + 1.0
"""Seconds for which a worker is stopped: what it held is somebody else's by then."""
PATIENCE = 60.0
TICK = 0.25
LINES_EVERY = 2.0
"""Seconds between two lines where there is no terminal for a table."""
SENDERS = 16

DEVNULL, PIPE = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
Process = asyncio.subprocess.Process


class Failed(Exception):
    """The demo did not go as it should."""


def demo_fleet(agents: int = AGENTS) -> None:
    """Show many agents at work while workers are killed; exits with 1 if any work was lost or doubled."""
    try:
        asyncio.run(perform(agents))
    except (Failed, Refused, TimeoutError) as error:
        Console(highlight=False).print(f"The demo failed: {visible(str(error) or 'it took too long')}")
        raise SystemExit(1) from None


async def perform(agents: int) -> Audit:
    """Show all of it; ``Failed`` says what went wrong."""
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="torpor-fleet-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        fleet = Fleet(folder, stack)
        await fleet.open()
        await fleet.begin(agents)
        return await fleet.work()


class Worker(msgspec.Struct):
    """A worker process and what has become of it."""

    name: str
    process: Process
    state: str = "working"


class Seen(msgspec.Struct):
    """The agents at one moment."""

    agents: int = 0
    finished: int = 0
    asleep: int = 0
    """They wait for tools, and are rows."""
    completions: int = 0
    wanted: int = 1
    """Completions in all."""

    @property
    def share(self) -> float:
        """How much of all is done."""
        return self.completions / self.wanted


class Fleet:
    """The processes, what they share, and what is done to them."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._console = Console(highlight=False)
        self._log = stack.enter_context((folder / "log").open("ab"))
        self._began = time.monotonic()
        self._threads: list[str] = []
        self._workers: list[Worker] = []
        self._told: list[str] = []
        self._acts: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (0.15, lambda: self._pause(2)),
            (0.3, lambda: self._kill(0)),
            (0.6, lambda: self._kill(1)),
        ]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TORPOR_")}
        self._environment = kept | {
            "FLEET_FOLDER": str(folder),
            "FLEET_TOKEN": secrets.token_urlsafe(24),
            "PYTHONPATH": str(_examples()),
            "TORPOR_LEASE": str(LEASE),
            "TORPOR_CLAIM": str(CLAIM),
            "TORPOR_LOG_LEVEL": "error",
            "TORPOR_TOKEN_FILE": str(folder / "token"),
            "TORPOR_WORKERS": "16",
        }

    async def open(self) -> None:
        """Start everything; returns once all of it is there."""
        postgres = await self._process("-m", "torpor.testing.postgres", stdin=PIPE, stdout=PIPE)
        tools = await self._process(str(_examples() / "fleet.py"), stdout=PIPE)
        self._store = await self._line(postgres, "PostgreSQL")
        port = msgspec.json.decode(await self._line(tools, "the tool server"))["port"]
        self._environment |= {"FLEET_TOOLS": f"http://127.0.0.1:{port}", "TORPOR_STORE": self._store}
        self._say("postgres", f"a server of its own: {self._store}")
        self._parts = await self._open_parts()
        await self._process("-m", "torpor", "serve", "--listen", "127.0.0.1:0", "--workers", "0")
        for number in range(WORKERS):
            process = await self._process("-m", "torpor", "worker", "fleet:clerk")
            self._workers.append(Worker(f"worker {number + 1}", process))
        await self._until(self._is_there, "the receiver and the workers")
        address = await self._parts.address()
        self._say("receiver", f"takes callbacks at {address.url}; it runs no slices")
        self._say("workers", f"{WORKERS} processes, which know of each other only what the database tells")

    async def begin(self, agents: int) -> None:
        """Give each agent its task."""
        self._threads = [f"agent-{number:04}" for number in range(agents)]

        async def send(threads: list[str]) -> None:
            for thread in threads:
                await self._parts.threads.start("clerk", [Text("Send all parcels.")], thread=thread)

        await asyncio.gather(*(send(self._threads[first::SENDERS]) for first in range(SENDERS)))
        self._began = time.monotonic()
        self._say("agents", f"{agents} have a task: two tools side by side, {self._parcels} times over")

    async def work(self) -> Audit:
        """Watch them to their end, harming workers meanwhile, and look whether all was done once."""
        if self._console.is_terminal:
            with Live(console=self._console, refresh_per_second=8) as live:
                await self._watch(lambda seen: live.update(self._table(seen)))
        else:
            await self._watch(self._lines())
        performed = {kind: _performed(self._folder / kind) for kind in ("stamp", "weigh")}
        found = await audit(self._parts.store, self._threads, performed)
        self._tell(found, performed)
        if found.faults:
            raise Failed("; ".join(found.faults[:10]))
        return found

    async def _watch(self, show: Callable[[Seen], None]) -> None:
        async with asyncio.timeout(3 * PATIENCE):
            while True:
                seen = await self._look()
                for act in [act for share, act in self._acts if share <= seen.share]:
                    await act()
                self._acts = [one for one in self._acts if one[0] > seen.share]
                show(seen)
                if seen.finished == seen.agents and all(one.state != "paused" for one in self._workers):
                    return
                await asyncio.sleep(TICK)

    async def _look(self) -> Seen:
        rows: list[Row] = []
        while page := await self._parts.store.threads(after=rows[-1].thread if rows else "", limit=1_000):
            rows += page
        agents = len(self._threads)
        seen = Seen(agents, wanted=agents * (self._parcels + 1))
        for row in rows:
            head = decode_head(row.head, row.shape)
            seen.completions += head.ordinal
            seen.finished += bool(head.ordinal) and not (row.owes or head.exchange.open)
            seen.asleep += row.waits > 0
        return seen

    async def _kill(self, number: int) -> None:
        worker = self._workers[number]
        worker.process.kill()
        await worker.process.wait()
        worker.state = "killed"
        self._happened(f"kill -9 of {worker.name}, in the middle of its work")

    async def _pause(self, number: int) -> None:
        worker = self._workers[number]
        worker.process.send_signal(signal.SIGSTOP)
        worker.state = "paused"
        self._happened(f"{worker.name} is stopped (SIGSTOP) for {PAUSE:.0f} s; its leases are {LEASE:.0f} s")

        async def resume() -> None:
            await asyncio.sleep(PAUSE)
            worker.process.send_signal(signal.SIGCONT)
            worker.state = "resumed"
            self._happened(f"{worker.name} goes on with what is no longer its own")

        self._resuming = asyncio.create_task(resume())

    def _happened(self, what: str) -> None:
        self._told.append(f"{time.monotonic() - self._began:5.1f} s  {what}")
        if not self._console.is_terminal:
            self._say("", self._told[-1])

    def _table(self, seen: Seen) -> Table:
        table = Table(title=self._progress(seen), title_justify="left", box=None, padding=(0, 2))
        for column in ("worker", "process", "state", "parcels stamped"):
            table.add_column(column)
        stamps = _performers(self._folder / "stamp")
        for worker in self._workers:
            style = {"killed": "red", "paused": "yellow"}.get(worker.state, "green")
            pid = worker.process.pid
            table.add_row(worker.name, str(pid), worker.state, str(stamps[pid]), style=style)
        table.caption = "\n".join(self._told)
        table.caption_justify = "left"
        return table

    def _progress(self, seen: Seen) -> str:
        return (
            f"{time.monotonic() - self._began:5.1f} s  {seen.finished} of {seen.agents} have finished, "
            f"{seen.asleep} sleep while tools work, {seen.completions} completions"
        )

    def _lines(self) -> Callable[[Seen], None]:
        shown = 0.0

        def show(seen: Seen) -> None:
            nonlocal shown
            if time.monotonic() - shown > LINES_EVERY or seen.finished == seen.agents:
                shown = time.monotonic()
                self._say("", self._progress(seen))

        return show

    def _tell(self, found: Audit, performed: dict[str, Counter[str]]) -> None:
        names = {str(one.process.pid): one.name for one in self._workers}
        slices = {names.get(worker.rpartition("/")[2], worker): n for worker, n in found.slices.items()}
        shares = ", ".join(f"{name} {slices[name]}" for name in sorted(slices))
        self._say("slices", f"{shares}; {found.ends['conflict']} lost a race and were forgotten")
        effects = sum(map(len, performed.values()))
        self._say("effects", f"{effects} were decided and done, {found.repeats} of them again under their id")
        if not found.faults:
            self._say("agents", f"all {found.threads} have finished, each exactly once")

    async def _is_there(self) -> bool:
        from torpor.runtime.presence import present

        here = await present(self._parts.side, await self._parts.store.now())
        return len(here) == WORKERS and bool((await self._parts.address()).url)

    async def _until(self, there: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await there():
            if time.monotonic() > deadline:
                raise Failed(f"{what} did not start: {self._last_words()}")
            await asyncio.sleep(TICK)

    async def _open_parts(self) -> "Parts":
        from torpor.wiring import load_agents, open_parts

        os.environ.update(self._environment)
        sys.path.insert(0, str(_examples()))
        parts = open_parts(self._store, load_agents(["fleet:clerk"]))
        self._parcels: int = sys.modules["fleet"].PARCELS
        return await self._stack.enter_async_context(parts)

    async def _process(self, *words: str, stdin: int = DEVNULL, stdout: int = DEVNULL) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, env=self._environment, stdin=stdin, stdout=stdout, stderr=self._log
        )
        self._stack.push_async_callback(_ended, process)
        return process

    async def _line(self, process: Process, what: str) -> str:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        if not line:
            raise Failed(f"{what} did not start: {self._last_words()}")
        return line.decode().strip()

    def _last_words(self) -> str:
        return (self._folder / "log").read_text(errors="replace").strip()[-1_000:] or "it says nothing"

    def _say(self, who: str, what: str) -> None:
        self._console.print(f"{who:>9}  {visible(what)}", markup=False, soft_wrap=True)


def _performed(file: Path) -> Counter[str]:
    """How often each effect happened, by its id."""
    return Counter(line.split()[0] for line in _written(file))


def _performers(file: Path) -> Counter[int]:
    """How many effects each process performed."""
    return Counter(int(line.split()[1]) for line in _written(file))


def _written(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


async def _ended(process: Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10.0)
        except TimeoutError:
            process.kill()
            await process.wait()


def _examples() -> Path:
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "examples" / "demo" / "fleet.py").is_file():
            return folder / "examples" / "demo"
    raise Refused("The demo's agents are in the project's examples: start it in a checkout.")
