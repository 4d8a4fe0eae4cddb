"""The official MCP servers each do a piece of work in an agent's thread. ``official.sh`` installs them."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.mcp.connected import until
from tests.mcp.odd_http import served
from torpor import Agent, McpServer, Runtime
from torpor.core.messages import Image, Result, text_of
from torpor.models import ScriptedModel, call, say
from torpor.runtime import equip

PLACE = "TORPOR_MCP_SERVERS"
SOON = 120.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first exchange waits for the server, however long it takes to start on a busy machine."""
    monkeypatch.setattr(equip, "START", SOON)


def program(name: str) -> str:
    """Where a server is installed."""
    folder = Path(os.environ.get(PLACE, "nowhere"))
    for path in (folder / "node_modules" / ".bin" / name, folder / "python" / "bin" / name):
        if path.exists():
            return str(path)
    missing = f"there is no {name} below ${PLACE}: run tests/mcp/official.sh"
    assert not os.environ.get("TORPOR_ALL"), missing
    pytest.skip(missing)


async def results(server: McpServer, *calls: Any) -> list[Result]:
    """What an agent's calls gave, one completion each."""
    model = ScriptedModel([*calls, say("done")])
    agent = Agent("clerk", model=model, tools=[server], approvals="never")
    async with Runtime("memory:", agents=[agent], listen=None) as runtime:
        thread = await runtime.start("clerk", "begin")
        assert (await thread.reply(timeout=SOON)).text == "done"
        found = [message for message in await thread.history() if isinstance(message, Result)]
    assert [result.is_error for result in found] == [False] * len(calls), found
    return found


async def texts(server: McpServer, *calls: Any) -> list[str]:
    return [text_of(result.parts) for result in await results(server, *calls)]


@asynccontextmanager
async def everything_over_http() -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [program("mcp-server-everything"), "streamableHttp"]
    nowhere = subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PORT": str(port)}, stdout=nowhere, stderr=nowhere
    )
    try:
        await until(lambda: is_listening(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


async def works(server: McpServer) -> None:
    """What ``server-everything`` can do."""
    found = await results(
        server,
        call("get-sum", a=2, b=3),
        call("get-tiny-image"),
        call("get-structured-content", location="Chicago"),
        call("get-resource-links", count=2),
        call("trigger-long-running-operation", duration=2, steps=4),
        call("simulate-research-query", topic="bees"),
        call("everything_read_resource", uri="demo://resource/dynamic/text/1"),
        call("everything_get_prompt", name="args-prompt", arguments={"city": "Rome"}),
    )
    shown = [text_of(result.parts) for result in found]
    assert "2 and 3 is 5" in shown[0]
    assert any(isinstance(part, Image) for part in found[1].parts)
    assert {"temperature", "conditions", "humidity"} <= set(json.loads(shown[2]))
    assert "link to the resource" in shown[3]
    assert "completed" in shown[4]
    assert "bees" in shown[5]  # a task: submitted, then looked at
    assert "Resource 1" in shown[6]
    assert "Rome" in shown[7]


async def test_everything_over_stdio() -> None:
    await works(
        McpServer("everything", command=[program("mcp-server-everything")], resources=True, prompts=True)
    )


async def test_everything_over_http() -> None:
    async with everything_over_http() as url:
        await works(McpServer("everything", url=url, resources=True, prompts=True))


async def test_filesystem(tmp_path: Path) -> None:
    server = McpServer("files", command=[program("mcp-server-filesystem"), str(tmp_path)])
    path = str(tmp_path / "note.txt")
    found = await texts(
        server,
        call("write_file", path=path, content="wörds"),
        call("read_text_file", path=path),
        call("list_directory", path=str(tmp_path)),
    )
    assert (tmp_path / "note.txt").read_text() == found[1] == "wörds"
    assert "note.txt" in found[2]


async def test_memory(tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    server = McpServer("memory", command=[program("mcp-server-memory")], env={"MEMORY_FILE_PATH": str(file)})
    bee = {"name": "Maja", "entityType": "bee", "observations": ["likes flowers"]}
    found = await texts(
        server, call("create_entities", entities=[bee]), call("search_nodes", query="flowers")
    )
    assert "Maja" in found[1]
    assert "Maja" in file.read_text()


async def test_sequential_thinking() -> None:
    server = McpServer("thinking", command=[program("mcp-server-sequential-thinking")])
    thought: dict[str, Any] = {
        "thought": "first",
        "nextThoughtNeeded": False,
        "thoughtNumber": 1,
        "totalThoughts": 1,
    }
    [found] = await texts(server, call("sequentialthinking", **thought))
    assert json.loads(found)["thoughtNumber"] == 1


async def test_time() -> None:
    server = McpServer("time", command=[program("mcp-server-time"), "--local-timezone", "UTC"])
    asked = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Seoul"}
    [found] = await texts(server, call("convert_time", **asked))
    assert "T12:00:00+09:00" in json.loads(found)["target"]["datetime"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    for command in (
        ["init", "--quiet", str(folder)],
        ["-C", str(folder), "config", "user.email", "a@b.test"],
        ["-C", str(folder), "config", "user.name", "A"],
    ):
        subprocess.run(["git", *command], check=True)
    (folder / "file").write_text("words\n")
    return folder


def log_of(folder: Path) -> bytes:
    command = ["git", "-C", str(folder), "log", "--format=%s"]
    return subprocess.run(command, check=True, capture_output=True).stdout


async def test_git(repository: Path) -> None:
    server = McpServer("git", command=[program("mcp-server-git"), "--repository", str(repository)])
    where = {"repo_path": str(repository)}
    found = await texts(
        server,
        call("git_add", **where, files=["file"]),
        call("git_commit", **where, message="The first one"),
        call("git_log", **where),
    )
    assert "The first one" in found[2]
    assert log_of(repository) == b"The first one\n"


async def test_fetch() -> None:
    async def page(_: Request) -> Response:
        return HTMLResponse("<html><body><article><h1>Bees</h1><p>They hum.</p></article></body></html>")

    async def rules(_: Request) -> Response:
        return PlainTextResponse("User-agent: *\nAllow: /\n")

    app = Starlette(routes=[Route("/page", page), Route("/robots.txt", rules)])
    async with served(app) as url:
        server = McpServer("fetch", command=[program("mcp-server-fetch"), "--allow-private-ips"])
        [found] = await texts(server, call("fetch", url=f"{url}/page"))
    assert "They hum." in found
