"""Completions that MCP servers ask for, by the model of the agent whose call they serve, on its budget.

What they cost stands in a record of a slice of its own (``sampling``), and counts against the tokens that
the agent's limits leave to the exchange.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, cast

from torpor.core.chunks import Stop
from torpor.core.codec import decode_head
from torpor.core.errors import Refused
from torpor.core.messages import Image, Part, Text
from torpor.core.record import SliceRecord
from torpor.core.request import AnyItem, Attempt, InputItem, Request, TurnItem
from torpor.core.text import clean
from torpor.core.turn import Gathering
from torpor.ports import Clock, Model, Row, Store
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.records import Run

MOST_TOKENS = 32_000
"""Tokens of one answer, whatever a server asks for."""
MESSAGES = 200
TEXT_LIMIT = 400_000
"""Characters of all messages together."""
SECONDS = 600.0
TIMES = 200
"""Completions for servers in one exchange of a thread."""
FIRST = 1 << 40
"""Ordinals of these completions begin here, apart from those of the thread itself."""

Models = Callable[[str], "tuple[Model, int] | None"]
"""An agent's model, and how many tokens it may spend in an exchange."""


class Sampler:
    """Asks the models of agents for servers."""

    def __init__(self, store: Store, clock: Clock, models: Models) -> None:
        self._store = store
        self._clock = clock
        self._models = models

    async def ask(self, run: Run, server: McpServer, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to ``sampling/createMessage``, both in wire form. ``Refused`` says why there is none."""
        found = self._models(run.facts.agent) if server.sampling else None
        if found is None:
            raise Refused(f"The MCP server {server.name!r} may not ask the agent's model here.")
        model, tokens = found
        row = await self._store.row(run.facts.thread)
        if row is None:
            raise Refused("The thread is gone.")
        exchange = decode_head(row.head, row.shape).exchange
        had = await run.records.sampled(row.thread, exchange.since)
        left = tokens - exchange.tokens - had.tokens
        if left <= 0 or had.times >= TIMES:
            raise Refused("The agent's limit is reached.")
        answer, spent = await self._asked(run, row, model, _request(run, model, params, left))
        await run.records.sample(row.thread, exchange.since, spent)
        return answer

    async def _asked(
        self, run: Run, row: Row, model: Model, request: Request
    ) -> tuple[Mapping[str, Any], int]:
        """The answer, and the tokens that it took."""
        began = self._clock.now()
        gathering = await _gather(model, request, Attempt(run.facts.thread, FIRST, seconds=SECONDS))
        stop = gathering.stop or Stop()
        record = SliceRecord(
            run.facts.thread,
            row.version.counter,
            worker=run.facts.server,
            model_from=began,
            model_to=self._clock.now(),
            model=stop.model or model.name,
            product=stop.product,
            usage=stop.usage,
            provider_ids=stop.provider_ids,
            yielded="sampling",
        )
        await self._store.note(record)
        text = "".join(part.text for part in gathering.parts() if isinstance(part, Text))
        reason = "maxTokens" if stop.reason == "length" else "endTurn"
        content = {"type": "text", "text": text}
        answer = {"role": "assistant", "content": content, "model": record.model, "stopReason": reason}
        return answer, stop.usage.total if stop.usage else 0


async def _gather(model: Model, request: Request, attempt: Attempt) -> Gathering:
    gathering = Gathering()
    stream = model.stream(request, attempt)
    try:
        async for chunk in stream:
            gathering.add(chunk)
    finally:
        if hasattr(stream, "aclose"):
            await cast("AsyncGenerator[Any, None]", stream).aclose()
    return gathering


def _request(run: Run, model: Model, params: Mapping[str, Any], left: int) -> Request:
    """A server's messages as a request of ours, without tools."""
    asked = params.get("maxTokens")
    most = asked if isinstance(asked, int) and asked > 0 else MOST_TOKENS
    settings: dict[str, Any] = {"max_tokens": min(most, MOST_TOKENS, left)}
    prompt = params.get("systemPrompt")
    return Request(
        agent=run.facts.agent,
        model=model.name,
        instructions=clean(prompt)[:TEXT_LIMIT] if isinstance(prompt, str) else "",
        tools=(),
        items=_items(params.get("messages"), run.clock.now()),
        settings=settings,
        epoch=f"sampling/{run.facts.server}",
    )


def _items(messages: object, at: float) -> tuple[AnyItem, ...]:
    if not isinstance(messages, list) or not 0 < len(messages) <= MESSAGES:
        raise Refused(f"Sampling takes 1 to {MESSAGES} messages.")
    items: list[AnyItem] = []
    size = 0
    for message in messages:
        parts = _parts(message.get("content") if isinstance(message, dict) else None)
        size += sum(len(part.text) for part in parts if isinstance(part, Text))
        if message.get("role") == "assistant":
            items.append(TurnItem(tuple(part for part in parts if isinstance(part, Text))))
        else:
            items.append(InputItem(at, parts))
    if size > TEXT_LIMIT:
        raise Refused(f"Sampling takes {TEXT_LIMIT:,} characters.")
    if not isinstance(items[-1], InputItem):
        raise Refused("The last message of sampling must be the user's.")
    return tuple(items)


def _parts(content: object) -> tuple[Part, ...]:
    blocks = content if isinstance(content, list) else [content]
    parts: list[Part] = []
    for block in blocks:
        if not isinstance(block, dict):
            raise Refused("A message of sampling has no content.")
        if block.get("type") == "image":
            parts.append(Image(str(block.get("data", "")), str(block.get("mimeType", ""))))
        elif block.get("type") == "text":
            parts.append(Text(clean(str(block.get("text", "")))))
        else:
            raise Refused("Sampling takes texts and images only.")
    return tuple(parts)
