"""Long calls as tasks: of revision 2025-11-25, and of the extension for revisions without connections."""

import asyncio
from typing import Any

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError

from tests.mcp import counter
from tests.mcp.counter import Gate, agents, served
from torpor.mcp import calls
from torpor.mcp.clients import TASKS


async def raw(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """A request that the SDK's client has no method for."""
    found: dict[str, Any] = await client.session._dispatcher.send_raw_request(method, params, {})
    return found


async def started(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    begun = await raw(client, "tools/call", name=tool, arguments=arguments, task={"ttl": 60_000})
    task: dict[str, Any] = begun["task"]
    return task


async def test_a_call_runs_as_a_task() -> None:
    gate = Gate()
    async with served(agents(gate)) as (server, _), Client(server, mode="legacy") as client:
        assert client.server_capabilities.tasks is not None
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["echo_start"].execution is not None
        assert tools["echo_start"].execution.task_support == "optional"
        task = await started(client, "my_fetcher_start", text="go")
        assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", None, 2000)
        await gate.begun.wait()
        working = await raw(client, "tasks/get", taskId=task["taskId"])
        assert working["status"] == "working"
        assert "waits for fetch" in working["statusMessage"]
        waiting = asyncio.create_task(raw(client, "tasks/result", taskId=task["taskId"]))
        gate.open.set()
        result = await waiting
        assert result["structuredContent"]["text"] == "It says: treasure"
        assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
        assert (await raw(client, "tasks/get", taskId=task["taskId"]))["status"] == "completed"


async def test_a_task_is_known_to_the_next_connection() -> None:
    gate = Gate()
    async with served(agents(gate)) as (server, _):
        async with Client(server, mode="legacy") as client:
            task = await started(client, "my_fetcher_start", text="go")
        gate.open.set()
        async with Client(server, mode="legacy") as client:
            result = await raw(client, "tasks/result", taskId=task["taskId"])
    assert result["content"][0]["text"] == "It says: treasure"


async def test_a_task_that_asks_says_so() -> None:
    async with served(agents(Gate())) as (server, _), Client(server, mode="legacy") as client:
        task = await started(client, "eraser_start", text="go")
        while task["status"] != "input_required":
            task = await raw(client, "tasks/get", taskId=task["taskId"])
        assert "approval for erase" in task["statusMessage"]


async def test_a_task_is_not_looked_at_all_the_time_where_too_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, looks = Gate(), 0

    class Counted(calls.Calls):
        async def stands(self, *given: Any) -> Any:
            nonlocal looks
            looks += 1
            return await super().stands(*given)

    monkeypatch.setattr(calls, "WAITING_MOST", 0)
    monkeypatch.setattr(counter, "Calls", Counted)
    async with served(agents(gate)) as (server, _), Client(server, mode="legacy") as client:
        task = await started(client, "my_fetcher_start", text="go")
        await gate.begun.wait()
        waiting = asyncio.create_task(raw(client, "tasks/result", taskId=task["taskId"]))
        for _ in range(50):
            await raw(client, "tasks/get", taskId=task["taskId"])
        gate.open.set()
        assert (await waiting)["structuredContent"]["text"] == "It says: treasure"
    assert looks < 60


async def test_cancelling_a_task_stops_its_thread() -> None:
    gate = Gate()
    async with served(agents(gate)) as (server, runtime), Client(server, mode="legacy") as client:
        task = await started(client, "my_fetcher_start", text="go")
        await gate.begun.wait()
        assert (await raw(client, "tasks/cancel", taskId=task["taskId"]))["status"] == "cancelled"
        result = await raw(client, "tasks/result", taskId=task["taskId"])
        assert result["structuredContent"]["state"] == "stopped"
        with pytest.raises(MCPError, match="has ended already"):
            await raw(client, "tasks/cancel", taskId=task["taskId"])
        assert [row.state for row in await runtime.threads()] == ["stopped"]


@pytest.mark.parametrize("task", ["", "junk", "!", "x" * 5000])
async def test_a_task_that_never_was_is_refused(task: str) -> None:
    async with served(agents(Gate())) as (server, _), Client(server, mode="legacy") as client:
        with pytest.raises(MCPError, match="There is no such wait"):
            await raw(client, "tasks/get", taskId=task)


async def test_a_task_cannot_be_made_of_what_is_refused() -> None:
    async with served(agents(Gate())) as (server, _), Client(server, mode="legacy") as client:
        with pytest.raises(MCPError, match="There is no thread 'nope'"):
            await started(client, "echo_ask", thread="nope", text="x")


@pytest.mark.parametrize("arguments", [[1], "text", {"text": "go", "wait": "soon"}])
async def test_a_task_needs_arguments_that_fit(arguments: Any) -> None:
    async with served(agents(Gate())) as (server, runtime), Client(server, mode="legacy") as client:
        with pytest.raises(MCPError, match="arguments"):
            await raw(client, "tools/call", name="echo_start", arguments=arguments, task={"ttl": 1})
        assert await runtime.threads() == []


class Advertised:
    """The extension's requests, as a client of the newest revision makes them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}, "elicitation": {}},
        }
        return await raw(self._client, method, **params, _meta=meta)


async def test_a_long_call_becomes_a_task_where_the_extension_is_known() -> None:
    gate = Gate()
    async with (
        served(agents(gate)) as (server, _),
        Client(server, mode="2026-07-28", extensions=[advertise(TASKS, {})]) as client,
    ):
        ask = Advertised(client).ask
        begun = await ask("tools/call", name="my_fetcher_start", arguments={"text": "go", "wait": 0.1})
        assert (begun["resultType"], begun["status"], begun["ttlMs"]) == ("task", "working", None)
        gate.open.set()
        task = begun
        while task["status"] == "working":
            task = await ask("tasks/get", taskId=begun["taskId"])
        assert task["resultType"] == "complete"
        assert task["result"]["structuredContent"]["text"] == "It says: treasure"
        assert (await ask("tasks/cancel", taskId=begun["taskId"]))["resultType"] == "complete"


async def test_a_task_of_the_extension_asks_and_is_answered() -> None:
    gate = Gate()
    async with (
        served(agents(gate)) as (server, _),
        Client(server, mode="2026-07-28", extensions=[advertise(TASKS, {})]) as client,
    ):
        ask = Advertised(client).ask
        begun = await ask("tools/call", name="both_start", arguments={"text": "go", "wait": 0.1})
        gate.open.set()
        task = begun
        while task["status"] != "input_required":
            task = await ask("tasks/get", taskId=begun["taskId"])
        ((wait, request),) = task["inputRequests"].items()
        assert request["params"]["message"] == 'May erase run with {"what": "it"}?'
        answer = {wait: {"action": "accept", "content": {"answer": "approve"}}}
        await ask("tasks/update", taskId=begun["taskId"], inputResponses=answer)
        while task["status"] != "completed":
            task = await ask("tasks/get", taskId=begun["taskId"])
        assert task["result"]["content"][0]["text"] == "Done."
