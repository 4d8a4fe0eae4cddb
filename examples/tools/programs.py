"""Running real programs: no shell, a process group each, bounded output, and an end that is always told."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import time
from pathlib import Path
from typing import Annotated

from output import Output
from places import inside

from torpor.tools.server import ToolCall, ToolError

MOST_OUTPUT = 60_000
LEFTOVER_GRACE = 0.5
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE_KEY", re.IGNORECASE)


class Programs:
    """Runs programs below one root directory."""

    def __init__(self, root: Path, *, gather: float = 5.0, grace: float = 2.0) -> None:
        self._root = root.resolve(strict=True)
        self._grace = grace
        self._gather = gather

    async def run_command(
        self,
        call: ToolCall,
        command: Annotated[list[str] | str, "program and arguments; a text is split like in a shell"],
        cwd: Annotated[str, "directory to run in, below the root directory"] = ".",
        patience: Annotated[float, "seconds to wait for the end before it becomes a subscription"] = 20.0,
        limit: Annotated[float, "seconds after which the program is ended"] = 3600.0,
    ) -> str | None:
        """Run a program and give its output and exit code. There is no shell: pipes, variables and wildcards
        mean nothing. A program that outlasts the patience turns the call into a subscription: events bring
        its output as it comes, the last one its exit code.
        """
        if call.restarted:
            _end_leftover(call.memory)
            raise ToolError("the tool server restarted while the program ran; its outcome is unknown")
        run = _Run(call, *await self._start(command, cwd))
        try:
            async with asyncio.timeout(limit):
                return await run.follow(patience, self._gather)
        except TimeoutError:
            return await run.end(f"Error: ended because it ran for more than {limit:g} s.", self._grace)
        except asyncio.CancelledError:
            return await run.end("Error: cancelled.", self._grace)
        finally:
            run.close()

    async def _start(
        self, command: list[str] | str, cwd: str
    ) -> tuple[asyncio.SubprocessTransport, "_Program"]:
        words = _words(command)
        place = inside(self._root, cwd)
        try:
            return await asyncio.get_running_loop().subprocess_exec(
                _Program,
                *words,
                cwd=place,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise ToolError(f"there is no program named {words[0]!r}") from None
        except NotADirectoryError:
            raise ToolError(f"{cwd!r} is not a directory") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "an argument cannot be passed on"
            raise ToolError(f"{words[0]!r} could not be started: {reason}") from None


class _Program(asyncio.SubprocessProtocol):
    """Hears from a program: what it writes, that it ended, that nobody can write any more."""

    def __init__(self) -> None:
        self.output = Output(MOST_OUTPUT)
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002
        self.output.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self.output.feed(b"", last=True)
        self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()


class _Run:
    """One program at work."""

    def __init__(self, call: ToolCall, process: asyncio.SubprocessTransport, program: _Program) -> None:
        self._call = call
        self._process = process
        self._group = process.get_pid()
        self._program = program
        self._output = program.output
        self._started = time.monotonic()
        self._ending = asyncio.create_task(self._wait())

    async def follow(self, patience: float, gather: float) -> str | None:
        """Wait for the end; past `patience`, subscribe and send gathered output every `gather` seconds."""
        await self._call.remember({"group": self._group, "since": _start_of(self._group)})
        await asyncio.wait({self._ending}, timeout=max(patience, 0.0))
        if self._ending.done():
            return self._report(self._outcome())
        first = self._report(f"Still running after {patience:g} s.", _more_to_come(self._call))
        self._output.clear()
        await self._call.subscribe(first)
        while not self._ending.done():
            await asyncio.wait({self._ending}, timeout=gather)
            if self._output and not self._ending.done():
                said = self._output.text()
                self._output.clear()
                await self._call.event(said, associative=True)
        await self._call.event(self._report(self._outcome()), final=True, associative=True)
        return None

    async def end(self, why: str, grace: float) -> str | None:
        """End the program and tell what it said; nothing is left of its process group."""
        _signal(self._group, signal.SIGTERM)
        await asyncio.wait({self._ending}, timeout=grace)
        _signal(self._group, signal.SIGKILL)
        await asyncio.wait({self._ending}, timeout=grace)
        return self._report(why)

    def close(self) -> None:
        """Let go of the program."""
        self._ending.cancel()
        self._process.close()

    async def _wait(self) -> None:
        await self._program.exited.wait()
        if not await _within(LEFTOVER_GRACE, self._program.silent):
            # Something it left behind holds the pipe: it goes with its group, and is not waited for.
            _signal(self._group, signal.SIGKILL)
            await _within(LEFTOVER_GRACE, self._program.silent)

    def _outcome(self) -> str:
        code = self._process.get_returncode()
        seconds = time.monotonic() - self._started
        how = f"Ended by signal {-code}" if code is not None and code < 0 else f"Exit code {code}"
        return f"{how} after {seconds:.1f} s."

    def _report(self, first: str, last: str = "") -> str:
        said = self._output.text() if self._output else "(no output)"
        return "\n".join(part for part in (first, said, last) if part)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _more_to_come(call: ToolCall) -> str:
    return f"Its output will come as events, the last with the exit code. Subscription ID: {call.id}"


def _words(command: list[str] | str) -> list[str]:
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        raise ToolError(f"the command cannot be split into words: {error}") from None
    if not words or not words[0]:
        raise ToolError("the command is empty")
    return words


def _environment() -> dict[str, str]:
    """What programs see: this server's environment without what looks like a secret."""
    kept = {name: value for name, value in os.environ.items() if not _SECRET.search(name)}
    kept.pop("RAP_EMBEDDED", None)
    return kept


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _start_of(pid: int) -> str | None:
    """When a process started, in the system's ticks: with the id, this names it for good. Linux only."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _end_leftover(memory: object) -> None:
    """End a program that outlived the server which started it."""
    if isinstance(memory, dict) and isinstance(memory.get("group"), int):
        since = memory.get("since")
        if since is not None and _start_of(memory["group"]) == since:
            _signal(memory["group"], signal.SIGKILL)
