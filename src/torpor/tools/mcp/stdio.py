"""MCP servers as processes, spoken to over their standard input and output."""

import asyncio
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.shared.message import SessionMessage

from torpor.core.errors import Refused, Unavailable
from torpor.core.text import clean
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.guard import Guard
from torpor.tools.mcp.lines import Lines, Noise, Overlong, read_line, too_large

INHERITED = (
    "APPDATA", "COMSPEC", "HOME", "HOMEDRIVE", "HOMEPATH", "LANG", "LC_ALL", "LC_CTYPE", "LOCALAPPDATA",
    "LOGNAME", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES", "SHELL", "SYSTEMDRIVE",
    "SYSTEMROOT", "TEMP",
    "TERM", "TMP", "TMPDIR", "TZ", "USER", "USERNAME", "USERPROFILE", "WINDIR", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
)  # fmt: skip
"""Variables that a server gets from this process: none that commonly holds a secret."""
UTF8 = {"PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"}
"""What Python servers need to write what the protocol demands."""

CHUNK = 64 * 1024
PIECE = 4 * 1024
"""Bytes without the end of a line from which on they are a sign of life: part of a long answer."""
WAITING = 64
"""Messages to a server that wait while it does not read; further senders wait themselves."""
GRACE = 2.0
"""Seconds for a server to end when its input closes; as many after the signal to end; then it is killed."""
LEFTOVERS = 0.5
"""Seconds in which what a server has started may end, after the server has."""
LAST_WORDS = 0.25
"""Seconds in which output is still read after a server has ended."""
STDERR_LINES = 40
STDERR_SHOWN = 300

_guard = Guard()


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Streams, and an event for the end of the process alone: its children may hold its pipes open."""

    def __init__(self) -> None:
        super().__init__(limit=CHUNK, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class StdioTransport:
    """A server's process while it runs, as streams of messages for the SDK's session.

    ``on_end`` is called once when it has ended, or has closed its output; ``on_flow`` whenever more has come
    of a long line.
    """

    def __init__(self, server: McpServer, on_end: Callable[[], None], on_flow: Callable[[], None]) -> None:
        self.server = server
        self.noise = Noise()
        self.errors: deque[str] = deque(maxlen=STDERR_LINES)
        """What it wrote last on its standard error, line by line."""
        self.has_ended = False
        self._on_end = on_end
        self._on_flow = on_flow
        self._process: asyncio.SubprocessTransport | None = None
        self._protocol: _Protocol | None = None

    @property
    def pid(self) -> int | None:
        """Of the server, and of its process group."""
        return None if self._process is None else self._process.get_pid()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the server; give the messages from it, and where those to it go. Ends it in the end.

        ``Refused`` if there is no such program or folder.
        """
        protocol = await self._start()
        outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](WAITING)
        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        tasks = [
            asyncio.create_task(self._read(protocol, to_session)),
            asyncio.create_task(self._read_errors(protocol)),
            asyncio.create_task(self._write(protocol, to_send)),
        ]
        try:
            yield incoming, outgoing
        finally:
            self._ended()
            ending = asyncio.create_task(self._stop(protocol))
            try:
                await asyncio.shield(ending)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(ending, *tasks, return_exceptions=True)
                for stream in (incoming, outgoing, to_session, to_send):
                    stream.close()

    def account(self) -> str:
        """How the process ended, with its last words; empty while it runs and has said nothing."""
        code = None if self._process is None else self._process.get_returncode()
        told = []
        if code is not None:
            told.append(f"it ended by signal {-code}" if code < 0 else f"it ended with status {code}")
        elif self.has_ended:
            told.append("it closed its output")
        if self.errors:
            told.append(f"its last words: {' | '.join(list(self.errors)[-5:])}")
        if self.noise.count:
            told.append(str(self.noise))
        return self.server.hide("; ".join(told))

    async def has_exited(self, seconds: float) -> bool:
        """Whether the process has ended, or does so within some seconds."""
        if self._protocol is None:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._protocol.exited.wait(), seconds)
        return self._protocol.exited.is_set()

    async def _start(self) -> _Protocol:
        server, environment = self.server, environment_of(self.server)
        command = list(server.command or ())
        command[0] = _program(server, environment)
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                _Protocol, *command, env=environment, cwd=server.cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or type(error).__name__
            raise Refused(f"The MCP server {server.name!r} cannot be started: {words}.") from None
        self._process, self._protocol = transport, protocol
        _guard.watch(transport.get_pid())
        return protocol

    # -------------------------------------------------------------- what comes

    async def _read(self, protocol: _Protocol, to_session: Any) -> None:
        assert protocol.stdout is not None
        reading = asyncio.create_task(self._lines(protocol.stdout, to_session))
        exited = asyncio.create_task(protocol.exited.wait())
        try:
            await asyncio.wait((reading, exited), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait((reading,), timeout=LAST_WORDS)
        finally:
            for task in (reading, exited):
                task.cancel()
            await asyncio.gather(reading, exited, return_exceptions=True)
            self._ended()
            to_session.close()

    async def _lines(self, stdout: asyncio.StreamReader, to_session: Any) -> None:
        lines = Lines(self.server.result_limit)
        while chunk := await stdout.read(CHUNK):
            if len(chunk) > PIECE and b"\n" not in chunk:
                self._on_flow()
            for line in lines.feed(chunk):
                await self._deliver(line, to_session)
        await self._deliver(lines.end(), to_session)

    async def _deliver(self, line: bytes | Overlong, to_session: Any) -> None:
        if isinstance(line, Overlong):
            if line.id is None:
                self.noise.add(line.head)
            messages = too_large(line.id, self.server.result_limit, line.size)
        else:
            messages = read_line(line, self.noise)
        for message in messages:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await to_session.send(SessionMessage(message))

    async def _read_errors(self, protocol: _Protocol) -> None:
        assert protocol.stderr is not None
        lines = Lines(CHUNK)
        while chunk := await protocol.stderr.read(CHUNK):
            for line in lines.feed(chunk):
                self._keep(line)
        self._keep(lines.end())

    def _keep(self, line: bytes | Overlong) -> None:
        body = line.head if isinstance(line, Overlong) else line
        words = clean(body[: 4 * STDERR_SHOWN].decode("utf-8", "replace"))
        shown = "".join(filter(str.isprintable, " ".join(words.split())))[:STDERR_SHOWN]
        if shown:
            self.errors.append(shown)

    # -------------------------------------------------------------- what goes

    async def _write(self, protocol: _Protocol, to_send: Any) -> None:
        assert protocol.stdin is not None
        try:
            async for item in to_send:
                body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                protocol.stdin.write(body.encode("utf-8", "replace") + b"\n")
                await protocol.stdin.drain()
        except (OSError, ValueError, RuntimeError):
            pass  # the reader sees the end of the process, and tells
        finally:
            to_send.close()

    # -------------------------------------------------------------- the end

    def _ended(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._on_end()

    async def _stop(self, protocol: _Protocol) -> None:
        """Close its input, then ask its group to end, then kill it; and what is left of the group."""
        process = self._process
        assert process is not None
        assert protocol.stdin is not None
        protocol.stdin.close()
        group = process.get_pid()
        for number in (signal.SIGTERM, _KILL):
            if await self.has_exited(GRACE):
                break
            _signal_group(group, number)
        if not await self.has_exited(GRACE):
            raise Unavailable(f"The process {group} of the MCP server {self.server.name!r} cannot be ended.")
        if _signal_group(group, signal.SIGTERM):
            await asyncio.sleep(LEFTOVERS)
            _signal_group(group, _KILL)
        process.close()
        _guard.leave(group)


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def environment_of(server: McpServer) -> dict[str, str]:
    """The variables that a server's process is started with."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    kept = {name: value for name, value in kept.items() if not value.startswith("()")}
    told = kept.get("LC_ALL") or kept.get("LC_CTYPE") or kept.get("LANG") or ""
    if sys.platform != "win32" and "utf" not in told.lower():
        kept = {name: value for name, value in kept.items() if name not in ("LC_ALL", "LC_CTYPE")}
        kept["LANG"] = "C.UTF-8"
    return {**kept, **UTF8, **server.env}


def _program(server: McpServer, environment: Mapping[str, str]) -> str:
    assert server.command is not None
    given = server.command[0]
    if server.cwd is not None and not os.path.isdir(server.cwd):  # noqa: PTH112
        raise Refused(f"The MCP server {server.name!r} cannot be started: there is no folder {server.cwd!r}.")
    if os.path.dirname(given):  # noqa: PTH120
        path = os.path.join(server.cwd or "", given)  # noqa: PTH118
        found = os.path.abspath(path) if os.access(path, os.X_OK) else None  # noqa: PTH100
    else:
        found = shutil.which(given, path=environment.get("PATH"))
    if found is None:
        hint = "is it installed, and on the PATH?" if not os.path.dirname(given) else "is the path right?"  # noqa: PTH120
        raise Refused(
            f"The MCP server {server.name!r} cannot be started: there is no program {given!r}; {hint}"
        )
    return found


def _signal_group(group: int, number: int) -> bool:
    """Whether there was anybody left to get the signal."""
    killpg = getattr(os, "killpg", None)
    if killpg is None:
        return False
    try:
        killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
