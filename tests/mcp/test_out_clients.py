"""What MCP clients of both eras are served, seen by the SDK's own client in this process."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp.counter import Gate, agents, served
from torpor.core.messages import Said
from torpor.mcp import calls

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


def structure(result: types.CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    assert result.structured_content is not None
    return dict(result.structured_content)


def text(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


@ERAS
async def test_each_agent_has_three_tools_with_shapes(era: Any) -> None:
    async with served(agents(Gate())) as (server, _), Client(server, mode=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else era)
    stems = ("echo", "my_fetcher", "eraser", "both")
    own = [f"{stem}_{verb}" for stem in stems for verb in ("start", "ask", "wait")]
    assert list(tools) == [*own, "threads", "answer", "stop"]
    start = tools["my_fetcher_start"]
    assert start.input_schema["required"] == ["text"]
    assert start.output_schema is not None
    assert {"thread", "state", "text"} <= set(start.output_schema["required"])
    assert "goes on when this call is cancelled" in (start.description or "")
    assert start.annotations is not None
    assert start.annotations.read_only_hint is False


@ERAS
async def test_an_agent_is_started_and_asked_more(era: Any) -> None:
    async with served(agents(Gate())) as (server, runtime), Client(server, mode=era) as client:
        begun = structure(await client.call_tool("echo_start", {"text": "hi"}))
        assert (begun["state"], begun["text"]) == ("replied", "echo hi")
        more = await client.call_tool("echo_ask", {"thread": begun["thread"], "text": "again"})
        assert (structure(more)["text"], text(more)) == ("echo again", "echo again")
        again = await client.call_tool("echo_wait", {"thread": begun["thread"]})
        assert structure(again) == structure(more)
        said = [one for one in await runtime.thread(begun["thread"]).history() if isinstance(one, Said)]
        assert {one.by.id for one in said} == {"mcp:mcp" if era == "legacy" else said[0].by.id}
        assert {one.by.kind for one in said} == {"person"}


@ERAS
async def test_a_bounded_wait_ends_and_is_taken_up_again_with_progress(era: Any) -> None:
    gate, told = Gate(), list[str]()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with served(agents(gate)) as (server, _), Client(server, mode=era) as client:
        call = client.call_tool("my_fetcher_start", {"text": "go", "wait": 0.2}, progress_callback=progress)
        begun = structure(await call)
        assert (begun["state"], begun["position"]) == ("working", 0)
        assert "waits for fetch" in begun["text"]
        waiting = asyncio.create_task(
            client.call_tool("my_fetcher_wait", {"thread": begun["thread"]}, progress_callback=progress)
        )
        gate.open.set()
        assert structure(await waiting)["text"] == "It says: treasure"
    assert any("calls fetch" in one for one in told), told


async def test_no_more_than_a_number_of_calls_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torpor.mcp.calls.WAITING_MOST", 1)
    gate = Gate()
    async with served(agents(gate)) as (server, _), Client(server, mode="legacy") as client:
        waiting = asyncio.create_task(client.call_tool("my_fetcher_start", {"text": "go"}))
        await gate.begun.wait()
        at_once = structure(await client.call_tool("my_fetcher_start", {"text": "go", "wait": 60}))
        assert at_once["state"] == "working"
        gate.open.set()
        assert structure(await waiting)["text"] == "It says: treasure"


async def test_the_end_of_a_request_does_not_end_the_thread() -> None:
    gate = Gate()
    async with served(agents(gate)) as (server, runtime), Client(server, mode="legacy") as client:
        waiting = asyncio.create_task(client.call_tool("my_fetcher_start", {"text": "go"}))
        await gate.begun.wait()
        waiting.cancel()
        (row,) = await runtime.threads()
        gate.open.set()
        ended = structure(await client.call_tool("my_fetcher_wait", {"thread": row.thread}))
        assert ended["text"] == "It says: treasure"
        listing = structure(await client.call_tool("threads", {"agent": "my fetcher"}))
        assert [one["thread"] for one in listing["threads"]] == [row.thread]


async def test_what_comes_after_a_position_is_waited_for() -> None:
    async with served(agents(Gate())) as (server, _), Client(server, mode="legacy") as client:
        begun = structure(await client.call_tool("echo_start", {"text": "hi"}))
        where = {"thread": begun["thread"], "after": begun["position"]}
        none_yet = structure(await client.call_tool("echo_wait", {**where, "wait": 0.1}))
        assert none_yet["state"] == "working"
        waiting = asyncio.create_task(client.call_tool("echo_wait", where))
        await client.call_tool("echo_ask", {"thread": begun["thread"], "text": "more"})
        assert structure(await waiting)["text"] == "echo more"


@ERAS
async def test_the_same_key_counts_once(era: Any) -> None:
    async with served(agents(Gate())) as (server, runtime), Client(server, mode=era) as client:
        asked = {"text": "hi", "key": "k1"}
        first, second = [structure(await client.call_tool("echo_start", asked)) for _ in range(2)]
        assert first == second
        assert len(await runtime.threads()) == 1


@ERAS
async def test_a_question_to_people_is_reported_and_answered_by_a_tool(era: Any) -> None:
    async with served(agents(Gate())) as (server, _), Client(server, mode=era) as client:
        begun = structure(await client.call_tool("eraser_start", {"text": "go"}))
        (asked,) = begun["asks"]
        assert (begun["state"], asked["kind"], asked["tool"]) == ("asking", "approval", "erase")
        assert asked["answers"] == ["approve", "deny"]
        wrong = await client.call_tool("answer", {"wait": asked["wait"], "value": "maybe"})
        assert wrong.is_error
        assert "'approve', 'deny'" in text(wrong)
        still = structure(await client.call_tool("eraser_wait", {"thread": begun["thread"], "wait": 0.1}))
        assert still["asks"] == begun["asks"]
        given = structure(await client.call_tool("answer", {"wait": asked["wait"], "value": "approve"}))
        assert given["outcome"] == "received"
        ended = structure(await client.call_tool("eraser_wait", {"thread": begun["thread"]}))
        assert ended["text"] == "It says: all is gone"


@ERAS
@pytest.mark.parametrize(
    ("action", "content", "reply"),
    [
        ("accept", {"answer": "approve"}, "It says: all is gone"),
        ("accept", {"answer": "deny", "comment": "too much"}, "too much"),
        ("decline", None, "denied"),
    ],
)
async def test_a_client_that_can_ask_its_user_does(
    era: Any, action: Any, content: dict[str, Any] | None, reply: str
) -> None:
    seen: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        seen.append(params)
        return types.ElicitResult(action=action, content=content)

    async with (
        served(agents(Gate())) as (server, _),
        Client(server, mode=era, elicitation_callback=elicit) as client,
    ):
        ended = structure(await client.call_tool("eraser_start", {"text": "go"}))
    assert ended["state"] == "replied"
    assert reply in ended["text"]
    assert [one.message for one in seen] == ['May erase run with {"what": "all"}?']


async def test_a_form_that_is_put_away_leaves_the_question_open() -> None:
    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="cancel")

    async with (
        served(agents(Gate())) as (server, _),
        Client(server, mode="legacy", elicitation_callback=elicit) as client,
    ):
        begun = structure(await client.call_tool("eraser_start", {"text": "go"}))
    assert begun["state"] == "asking"


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_form_that_nobody_fills_in_holds_up_no_call(
    elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = asyncio.Event()

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        seen.set()
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets")

    monkeypatch.setattr(calls, "ANSWER_LEAST", 60.0 if elsewhere else 0.1)
    async with (
        served(agents(Gate())) as (server, runtime),
        Client(server, mode="legacy", elicitation_callback=elicit) as client,
        asyncio.timeout(60),
    ):
        calling = asyncio.create_task(client.call_tool("eraser_start", {"text": "go", "wait": 0.1}))
        await seen.wait()
        if elsewhere:
            (row,) = await runtime.threads()
            thread = runtime.thread(row.thread)
            (question,) = await thread.waits()
            await thread.answer(question.id, "approve")
        ended = structure(await calling)
    assert ended["state"] == ("replied" if elsewhere else "asking")


async def test_answers_are_not_offered_where_they_shall_not_be() -> None:
    async with (
        served(agents(Gate()), answers=False) as (server, _),
        Client(server, mode="legacy") as client,
    ):
        assert "answer" not in [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError, match="There is no tool 'answer'"):
            await client.call_tool("answer", {"wait": "a", "value": "b"})


async def test_a_thread_is_stopped_by_its_own_tool_only() -> None:
    gate = Gate()
    async with served(agents(gate)) as (server, runtime), Client(server, mode="legacy") as client:
        begun = structure(await client.call_tool("my_fetcher_start", {"text": "go", "wait": 0}))
        await gate.begun.wait()
        assert structure(await client.call_tool("stop", {"thread": begun["thread"]}))["state"] == "stopped"
        ended = await client.call_tool("my_fetcher_wait", {"thread": begun["thread"]})
        assert structure(ended)["state"] == "stopped"
        assert (await runtime.thread(begun["thread"]).row()).state == "stopped"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("echo_ask", {"thread": "nope", "text": "x"}, "There is no thread 'nope'"),
        ("echo_ask", {"thread": "OTHERS", "text": "x"}, "There is no thread"),
        ("echo_wait", {"thread": "FETCHERS"}, "one of 'my fetcher', not of 'echo'"),
        ("echo_start", {"txt": "x"}, "do not fit"),
        ("echo_start", {"text": "x", "wait": 1e9}, "do not fit"),
        ("echo_ask", {"thread": "ECHOS", "text": "x", "mode": "shout"}, "There is no mode"),
        ("answer", {"wait": "x.y.approval", "value": True}, "There is no thread 'x'"),
        ("answer", {"wait": "ECHOS.c.approval", "value": True}, "There is no wait"),
        ("stop", {"thread": "OTHERS"}, "There is no thread"),
        ("threads", {"agent": "nobody"}, "No agent 'nobody' is served"),
    ],
)
async def test_what_cannot_be_is_said(tool: str, arguments: dict[str, Any], says: str) -> None:
    gate = Gate()
    gate.open.set()
    async with served(agents(gate), owner="ann") as (server, runtime):
        others = await runtime.start("echo", "hi", owner="bob")
        async with Client(server, mode="legacy") as client:
            echo = structure(await client.call_tool("echo_start", {"text": "hi"}))["thread"]
            fetcher = structure(await client.call_tool("my_fetcher_start", {"text": "hi", "wait": 0}))
            names = {"OTHERS": others.id, "ECHOS": echo, "FETCHERS": fetcher["thread"]}
            given = {key: _named(value, names) for key, value in arguments.items()}
            result = await client.call_tool(tool, given)
    assert result.is_error
    assert says in text(result)


def _named(value: Any, names: dict[str, str]) -> Any:
    for name, thread in names.items():
        value = value.replace(name, thread) if isinstance(value, str) else value
    return value


async def test_a_parked_thread_is_an_error_that_says_why() -> None:
    from torpor import Agent
    from torpor.core.errors import ModelRefused
    from torpor.models import ScriptedModel
    from torpor.models.scripted import fail

    broken = Agent("broken", model=ScriptedModel([fail(ModelRefused("no such model"))]))
    async with served([broken]) as (server, _), Client(server, mode="legacy") as client:
        result = await client.call_tool("broken_start", {"text": "hi"})
    assert result.is_error
    assert "no such model" in text(result)


async def test_a_state_that_a_client_made_up_is_refused() -> None:
    async with served(agents(Gate()), owner="ann") as (server, runtime):
        others = await runtime.start("echo", "hi", owner="bob")
        from torpor.mcp.tickets import Ticket

        async with Client(server, mode="2026-07-28") as client:
            for state in ("junk", "", Ticket(others.id).text):
                result = await client.session.call_tool(
                    "echo_start", {"text": "hi"}, request_state=state, input_responses={}
                )
                assert result.is_error
                assert "There is no" in text(result)
