"""Long calls as tasks: of revision 2025-11-25, and of the extension for revisions without connections.

A task is a wait for a thread: its id is a ticket, and it lives as long as the thread does.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import Field

from torpor.core.errors import Refused, TorporError
from torpor.mcp import results
from torpor.mcp.calls import Calls
from torpor.mcp.desk import Desk
from torpor.mcp.limits import POLL
from torpor.mcp.offers import Offer
from torpor.mcp.outcomes import ASKING, WORKING, Outcome
from torpor.mcp.tickets import Ticket

REVISION = "2025-11-25"
"""The one revision that has tasks of its own."""
FOREVER = 365 * 86_400.0
RELATED = "io.modelcontextprotocol/related-task"

Context = ServerRequestContext[Any, Any]

CAPABILITY = types.ServerTasksCapability(
    cancel=types.TasksCancelCapability(),
    requests=types.ServerTasksRequestsCapability(
        tools=types.TasksToolsCapability(call=types.TasksCallCapability())
    ),
)


class Update(types.RequestParams):
    """Answers to what a task asks."""

    task_id: str = Field(alias="taskId")
    input_responses: dict[str, types.ElicitResult] = Field(default_factory=dict, alias="inputResponses")


class Tasks:
    """Serves tasks over the calls of one server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._calls: Calls = desk.calls

    async def begin(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Turn a call that shall be a task into one, before anything else sees it."""
        params = ctx.params or {}
        wants = ctx.method == "tools/call" and ctx.protocol_version == REVISION and params.get("task")
        if not wants:
            return await call_next(ctx)
        offer = (await self._desk.offers()).get(str(params.get("name")))
        if offer is None or not offer.may_be_long:
            return await call_next(ctx)
        client, arguments = self._desk.client(ctx), params.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise MCPError(types.INVALID_PARAMS, "The arguments of a tool are an object.")
        try:
            ticket, _ = await self._calls.begin(offer, arguments, client)
        except TorporError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        return {"task": _task(ticket, await self._calls.stands(ticket, client))}

    def instead(self, ticket: Ticket, outcome: Outcome) -> dict[str, Any]:
        """A task in place of a result that is not there yet."""
        return {"resultType": "task", **_extended(ticket, outcome)}

    async def get(self, context: Context, params: types.GetTaskRequestParams) -> HandlerResult:
        """How far a task is; where the extension is spoken, with what came of it."""
        client, ticket = self._desk.client(context), await self._ticket(params.task_id)
        outcome = await self._calls.stands(ticket, client)
        if not client.is_modern:
            return _task(ticket, outcome)
        found = _extended(ticket, outcome)
        if outcome.state == ASKING and (asks := [one for one in outcome.asks if client.can_ask(one)]):
            requests = client.requests(asks)
            found["inputRequests"] = {
                key: one.model_dump(by_alias=True, mode="json", exclude_none=True)
                for key, one in requests.items()
            }
        if outcome.is_final:
            result = await results.ended(self._calls, _offer(ticket), outcome)
            found["result"] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return found

    async def result(self, context: Context, params: types.GetTaskPayloadRequestParams) -> HandlerResult:
        """What came of a task, once it is there; meanwhile the client's user is asked what comes up."""
        client, ticket = self._desk.client(context), await self._ticket(params.task_id)
        known: frozenset[str] = frozenset()
        while True:
            outcome = await self._calls.finish(ticket, FOREVER, client, known)
            assert isinstance(outcome, Outcome), "clients with connections are asked by requests"
            if outcome.is_final:
                break
            known |= {one.wait for one in outcome.asks}
            await asyncio.sleep(POLL)  # where too many wait, or nobody was asked, it ended at once
        found = await results.ended(self._calls, _offer(ticket), outcome)
        body: dict[str, Any] = found.model_dump(by_alias=True, mode="json", exclude_none=True)
        body["_meta"] = {**body.get("_meta", {}), RELATED: {"taskId": params.task_id}}
        return body

    async def update(self, context: Context, params: Update) -> HandlerResult:
        """Answers that a client brings."""
        client, ticket = self._desk.client(context), await self._ticket(params.task_id)
        await self._calls.take(params.input_responses, ticket.thread, client)
        return {}

    async def cancel(self, context: Context, params: types.CancelTaskRequestParams) -> HandlerResult:
        """Stop the task's thread; unlike a request's end, this is meant."""
        client, ticket = self._desk.client(context), await self._ticket(params.task_id)
        outcome = await self._calls.stands(ticket, client)
        if outcome.is_final and not client.is_modern:
            raise MCPError(types.INVALID_PARAMS, f"The task has ended already: {outcome.state}.")
        if not outcome.is_final:
            await self._calls.threads.stop(ticket.thread, client.by)
            outcome = Outcome(thread=ticket.thread, state="stopped", text="It is told to stop.")
        return {} if client.is_modern else _task(ticket, outcome)

    async def _ticket(self, text: str) -> Ticket:
        try:
            ticket = Ticket.read(text)
            await self._calls.check(ticket)
        except Refused as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        return ticket


def _offer(ticket: Ticket) -> Offer:
    """How the end of a ticket's wait is shaped."""
    return Offer("", "call" if ticket.calls else "wait", "", {})


def _status(outcome: Outcome) -> str:
    match outcome.state:
        case "replied":
            return "completed"
        case "working":
            return WORKING
        case "asking":
            return "input_required"
        case "stopped":
            return "cancelled"
        case _:
            return "failed"


def _facts(ticket: Ticket, outcome: Outcome) -> dict[str, Any]:
    message = outcome.text if outcome.state != "replied" else ""
    told = {"statusMessage": message[:500]} if message else {}
    began = datetime.fromtimestamp(ticket.began, UTC).isoformat(timespec="milliseconds")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {
        "taskId": ticket.text, "status": _status(outcome), **told, "createdAt": began, "lastUpdatedAt": now
    }  # fmt: skip


def _task(ticket: Ticket, outcome: Outcome) -> dict[str, Any]:
    return {**_facts(ticket, outcome), "ttl": None, "pollInterval": int(POLL * 1000)}


def _extended(ticket: Ticket, outcome: Outcome) -> dict[str, Any]:
    return {**_facts(ticket, outcome), "ttlMs": None, "pollIntervalMs": int(POLL * 1000)}
