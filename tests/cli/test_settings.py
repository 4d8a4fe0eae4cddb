"""Settings: where they come from, which wins, and what is said about wrong ones."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from torpor import Refused
from torpor.settings import McpTable, Settings, check_store, load, parse_listen, store_path
from torpor.tools.mcp.servers import McpServer


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(environ={}) == Settings()
    assert Settings().token_path == Path("torpor.db.token")


def test_a_command_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "torpor.toml"
    file.write_text('workers = 1\nlease = 2.5\nlog_level = "debug"\nagents = ["a.b:c"]\n')
    environ = {"TORPOR_WORKERS": "2", "TORPOR_LEASE": "3", "HOME": "/x", "TORPOR_CONFIG": str(file)}
    found = load(environ=environ, overrides={"workers": 4, "store": None})
    assert (found.workers, found.lease, found.log_level, found.agents) == (4, 3.0, "debug", ("a.b:c",))
    assert load(file, environ={}).workers == 1
    assert load(file, environ={"TORPOR_AGENTS": "x:y, z:w,"}).agents == ("x:y", "z:w")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("worker = 1", "no setting 'worker'. Did you mean workers?"),
        ("[server]\nlisten = 1", "no setting 'server'"),
        ("qqqq = 1", "Known: store, listen,"),
        ("workers = ", "no valid TOML"),
        ("workers = -1", "from 0 to 1024, not -1"),
        ("workers = 1.5", "torpor.toml: workers must be a whole number, not 1.5"),
        ("lease = nan", "lease must be a number"),
        ("lease = inf", "lease must be a number"),
        ("lease = 0", "from 1 to 3600"),
        ("body_limit = -5", "body_limit"),
        ('log_level = "loud"', "one of debug, info"),
        ("log_level = 3", "torpor.toml: log_level must be text, not 3"),
        ('store = "sqlite://x.db"', "write sqlite:///path"),
        ('store = "sqlite:///"', "names no file"),
        ('store = ""', "There is no store of the kind"),
        ('listen = "8377"', "write host:port"),
        ('listen = "::1:80"', "write host:port"),
        ('listen = "h:99999"', "a port is a number from 0 to 65535"),
        ('listen = "h:9999999999999999"', "a port is a number from 0 to 65535"),
        ("workers = true", "workers must be a whole number"),
        ("store = 5", "store must be text"),
        ('public_url = "agents.example"', "must be an http or https URL"),
        ('public_url = "https://me:pw@agents.example"', "without credentials"),
        ('agents = ["adder"]', "write package.module:name"),
        ('agents = ["a b:c"]', "write package.module:name"),
        ('agents = "a:b"', "torpor.toml: agents must be a list of texts, such as"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "torpor.toml"
    file.write_text(text)
    with pytest.raises(Refused) as refused:
        load(file, environ={})
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"TORPOR_WORKER": "1"}, "'TORPOR_WORKER'. Did you mean TORPOR_WORKERS?"),
        ({"TORPOR_WORKERS": "many"}, "TORPOR_WORKERS must be a whole number, not 'many'"),
        ({"TORPOR_LEASE": "soon"}, "TORPOR_LEASE must be a number, not 'soon'"),
        ({"TORPOR_STORE": "agents.db"}, "write sqlite:///agents.db"),
        ({"TORPOR_LEASE": "nan"}, "lease must be a number"),
        ({"TORPOR_CONFIG": "/no/such/file.toml"}, "cannot be read"),
        ({"TORPOR_STORE": "postgres:me:secret@db"}, "is named postgresql://"),
    ],
)
def test_the_environment_is_checked_too(
    environ: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused) as refused:
        load(environ=environ)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "torpor.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="no valid TOML"):
        load(file, environ={})


@pytest.mark.parametrize(
    ("listen", "found"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("agents.example:443", ("agents.example", 443)),
    ],
)
def test_addresses(listen: str, found: tuple[str, int]) -> None:
    assert parse_listen(listen) == found


@pytest.mark.parametrize(
    ("url", "path"),
    [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////tmp/b.db", "/tmp/b.db"), ("memory:", None)],
)
def test_stores(url: str, path: str | None) -> None:
    check_store(url)
    assert store_path(url) == (Path(path) if path else None)
    assert Settings(store=url, token_file="t").token_path == Path("t")


def test_settings_do_not_change() -> None:
    settings: Any = Settings()
    with pytest.raises(AttributeError):
        settings.workers = 2


SERVERS = """
mcp_servers = "other.json"

[mcp.files]
command = ["npx", "-y", "some-server", "${HERE}"]
deny = ["write_file"]
idle_timeout = 30

[mcp.github]
url = "https://api.example/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }
elicitation = false

[mcp.search]
command = "uvx"
args = ["search-server", "--level=${LEVEL:-low}"]
env = { KEY = "${TOKEN}" }
"""


def test_mcp_servers_are_tables_whose_variables_are_replaced_when_they_are_used(tmp_path: Path) -> None:
    file = tmp_path / "torpor.toml"
    file.write_text(SERVERS)
    found = load(file, environ={})
    assert (found.mcp_servers, list(found.mcp)) == ("other.json", ["files", "github", "search"])
    assert "TOKEN" not in repr(found)
    environ = {"HERE": "/srv", "TOKEN": "s3cret", "LEVEL": ""}
    filled = {name: table.filled(environ) for name, table in found.mcp.items()}
    assert filled == {
        "files": {
            "command": ["npx", "-y", "some-server", "/srv"],
            "deny": ["write_file"],
            "idle_timeout": 30.0,
        },
        "github": {
            "url": "https://api.example/mcp",
            "headers": {"Authorization": "Bearer s3cret"},
            "elicitation": False,
        },
        "search": {"command": ["uvx", "search-server", "--level=low"], "env": {"KEY": "s3cret"}},
    }
    with pytest.raises(Refused, match="the environment variable TOKEN is not set"):
        found.mcp["github"].filled({})


def test_a_table_has_the_fields_of_a_server() -> None:
    ours = {field.name for field in dataclasses.fields(McpServer)} - {"name"}
    assert set(McpTable.__struct_fields__) - {"args"} == ours


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mcp = 1", "mcp must hold a table for each server"),
        ("mcp.files = 1", "mcp must hold a table for each server"),
        ("[mcp.'a b']", "[mcp.a b]: the name of an MCP server is 1 to 64 letters"),
        ("[mcp.a]", "[mcp.a]: it needs a command to start, or the url"),
        ("[mcp.a]\ncomand = 'x'", "[mcp.a]: there is no setting 'comand'. Did you mean command?"),
        ("[mcp.a]\ncommand = 1", "[mcp.a]: command must be text or a list of texts."),
        ("[mcp.a]\nenv = { A = 1 }", "env must be a table of texts."),
        ("[mcp.a]\nidle_timeout = 'soon'", "idle_timeout must be a number."),
        ("[mcp.a]\nwrapped = 1", "wrapped must be true or false."),
        ("[mcp.a]\nresult_limit = 1.5", "result_limit must be a whole number."),
        ("[mcp.a]\noauth = { id = 'x' }", "oauth has no setting 'id'"),
        ("[mcp.a]\noauth = 'x'", "oauth must be a table of texts."),
    ],
)
def test_what_is_wrong_with_a_server_is_said(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "torpor.toml"
    file.write_text(text)
    with pytest.raises(Refused) as refused:
        load(file, environ={})
    assert says in str(refused.value)


def test_arguments_stand_in_one_place() -> None:
    with pytest.raises(Refused, match="args needs a command that is a text"):
        McpTable(command=("a", "b"), args=("c",)).filled({})


def test_there_is_no_variable_for_the_tables() -> None:
    with pytest.raises(Refused, match="TORPOR_MCP"):
        load(environ={"TORPOR_MCP": "x"})
    assert load(environ={"TORPOR_MCP_SERVERS": "x.json"}).mcp_servers == "x.json"
