"""Running the commands as processes, in a folder of their own with agents of their own."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torpor.cli import main

DEADLINE = 20.0

AGENTS = '''
import asyncio
from pathlib import Path

from torpor import Agent, tool
from torpor.models import ScriptedModel, call, say


@tool(repeat="safe")
async def fetch() -> str:
    """Fetch what is behind the gate; waits until it is open."""
    Path("started").touch()
    while not Path("gate").exists():
        await asyncio.sleep(0.01)
    return Path("gate").read_text()


def fetching(request):
    if request.results:
        return say("It says: " + request.results[0].text)
    return [say("Let me look."), call("fetch")]


echo = Agent("echo", model=ScriptedModel(lambda request: "echo " + request.text, chunk=5, pace=0.005))
fetcher = Agent("fetcher", model=ScriptedModel(fetching), tools=[fetch])
'''


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class Shell:
    """A folder with ``bots.py``, ``torpor.toml`` and a store, and commands that run in it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TORPOR_")}
        self.environment = kept | {"PYTHONUNBUFFERED": "1", "COLUMNS": "120"} | environment
        (folder / "bots.py").write_text(AGENTS)
        (folder / "torpor.toml").write_text(
            'store = "sqlite:///threads.db"\nlisten = "127.0.0.1:0"\nagents = ["bots:echo", "bots:fetcher"]\n'
        )

    def run(self, *arguments: str, said: str = "") -> "Ended":
        """Run a command to its end, in this process, since starting one costs most of the time."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.folder),
            environment_of(self.environment),
            swapped(sys, "argv", ["torpor", *arguments]),
            swapped(sys, "stdin", io.StringIO(said)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = ended(main)
        return Ended(code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str) -> "Ended":
        """Run a command to its end in a process of its own."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def good(self, *arguments: str, said: str = "") -> str:
        """Run a command that must go well; gives its output."""
        done = self.run(*arguments, said=said)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def shown(self, thread: str) -> dict[str, Any]:
        """What ``show --json`` gives."""
        found: dict[str, Any] = json.loads(self.good("show", thread, "--json"))
        return found

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that runs until the block ends; its messages go to the file ``log``."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE)

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """A server that runs until the block ends; gives its address."""
        before = len(self.log)
        with self.running("serve") as process:
            until(lambda: "token in" in self.log[before:] or process.poll() is not None)
            found = re.search(r"serving (http://\S+)", self.log[before:])
            assert found, self.log
            yield found[1]
        assert process.returncode == 0, self.log

    @property
    def log(self) -> str:
        """What running commands wrote."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def command(self, *arguments: str) -> list[str]:
        """The command line of a process."""
        return [sys.executable, "-m", "torpor", *arguments]


def until(condition: Callable[[], object]) -> None:
    """Look again and again until a condition holds; fails after a while."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def ended(command: Callable[[], None]) -> int:
    """The exit code of a command."""
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextlib.contextmanager
def swapped(owner: object, name: str, value: object) -> Iterator[None]:
    """Another value of an attribute while the block runs."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def environment_of(environment: dict[str, str]) -> Iterator[None]:
    """Another environment while the block runs."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
