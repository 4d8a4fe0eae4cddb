"""What must not be seen: tokens, keys, passwords; in values, errors, logs, pages and process lists."""

import asyncio
import io
import logging
import traceback
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.cli.shell import Shell
from tests.protocol.stubs import stub_runtime
from tests.protocol.tool_stub import tool_stub
from torpor import Agent, RapServer, Runtime
from torpor.core.errors import Refused, TorporError
from torpor.models import OpenAI, ScriptedModel, call, say
from torpor.settings import Settings, load
from torpor.stores.memory import MemoryStore
from torpor.tools.server import Retry, ToolServer
from torpor.tools.signatures import Secrets
from torpor.tools.tokens import Keys
from torpor.web.access import Access

SECRET = "sesame-open-0123456789-abcdefghij"
SIGNING = "whsec_" + "c2VzYW1lLW9wZW4tMDEyMzQ1Njc4OS1hYmNkZWZnaGlq"


def shown(*values: Any) -> str:
    """Values as a log or a debugger would show them."""
    return " ".join(f"{value!r} {value!s} {value}" for value in values)


def test_no_value_shows_its_secret() -> None:
    store = f"postgresql://user:{SECRET}@host/db"
    values = [
        RapServer("https://a.test", token=SECRET, secret=SIGNING),
        Secrets(SIGNING),
        Access(SECRET),
        OpenAI("m", base_url="http://a.test", api_key=SECRET),
        Settings(store=store),
        ToolServer("kit", token=SECRET, secret=SIGNING),
    ]
    assert SECRET not in shown(*values)
    assert SIGNING not in shown(*values)


async def test_keys_of_callbacks_are_not_shown() -> None:
    keys = await Keys.open(MemoryStore(), fresh=lambda size: SECRET.encode()[:size])
    assert SECRET[:10] not in shown(keys, keys.ids, vars(keys.__class__))


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://user:{}@127.0.0.1:1/db",
        "postgresql://user:{}@127.0.0.1:1/db?connect_timeout=1",
        "postgresql://127.0.0.1:1/db?user=u&password={}",
        "postgres://user:{}@host/db",
        "postgresql://user:{}@[::1/db",
        "postgresql://user:{}@host:notaport/db",
    ],
)
async def test_no_error_of_a_store_shows_its_password(store: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = ""
    try:
        async with Runtime(store.format(SECRET), agents=[], listen=None, workers=0) as runtime:
            await runtime.threads()
    except TorporError as error:
        told = shown(error)
    assert told, "there is no such store"
    assert SECRET not in told
    assert SECRET not in caplog.text


def test_no_error_of_settings_shows_a_value_that_may_be_secret(tmp_path: Path) -> None:
    for text in (
        f'[mcp.a]\nurl = "https://a.test"\nheaders = "{SECRET}"\n',
        f'[mcp.a]\nurl = "https://a.test"\nenv = ["{SECRET}"]\n',
        f'[mcp.a]\nurl = "https://a.test"\noauth = {{ client_secret = ["{SECRET}"] }}\n',
    ):
        (tmp_path / "torpor.toml").write_text(text)
        with pytest.raises(Refused) as raised:
            load(tmp_path / "torpor.toml", environ={})
        assert SECRET not in shown(raised.value)


async def test_a_callback_url_is_seen_by_its_tool_server_only(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever fails on the way: no log, error, explanation, view or page of ours has the token in it."""
    caplog.set_level(logging.DEBUG)
    async with tool_stub() as stub:
        server = RapServer(stub.url, token=SECRET, timeout=2.0)
        model = ScriptedModel([call("ping"), say("Fine.")])
        async with Runtime(
            "memory:", agents=[Agent("a", model=model, tools=[server])], token=SECRET
        ) as runtime:
            thread = await runtime.start("a", "go")

            async with asyncio.timeout(30):
                while not stub.at("/invoke"):
                    await thread.explain()
                    await _moment()
            url = stub.at("/invoke")[0].body["callback_url"]
            token = url.rpartition("/")[2]
            async with aiohttp.ClientSession() as http:
                for body in (b"{", b"{}", b'{"type":"tool_result","group_id":"x","id":"y","text":"z"}'):
                    async with http.post(url, data=body) as answer:
                        assert token not in await answer.text()
                async with http.get(url) as answer:
                    assert token not in await answer.text()
                async with http.post(f"{url}/{token}", data=b"{}") as answer:
                    assert token not in await answer.text()
            explained = msgspec.json.encode(await thread.explain()).decode()
            history = shown(*await thread.history())
            records = shown(*await thread.records())
    assert len(token) > 40
    for text in (caplog.text, explained, history, records):
        assert token not in text
        assert SECRET not in text


async def _moment() -> None:
    await asyncio.sleep(0.01)


async def test_the_kit_logs_no_callback_url(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = ToolServer("kit", outbox=":memory:", retry=Retry(0.01, 0.01, 0.1, 0.1))

    @server.tool
    def fail() -> str:
        """Fail."""
        raise RuntimeError("it broke")

    async with (
        stub_runtime(otherwise=500) as stub,
        server.listening() as url,
        aiohttp.ClientSession() as http,
    ):
        body = {
            "operation": "fail",
            "arguments": {},
            "id": "c",
            "callback_url": f"{stub.url}/{SECRET}",
            "group_id": "t",
        }
        async with http.post(f"{url}/invoke", json=body) as answer:
            assert answer.status == 200
        await stub.until(lambda received: len(received) >= 2)
    assert SECRET not in caplog.text


def test_a_traceback_of_ours_has_no_token() -> None:
    """Errors are made of words, not of the headers and URLs at hand."""
    try:
        raise Refused(str(RapServer("https://a.test", token=SECRET)))
    except Refused:
        out = io.StringIO()
        traceback.print_exc(file=out)
    assert SECRET not in out.getvalue()


def test_commands_show_no_token(tmp_path: Path) -> None:
    """Neither their output nor their arguments: a process is told where its token is, not the token."""
    shell = Shell(tmp_path)
    with shell.serving() as url:
        token = (tmp_path / "threads.db.token").read_text().strip()
        assert (tmp_path / "threads.db.token").stat().st_mode & 0o077 == 0
        told = [
            shell.process(*words)
            for words in (
                ("new", "echo", "hello", "--thread", "T"),
                ("threads",),
                ("show", "T"),
                ("explain", "T"),
                ("doctor",),
                ("keys", "list"),
                ("say", "nobody", "x"),
            )
        ]
        arguments = b" ".join(
            one.read_bytes() for one in Path("/proc").glob("[0-9]*/cmdline") if _is_ours(one)
        )
        assert b"serve" in arguments
        assert token.encode() not in arguments
        assert url
    for one in told:
        assert token not in one.stdout + one.stderr
    assert token not in shell.log


def _is_ours(path: Path) -> bool:
    try:
        return b"torpor" in path.read_bytes()
    except OSError:
        return False
