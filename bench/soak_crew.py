"""The processes of a soak, and what is done to them."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import msgspec
from soak_process import Order

PROGRAM = Path(__file__).with_name("soak_process.py")
LASTING = ("serve", "wire", "steady", "worker 1", "worker 2")
"""Processes that live from the beginning to the end; ``worker 2`` is stopped for a while now and then."""
MORTAL = ("worker 3", "frail")
"""Processes that are killed and come again."""
PAUSED = "worker 2"
Process = asyncio.subprocess.Process


class Crew:
    """All processes, by name."""

    def __init__(self, order: Order, log: Path, every: float) -> None:
        self.struck: Counter[str] = Counter()
        """Faults by kind."""
        self._order = order
        self._log = log
        self._every = every
        """Seconds between two faults, about."""
        self._processes: dict[str, Process] = {}

    @property
    def ids(self) -> dict[str, int]:
        """Process ids by name."""
        return {name: process.pid for name, process in self._processes.items()}

    async def begin(self) -> None:
        """Start all; workers last."""
        for name in ("steady", "frail", "serve", "wire", "worker 1", "worker 2", "worker 3"):
            await self._start(name)

    async def _start(self, name: str) -> None:
        pipe = asyncio.subprocess.PIPE
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), name.partition(" ")[0], stdin=pipe, stdout=pipe, stderr=log
            )
        self._processes[name] = process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(self._order))
        process.stdin.close()
        said = await asyncio.wait_for(process.stdout.readline(), 120.0)
        if said != b"ready\n":
            raise RuntimeError(f"{name} did not start; see {self._log}")

    async def harm(self) -> None:
        """Faults, for ever: one process is killed, another one stopped, and all goes on."""
        while True:
            await asyncio.sleep(random.uniform(0.5, 1.5) * self._every)
            await random.choice((self._kill_worker, self._pause, self._kill_tools, self._silence_tools))()

    async def _kill_worker(self) -> None:
        await self._kill("worker 3")
        self.struck["worker killed"] += 1
        await self._start("worker 3")

    async def _pause(self) -> None:
        """Longer than its leases and claims: what it holds is somebody else's when it goes on."""
        await self._stopped(PAUSED, self._order.lease + self._order.claim + 1.0)
        self.struck["worker stopped past its lease"] += 1

    async def _kill_tools(self) -> None:
        await self._kill("frail")
        self.struck["tool server killed"] += 1
        await asyncio.sleep(random.uniform(0.0, 5.0))
        await self._start("frail")

    async def _silence_tools(self) -> None:
        """It accepts connections and never answers."""
        await self._stopped("frail", random.uniform(5.0, 15.0))
        self.struck["tool server never answers"] += 1

    async def _kill(self, name: str) -> None:
        process = self._processes[name]
        process.kill()
        await process.wait()

    async def _stopped(self, name: str, seconds: float) -> None:
        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            process.send_signal(signal.SIGCONT)

    def missing(self) -> list[str]:
        """Processes that ended by themselves."""
        return [name for name, process in self._processes.items() if process.returncode is not None]

    async def heal(self) -> None:
        """Start what was killed when the faults ended."""
        for name in self.missing():
            await self._start(name)

    async def end(self) -> None:
        """End all in order, or else at once."""
        for process in self._processes.values():
            if process.returncode is None:
                os.kill(process.pid, signal.SIGTERM)
        waits = [asyncio.wait_for(one.wait(), 15.0) for one in self._processes.values()]
        await asyncio.gather(*waits, return_exceptions=True)
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
                await process.wait()
