"""NUL and NaN on entry, over HTTP and by commands, on every store: kept as they are, or refused at once."""

import json
from pathlib import Path

import aiohttp
import pytest

from tests.cli.shell import Shell
from torpor import Agent, Runtime
from torpor.models import ScriptedModel

TEXT = "nul \0 mark \x1a0 \x1a\x1a end"
SHOWN = TEXT.replace("\0", "\ufffd")
"""As a model sees it: providers take no NUL."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/entry.db"


async def test_over_http(url: str) -> None:
    echo = Agent("echo", model=ScriptedModel(lambda request: f"echo {request.text}"))
    async with Runtime(url, agents=[echo], token="a-token-of-these-tests") as runtime:
        headers = {"Authorization": "Bearer a-token-of-these-tests", "Content-Type": "application/json"}
        async with aiohttp.ClientSession(runtime.url, headers=headers) as session:
            body = {"agent": "echo", "text": TEXT, "owner": TEXT}
            async with session.post("/threads", json=body) as response:
                assert response.status == 201
                thread = (await response.json())["id"]
            assert (await runtime.thread(thread).reply(timeout=60)).text == f"echo {SHOWN}"
            async with session.get(f"/threads/{thread}/messages") as response:
                messages = (await response.json())["messages"]
            assert [one["text"] for one in messages if one["type"] == "said"] == [TEXT]
            async with session.get("/threads", params={"owner": TEXT}) as response:
                assert [one["id"] for one in (await response.json())["threads"]] == [thread]
            before = await runtime.thread(thread).history()
            for nan in (b"NaN", b"Infinity", b"1e999"):
                said = b'{"agent":"echo","text":"x","context":' + nan + b"}"
                async with session.post("/threads", data=said) as response:
                    assert response.status == 400
                    assert "error" in await response.json()
            assert await runtime.thread(thread).history() == before
            assert len(await runtime.threads()) == 1


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_by_commands(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    if store == "postgres":
        shell.environment["TORPOR_STORE"] = request.getfixturevalue("postgres_url")
    thread = shell.good("new", "echo", "-", said=TEXT).strip()
    shell.good("say", thread, "-", said=TEXT)
    with shell.running("worker", "--until-idle", "--soon", "0") as process:
        assert process.wait(20) == 0
    texts = [one["text"] for one in shell.shown(thread)["messages"] if one["type"] == "said"]
    assert texts == [TEXT, TEXT]
    assert "\0" not in shell.good("show", thread)
    for nan in ("NaN", "Infinity"):
        named = shell.good("new", "echo", "x", "--context", nan).strip()
        told = shell.good("show", named, "--json")
        assert json.loads(told, parse_constant=pytest.fail)["thread"]["id"] == named  # it is a text
