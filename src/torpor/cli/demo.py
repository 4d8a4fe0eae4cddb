"""``torpor demo``: an agent runs this project's tests, sleeps meanwhile, and survives being killed.

Everything is real: a tool server process, worker processes that exit or are killed, a receiver that takes the
callback, a SQLite file. Only the model is scripted, unless the environment names a real one.
"""

import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from torpor.cli.visible import visible
from torpor.core.errors import Refused
from torpor.core.messages import Call, Noted, Result, Said, Turn, text_of
from torpor.runtime.replies import Entry
from torpor.runtime.threads import Threads

LEASE = 2.0
CLAIM = 3.0
STEP_SECONDS = 120.0
TOKEN = secrets.token_urlsafe(24)

console = Console(highlight=False)


class Failed(Exception):
    """A step of the demo did not happen."""


def demo() -> None:
    """Show an agent that runs this project's tests, sleeps meanwhile, and survives kill -9."""
    try:
        asyncio.run(perform())
    except (Failed, Refused, TimeoutError) as error:
        console.print(f"[bold red]The demo failed:[/] {_harmless(str(error) or 'a step took too long')}")
        raise SystemExit(1) from None


async def perform() -> None:
    """Show both runs; raises ``Failed`` or ``Refused`` if any step did not happen."""
    root = _checkout()
    place = Path(tempfile.mkdtemp(prefix="torpor-demo-"))
    try:
        async with _tool_server(root, place) as tools:
            _say("tools", f"a tool server listens on {tools}; it runs real programs")
            stage = Stage(root, place, tools)
            console.rule("An agent that sleeps while its tool works")
            calm = await stage.play("calm", dying=False)
            console.rule("The same, with kill -9 between commit and dispatch")
            hard = await stage.play("hard", dying=True)
        if calm != hard:
            raise Failed(f"the two histories differ:\n{calm}\n{hard}")
        _say("same", "both runs ended in the same history, message for message")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    console.print("\n[bold green]Every step happened.[/]")


class Stage:
    """What both runs have in common."""

    def __init__(self, root: Path, place: Path, tools: str) -> None:
        self.root = root
        self.place = place
        demo_folder = root / "examples" / "demo"
        told = {"DEMO_TOOLS": tools, "DEMO_TOKEN": TOKEN, "TORPOR_LEASE": str(LEASE)}
        told["TORPOR_LOG_LEVEL"] = "warning"
        self.environment = os.environ | told | {"PYTHONPATH": str(demo_folder)}
        os.environ.update(told)
        sys.path.insert(0, str(demo_folder))

    async def play(self, name: str, *, dying: bool) -> list[str]:
        """One run from the first word to the agent's report; gives its history without ids and times."""
        from torpor.public import Runtime
        from torpor.wiring import load_agents

        store = f"sqlite:///{self.place / name}.db"
        (agent,) = load_agents(["demo_agent:tester"])
        async with Runtime(store, agents=[agent], workers=0, lease=LEASE, claim=CLAIM) as receiver:
            threads = receiver.parts.threads
            _say("receiver", f"listens on {receiver.url}; it only takes callbacks, and runs no slices")
            before = await _warm(threads)
            task = sys.modules["demo_agent"].TASK
            thread = await receiver.start("tester", task)
            _say("person", "Run the tests of core/ and report how many passed.")
            if dying:
                await self._die(store)
            await self._worker(store, "a worker ran one slice, committed, dispatched the call, and exited")
            await self._asleep(threads, thread.id, before)
            await self._called_back(threads, thread.id)
            await self._worker(store, "a new worker woke the thread, ran one slice, and exited")
            reply = await thread.reply(timeout=1.0)
            _say("agent", reply.text)
            if " passed" not in reply.text:
                raise Failed("the agent did not report how many tests passed")
            return story(await threads.history(thread.id))

    async def _die(self, store: str) -> None:
        script = self.root / "examples" / "demo" / "dying_worker.py"
        code = await self._run([str(script), store, str(LEASE), str(CLAIM)])
        if code != -signal.SIGKILL:
            raise Failed(f"the worker should have been killed, and ended with {code}")
        _say("kill -9", "a worker committed the call and was killed before it could send it")

    async def _worker(self, store: str, done: str) -> None:
        command = ["-m", "torpor", "worker", "demo_agent:tester", "--store", store, "--until-idle"]
        began = time.monotonic()
        code = await self._run(command, quiet=True)
        if code != 0:
            raise Failed(f"a worker ended with {code}")
        _say("worker", f"{done} ({time.monotonic() - began:.1f} s, process and all)")

    async def _run(self, arguments: list[str], *, quiet: bool = False) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            env=self.environment,
            cwd=self.root,
            stderr=asyncio.subprocess.DEVNULL if quiet else None,
        )
        try:
            async with asyncio.timeout(STEP_SECONDS):
                return await process.wait()
        finally:
            await _ended(process)

    async def _asleep(self, threads: Threads, thread: str, before: tuple[int, int]) -> None:
        explained = await threads.explain(thread)
        _say("asleep", explained.text)
        tasks, handles = _held()
        if (tasks, handles) != before:
            raise Failed(f"the receiver holds {tasks} tasks and {handles} file handles; before: {before}")
        size = await _bytes_at_rest(threads, thread)
        _say(
            "at rest",
            f"the receiver holds {tasks} tasks and {handles} file handles, as before the thread began",
        )
        _say("at rest", f"the thread is {size:,} bytes in rows, and nothing else anywhere")

    async def _called_back(self, threads: Threads, thread: str) -> None:
        began = time.monotonic()
        with console.status("the tests run in the tool server; the thread sleeps"):
            async with asyncio.timeout(STEP_SECONDS):
                # Timers of the thread's own are there already.
                while all(one.due for one in await threads.store.inbox(thread)):  # noqa: ASYNC110 another process writes it
                    await asyncio.sleep(0.1)
        _say(
            "callback",
            f"the tool called back after {time.monotonic() - began:.1f} s; the result is in the inbox",
        )


def story(entries: list[Entry]) -> list[str]:
    """A history without ids, times and durations."""
    told = []
    for entry in entries:
        message = entry.message
        match message:
            case Said():
                told.append("said " + text_of(message.parts))
            case Turn():
                calls = [part.name + part.arguments for part in message.parts if isinstance(part, Call)]
                told.append(f"turn {text_of(message.parts)} {calls}")
            case Result():
                told.append("result " + text_of(message.parts))
            case Noted():
                told.append("noted " + type(message.note).__name__)
    return [re.sub(r"\d+(\.\d+)? ?s\b", "N s", line) for line in told]


@asynccontextmanager
async def _tool_server(root: Path, place: Path) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(root / "examples" / "tools" / "server.py"),
        *("--port", "0", "--root", str(root), "--outbox", str(place / "tools.outbox.db")),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"TOOLS_TOKEN": TOKEN},
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), STEP_SECONDS)
        if not line:
            raise Failed("the tool server did not start")
        yield f"http://127.0.0.1:{json.loads(line)['port']}"
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        await process.wait()


async def _bytes_at_rest(threads: Threads, thread: str) -> int:
    from torpor.core.codec import encode

    row = await threads.row(thread)
    snapshot = await threads.store.load(thread)
    sizes = [len(message.body) for message in snapshot.history or ()]
    sizes += [len(encode(record)) for record in await threads.store.records(thread)]
    sizes += [len(encode(signal)) for signal in await threads.store.inbox(thread)]
    return sum(sizes) + len(row.head)


async def _warm(threads: Threads) -> tuple[int, int]:
    """What the receiver holds once it has read its store: connections for reading are opened at first use."""
    await threads.store.threads()
    await threads.store.row("nobody")
    return _held()


def _held() -> tuple[int, int]:
    """Tasks and file handles of this process."""
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))


def _checkout() -> Path:
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "examples" / "tools" / "server.py").is_file() and (folder / "tests" / "core").is_dir():
            return folder
    raise Refused("The demo runs this project's own tests: start it in a checkout, with `make demo`.")


def _say(who: str, what: str) -> None:
    console.print(f"[bold]{who:>9}[/]  {_harmless(what)}")


def _harmless(text: str) -> str:
    """Words of tools and models, of which neither the terminal nor its markup obeys any."""
    return escape(visible(text))
