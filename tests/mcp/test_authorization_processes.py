"""Signing in across processes: a runtime that is started anew meanwhile, and two that renew one token."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from tests.mcp.granting import Granting, agree, granting
from torpor import Agent, McpServer, Runtime
from torpor.clock import SystemClock
from torpor.models import ScriptedModel, call
from torpor.stores.sqlite import Database, SqliteStore
from torpor.tools.mcp.authorization import AuthorizationNeeded, Authorizations, Challenge
from torpor.tools.tokens import Keys

ROOT = Path(__file__).parents[2]
SOON = 90.0


@pytest.fixture
async def desk() -> AsyncIterator[Granting]:
    async with granting() as found:
        yield found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def reader(desk: Granting) -> Agent:
    """Signs in if it has to, and reads a file."""

    def script(request: Any) -> Any:
        offered = {tool.name for tool in request.tools}
        if request.results:
            return " / ".join(result.text for result in request.results)
        return call("read_file") if "read_file" in offered else call("files_sign_in")

    return Agent("reader", model=ScriptedModel(script), tools=[McpServer("files", url=desk.mcp)])


async def link(thread: Any) -> str:
    """Where somebody shall sign in for a thread."""
    async with asyncio.timeout(SOON):
        while True:
            for wait in await thread.waits():
                if wait.kind == "authorization" and wait.url:
                    return str(wait.url)
            await asyncio.sleep(0.05)


def bytes_of(folder: Path) -> bytes:
    """All that lies in a folder's files."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def browse(url: str) -> tuple[int, str]:
    """Open a link, and go where it leads."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_a_runtime_is_started_anew_between_link_and_return(desk: Granting, tmp_path: Path) -> None:
    store, listen = f"sqlite:///{tmp_path / 'a.db'}", f"127.0.0.1:{free_port()}"
    async with Runtime(store, agents=[reader(desk)], listen=listen, token="t" * 20) as runtime:
        thread = await runtime.start("reader", "Read.", user_id="ann")
        other = await runtime.start("reader", "Read.", user_id="ann")
        bob = await runtime.start("reader", "Read.", user_id="bob")
        url, _, _ = await link(thread), await link(other), await link(bob)
        explained = str(await thread.explain())
        assert url not in f"{explained} {await thread.history()}"
    async with Runtime(store, agents=[reader(desk)], listen=listen, token="t" * 20) as runtime:
        status, page = await browse(url)
        assert status == 200
        assert "You are signed in" in page
        for one in (thread.id, other.id):
            assert "igned in" in (await runtime.thread(one).reply(timeout=SOON)).text
            receipt = await runtime.thread(one).send("Read again.")
            assert (await runtime.thread(one).reply(timeout=SOON, to=receipt)).text == "read, with files:read"
        assert [wait.kind for wait in await runtime.thread(bob.id).waits()] == ["authorization"]
        assert len(desk.tokens) == 1
    secret = [*desk.tokens, *desk.refreshing, *(form["code_verifier"] for form in desk.forms)]
    assert len(secret) == 3
    assert not [one for one in secret if one.encode() in bytes_of(tmp_path)]


async def test_a_person_who_declines_ends_the_call(desk: Granting) -> None:
    async with Runtime("memory:", agents=[reader(desk)]) as runtime:
        thread = await runtime.start("reader", "Read.", user_id="ann")
        desk.denies = True
        status, page = await browse(await link(thread))
        assert status == 200
        assert "You have declined" in page
        assert "did not want to authorize it" in (await thread.reply(timeout=SOON)).text
        assert desk.tokens == {}


async def test_a_sign_in_that_fails_gives_the_wait_another_link(desk: Granting) -> None:
    async with Runtime("memory:", agents=[reader(desk)]) as runtime:
        thread = await runtime.start("reader", "Read.", user_id="ann")
        first = await link(thread)
        back = await agree(first)
        back.pop("to")
        query = urlencode({**back, "code": "another"})
        status, page = await browse(f"{runtime.url}/oauth/callback/files?{query}")
        assert status == 502
        assert "look for its new link" in page
        async with asyncio.timeout(SOON):
            while (second := await link(thread)) == first:
                await asyncio.sleep(0.05)
        assert len(await thread.waits()) == 1
        assert (await browse(second))[0] == 200
        assert "igned in" in (await thread.reply(timeout=SOON)).text


async def test_a_wait_that_is_dismissed_takes_its_link_along(desk: Granting) -> None:
    async with Runtime("memory:", agents=[reader(desk)]) as runtime:
        thread = await runtime.start("reader", "Read.", user_id="ann")
        url = await link(thread)
        [wait] = await thread.waits()
        await thread.answer(wait.id, "dismiss")
        assert "did not want to authorize it" in (await thread.reply(timeout=SOON)).text
        here = await runtime.parts.authorizations()
        async with asyncio.timeout(SOON):
            while await here._flows.waiting():
                await asyncio.sleep(0.05)
        assert (await browse(url))[0] == 410
        assert desk.tokens == {}


async def test_tools_that_all_may_see_are_called_by_those_who_sign_in(desk: Granting) -> None:
    """And a tool that needs more than was granted asks for that on top."""
    desk.open = ("initialize", "notifications/initialized", "tools/list")
    async with Runtime("memory:", agents=[reader(desk)]) as runtime:
        ann, also, bob = [
            await runtime.start("reader", "Read.", user_id=user) for user in ("ann", "ann", "bob")
        ]
        assert (await browse(await link(ann)))[0] == 200
        for thread in (ann, also):
            assert (await thread.reply(timeout=SOON)).text == "read, with files:read"
        assert await link(bob)
        desk.scopes = "files:write"
        await ann.send("Again.")
        url = await link(ann)
        assert "files%3Aread+files%3Awrite" in url
        assert (await browse(url))[0] == 200
        assert (await ann.reply(timeout=SOON)).text == "read, with files:read files:write"


async def process(*arguments: str) -> asyncio.subprocess.Process:
    """A process that uses the token, ready to go."""
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.mcp.renewing", *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert made.stdout is not None
    assert (await asyncio.wait_for(made.stdout.readline(), SOON)).strip() == b"ready"
    return made


async def test_two_processes_renew_a_token_and_use_no_refresh_token_twice(
    desk: Granting, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    clock = SystemClock()
    store = SqliteStore(Database.open(url, clock=clock))

    async def place() -> str:
        return "http://127.0.0.1:1"

    here = await Authorizations.open(store, await Keys.open(store), clock, place)
    consent = await here.begin(
        AuthorizationNeeded(McpServer("files", url=desk.mcp), "ann", Challenge()), "t1", "c1-0"
    )
    assert consent is not None
    desk.life = 0.4
    back = await agree(consent.url)
    assert (await here.finish("files", back["state"], back["code"], iss=back["iss"])).ok
    await store.close()
    made = [await process(url, desk.mcp, "4") for _ in range(2)]
    told = [(await asyncio.wait_for(one.communicate(), SOON))[0].decode() for one in made]
    assert all(one.startswith("{'200': ") and one.count(":") == 1 for one in told), told
    assert len(desk.used) >= 4
    assert set(desk.used.values()) == {1}
