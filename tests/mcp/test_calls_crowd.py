"""Two hundred threads that call three servers at once: one process a server, no answer for another's call."""

import asyncio
import resource
import time
from pathlib import Path

import pytest

from tests.mcp.mortal import DEPOT
from tests.mcp.test_calls import effects
from torpor import Agent, McpServer, Runtime
from torpor.core.request import Request
from torpor.models import ScriptedModel, call, say
from torpor.models.scripted import Words

THREADS = 200
SERVERS = ("north", "south", "west")
LONG = 90.0
QUIET = 5.0


def calls(request: Request) -> list[Words]:
    tag = request.text.split()[-1]
    return [call(f"{name}_send", tag=f"{name}-{tag}", seconds=0.2) for name in SERVERS]


def answers(request: Request) -> Words:
    return say(" ".join(sorted(result.text.split(": ")[1] for result in request.results)))


def cpu_of(folder: Path) -> float:
    """Seconds of the processor that a server's process has used."""
    [pid] = (folder / "starts").read_text().split()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def cpu_here() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
async def test_two_hundred_threads_call_three_servers_at_once(tmp_path: Path) -> None:
    import sys

    folders = {name: tmp_path / name for name in SERVERS}
    for folder in folders.values():
        folder.mkdir()
    servers = [
        McpServer(name, command=[sys.executable, str(DEPOT), str(folder)], prefix=f"{name}_")
        for name, folder in folders.items()
    ]
    agent = Agent("clerk", model=ScriptedModel([calls, answers]), tools=servers, approvals="never")
    async with Runtime("memory:", agents=[agent], listen=None) as runtime:
        threads = [await runtime.start("clerk", f"take {number}") for number in range(THREADS)]
        replies = await asyncio.gather(*(thread.reply(timeout=LONG) for thread in threads))
        for number, reply in enumerate(replies):
            assert reply.text == " ".join(sorted(f"{name}-{number}" for name in SERVERS))
        for name, folder in folders.items():
            assert len((folder / "starts").read_text().split()) == 1
            assert sorted(effects(folder)) == sorted(f"send {name}-{number}" for number in range(THREADS))
        await asyncio.sleep(1.0)
        before = [cpu_here(), *map(cpu_of, folders.values())]
        began = time.monotonic()
        await asyncio.sleep(QUIET)
        after = [cpu_here(), *map(cpu_of, folders.values())]
        shares = [
            (late - early) / (time.monotonic() - began) for early, late in zip(before, after, strict=True)
        ]
    assert shares[0] < 0.05, "the runtime is not quiet"
    assert max(shares[1:]) < 0.02, "a server is not quiet"
