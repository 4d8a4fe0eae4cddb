"""The example server: real programs, real files."""

import asyncio
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import Peer, StubRuntime, eventually, talking
from torpor.tools.server import ToolServer

TOOLS = Path(__file__).parents[2] / "examples" / "tools"

Build = Callable[..., ToolServer]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Build:
    monkeypatch.syspath_prepend(str(TOOLS))
    programs = importlib.import_module("programs")
    watching = importlib.import_module("watching")
    searching = importlib.import_module("searching")
    root = tmp_path / "root"
    root.mkdir()

    def make() -> ToolServer:
        server = ToolServer("workbench", outbox=tmp_path / "o.db")
        server.tool(long_running=True, restartable=True)(
            programs.Programs(root, gather=0.1, grace=0.3).run_command
        )
        server.tool(read_only=True)(watching.Watching(root).watch_path)
        server.tool(read_only=True)(searching.Searching(root, unasked=3).search_files)
        return server

    return make


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def events(stub: StubRuntime) -> list[dict[str, Any]]:
    return [one.body for one in stub.received if one.body["type"] == "subscription_event"]


async def ran(peer: Peer, stub: StubRuntime, ident: str, **arguments: Any) -> str:
    await peer.invoke("run_command", arguments, ident)
    text: str = (await stub.result(ident))["text"]
    return text


UNRUNNABLE: list[tuple[dict[str, Any], str]] = [
    ({"command": "no-such-program-here"}, "no program named 'no-such-program-here'"),
    ({"command": "ls", "cwd": ".."}, "outside the root"),
    ({"command": "ls", "cwd": "leak/etc"}, "outside the root"),
    ({"command": "ls", "cwd": "/etc"}, "outside the root"),
    ({"command": "ls", "cwd": "nowhere"}, "there is no 'nowhere'"),
    ({"command": ""}, "the command is empty"),
    ({"command": []}, "the command is empty"),
    ({"command": "echo 'open"}, "cannot be split"),
    ({"command": ["echo", "a\u0000b"]}, "could not be started"),
]


async def test_programs_run_without_a_shell_below_the_root(build: Build, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir()
    (root / "leak").symlink_to("/")
    async with talking(build()) as (peer, stub):
        text = await ran(peer, stub, "a", command=python("print('hällo'); import sys; sys.exit(3)"))
        assert text.startswith("Exit code 3 after ")
        assert text.endswith("\nhällo\n")
        text = await ran(peer, stub, "b", command="echo $HOME '; rm x' *")
        assert text.split("\n", 1)[1] == "$HOME ; rm x *\n"
        text = await ran(peer, stub, "c", command="pwd", cwd="sub")
        assert text.split("\n", 1)[1] == f"{root / 'sub'}\n"
        text = await ran(peer, stub, "d", command="cat")
        assert text.split("\n", 1)[1] == "(no output)"
        for number, (arguments, told) in enumerate(UNRUNNABLE):
            text = await ran(peer, stub, f"bad-{number}", **arguments)
            assert text.startswith("Error: ")
            assert told in text


async def test_output_is_bounded_and_characters_stay_whole(build: Build) -> None:
    async with talking(build()) as (peer, stub):
        code = "import sys; sys.stdout.write('A' + 'ü' * 300_000 + 'Z'); sys.stdout.flush()"
        text = await ran(peer, stub, "a", command=python(code))
        assert "\ufffd" not in text
        body = text.split("\n", 1)[1]
        assert body.startswith("Aü")
        assert body.endswith("üZ")
        assert f"[{300_002 - 60_000} characters left out]" in body
        assert len(body) < 61_000


async def test_secrets_of_the_server_are_not_given_to_programs(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLS_TOKEN", "hunter2")
    monkeypatch.setenv("TOOLS_COLOUR", "red")
    async with talking(build()) as (peer, stub):
        text = await ran(peer, stub, "a", command="env")
        assert "TOOLS_COLOUR=red" in text
        assert "hunter2" not in text


async def test_a_long_run_becomes_a_subscription_with_gathered_output(build: Build, tmp_path: Path) -> None:
    gate = tmp_path / "root" / "gate"
    code = (
        "import os, time, sys\n"
        "print('one', flush=True)\n"
        "while not os.path.exists('gate'): time.sleep(0.01)\n"
        "print('two', flush=True)\n"
        "while not os.path.exists('gate2'): time.sleep(0.01)\n"
        "print('three', flush=True); sys.exit(4)\n"
    )
    async with talking(build()) as (peer, stub):
        await peer.invoke("run_command", {"command": python(code), "patience": 0.3})
        result = await stub.result("c-1")
        assert result["subscription"] is True
        assert "Subscription ID: c-1" in result["text"]
        gate.touch()
        await stub.until(lambda _: "two" in "".join(event["text"] for event in events(stub)))
        gate.with_name("gate2").touch()
        await stub.until(lambda _: any(event.get("final") for event in events(stub)))
        texts = [event["text"] for event in events(stub)]
        assert texts[-1].startswith("Exit code 4 after ")
        assert "".join([result["text"], *texts]).count("one\n") == 1
        assert "".join(texts).count("two\n") == 1
        assert "".join(texts).count("three\n") == 1
        assert all(event["associative"] for event in events(stub))


@pytest.mark.parametrize("patience", [0.0, 60.0])
async def test_cancelling_ends_the_program_and_its_children(
    build: Build, tmp_path: Path, patience: float
) -> None:
    code = (
        "import subprocess, sys, os, signal, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "open('pids.tmp', 'w').write(f'{os.getpid()} {child.pid}')\n"
        "os.rename('pids.tmp', 'pids')\n"
        "while True: time.sleep(1)\n"
    )
    pids = tmp_path / "root" / "pids"
    async with talking(build()) as (peer, stub):
        await peer.invoke("run_command", {"command": python(code), "patience": patience})
        await eventually(pids.exists)
        if not patience:
            await stub.result("c-1")
        both = [int(pid) for pid in pids.read_text().split()]
        assert all(is_running(pid) for pid in both)
        seen = len(stub.received)
        assert await peer.cancel("c-1") == (200, b"")
        await eventually(lambda: not any(is_running(pid) for pid in both))
        if patience:
            assert (await stub.result("c-1"))["text"].startswith("Error: cancelled.")
        else:
            assert not await peer.alive("c-1")
            assert len(stub.received) == seen


async def test_a_program_that_leaves_children_behind_still_ends(build: Build) -> None:
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    async with talking(build()) as (peer, stub):
        text = await ran(peer, stub, "a", command=python(code))
        assert text.startswith("Exit code 0")
        await eventually(lambda: not is_running(int(text.split("\n")[1])))


async def test_a_run_has_a_limit(build: Build) -> None:
    async with talking(build()) as (peer, stub):
        text = await ran(peer, stub, "a", command="sleep 600", limit=0.2)
        assert text.startswith("Error: ended because it ran for more than 0.2 s.")


async def test_watching_tells_what_changed_until_cancelled(build: Build, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "old").write_text("1")
    (root / "gone").write_text("1")
    async with talking(build()) as (peer, stub):
        await peer.invoke("watch_path", {"path": ".", "interval": 0.05})
        assert (await stub.result("c-1"))["subscription"] is True
        (root / "new").write_text("1")
        (root / "old").write_text("22")
        (root / "gone").unlink()
        wanted = {"created": {"new"}, "changed": {"old"}, "deleted": {"gone"}}
        await stub.until(lambda _: told(stub) == wanted)
        await peer.cancel("c-1")
        assert await peer.alive("c-1") is False
        for path in ("../", "nothing"):
            await peer.invoke("watch_path", {"path": path}, path)
            assert (await stub.result(path))["text"].startswith("Error: ")


def told(stub: StubRuntime) -> dict[str, set[str]]:
    changes: dict[str, set[str]] = {}
    for event in events(stub):
        for kind, names in json.loads(event["text"]).items():
            changes.setdefault(kind, set()).update(names)
    return changes


async def test_watching_goes_on_after_a_restart_and_misses_nothing(build: Build, tmp_path: Path) -> None:
    root = tmp_path / "root"
    server = build()
    async with talking(server) as (peer, stub):
        port = int(stub.url.split(":")[2].split("/")[0])
        await peer.invoke("watch_path", {"path": ".", "interval": 0.05})
        await stub.result("c-1")
    (root / "meanwhile").write_text("1")
    async with talking(build(), port=port) as (peer, stub):
        await stub.until(lambda _: told(stub) == {"created": {"meanwhile"}})
        assert await peer.alive("c-1") is True
        assert all("id" not in one.body for one in stub.received)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_runs_as_a_program_of_its_own(tmp_path: Path, number: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        TOOLS / "server.py",
        *("--port", "0", "--root", tmp_path, "--outbox", tmp_path / "o.db"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TOOLS_TOKEN": "t0ken"},
        cwd=tmp_path,
    )
    assert process.stdout is not None
    try:
        ready = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
        assert list(ready) == ["port"]
        import aiohttp

        async with aiohttp.ClientSession() as http:
            peer = Peer(f"http://127.0.0.1:{ready['port']}", http, "http://127.0.0.1:9/")
            peer.headers = {"Authorization": "Bearer t0ken"}
            assert [tool["name"] for tool in (await peer.discover())["tools"]] == [
                "run_command",
                "watch_path",
                "search_files",
            ]
    finally:
        process.send_signal(number)
        began = time.monotonic()
        await asyncio.wait_for(process.wait(), 10)
    assert process.returncode == 0
    assert time.monotonic() - began < 5


def of_type(stub: StubRuntime, kind: str) -> list[dict[str, Any]]:
    return [one.body for one in stub.received if one.body["type"] == kind]


async def searched(stub: StubRuntime) -> str:
    await stub.until(lambda _: bool(of_type(stub, "tool_result")))
    text: str = of_type(stub, "tool_result")[-1]["text"]
    return text


def plant(root: Path, count: int) -> None:
    """Files with the word in them, the last one the newest, and some that are left out."""
    (root / "sub").mkdir()
    for number in range(count):
        file = root / "sub" / f"f{number}.txt"
        file.write_text(f"nothing\nthe Word of {number}\n")
        os.utime(file, (1_000 + number, 1_000 + number))
    (root / ".hidden").write_text("word")
    (root / "binary").write_bytes(b"\xff\xfeword")
    os.utime(root / "binary", (1, 1))
    (root / "link").symlink_to(root / "sub" / "f0.txt")
    (root / "large").write_text("word" * 300_000)


async def test_few_files_are_searched_unasked_and_show_how_far_it_is(build: Build, tmp_path: Path) -> None:
    plant(tmp_path / "root", 2)
    async with talking(build()) as (peer, stub):
        await peer.invoke("search_files", {"words": "wOrD"})
        assert await searched(stub) == (
            "2 lines, in 3 files.\nsub/f0.txt:2: the Word of 0\nsub/f1.txt:2: the Word of 1"
        )
        await eventually(
            lambda: of_type(stub, "view_update")[-1:] and of_type(stub, "view_update")[-1]["content"] == {}
        )
        assert of_type(stub, "view_update")[0]["content"]["message"] == "0 of 3 files"
        assert of_type(stub, "user_choice") == []


@pytest.mark.parametrize(
    ("selected", "lines"),
    [
        (0, ["3 lines, in 3 files.", "f2", "f3", "f4"]),
        (1, ["5 lines, in 6 files.", "f0", "f1", "f2", "f3", "f4"]),
    ],
)
async def test_of_many_files_a_person_decides(
    build: Build, tmp_path: Path, selected: int, lines: list[str]
) -> None:
    plant(tmp_path / "root", 5)
    async with talking(build()) as (peer, stub):
        await peer.invoke("search_files", {"words": "word"})
        await stub.until(lambda _: bool(of_type(stub, "user_choice")))
        [question] = of_type(stub, "user_choice")
        assert question["choices"] == ["The 3 newest", "All 6", "None"]
        answer = {"id": "c-1", "selected": selected}
        await peer.post(question["response_url"].removeprefix(peer.base), answer)
        first, *found = (await searched(stub)).split("\n")
        assert [first, *(line[4:6] for line in found)] == lines


async def test_a_person_may_decide_that_nothing_is_searched(build: Build, tmp_path: Path) -> None:
    plant(tmp_path / "root", 5)
    async with talking(build()) as (peer, stub):
        await peer.invoke("search_files", {"words": "word"})
        await stub.until(lambda _: bool(of_type(stub, "user_choice")))
        [question] = of_type(stub, "user_choice")
        await peer.post(question["response_url"].removeprefix(peer.base), {"id": "c-1", "selected": 2})
        assert "a person decided" in await searched(stub)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"words": " "}, "nothing to look for"),
        ({"words": "x", "path": ".."}, "outside the root"),
        ({"words": "x", "path": "no"}, "there is no 'no'"),
    ],
)
async def test_searches_that_cannot_be_are_explained(
    build: Build, arguments: dict[str, Any], told: str
) -> None:
    async with talking(build()) as (peer, stub):
        await peer.invoke("search_files", arguments)
        assert told in await searched(stub)


async def test_a_search_that_finds_much_ends_early(build: Build, tmp_path: Path) -> None:
    (tmp_path / "root" / "much").write_text("word\n" * 500)
    async with talking(build()) as (peer, stub):
        await peer.invoke("search_files", {"words": "word", "path": "much"})
        text = await searched(stub)
        assert text.startswith("100 lines, the first of them, in 1 files; search for more")
        assert len(text.split("\n")) == 101


def test_the_demonstration_needs_no_approval(build: Build, tmp_path: Path) -> None:
    made = importlib.import_module("server").build(tmp_path, outbox=":memory:")
    sys.modules.pop("server", None)
    tools = made.manifest("http://127.0.0.1/invoke")["tools"]
    assert {tool["name"] for tool in tools} == {"run_command", "watch_path", "search_files"}
    assert not any(tool["annotations"].get("destructive") for tool in tools)
