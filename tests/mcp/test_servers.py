"""MCP servers as they are configured, in code and in the files of other clients."""

import json
from pathlib import Path
from typing import Any

import pytest

from torpor import Agent, McpServer, OAuth, RapServer, Refused, mcp_servers
from torpor.models import ScriptedModel
from torpor.tools.mcp.clients import read_servers


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"command": ["npx", "-y", "@scope/server-everything@2026.8.31", "stdio"]}, "server-everything"),
        ({"command": ["/usr/bin/python3.11", "-m", "mcp_server_time"]}, "mcp_server_time"),
        ({"command": ["uvx", "mcp-server-git==2026.10.1"]}, "mcp-server-git"),
        ({"command": ["C:\\tools\\files.exe", "--all"]}, "files"),
        ({"command": ["node", "build/index.mjs"]}, "index"),
        ({"url": "https://mcp.example.test/v1/mcp"}, "mcp_example_test"),
        ({"command": ["x"], "name": "given-name"}, "given-name"),
    ],
)  # fmt: skip
def test_a_name_is_that_of_the_command_or_host(given: dict[str, Any], name: str) -> None:
    server = McpServer(**given)
    assert (server.name, server.address) == (name, f"mcp:{name}")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs a command, a url, or the name"),
        ({"command": "npx server"}, "is a list such as"),
        ({"command": []}, "begins with a program"),
        ({"command": ["x"], "url": "https://a.test"}, "not both"),
        ({"url": "http://a.test/mcp"}, "must be https"),
        ({"url": "https://me:secret@a.test/mcp"}, "must not hold credentials"),
        ({"command": ["x"], "name": "a b"}, "letters, digits"),
        ({"command": ["x"], "headers": {"A": "b"}}, "headers needs a url"),
        ({"url": "https://a.test", "env": {"A": "b"}}, "env needs a command"),
        ({"url": "https://a.test", "headers": {"A": "b\r\nC: d"}}, "printable ASCII"),
        ({"url": "https://a.test", "headers": {"Mcp-Session-Id": "b"}}, "no header that can be set"),
        ({"url": "https://a.test", "headers": {"authorization": "b"}, "oauth": OAuth()}, "not both"),
        ({"command": ["x"], "oauth": OAuth()}, "oauth needs a url"),
        ({"command": ["x"], "repeat": {"a": "often"}}, "safe, keyed, unsafe"),
        ({"command": ["x"], "allow": "echo"}, "sequence of texts"),
        ({"command": ["x"], "start_timeout": 0}, "above 0"),
        ({"command": ["x"], "call_timeout": float("inf")}, "finite"),
        ({"command": ["x"], "result_limit": 10}, "bytes"),
        ({"command": ["x"], "env": {"A=B": "c"}}, "cannot be set"),
        ({"command": ["x"], "prefix": "a b"}, "prefix"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        McpServer(**given)


def test_nothing_secret_is_in_its_text_and_it_can_be_a_key() -> None:
    server = McpServer("s", url="https://a.test/?k=hidden1", headers={"Authorization": "Bearer hidden2"})
    other = McpServer("t", command=["x", "--token", "hidden3"], env={"KEY": "hidden4"})
    assert "hidden" not in f"{server!r}{server}{other!r}{OAuth('id', 'hidden5')!r}"
    assert {server: 1, other: 2}[
        McpServer("t", command=["x", "--token", "hidden3"], env={"KEY": "hidden4"})
    ] == 2


def test_tools_are_allowed_by_the_servers_name_or_by_the_one_shown() -> None:
    server = McpServer("s", command=["x"], prefix="git_", allow=("log.all", "show"), deny=("git_show",))
    assert server.offers("log.all")
    assert server.offers("git_log_all")
    assert not server.offers("show")
    assert not server.offers("git_push")


def test_an_agent_takes_mcp_servers_beside_other_tools() -> None:
    servers = [McpServer("one", command=["x"]), McpServer("two", command=["x"])]
    agent = Agent("a", model=ScriptedModel([]), tools=[RapServer("https://r.test"), *servers])
    assert agent.tools[1:] == tuple(servers)
    with pytest.raises(Refused, match="Two of its MCP servers are named 'one'"):
        Agent("a", model=ScriptedModel([]), tools=[servers[0], McpServer("one", command=["y"])])
    with pytest.raises(Refused, match="must be a list"):
        Agent("a", model=ScriptedModel([]), tools=servers[0])  # type: ignore[arg-type]


def test_the_file_of_another_client_is_taken_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({
        "$schema": "x",
        "mcpServers": {
            "my files": {"command": "npx", "args": ["-y", "files", "${HERE}"], "env": {"A": "${B:-c}"},
                         "alwaysAllow": ["read"], "timeout": 60},
            "remote": {"type": "streamable-http", "url": "https://a.test/mcp", "timeout": 90_000,
                       "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "disabledTools": ["push"]},
            "off": {"command": "x", "disabled": True},
        },
    }))  # fmt: skip
    found = read_servers(file, environ={"HERE": "/here", "TOKEN": "t"})
    files, remote = found.servers
    assert (files.name, files.command, files.env) == ("my_files", ("npx", "-y", "files", "/here"), {"A": "c"})
    assert (remote.headers["Authorization"], remote.deny) == ("Bearer t", ("push",))
    assert (files.idle_timeout, remote.idle_timeout) == (60, 90)
    assert found.notes == (
        "Left out, as it holds no servers: $schema.",
        "The MCP server 'off' is switched off.",
    )
    assert [server.name for server in mcp_servers(str(file), environ={"HERE": "", "TOKEN": "t"})[1:]] == [
        "remote"
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"servers": {"a": {"command": "x"}}},
        {"context_servers": {"a": {"command": "x"}}},
        {"a": {"command": "x"}},
        {"mcpServers": {"a": {"command": ["x"], "transport": "stdio"}}},
    ],
)
def test_other_clients_name_the_table_otherwise(given: dict[str, Any]) -> None:
    assert [server.command for server in mcp_servers(given, environ={})] == [("x",)]


def test_other_clients_name_the_url_otherwise() -> None:
    given = {"a": {"httpUrl": "https://a.test"}, "b": {"serverUrl": "https://b.test"}}
    assert [server.url for server in mcp_servers({"mcpServers": given})] == [
        "https://a.test",
        "https://b.test",
    ]


def test_keys_that_nobody_knows_are_named() -> None:
    found = read_servers({"mcpServers": {"a": {"command": "x", "sandbox": True, "watch": 1}}})
    assert found.notes == ("The MCP server 'a' has settings that are not known here: sandbox, watch.",)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"type": "sse", "url": "https://a.test/sse"}, "Streamable HTTP too, often at /mcp"),
        ({"type": "pigeon"}, "unknown type"),
        ({"command": "x", "args": ["${NOT_SET}"]}, "NOT_SET, which is not set"),
        ({"command": "x", "args": ["${input:key}"]}, "cannot be replaced here"),
        ({"command": 5}, "is a list such as"),
        ({}, "needs a command or a url"),
        (5, "must be an object"),
    ],
)
def test_entries_that_cannot_work_are_refused_by_name(entry: Any, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        mcp_servers({"mcpServers": {"theirs": entry}}, environ={})
    assert "theirs" in str(refused.value)


def test_two_names_that_become_one_are_refused() -> None:
    with pytest.raises(Refused, match="Two MCP servers are named 'a_b'"):
        mcp_servers({"mcpServers": {"a b": {"command": "x"}, "a.b": {"command": "x"}}})


@pytest.mark.parametrize("text", ["{", "[]", "{}x", '{"other": 1}'])
def test_a_file_that_holds_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(Refused):
        mcp_servers(file)
    with pytest.raises(Refused, match="cannot be read"):
        mcp_servers(tmp_path / "none.json")
