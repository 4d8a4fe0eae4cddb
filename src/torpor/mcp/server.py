"""The MCP server, on the official SDK: what it says of itself, its list of tools, and their calls."""

from functools import cache
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from torpor.core.errors import TorporError
from torpor.mcp import results
from torpor.mcp.clients import TASKS
from torpor.mcp.desk import Desk
from torpor.mcp.offers import Offer
from torpor.mcp.outcomes import ASKING, Outcome
from torpor.mcp.tasks import CAPABILITY, Tasks, Update
from torpor.mcp.tickets import Ticket

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Agents as durable threads. NAME_start begins a thread and gives its id; NAME_ask says more; "
    "NAME_wait waits on. A call waits for a bounded time: `working` means that the thread goes on, so wait "
    "again with its id, also tomorrow. Cancelling a call stops the waiting, not the thread; `stop` stops a "
    "thread. `asking` means that a person must answer first: ask your user, then use `answer` with the "
    "wait's id."
)


class Served(Server[Any]):
    """The SDK's server, with tasks among what it says it can do."""

    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        found = super().get_capabilities(*args, **options)
        if options.get("protocol_version") is None:  # of the revisions with connections
            found.tasks = CAPABILITY
        return found


def build(desk: Desk) -> Served:
    """The server over a desk; nothing of a client is kept in it."""
    served = _Served(desk)
    server = Served(
        "torpor",
        version=_version(),
        title="Torpor",
        instructions=INSTRUCTIONS,
        on_list_tools=served.tools,
        on_call_tool=served.call,
    )
    tasks = served.tasks
    server.middleware.append(tasks.begin)
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", types.GetTaskRequestParams, tasks.get)
    server.add_request_handler("tasks/result", types.GetTaskPayloadRequestParams, tasks.result)
    server.add_request_handler("tasks/cancel", types.CancelTaskRequestParams, tasks.cancel)
    server.add_request_handler("tasks/update", Update, tasks.update)
    return server


class _Served:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.tasks = Tasks(desk)

    async def tools(self, *_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(offer) for offer in (await self._desk.offers()).values()])

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult | Any:
        offer = (await self._desk.offers()).get(params.name)
        if offer is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!a:.130}.")
        try:
            if offer.may_be_long or offer.verb == "await":
                return await self._long(offer, context, params)
            client = self._desk.client(context)
            return results.shaped(await self._desk.calls.quick(offer, params.arguments or {}, client))
        except TorporError as error:
            return results.failed(str(error))

    async def _long(self, offer: Offer, context: Context, params: types.CallToolRequestParams) -> Any:
        calls, client = self._desk.calls, self._desk.client(context)
        given, known = params.arguments or {}, frozenset[str]()
        if params.request_state is not None:
            ticket = Ticket.read(params.request_state)
            await calls.check(ticket)
            known = await calls.take(params.input_responses or {}, ticket.thread, client)
            seconds = calls.seconds(offer, given)
        else:
            ticket, seconds = await calls.begin(offer, given, client)
        outcome = await calls.finish(ticket, seconds, client, known)
        if not isinstance(outcome, Outcome):
            return results.required(outcome, ticket, client)
        if client.takes_tasks and not outcome.is_final and (outcome.state != ASKING or not outcome.asks):
            return self.tasks.instead(ticket, outcome)
        return await results.ended(calls, offer, outcome)


def _tool(offer: Offer) -> types.Tool:
    return types.Tool(
        name=offer.name,
        description=offer.description,
        input_schema=offer.takes,
        output_schema=offer.gives,
        annotations=types.ToolAnnotations(
            read_only_hint=offer.reads_only,
            destructive_hint=offer.destroys,
            idempotent_hint=offer.repeatable,
        ),
        execution=types.ToolExecution(task_support="optional") if offer.may_be_long else None,
    )


@cache
def _version() -> str:
    return version("torpor")
