"""``torpor mcp check``, ``list`` and ``logout``: what they say of configured servers."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell

SERVER = '''
import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("small")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(what: str) -> str:
    """Look at something."""
    return what


@server.tool(annotations=ToolAnnotations(destructive_hint=True, read_only_hint=False))
def erase(what: str) -> str:
    """Erase something."""
    return what


if __name__ == "__main__":
    server.run()
'''


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "small.py").write_text(SERVER)
    return Shell(tmp_path)


def configure(shell: Shell, **servers: dict[str, Any]) -> None:
    with (shell.folder / "torpor.toml").open("a") as file:
        for name, fields in servers.items():
            file.write(f"[mcp.{name}]\n")
            file.writelines(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


SMALL = {"command": [sys.executable, "small.py"]}


def test_a_server_that_works_shows_its_tools(shell: Shell) -> None:
    configure(shell, small=SMALL, prefixed={**SMALL, "prefix": "p_", "deny": ["erase"]})
    done = shell.run("mcp", "check")
    assert done.returncode == 0, done
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["✓", "small", sys.executable, "small.py"] in lines
    assert ["look", "safe", "Look", "at", "something."] in lines
    assert ["erase", "unsafe,", "approval", "Erase", "something."] in lines
    assert ["p_look", "safe", "Look", "at", "something."] in lines
    assert "2 tools, protocol 2026-07-28" in done.stdout


def test_the_same_as_json(shell: Shell) -> None:
    configure(shell, small={**SMALL, "wrapped": True})
    found = json.loads(shell.good("mcp", "check", "small", "--json"))
    (server,) = found["servers"]
    assert (found["works"], server["name"], server["works"], server["problems"]) == (True, "small", True, [])
    assert {tool["name"]: tool["repeat"] for tool in server["tools"]} == {"look": "safe", "erase": "unsafe"}


def test_names_that_clash_are_said(shell: Shell) -> None:
    configure(shell, one={**SMALL, "allow": ["look"]}, two={**SMALL, "allow": ["look"]})
    assert "look is offered by one, two" in shell.good("mcp", "check")


DIES = "import sys; sys.stderr.write('\x1b[31mno key\\n'); sys.exit(3)"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"command": ["no-such-program"]}, "there is no program 'no-such-program'"),
        ({"command": [sys.executable, "-c", DIES]}, "it ended with status 3; its last words:"),
        (
            {"command": [sys.executable, "-c", "import time; time.sleep(60)"], "start_timeout": 0.2},
            "has not introduced itself within 0.2 s",
        ),
        ({"command": ["x", "${NOT_SET}"]}, "the environment variable NOT_SET is not set"),
        ({"url": "http://127.0.0.1:9/mcp"}, "cannot be reached"),
        ({"url": "ftp://x"}, "URL"),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(shell: Shell, fields: dict[str, Any], says: str) -> None:
    configure(shell, broken=fields)
    done = shell.run("mcp", "check", "broken")
    assert done.returncode == 1
    assert says in done.stdout
    assert "✗ broken" in done.stdout
    assert "\x1b" not in done.stdout


def test_one_that_fails_does_not_hide_the_others(shell: Shell) -> None:
    configure(shell, broken={"command": ["no-such-program"]}, small=SMALL)
    done = shell.run("mcp", "check")
    assert done.returncode == 1
    assert "✗ broken" in done.stdout
    assert "✓ small" in done.stdout


def test_names_are_checked(shell: Shell) -> None:
    done = shell.run("mcp", "check", "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert "No MCP server 'none' is configured. Configured: none." in done.stderr
    assert "Add one to torpor.toml" in shell.run("mcp", "check").stderr


def test_the_list_starts_nothing_and_knows_the_agents_own(shell: Shell) -> None:
    configure(
        shell,
        here={"command": ["no-such-program", "--token=s3cret", "x", "y"]},
        away={"url": "https://a.test/mcp"},
    )
    (shell.folder / "owning.py").write_text(
        "from torpor import Agent, McpServer\nfrom torpor.models import ScriptedModel\n"
        "mine = Agent('mine', model=ScriptedModel([]), tools=[McpServer('own', command=['own-program'])])\n"
    )
    toml = shell.folder / "torpor.toml"
    toml.write_text(toml.read_text().replace('"bots:echo"', '"owning:mine"'))
    lines = [line.split() for line in shell.good("mcp", "list").splitlines()]
    assert lines == [
        ["here", "no-such-program", "--token", "x", "…"],
        ["away", "https://a.test/mcp"],
        ["own", "own-program"],
    ]
    rows = json.loads(shell.good("mcp", "list", "--json"))["servers"]
    assert [row["name"] for row in rows] == ["here", "away", "own"]


def test_a_file_that_cannot_be_read_is_one_finding(shell: Shell) -> None:
    toml = shell.folder / "torpor.toml"
    toml.write_text('mcp_servers = "none.json"\n' + toml.read_text())
    configure(shell, small=SMALL)
    done = shell.run("mcp", "check")
    assert done.returncode == 1
    assert "none.json cannot be read" in done.stdout
    assert "✓ small" in done.stdout


class Locked(BaseHTTPRequestHandler):
    """A server that lets nobody in."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("known", [False, True])
def test_a_sign_in_that_is_needed_is_said(shell: Shell, known: bool) -> None:
    if known:  # there is a store that could hold a token
        shell.good("new", "echo", "hi")
    with ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        configure(shell, locked={"url": f"http://127.0.0.1:{server.server_port}/mcp"})
        done = shell.run("mcp", "check")
        server.shutdown()
    assert done.returncode == 1
    assert "It wants a person to sign in" in done.stdout


def test_a_sign_in_that_was_not_there_is_said(shell: Shell) -> None:
    configure(shell, away={"url": "https://a.test/mcp"})
    shell.good("new", "echo", "hi")
    done = shell.run("mcp", "logout", "away", "--user", "ann")
    assert done.returncode == 0, done.stderr
    assert "The sign-in of the user 'ann' at away was not there." in done.stderr


def test_sign_ins_in_postgresql_are_looked_for(shell: Shell, postgres_url: str) -> None:
    configure(shell, away={"url": "https://a.test/mcp"})
    shell.good("new", "echo", "hi", "--store", postgres_url)
    done = shell.run("mcp", "logout", "away", "--user", "ann", "--store", postgres_url)
    assert done.returncode == 0, done.stderr
    assert "The sign-in of the user 'ann' at away was not there." in done.stderr
