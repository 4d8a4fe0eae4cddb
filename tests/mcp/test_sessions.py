"""Connections: shared, begun anew, listed anew; questions in the midst of calls; both eras."""

import asyncio
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequest, ElicitResult, InputRequiredResult

from tests.mcp.connected import SDK, connected, connections, is_running, raw, store, text, until
from torpor import McpServer, Refused, Unavailable
from torpor.tools.mcp.connection import Connection
from torpor.tools.mcp.faults import Declined, Lost
from torpor.tools.mcp.sessions import MANIFESTS, Sessions


def names(manifest: bytes) -> list[str]:
    return [one["name"] for one in json.loads(manifest)["tools"]]


def digest(manifest: bytes) -> str:
    return hashlib.sha256(manifest).hexdigest()


def ours(**options: Any) -> McpServer:
    return McpServer("ours", command=[sys.executable, str(SDK)], **options)


# ------------------------------------------------------------------ who shares what


async def test_two_hundred_calls_at_once_share_one_process() -> None:
    async with connections(raw()) as sessions:

        async def one(number: int) -> str:
            session = await sessions.session("mcp:raw", root=f"thread{number}", user=f"user{number}")
            given = json.loads(await text(session, "echo", arguments={"number": number}))
            assert given["number"] == number
            return await text(session, "pid")

        assert len(set(await asyncio.gather(*map(one, range(200))))) == 1


async def test_a_server_with_state_has_one_process_a_root_thread_closed_with_it() -> None:
    async with connections(raw(per_thread=True)) as sessions:
        first, again, second = [await sessions.session("mcp:raw", root=root) for root in ("a", "a", "b")]
        pids = [int(await text(session, "pid")) for session in (first, again, second)]
        assert pids[0] == pids[1] != pids[2]
        await sessions.close_thread("a")
        assert [is_running(pid) for pid in pids] == [False, False, True]
        with pytest.raises(Lost) as gone:
            await text(first, "pid")
        assert not gone.value.sent


async def test_names_without_a_server_are_refused() -> None:
    async with connections(McpServer("only-a-name")) as sessions:
        with pytest.raises(Refused, match="configure no MCP server 'only-a-name'"):
            await sessions.session("mcp:only-a-name")
        with pytest.raises(Refused, match="No MCP server is configured as 'nobody'"):
            await sessions.manifest("mcp:nobody")
        sessions.add(McpServer("only-a-name", command=raw().command))
        await sessions.session("mcp:only-a-name")


async def test_another_configuration_takes_the_place_of_the_first() -> None:
    async with connections(raw()) as sessions:
        before = int(await text(await sessions.session("mcp:raw"), "pid"))
        sessions.add(raw(allow=("pid",)))
        assert names(await sessions.manifest("mcp:raw")) != []
        session = await sessions.session("mcp:raw")
        assert int(await text(session, "pid")) != before
        assert session.tool("echo") is None
        await until(lambda: not is_running(before))


async def test_after_the_close_nothing_is_begun() -> None:
    sessions = Sessions([raw()], store())
    await sessions.session("mcp:raw")
    await sessions.close()
    await sessions.close()
    with pytest.raises(Unavailable):
        await sessions.session("mcp:raw")


async def test_the_close_ends_what_is_still_starting_and_what_was_replaced() -> None:
    sessions = Sessions([raw("mute", start_timeout=0.2)], store())
    with pytest.raises(Unavailable):
        await sessions.session("mcp:raw")
    sessions.add(raw())
    session = await sessions.session("mcp:raw")
    silent = asyncio.create_task(session.call("silent", {}))
    await text(session, "pid")
    sessions.add(raw("slow", "0"))
    pids = [one.transport.pid for one in sessions._connections]
    assert len(pids) == 2
    await sessions.close()
    assert not any(is_running(pid) for pid in pids if pid is not None)
    with pytest.raises(Lost):
        await silent


async def test_connections_of_users_that_nobody_uses_are_let_go() -> None:
    async with connections(raw()) as sessions:
        sessions._signed.add("mcp:raw")  # as a server at a URL would be that wants people to sign in
        for user in ("ann", "bob"):
            await sessions.session("mcp:raw", user=user)
        for key, place in sessions._places.items():
            place.used -= 1_000.0 if key.user == "ann" else 0.0
        sessions._sweep()
        await until(lambda: len(sessions._connections) == 1)
        assert {key.user for key, place in sessions._places.items() if place.live} == {"bob"}
        assert await text(await sessions.session("mcp:raw", user="ann"), "pid")


async def test_deaths_in_a_row_make_us_wait_longer() -> None:
    waits = []
    async with connections(raw("exits")) as sessions:
        for _ in range(200):
            try:
                await sessions.session("mcp:raw")
            except Unavailable as error:
                if error.retry_after is not None:
                    waits.append(error.retry_after)
                    if len(waits) == 2:
                        break
                    await asyncio.sleep(error.retry_after)
        assert 0 < waits[0] <= 1.0 < waits[1] <= 2.0


# ------------------------------------------------------------------ manifests


async def test_mcp_08_a_cached_manifest_is_served_at_once_while_the_server_starts() -> None:
    side = store()
    async with connections(raw(), side=side) as sessions:
        cached = await sessions.manifest("mcp:raw")
    await until(lambda: _is_kept(side))
    slow = McpServer("raw", command=[*(raw().command or ()), "slow", "1.5"])
    kept = json.loads(await side.get(MANIFESTS, "mcp:raw") or b"")
    async with connections(slow, side=side) as sessions:
        kept["of"] = _fingerprint(slow)
        await side.put(MANIFESTS, "mcp:raw", json.dumps(kept).encode())
        started = time.monotonic()
        assert await sessions.manifest("mcp:raw") == cached
        assert time.monotonic() - started < 1.0
        assert not sessions.has_changed("mcp:raw", digest(cached))
        assert await text(await sessions.session("mcp:raw"), "pid")


async def test_mcp_08_a_slow_server_joins_when_it_is_ready() -> None:
    async with connections(raw("slow", "6")) as sessions:
        with pytest.raises(Unavailable, match="still starting") as waiting:
            await sessions.manifest("mcp:raw")
        assert waiting.value.retry_after is not None
        await until(lambda: _is_listed(sessions))


async def test_a_manifest_of_another_configuration_is_not_served() -> None:
    side = store()
    async with connections(raw(), side=side) as sessions:
        await sessions.manifest("mcp:raw")
    await until(lambda: _is_kept(side))
    other = McpServer("raw", command=[*(raw().command or ()), "exits"])
    async with connections(other, side=side) as sessions:
        with pytest.raises(Unavailable):
            await sessions.manifest("mcp:raw")


async def test_broken_cached_manifests_are_ignored() -> None:
    side = store()
    await side.put(MANIFESTS, "mcp:raw", b"\xff")
    async with connections(raw(), side=side) as sessions:
        assert "echo" in names(await sessions.manifest("mcp:raw"))


async def test_a_changed_list_is_read_anew_and_not_a_hundred_times() -> None:
    async with connections(raw()) as sessions:
        before = await sessions.manifest("mcp:raw")
        session = await sessions.session("mcp:raw")
        await text(session, "change", arguments={"times": 100})
        await until(lambda: "extra99" in names(sessions._manifests["mcp:raw", ""][1]))
        assert sessions.has_changed("mcp:raw", digest(before))
        assert not sessions.has_changed("mcp:raw", digest(await sessions.manifest("mcp:raw")))
        assert json.loads(await text(session, "seen")).count("listed") <= 4


async def test_a_restart_with_other_tools_is_noticed(tmp_path: Path) -> None:
    async with connections(raw()) as sessions:
        first = await sessions.manifest("mcp:raw")
        session = await sessions.session("mcp:raw")
        await text(session, "change")
        await until(lambda: sessions.has_changed("mcp:raw", digest(first)))
        second = await sessions.manifest("mcp:raw")
        with pytest.raises(Lost):
            await session.call("die", {})
        await sessions.session("mcp:raw")
        assert sessions.has_changed("mcp:raw", digest(second))
        assert await sessions.manifest("mcp:raw") == first


@pytest.mark.parametrize(("wrong", "tools"), [("pages", 100), ("circle", 2), ("heavy", 3)])
async def test_lists_without_end_are_cut_and_it_is_said(wrong: str, tools: int) -> None:
    async with connections(raw(wrong)) as sessions:
        assert len(names(await sessions.manifest("mcp:raw"))) == tools
        assert "Its tools" in sessions.problems("mcp:raw")[0]


async def test_a_per_thread_server_is_listed_without_leaving_a_process() -> None:
    async with connections(raw(per_thread=True)) as sessions:
        await sessions.manifest("mcp:raw")
        await until(lambda: all(place.live is None for place in sessions._places.values()))


async def test_a_wrapped_server_lists_and_invokes() -> None:
    async with connected(raw(wrapped=True, deny=("die",))) as session:
        listed = await text(session, "raw_list_tools", arguments={"query": "echo"})
        assert "**echo**: Does echo." in listed
        assert "noise" not in listed
        named = {"tool_name": "echo", "arguments": {"a": 1}}
        assert json.loads(await text(session, "raw_invoke_tool", arguments=named))["a"] == 1
        found = session.tool("raw_invoke_tool", named)
        assert found is not None
        assert found.name == "echo"
        denied = await session.call("raw_invoke_tool", {"tool_name": "die"})
        assert isinstance(denied, CallToolResult)
        assert denied.is_error
        with pytest.raises(Refused, match="does not offer the tool 'nothing'"):
            await session.call("nothing", {})


async def test_a_name_prefixed_for_a_clash_leads_to_the_tool() -> None:
    async with connected(raw()) as session:
        assert json.loads(await text(session, "raw_echo", arguments={"a": 1}))["a"] == 1


# ------------------------------------------------------------------ questions


async def test_a_question_goes_to_the_call_that_is_under_way() -> None:
    async def asked(request: Any) -> ElicitResult:
        assert isinstance(request, ElicitRequest)
        await asyncio.sleep(0.6)  # longer than the idle limit: people take their time
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with connected(raw(idle_timeout=0.4)) as session:
        assert "Ann" in await text(session, "ask", asked=asked)
        assert not session.exclusive


async def test_with_several_calls_nobody_is_asked_for_another_and_then_they_go_one_by_one() -> None:
    async def asked(_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with connected(raw()) as session:
        other = asyncio.create_task(session.call("silent", {}, asked=asked))
        await text(session, "pid")
        assert "decline" in await text(session, "ask", asked=asked)
        assert session.exclusive
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        answers = await asyncio.gather(*(text(session, "ask", asked=asked) for _ in range(5)))
        assert all("Ann" in answer for answer in answers)


async def test_who_cannot_be_asked_declines() -> None:
    async with connected(raw()) as session:
        assert "decline" in await text(session, "ask")
    async with connected(raw(elicitation=False)) as session:
        assert "not supported" in await text(session, "ask")


async def test_what_is_done_before_sending_is_done_before_it() -> None:
    order: list[str] = []

    async def sending() -> None:
        order.append("sending")

    async def progress(*_: Any) -> None:
        order.append("progress")

    async with connected(raw()) as session:
        steps = {"steps": 1, "every": 0}
        await text(session, "progress", arguments=steps, sending=sending, progress=progress)
    assert order == ["sending", "progress"]


# ------------------------------------------------------------------ the newer protocol


async def test_mcp_14_the_protocol_of_2026_over_stdio() -> None:
    async with connections(ours(resources=True, prompts=True)) as sessions:
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
        assert told == [(1.0, 2.0, "step 1"), (2.0, 2.0, "step 2")]

        asked = await session.call("ask", {})
        assert isinstance(asked, InputRequiredResult)
        answers = {
            key: {"action": "accept", "content": {"name": "Ann"}} for key in asked.input_requests or {}
        }
        assert await text(session, "ask", responses=answers, request_state=asked.request_state) == "Ann"

        before = digest(await sessions.manifest("mcp:ours"))
        await text(session, "grow", arguments={"name": "more"})
        await until(lambda: sessions.has_changed("mcp:ours", before))
        assert await text(session, "more") == await text(session, "pid")

        assert "note://{name}" in await text(session, "ours_list_resources")
        read = await session.call("ours_read_resource", {"uri": "note://x"})
        assert isinstance(read, CallToolResult)
        assert "note x" in str(read.content)
        missing = await session.call("ours_read_resource", {"uri": "nothing://x"})
        assert isinstance(missing, CallToolResult)
        assert missing.is_error
        assert "greet" in await text(session, "ours_list_prompts")
        prompt = await session.call("ours_get_prompt", {"name": "greet", "arguments": {"who": "Ann"}})
        assert "Greet Ann." in str(prompt)


def _fingerprint(server: McpServer) -> str:
    from torpor.tools.mcp.listing import fingerprint

    return fingerprint(server)


async def _is_kept(side: Any) -> bool:
    return await side.get(MANIFESTS, "mcp:raw") is not None


async def _is_listed(sessions: Sessions) -> bool:
    try:
        return "echo" in names(await sessions.manifest("mcp:raw"))
    except Unavailable:
        return False


@pytest.mark.parametrize(("words", "kind"), [("Connection closed", Lost), ("No luck", Declined)])
async def test_an_end_that_the_sdk_tells_of_is_no_answer_of_the_server(words: str, kind: type) -> None:
    connection = Connection(raw(), on_listing=lambda _: None, on_end=lambda _: None)
    fault = await connection.fault(MCPError(code=-32000, message=words))
    assert type(fault) is kind
    assert getattr(fault, "sent", True)
