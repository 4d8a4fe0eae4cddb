"""The official inspector's command line drives ``torpor mcp serve``. ``official.sh`` installs it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell

PLACE = "TORPOR_MCP_SERVERS"
SECONDS = 120


def inspector() -> str:
    """Where the inspector is installed."""
    path = Path(os.environ.get(PLACE, "nowhere")) / "node_modules" / ".bin" / "mcp-inspector"
    if path.exists():
        return str(path)
    missing = f"there is no mcp-inspector below ${PLACE}: run tests/mcp/official.sh"
    assert not os.environ.get("TORPOR_ALL"), missing
    pytest.skip(missing)


def inspected(shell: Shell, target: list[str], *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [inspector(), "--cli", *target, *options],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def call(tool: str, **arguments: str) -> list[str]:
    given = [f"--tool-arg={name}={value}" for name, value in arguments.items()]
    return ["--method", "tools/call", "--tool-name", tool, *given]


def test_it_starts_a_thread_says_more_and_finds_it_again(tmp_path: Path) -> None:
    """Each by a process of its own. Over HTTP it could send no token."""
    shell = Shell(tmp_path)
    target = shell.command("mcp", "serve")
    listed = inspected(shell, target, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in listed][:3] == ["echo_start", "echo_ask", "echo_wait"]
    begun = inspected(shell, target, *call("echo_start", text="hi"))
    assert begun["content"] == [{"type": "text", "text": "echo hi"}]
    thread = begun["structuredContent"]["thread"]
    more = inspected(shell, target, *call("echo_ask", thread=thread, text="again"))
    assert more["structuredContent"]["text"] == "echo again"
    found = inspected(shell, target, *call("threads"))
    assert [one["thread"] for one in found["structuredContent"]["threads"]] == [thread]
