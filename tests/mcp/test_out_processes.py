"""``torpor mcp serve`` as a process: its streams, its port, its death, and others on the same store."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.cli.shell import Shell, until

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
NOISE = 'import os, sys\nprint("noise of a module")\nos.write(1, b"noise below Python\\n")\n'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    bots = tmp_path / "bots.py"
    bots.write_text(NOISE + bots.read_text())
    return made


@contextlib.asynccontextmanager
async def client_of(shell: Shell, *options: str, era: Any = "legacy") -> AsyncIterator[Client]:
    command = shell.command("mcp", "serve", *options)
    started = StdioServerParameters(
        command=command[0], args=command[1:], cwd=shell.folder, env=shell.environment
    )
    async with Client(started, mode=era) as client:
        yield client


def structure(result: types.CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    assert result.structured_content is not None
    return dict(result.structured_content)


@ERAS
async def test_over_input_and_output_whatever_an_agents_module_prints(shell: Shell, era: Any) -> None:
    async with client_of(shell, era=era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:3] == ["echo_start", "echo_ask", "echo_wait"]
        begun = structure(await client.call_tool("echo_start", {"text": "hi"}))
        assert begun["text"] == "echo hi"
    shown = await asyncio.to_thread(shell.process, "show", begun["thread"])
    assert "echo hi" in shown.stdout


def test_the_end_of_the_input_is_the_end(shell: Shell) -> None:
    done = shell.process("mcp", "serve")
    assert (done.returncode, done.stdout) == (0, "")
    assert "serving over standard input and output  agents: echo, fetcher" in done.stderr
    assert "noise of a module" in done.stderr
    assert "noise below Python" in done.stderr


def test_a_signal_is_the_end(shell: Shell) -> None:
    process = subprocess.Popen(
        shell.command("mcp", "serve"),
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stderr is not None
        while b"serving over" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b""


def test_lines_that_are_no_messages_do_no_harm(shell: Shell) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    lines = [b"no json", b"[]", b"\xff\xfe", b"", b'{"jsonrpc": "2.0"}', json.dumps(asked).encode()]
    process = subprocess.Popen(
        shell.command("mcp", "serve"),
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join(lines) + b"\n")
        process.stdin.flush()
        while (answer := json.loads(process.stdout.readline())).get("id") != 1:
            pass
        process.stdin.close()
        assert process.wait(20) == 0
    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--agent", "nobody"],
            "No agent 'nobody' is known here, and no worker runs it. Known: echo, fetcher.",
        ),
        (["--rap", "ftp://tools"], "http"),
        (["bots:nobody"], "no agent 'nobody'"),
    ],
)
def test_what_cannot_be_served_is_said(shell: Shell, options: list[str], says: str) -> None:
    done = shell.process("mcp", "serve", *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


def test_nothing_to_serve_is_said(shell: Shell) -> None:
    (shell.folder / "torpor.toml").write_text('store = "sqlite:///threads.db"\n')
    done = shell.process("mcp", "serve")
    assert done.returncode == 1
    assert "There is nothing to serve" in done.stderr


async def test_a_killed_process_finds_its_threads_again(shell: Shell) -> None:
    command = shell.command("mcp", "serve", "--agent", "fetcher")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=shell.folder, env=shell.environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(_hello_and("fetcher_start", {"text": "go"}))
    await process.stdin.drain()
    await asyncio.to_thread(until, (shell.folder / "started").exists)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    (shell.folder / "gate").write_text("treasure")
    async with client_of(shell, "--agent", "fetcher") as client:
        (row,) = structure(await client.call_tool("threads", {}))["threads"]
        assert row["title"] == "go"
        ended = structure(await client.call_tool("fetcher_wait", {"thread": row["thread"], "wait": 60}))
    assert ended["text"] == "It says: treasure"


SLOW = """
import asyncio, sys
from pathlib import Path
from torpor.tools.server import Retry, ToolServer

server = ToolServer("slow", outbox="outbox.db", retry=Retry(first=0.1, longest=0.5), grace=0.5)


@server.tool
async def haul(what: str) -> str:
    Path("hauling").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return what + " is here"


server.run(announce=True)
"""


async def test_a_call_of_a_rap_tool_outlives_the_process_that_made_it(shell: Shell) -> None:
    (shell.folder / "slow.py").write_text(SLOW)
    tools = subprocess.Popen(  # noqa: ASYNC220 -- it starts at once
        [sys.executable, "slow.py"], cwd=shell.folder, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert tools.stdout is not None
        url = f"http://127.0.0.1:{json.loads(tools.stdout.readline())['port']}"
        process = await asyncio.create_subprocess_exec(
            *shell.command("mcp", "serve", "--rap", url), cwd=shell.folder, env=shell.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(_hello_and("haul", {"what": "coal"}))
        await process.stdin.drain()
        await asyncio.to_thread(until, (shell.folder / "hauling").exists)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        (shell.folder / "go").touch()
        async with client_of(shell, "--rap", url) as client:
            (row,) = structure(await client.call_tool("threads", {"agent": "mcp-caller"}))["threads"]
            ended = await client.call_tool("wait", {"thread": row["thread"], "wait": 60})
    finally:
        tools.kill()
        tools.communicate()
    assert isinstance(ended.content[0], types.TextContent)
    assert ended.content[0].text == "coal is here"


def _hello_and(tool: str, arguments: dict[str, Any]) -> bytes:
    """The first messages of a client of the older revisions: it introduces itself, and calls a tool."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": tool, "arguments": arguments}
    sent = [("initialize", hello), ("tools/call", call)]
    messages = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(sent)
    ]
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


async def test_beside_a_server_on_the_same_store(shell: Shell) -> None:
    with shell.serving():
        (shell.folder / "torpor.toml").write_text('store = "sqlite:///threads.db"\n')
        async with client_of(shell, "--agent", "echo", "--workers", "0") as client:
            begun = structure(await client.call_tool("echo_start", {"text": "hi"}))
    assert begun["text"] == "echo hi"


@pytest.fixture
def port(shell: Shell) -> Iterator[tuple[str, str]]:
    """The URL of a server over HTTP, and the token it asks for."""
    with shell.running("mcp", "serve", "--http", "--listen", "127.0.0.1:0") as process:
        until(lambda: "token in" in shell.log or process.poll() is not None)
        found = re.search(r"serving (http://\S+/mcp)", shell.log)
        assert found, shell.log
        yield found[1], (shell.folder / "threads.db.token").read_text().strip()
    assert process.returncode == 0, shell.log


@ERAS
async def test_over_http(port: tuple[str, str], era: Any) -> None:
    url, token = port
    told: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        arguments = {"text": "go", "wait": 1}
        begun = structure(await client.call_tool("fetcher_start", arguments, progress_callback=progress))
    assert begun["state"] == "working"
    assert any("calls fetch" in one for one in told), told


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "TOKEN", "Origin": "https://evil.test"}, 403),
        ({"Authorization": "TOKEN", "Host": "evil.test"}, 403),
        ({"Authorization": "TOKEN"}, 200),
    ],
)
async def test_only_holders_of_the_token_are_let_in(
    port: tuple[str, str], headers: dict[str, str], status: int
) -> None:
    url, token = port
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    given = {key: value.replace("TOKEN", f"Bearer {token}") for key, value in headers.items()}
    given["Accept"] = "application/json, text/event-stream"
    async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=given) as answer:
        assert answer.status == status, await answer.text()


async def test_the_port_knows_no_other_paths(port: tuple[str, str]) -> None:
    url, token = port
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(url.replace("/mcp", "/threads")) as answer,
    ):
        assert answer.status == 404


def test_the_sdk_is_not_loaded_for_other_commands() -> None:
    code = "import sys, torpor.cli.app; print('mcp' in sys.modules, 'torpor.mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
