"""Anthropic Messages, and every server that speaks them."""

import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Literal

from torpor.core.chunks import AnyChunk
from torpor.core.errors import ModelRefused
from torpor.core.request import Attempt, Request, Tool, TurnItem
from torpor.models import windows
from torpor.models.anthropic_messages import Form, turn_blocks
from torpor.models.anthropic_stream import AnthropicReader
from torpor.models.rendering import Limits, body_bytes, settings_of
from torpor.models.sdk import Clients, Reason, host_of, loaded, relay, require

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream

OWN_FIELDS = frozenset({"messages", "model", "stream", "system", "tools"})

LONGEST_ANSWERS = (("claude-3-haiku", 4_096), ("claude-3-", 8_192), ("claude-", 32_000))
"""Default ``max_tokens`` by the beginning of a model's name."""

ELSEWHERE = 8_192

SIDE = 2_000
"""Pixels of the longest side of an image that is accepted in a request with many images (more than 20).

It holds from the first image on: with a wider limit for few images, the one too many would change, or make
unacceptable, what has been sent before.
"""

Thinking = int | Literal["adaptive"] | dict[str, Any] | None


class Anthropic:
    """A model behind the Messages API.

    ``max_tokens`` bounds each answer, thinking included; by default a value that the model takes.
    ``thinking`` is a budget in tokens (at least 1024), ``"adaptive"``, the provider's own object, or None for
    the model's default. ``cache`` sets prompt-cache breakpoints: after tools and instructions, and (by the
    provider, outside all messages) at the end; ``"1h"`` keeps them for an hour. ``base_url`` and ``api_key``
    default to ``ANTHROPIC_BASE_URL`` and ``ANTHROPIC_API_KEY``. An image of more than ``image_bytes``, or
    with a side of more than ``image_side`` pixels, becomes a line of text; up to 8000 pixels are accepted
    where a thread never holds more than 20 images. ``timeout`` is the longest silence in
    seconds, not a bound on the whole answer. ``window`` is how many tokens the model takes, by default
    200,000 for Claude and 0 (not known) for others. Raises ``Refused`` if the SDK is not installed,
    ``base_url`` is no address, or the budget leaves no room for an answer.
    """

    def __init__(
        self,
        name: str,
        *,
        max_tokens: int | None = None,
        thinking: Thinking = None,
        cache: bool | Literal["5m", "1h"] = True,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
        connect: float = 10.0,
        images: bool = True,
        image_bytes: int = 5_000_000,
        image_side: int = SIDE,
        window: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        require("anthropic")
        self.name = f"anthropic:{name}"
        self._model = name
        self._max_tokens = max_tokens
        self._thinking = _thinking(thinking)
        self._cache = _cache(cache)
        self._base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        if self._base_url:
            host_of(self._base_url)
        self.window = windows.window(window, name, windows.ANTHROPIC)
        self._api_key = api_key
        self._silence = timeout
        self._connect = connect
        self._headers = headers
        self._limits = Limits(images, image_bytes, image_side)
        self._clients: Clients[AsyncAnthropic] = Clients()
        self._room(self._thinking, max_tokens)

    async def stream(self, request: Request, attempt: Attempt) -> AsyncGenerator[AnyChunk, None]:
        """One completion, asked for once; see the ``Model`` port."""
        sdk = await loaded("anthropic")
        reason = Reason(sdk, self.name, self._key())
        body = self.wire_bytes(request)
        answer = relay(self._open(body, reason), AnthropicReader(), reason, attempt.seconds)
        try:
            async for chunk in answer:
                yield chunk
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """Let go of this loop's connections. Idempotent."""
        client = self._clients.forget()
        if client is not None:
            await client.close()

    def wire(self, request: Request) -> dict[str, Any]:
        """The body that would be sent, its messages last."""
        settings = settings_of(request, OWN_FIELDS)
        thinking = _thinking(settings.pop("thinking", self._thinking))
        max_tokens = settings.pop("max_completion_tokens", None)
        max_tokens = settings.pop("max_tokens", max_tokens) or self._max_tokens
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._room(thinking, max_tokens),
            "stream": True,
        }
        if thinking and not _unthought(thinking, request):
            body["thinking"] = thinking
        if self._cache:
            body["cache_control"] = self._cache
        body.update(settings)
        body.update(self._front(request))
        body["messages"] = Form(self._limits, _is_on(thinking)).messages(request.items)
        return body

    def wire_bytes(self, request: Request) -> bytes:
        """The same as bytes, exactly as they leave."""
        return body_bytes(self.wire(request))

    def _key(self) -> str:
        return self._api_key or os.environ.get("ANTHROPIC_API_KEY") or ("none" if self._base_url else "")

    def _room(self, thinking: dict[str, Any] | None, max_tokens: int | None) -> int:
        """``max_tokens`` as sent: more than the thinking budget."""
        budget = int((thinking or {}).get("budget_tokens", 0))
        if max_tokens is None:
            return budget + next(
                (n for start, n in LONGEST_ANSWERS if self._model.startswith(start)), ELSEWHERE
            )
        if budget >= max_tokens:
            told = f"max_tokens={max_tokens} leaves no room beside a thinking budget of {budget}"
            raise ModelRefused(told, kind="setup")
        return max_tokens

    def _front(self, request: Request) -> dict[str, Any]:
        """Tools and instructions, with a breakpoint after them."""
        front: dict[str, Any] = {}
        if request.instructions.strip():
            front["system"] = [{"type": "text", "text": request.instructions}]
        if request.tools:
            front["tools"] = [_tool(tool) for tool in request.tools]
        last = front.get("system") or front.get("tools")
        if last and self._cache:
            last[-1]["cache_control"] = self._cache
        return front

    def _client(self) -> "AsyncAnthropic":
        import httpx2
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        from torpor.models.bounded import IDENTITY, bounding

        silence = httpx2.Timeout(self._silence, connect=self._connect)
        return AsyncAnthropic(
            api_key=self._key() or None,
            base_url=self._base_url,
            max_retries=0,
            default_headers={**IDENTITY, **(self._headers or {})},
            timeout=silence,
            http_client=DefaultAsyncHttpxClient(timeout=silence, event_hooks=bounding(self.name)),
        )

    async def _open(self, body: bytes, reason: Reason) -> "AsyncStream[object]":
        from anthropic import AnthropicError, AsyncStream

        try:
            client = self._clients.here(self._client)
        except (AnthropicError, ValueError) as error:
            raise reason.unusable(error) from None
        if not (client.api_key or client.auth_token or client.credentials):
            raise ModelRefused(f"{self.name}: no API key; set ANTHROPIC_API_KEY", kind="auth")
        return await client.post(
            "/v1/messages",
            cast_to=object,
            content=body,
            stream=True,
            stream_cls=AsyncStream[object],
        )


def _thinking(thinking: Thinking) -> dict[str, Any] | None:
    if thinking is None or isinstance(thinking, dict):
        return thinking
    given: object = thinking
    if given == "adaptive":
        return {"type": "adaptive"}
    if isinstance(given, int) and given >= 1024:
        return {"type": "enabled", "budget_tokens": given}
    told = f'thinking is a budget of at least 1024 tokens, "adaptive" or None, not {given!r}'
    raise ModelRefused(told, kind="setup")


def _cache(cache: bool | str) -> dict[str, str]:
    if not cache:
        return {}
    return {"type": "ephemeral", "ttl": "1h"} if cache == "1h" else {"type": "ephemeral"}


def _is_on(thinking: dict[str, Any] | None) -> bool:
    return thinking is not None and thinking.get("type") != "disabled"


def _unthought(thinking: dict[str, Any], request: Request) -> bool:
    """Whether a thinking budget would be refused: the last turn has calls and no thinking before them."""
    if thinking.get("type") != "enabled":
        return False
    turns = (turn_blocks(item) for item in reversed(request.items) if isinstance(item, TurnItem))
    last = next(filter(None, turns), [])
    return any(block["type"] == "tool_use" for block in last) and "thinking" not in last[0]["type"]


def _tool(tool: Tool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": tool.schema}
