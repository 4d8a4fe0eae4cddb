"""kill -9 of a runtime in the midst of calls: the right result, or an honest word that nobody knows it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torpor import Refused, Runtime

ROOT = Path(__file__).parents[2]
SOON = 90.0


def start(folder: Path, tool: str, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.mcp.mortal", str(folder), tool, str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_for(path: Path, text: str) -> None:
    until = time.monotonic() + SOON
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < until, f"no {text!r} in {path.name}"
        time.sleep(0.02)


def killed_and_gone_on(folder: Path, tool: str, seconds: float, *, pause: float = 0.0) -> str:
    """What the model said at last, after the process died while the tool worked."""
    dying = start(folder, tool, seconds)
    wait_for(folder / "effects", f"{tool} once")
    time.sleep(pause)
    dying.send_signal(signal.SIGKILL)
    dying.communicate()
    assert not (folder / "reply").exists()
    living = start(folder, tool, seconds)
    _, errors = living.communicate(timeout=SOON)
    assert living.returncode == 0, errors.decode()
    return (folder / "reply").read_text()


def effects(folder: Path) -> list[str]:
    return [line for line in (folder / "effects").read_text().splitlines() if "cancelled" not in line]


def servers_alive(folder: Path) -> list[int]:
    """Processes of the depot that are still there."""
    found = []
    for line in (folder / "starts").read_text().split():
        try:
            os.kill(int(line), 0)
        except ProcessLookupError:
            continue
        found.append(int(line))
    return found


def gone(folder: Path) -> None:
    until = time.monotonic() + SOON
    while servers_alive(folder):
        assert time.monotonic() < until, "a server outlives its runtime"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_tool_that_is_not_safe_is_unknown_and_has_one_effect(tmp_path: Path) -> None:
    reply = killed_and_gone_on(tmp_path, "send", 20.0)
    assert "its outcome is unknown" in reply
    assert effects(tmp_path) == ["send once"]
    gone(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["look", "put"])
def test_a_tool_that_may_be_repeated_is_asked_once_more(tmp_path: Path, tool: str) -> None:
    """The second process ends without a word to the first one's server, which dies with its pipes."""
    assert killed_and_gone_on(tmp_path, tool, 1.5) == f"{tool} done: once"
    assert effects(tmp_path) == [f"{tool} once"] * 2
    gone(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.5])
def test_a_task_goes_on_and_gives_its_result_once(tmp_path: Path, pause: float) -> None:
    """``pause``: at once after its effect its id may not have been kept, and is honestly unknown."""
    reply = killed_and_gone_on(tmp_path, "build", 3.0, pause=pause)
    assert reply == "build done: once" or (not pause and "its outcome is unknown" in reply)
    assert effects(tmp_path) == ["build once"]
    gone(tmp_path)


@pytest.mark.slow
async def test_who_is_asked_while_the_process_dies_is_not_asked_any_more(tmp_path: Path) -> None:
    """An old server's question lives as long as its connection: the call is lost with it."""
    dying = start(tmp_path, "ask", 0.0)
    async with Runtime(f"sqlite:///{tmp_path / 't.db'}", listen=None, workers=0) as runtime:
        asked = await asked_first(runtime)
        dying.send_signal(signal.SIGKILL)
        await asyncio.to_thread(dying.communicate)
        living = start(tmp_path, "ask", 0.0)
        await asyncio.to_thread(living.communicate, timeout=SOON)
        assert "its outcome is unknown" in (tmp_path / "reply").read_text()
        assert await waits_of(runtime) == []
        assert (await runtime.thread("t").answer(asked, {"city": "Riga"})).outcome == "unknown"
    assert not (tmp_path / "effects").exists()


@pytest.mark.slow
async def test_a_task_that_asks_is_asked_about_anew(tmp_path: Path) -> None:
    dying = start(tmp_path, "survey", 0.0)
    async with Runtime(f"sqlite:///{tmp_path / 't.db'}", listen=None, workers=0) as runtime:
        first = await asked_first(runtime)
        dying.send_signal(signal.SIGKILL)
        await asyncio.to_thread(dying.communicate)
        living = start(tmp_path, "survey", 0.0)
        second = await asked_first(runtime, besides=first)
        assert (await runtime.thread("t").answer(second, {"city": "Riga"})).taken
        await asyncio.to_thread(living.communicate, timeout=SOON)
    assert "Riga" in (tmp_path / "reply").read_text()
    assert effects(tmp_path) == ["survey once"]


async def asked_first(runtime: Runtime, besides: str = "") -> str:
    async with asyncio.timeout(SOON):
        while not (asked := [id for id in await waits_of(runtime) if id != besides]):
            await asyncio.sleep(0.05)
    return asked[0]


async def waits_of(runtime: Runtime) -> list[str]:
    try:
        return [one.id for one in await runtime.thread("t").waits()]
    except Refused:
        return []
