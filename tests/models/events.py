"""Recorded shapes: neutral chunks as the event streams in which the two providers send them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from torpor.core.chunks import (
    AnyChunk,
    CallDelta,
    CallStart,
    ReasoningDelta,
    ReasoningDone,
    Stop,
    TextDelta,
)
from torpor.core.messages import Usage

OPENAI_STOPS = {"end": "stop", "calls": "tool_calls", "length": "length", "refusal": "content_filter"}
ANTHROPIC_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}


def event(value: Any, name: str = "", end: str = "\n") -> bytes:
    """One server-sent event. Non-ASCII letters stay as they are, so that they can be split."""
    lines = [f"event: {name}"] if name else []
    lines.append("data: " + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
    return "".join(line + end for line in [*lines, ""]).encode()


# ------------------------------------------------------------------ Chat Completions


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A completion chunk; without delta and finish, one with no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": "gpt-5-mini-2026-08-07",
        "service_tier": "default",
        "choices": choices,
        **more,
    }


def tool(index: int, **more: Any) -> dict[str, Any]:
    """A delta with one piece of a call."""
    return {"tool_calls": [{"index": index, **more}]}


def openai_delta(piece: AnyChunk) -> dict[str, Any] | None:
    if isinstance(piece, TextDelta):
        return {"content": piece.text}
    if isinstance(piece, ReasoningDelta):
        return {"reasoning_content": piece.text}
    if isinstance(piece, CallStart):
        function = {"name": piece.name, "arguments": ""}
        return tool(piece.index, id=piece.provider_id, type="function", function=function)
    if isinstance(piece, CallDelta):
        return tool(piece.index, function={"arguments": piece.text})
    return None


def openai_usage(usage: Usage) -> dict[str, Any]:
    prompt = usage.input + usage.cache_read + usage.cache_write
    answer = usage.output + usage.reasoning
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def openai_events(chunks: Sequence[AnyChunk], stop: Stop | None = None) -> list[bytes]:
    """All events of one stream; without a stop, those of a stream that has not ended."""
    events = [event(chunk({"role": "assistant", "content": ""}))]
    events += [event(chunk(delta)) for piece in chunks if (delta := openai_delta(piece)) is not None]
    if stop is not None:
        events.append(event(chunk({}, OPENAI_STOPS.get(stop.reason, stop.reason))))
        if stop.usage is not None:
            events.append(event(chunk(usage=openai_usage(stop.usage))))
        events.append(event("[DONE]"))
    return events


# ---------------------------------------------------------------------- Messages API


def typed(kind: str, **more: Any) -> bytes:
    """One event of the Messages API."""
    return event({"type": kind, **more}, kind)


def message_start(usage: dict[str, Any] | None) -> bytes:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if usage is not None:
        message["usage"] = usage
    return typed("message_start", message=message)


def anthropic_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": 1,
        "service_tier": "standard",
    }


class Blocks:
    """Neutral chunks as content blocks, each begun and ended."""

    def __init__(self) -> None:
        self.index = -1
        self.kind = ""
        self.call = -1

    def events(self, piece: AnyChunk) -> Iterator[bytes]:
        if isinstance(piece, TextDelta):
            yield from self._enter("text", {"type": "text", "text": ""})
            yield self._delta(type="text_delta", text=piece.text)
        elif isinstance(piece, ReasoningDelta):
            yield from self._enter("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta(type="thinking_delta", thinking=piece.text)
        elif isinstance(piece, ReasoningDone):
            yield self._delta(type="signature_delta", signature=piece.opaque)
            yield from self.leave()
        elif isinstance(piece, CallStart):
            yield from self.leave()
            start = {"type": "tool_use", "id": piece.provider_id, "name": piece.name, "input": {}}
            yield from self._enter("tool_use", start)
        elif isinstance(piece, CallDelta):
            yield self._delta(type="input_json_delta", partial_json=piece.text)

    def leave(self) -> Iterator[bytes]:
        if self.kind:
            self.kind = ""
            yield typed("content_block_stop", index=self.index)

    def _enter(self, kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        if self.kind != kind:
            yield from self.leave()
            self.kind = kind
            self.index += 1
            yield typed("content_block_start", index=self.index, content_block=block)

    def _delta(self, **delta: Any) -> bytes:
        return typed("content_block_delta", index=self.index, delta=delta)


def anthropic_events(chunks: Sequence[AnyChunk], stop: Stop | None = None) -> list[bytes]:
    """All events of one stream; without a stop, those of a stream that has not ended."""
    usage = stop.usage if stop is not None else None
    events = [message_start(None if usage is None else anthropic_usage(usage)), typed("ping")]
    blocks = Blocks()
    for piece in chunks:
        events += blocks.events(piece)
    if stop is None:
        return events
    events += blocks.leave()
    delta = {"stop_reason": ANTHROPIC_STOPS.get(stop.reason, stop.reason), "stop_sequence": None}
    counts = {} if usage is None else {"usage": _totals(usage)}
    events += [typed("message_delta", delta=delta, **counts), typed("message_stop")]
    return events


def _totals(usage: Usage) -> dict[str, Any]:
    return {
        "output_tokens": usage.output + usage.reasoning,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
