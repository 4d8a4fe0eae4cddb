"""The MCP servers that settings configure, by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from torpor import Agent, McpServer, Refused
from torpor.mcp.checking import of_settings
from torpor.models import ScriptedModel
from torpor.settings import McpTable, Settings
from torpor.tools.mcp.configured import Configured
from torpor.wiring import open_parts

TABLES = {
    "files": McpTable(command="files-server", args=("${HERE}",), deny=("write",)),
    "mail": McpTable(url="https://mail.test/mcp", oauth={"client_id": "us", "client_secret": "${SECRET}"}),
}


def configured(tmp_path: Path, file: dict[str, Any] | None = None, **environ: str) -> Configured:
    path = tmp_path / "other.json"
    if file is not None:
        path.write_text(json.dumps({"mcpServers": file}))
    return Configured(TABLES, str(path) if file is not None else "", environ)


def test_a_table_is_a_server(tmp_path: Path) -> None:
    found = configured(tmp_path, HERE="/srv", SECRET="s3cret")
    assert (list(found), len(found)) == (["files", "mail"], 2)
    assert found["files"] == McpServer("files", command=["files-server", "/srv"], deny=("write",))
    oauth = found["mail"].oauth
    assert oauth is not None
    assert (oauth.client_id, oauth.client_secret, oauth.scope) == ("us", "s3cret", "")


def test_a_variable_that_is_missing_fails_only_who_needs_it(tmp_path: Path) -> None:
    found = configured(tmp_path, HERE="/srv")
    assert found["files"].command == ("files-server", "/srv")
    with pytest.raises(Refused, match=r"\[mcp.mail\]: the environment variable SECRET is not set"):
        found["mail"]


def test_one_server_of_a_file_that_cannot_be_made_fails_no_other(tmp_path: Path) -> None:
    file = {"keyed": {"command": "x", "env": {"KEY": "${NO_KEY}"}}, "odd": "text", "time": {"command": "uvx"}}
    found = configured(tmp_path, file, HERE="/srv")
    assert list(found) == ["files", "mail", "keyed", "odd", "time"]
    assert (found["time"].command, found["files"].command) == (("uvx",), ("files-server", "/srv"))
    with pytest.raises(Refused, match="'keyed' needs the environment variable NO_KEY"):
        found["keyed"]
    listed = of_settings(TABLES, str(tmp_path / "other.json"), {"HERE": "/srv"})
    assert [name for name, one in listed.items() if isinstance(one, Refused)] == ["mail", "keyed", "odd"]


def test_what_cannot_work_is_said_with_its_place(tmp_path: Path) -> None:
    tables = {"a": McpTable(url="ftp://a"), "b": McpTable(command="b", idle_timeout=-1.0)}
    found = Configured(tables, "", {})
    with pytest.raises(Refused, match=r"\[mcp.a\]: .*URL"):
        found["a"]
    with pytest.raises(Refused, match=r"\[mcp.b\]: .*idle_timeout"):
        found["b"]


def test_tables_win_over_the_file_of_another_client(tmp_path: Path) -> None:
    file = {"files": {"command": "other"}, "time": {"command": "uvx", "args": ["mcp-server-time"]}}
    found = configured(tmp_path, file, HERE="/srv")
    assert list(found) == ["files", "mail", "time"]
    assert found["files"].command == ("files-server", "/srv")
    assert found["time"].command == ("uvx", "mcp-server-time")
    assert "time" in found
    assert "none" not in found
    with pytest.raises(KeyError):
        found["none"]


async def test_an_agent_names_a_server_of_the_settings() -> None:
    agent = Agent("one", model=ScriptedModel([]), tools=[McpServer("files")])
    settings = Settings(store="memory:", mcp={"files": McpTable(command="files-server")})
    async with open_parts(settings, [agent]) as parts:
        member = parts.roster.need("one")
        assert member.servers == ("mcp:files",)
    with pytest.raises(Refused, match="No MCP server 'files' is configured"):
        async with open_parts(Settings(store="memory:"), [agent]):
            pass
