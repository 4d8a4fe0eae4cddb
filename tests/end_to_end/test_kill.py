"""Kill -9 of whichever process is at the point: the thread ends as if nothing had happened."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.mortal import POINTS, Place, clerk
from tests.runtime.shown import story, without_order
from torpor import Runtime
from torpor.core.messages import Text
from torpor.wiring import Parts

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30.0
pytestmark = pytest.mark.slow

Told = list[tuple[Any, ...]]


@asynccontextmanager
async def process(role: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = ["-m", "tests.end_to_end.mortal", role, *arguments]
    started = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def ended(started: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(SECONDS):
        return await started.wait()


async def url_of(started: asyncio.subprocess.Process) -> str:
    assert started.stdout is not None
    async with asyncio.timeout(SECONDS):
        return (await started.stdout.readline()).decode().strip()


class Run:
    """One thread on a store of its own, beside the tool server that all share."""

    def __init__(self, folder: Path, name: str, tools: str) -> None:
        self.name = name
        self.tools = tools
        self.place = Place(folder / name)
        self.place.folder.mkdir()
        self.store = f"sqlite:///{self.place.folder}/store.db"

    async def work(self, point: str = "") -> int:
        arguments = (self.store, self.tools, str(self.place.folder), self.name, point)
        async with process("work", *arguments) as worker:
            return await ended(worker)

    def check(self, charges: Place) -> None:
        assert charges.count(f"charge {self.name}") == 1, self.name
        assert self.place.count("book") == 1, self.name
        assert self.place.count("mail") <= 1, self.name
        assert self.place.runs("peek") >= 1, self.name


def check(told: Told, expected: Told, name: str) -> None:
    """As undisturbed, but for the unsafe function, whose outcome may be unknown."""
    assert len(told) == len(expected), name
    for one, other in zip(told, expected, strict=True):
        unknown = "outcome is unknown" in str(one) and "mailed b" in str(other)
        assert one == other or unknown, (name, one, other)


async def played(folder: Path, name: str, tools: str, charges: Place, point: str = "") -> Told:
    """One run in which a worker dies at the point and another goes on; callbacks come to this process."""
    run = Run(folder, name, tools)
    async with Runtime(run.store, agents=[clerk(tools, run.place)], workers=0) as receiver:
        thread = await receiver.start("clerk", "go", thread=name)
        if point:
            assert await run.work(point) == -signal.SIGKILL, point
        assert await run.work() == 0
        assert (await thread.reply(timeout=SECONDS)).text.startswith("charged 7; booked 8; saw a; ")
        run.check(charges)
        return without_order(story(await thread.history()))


async def test_a_worker_is_killed_at_every_point(tmp_path: Path) -> None:
    charges = Place(tmp_path)
    async with process("serve", str(tmp_path), "0", "") as server:
        tools = await url_of(server)
        expected = await played(tmp_path, "undisturbed", tools, charges)
        assert ("result", "call 3", "mailed b", "") in expected
        runs = [played(tmp_path, f"run{i}", tools, charges, point) for i, point in enumerate(POINTS)]
        for point, told in zip(POINTS, await asyncio.gather(*runs), strict=True):
            check(told, expected, point)


async def test_the_tool_server_is_killed_after_its_effect_before_its_callback(tmp_path: Path) -> None:
    charges = Place(tmp_path)
    async with process("serve", str(tmp_path), "0", "dies") as server:
        tools = await url_of(server)
        playing = asyncio.create_task(played(tmp_path, "killed", tools, charges))
        assert await ended(server) == -signal.SIGKILL
        assert charges.count("charge killed") == 1
        async with process("serve", str(tmp_path), tools.rsplit(":", 1)[1], "dies") as again:
            assert await url_of(again) == tools
            told = await playing
            expected = await played(tmp_path, "undisturbed", tools, charges)
    check(told, expected, "tool server")
    assert charges.runs("charge") == 3


async def test_the_receiver_is_killed_after_a_callback_is_stored_before_the_ring(tmp_path: Path) -> None:
    charges = Place(tmp_path)
    async with process("serve", str(tmp_path), "0", "") as server:
        tools = await url_of(server)
        run = Run(tmp_path, "killed", tools)
        receiver = ("receive", run.store, "127.0.0.1:0", str(run.place.folder))
        async with process(*receiver, "dies") as first, Parts(run.store, [clerk(tools, run.place)]) as parts:
            url = await url_of(first)
            await parts.threads.start("clerk", [Text("go")], thread="killed")
            working = asyncio.create_task(run.work())
            assert await ended(first) == -signal.SIGKILL
            again = ("receive", run.store, url.removeprefix("http://"), str(run.place.folder))
            async with process(*again, "") as second:
                assert await url_of(second) == url
                assert await working == 0
            told = without_order(story([e.message for e in await parts.threads.history("killed")]))
        run.check(charges)
        expected = await played(tmp_path, "undisturbed", tools, charges)
    check(told, expected, "receiver")
