"""What became of a call, in the shapes of MCP."""

from typing import Any

import mcp_types as types
import msgspec

from torpor.core.messages import Happened, Image, Result
from torpor.mcp.calls import Calls, contents
from torpor.mcp.clients import Client
from torpor.mcp.offers import Offer
from torpor.mcp.outcomes import Asked, Outcome, structure, words
from torpor.mcp.tickets import Ticket

THREAD = "torpor/thread"
"""Names the thread in the metadata of a result."""
POSITION = "torpor/position"


def failed(text: str) -> types.CallToolResult:
    """A call that was refused; the client's model reads why."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def shaped(value: msgspec.Struct) -> types.CallToolResult:
    """A short tool's answer."""
    if isinstance(value, Outcome):
        return _outcome(value)
    text = msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structure(value))


def required(asks: list[Asked], ticket: Ticket, client: Client) -> types.InputRequiredResult:
    """What a client must ask its user before it calls again."""
    return types.InputRequiredResult(input_requests=client.requests(asks), request_state=ticket.text)


async def ended(calls: Calls, offer: Offer, outcome: Outcome) -> types.CallToolResult:
    """Where a long tool's wait ended."""
    if offer.verb not in ("call", "await"):
        return _outcome(outcome)
    answer = await calls.answer_of(outcome)
    if answer is None:
        return _unanswered(outcome)
    await calls.let_go(outcome, answer)
    return _answered(outcome, answer, await calls.whole(outcome.thread, answer))


def _outcome(outcome: Outcome) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=words(outcome))],
        structured_content=structure(outcome),
        is_error=outcome.state == "parked",
        _meta=_meta(outcome),
    )


def _unanswered(outcome: Outcome) -> types.CallToolResult:
    hint = "" if outcome.is_final else f"\nCall `wait` with thread {outcome.thread} to wait on."
    return types.CallToolResult(
        content=[types.TextContent(text=words(outcome) + hint)],
        is_error=outcome.is_final,
        _meta=_meta(outcome),
    )


def _answered(outcome: Outcome, answer: Result | Happened, whole: str) -> types.CallToolResult:
    """``whole``: the whole text, where the answer holds only its beginning."""
    parts = contents(answer)
    found: list[Any] = [types.TextContent(text=whole)] if whole else []
    found += [
        types.ImageContent(data=part.data, mime_type=part.media_type)
        if isinstance(part, Image)
        else types.TextContent(text=part.text)
        for part in parts
        if isinstance(part, Image) or not whole
    ]
    more = answer.subscription if isinstance(answer, Result) else not answer.final
    if more:
        hint = f"Events may follow: call `wait` with thread {outcome.thread} and after {outcome.position}."
        found.append(types.TextContent(text=hint))
    if len(whole) < answer.size:
        found.append(types.TextContent(text=f"This is the beginning of {answer.size:,} characters."))
    failed_ = isinstance(answer, Result) and answer.is_error
    return types.CallToolResult(content=found, is_error=failed_, _meta=_meta(outcome))


def _meta(outcome: Outcome) -> dict[str, Any]:
    return {THREAD: outcome.thread, POSITION: outcome.position}
