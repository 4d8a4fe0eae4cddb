"""Servers over Streamable HTTP: of both eras, and some that misbehave."""

import asyncio
import hashlib
import json
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx2
import pytest
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult

from tests.mcp.connected import connections, store, text, until
from tests.mcp.odd_http import OddServer, served
from torpor import McpServer, Refused, Unavailable
from torpor.tools.mcp.challenges import AuthorizationNeeded, Challenge
from torpor.tools.mcp.faults import Declined, Lost, TimedOut, TooLarge
from torpor.tools.mcp.sessions import Sessions


@asynccontextmanager
async def odd(
    path: str = "/mcp", wrong: str = "", **options: Any
) -> AsyncIterator[tuple[OddServer, Sessions]]:
    server = OddServer()
    server.wrong = wrong
    async with (
        served(server.app) as url,
        connections(McpServer("odd", url=url + path, **options)) as sessions,
    ):
        yield server, sessions


async def test_a_server_of_2025_with_a_session() -> None:
    async with odd(headers={"X-Given": "yes"}) as (server, sessions):
        session = await sessions.session("mcp:odd")
        assert not session.modern
        assert await text(session, "echo", arguments={"a": 1}) == '{"a": 1}'
        assert server.headers[-1]["mcp-session-id"] in server.sessions
        assert server.headers[-1]["mcp-protocol-version"] == "2025-06-18"
        assert all(one["x-given"] == "yes" for one in server.headers)
    assert server.seen[-1] == "DELETE"


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("busy", Lost, r"busy \(429\)"),
        ("broken", Lost, r"failed \(500\)"),
        ("taken", Refused, "without answering it"),
        ("page", Refused, "text/html, which is no MCP"),
        ("declined", Declined, "wrong arguments"),
        ("large", TooLarge, "more than 65,536 bytes"),
        ("large_event", TooLarge, "more than 65,536 bytes"),
        ("cut_off", Lost, "stream ended before"),
        ("silent", TimedOut, "no sign of life"),
    ],
)
async def test_a_failure_of_one_call_is_that_calls_alone(
    name: str, fault: type[Exception], words: str
) -> None:
    async with odd(result_limit=65_536, idle_timeout=1.0) as (_, sessions):
        session = await sessions.session("mcp:odd")
        beside = asyncio.create_task(text(session, "resumed"))
        with pytest.raises(fault, match=words) as failed:
            await session.call(name, {})
        assert await beside == "resumed after e1"
        assert await text(await sessions.session("mcp:odd"), "echo") == "{}"
    if isinstance(failed.value, Lost):
        assert failed.value.sent is (name != "busy")
        assert failed.value.retry_after == (7.0 if name == "busy" else None)


async def test_answers_under_another_id_and_noise_between_events_are_understood() -> None:
    async with odd() as (_, sessions):
        session = await sessions.session("mcp:odd")
        assert await text(session, "other_id") == "mine"
        assert await text(session, "noise") == "after noise"
        assert "not json" in sessions.problems("mcp:odd")[0]


async def test_mcp_04_a_stream_that_breaks_is_picked_up_where_the_server_can() -> None:
    async with odd() as (server, sessions):
        assert await text(await sessions.session("mcp:odd"), "resumed") == "resumed after e1"
        assert "again from e1" in server.seen


async def test_mcp_05_an_expired_session_is_one_new_handshake_for_three_calls() -> None:
    async with odd() as (server, sessions):
        session = await sessions.session("mcp:odd")
        server.sessions.clear()
        server.seen.clear()

        async def call(number: int) -> str:
            with pytest.raises(Lost, match="expired") as lost:
                await text(session, "echo", arguments={"n": number})
            assert not lost.value.sent
            again = await sessions.session("mcp:odd")
            return await text(again, "echo", arguments={"n": number})

        assert await asyncio.gather(*map(call, range(3))) == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
        assert server.seen.count("initialize") == 1


async def test_mcp_05_a_404_without_a_session_is_a_mistake_and_no_loop() -> None:
    async with odd(wrong="nothing") as (server, sessions):
        for _ in range(3):
            with pytest.raises((Refused, Unavailable), match="no MCP server at its URL"):
                await sessions.session("mcp:odd")
        assert len(server.seen) <= 6


async def test_a_server_without_sessions_works() -> None:
    async with odd(wrong="stateless") as (server, sessions):
        assert await text(await sessions.session("mcp:odd"), "echo") == "{}"
        assert server.listening == 0
    assert "DELETE" not in server.seen


async def test_a_server_that_wants_credentials_says_what_to_do() -> None:
    async with odd(wrong="sign in") as (_, sessions):
        with pytest.raises(Refused, match="give it a header Authorization, or oauth"):
            await sessions.session("mcp:odd")
    async with odd(wrong="sign in", headers={"Authorization": "Bearer hidden"}) as (_, sessions):
        with pytest.raises(Refused, match="check the header Authorization") as refused:
            await sessions.session("mcp:odd")
    assert "hidden" not in str(refused.value)


class Signing(httpx2.Auth):
    """Signs for those who have a token; the others have to sign in."""

    tokens: ClassVar[dict[str, str]] = {}

    def __init__(self, server: McpServer, user: str) -> None:
        self.server = server
        self.user = user

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self.user not in self.tokens:
            raise AuthorizationNeeded(self.server, self.user, Challenge())
        request.headers["Authorization"] = f"Token {self.tokens[self.user]}"
        yield request


async def test_who_has_to_sign_in_is_told_and_each_user_has_a_connection_and_a_token() -> None:
    server = OddServer()
    server.wrong = "sign in"
    Signing.tokens.clear()
    async with served(server.app) as url:
        sessions = Sessions([McpServer("odd", url=f"{url}/mcp")], store(), auth=Signing)
        offered = await sessions.manifest("mcp:odd", "ann")
        assert [one["name"] for one in json.loads(offered)["tools"]] == ["odd_sign_in"]
        for user in ("ann", "bob"):
            with pytest.raises(AuthorizationNeeded) as needed:
                await sessions.session("mcp:odd", user=user)
            assert needed.value.user == user
        Signing.tokens["ann"] = "a1"
        session = await sessions.session("mcp:odd", user="ann")
        assert "Signed in" in await text(session, "odd_sign_in")
        assert await text(session, "echo") == "{}"
        assert server.headers[-1]["authorization"] == "Token a1"
        for user in ("ann", ""):  # also those who ask for no user's list learn that it has changed
            assert sessions.has_changed("mcp:odd", hashlib.sha256(offered).hexdigest(), user)
            assert b"echo" in await sessions.manifest("mcp:odd", user)
        with pytest.raises(AuthorizationNeeded):
            await sessions.session("mcp:odd", user="bob")
        Signing.tokens["bob"] = "b1"
        await text(await sessions.session("mcp:odd", user="bob"), "echo")
        assert server.headers[-1]["authorization"] == "Token b1"
        del Signing.tokens["ann"]  # a token is revoked while its connection is up
        with pytest.raises(AuthorizationNeeded):
            await text(session, "echo")
        await sessions.close()


async def test_a_redirect_within_the_origin_is_followed_and_no_other() -> None:
    async with odd("/moved") as (_, sessions):
        assert await text(await sessions.session("mcp:odd"), "echo") == "{}"
    async with odd("/away") as (_, sessions):
        with pytest.raises(Refused, match="redirects elsewhere"):
            await sessions.session("mcp:odd")


async def test_a_compressed_answer_that_nobody_asked_for_is_not_unpacked() -> None:
    async with odd("/compressed") as (_, sessions):
        with pytest.raises(Refused, match="the coding 'gzip'"):
            await sessions.session("mcp:odd")


async def test_a_stream_that_closes_at_once_is_not_opened_again_and_again() -> None:
    async with odd(wrong="closes") as (server, sessions):
        await sessions.session("mcp:odd")
        await asyncio.sleep(3.5)
        assert 1 <= server.listening <= 2


async def test_a_question_on_the_stream_of_a_call_is_that_calls_also_among_several() -> None:
    async def asked(_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ann"})

    async def never(_: Any) -> ElicitResult:
        raise AssertionError("another call was asked")

    async with odd() as (_, sessions):
        session = await sessions.session("mcp:odd")
        others = [asyncio.create_task(session.call("silent", {}, asked=never)) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert json.loads(await text(session, "ask", asked=asked))["content"] == {"name": "Ann"}
        assert not session.exclusive
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    async with odd() as (server, sessions):
        session = await sessions.session("mcp:odd")
        unwanted = asyncio.create_task(session.call("silent", {}))
        await until(lambda: "silent" in server.seen)
        unwanted.cancel()
        await asyncio.gather(unwanted, return_exceptions=True)
        await until(lambda: server.seen[-1].startswith("cancelled"))


@pytest.mark.parametrize("session", ["caf\u00e9", "a b"])
async def test_a_session_id_that_may_not_be_one_is_refused(session: str) -> None:
    async with odd(wrong=f"session:{session}") as (_, sessions):
        with pytest.raises((Refused, Unavailable), match="a session id that may not be one"):
            await sessions.session("mcp:odd")


async def test_nobody_there_is_said_at_once_and_tried_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with connections(McpServer("odd", url=f"http://127.0.0.1:{port}/mcp")) as sessions:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await sessions.session("mcp:odd")


async def test_a_connection_that_says_nothing_ends_at_the_start_limit() -> None:
    """Half-open: it is accepted, and then nobody is there."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/mcp"
        async with connections(McpServer("odd", url=url, start_timeout=0.5)) as sessions:
            with pytest.raises(Unavailable, match="still starting"):
                await sessions.session("mcp:odd")


async def test_a_name_that_leads_to_a_private_address_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lookup(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]

    async with connections(McpServer("odd", url="https://looks-public.test/mcp")) as sessions:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
        with pytest.raises(Refused, match="not a public address"):
            await sessions.session("mcp:odd")


async def test_urls_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with odd("/mcp?key=hidden") as (_, sessions):
        await text(await sessions.session("mcp:odd"), "echo")
        with pytest.raises(Lost):
            await text(await sessions.session("mcp:odd"), "broken")
    assert "hidden" not in caplog.text


async def test_mcp_14_the_protocol_of_2026_over_http() -> None:
    from tests.mcp.sdk_server import application

    async with served(application()) as url, connections(McpServer("ours", url=f"{url}/mcp")) as sessions:
        session = await sessions.session("mcp:ours")
        assert session.modern
        added = await session.call("add", {"a": 1, "b": 2})
        assert isinstance(added, CallToolResult)
        assert added.structured_content == {"total": 3}
        told: list[Any] = []

        async def progress(*how_far: Any) -> None:
            told.append(how_far)

        steps = {"steps": 2, "every": 0.05}
        assert await text(session, "slow", arguments=steps, progress=progress) == "done"
        assert len(told) == 2

        asked = await session.call("ask", {})
        assert isinstance(asked, InputRequiredResult)
        answers = {key: {"action": "decline"} for key in asked.input_requests or {}}
        given = await text(session, "ask", responses=answers, request_state=asked.request_state)
        assert given == "decline"

        before = json.loads(await sessions.manifest("mcp:ours"))
        await text(session, "grow", arguments={"name": "over_http"})
        await until(lambda: b"over_http" in sessions._manifests["mcp:ours", ""][1])
        assert len(before["tools"]) < len(json.loads(await sessions.manifest("mcp:ours"))["tools"])
