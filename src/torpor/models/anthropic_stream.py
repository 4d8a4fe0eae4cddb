"""Messages API events as our chunks."""

from collections.abc import Iterator, Mapping
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
from torpor.models.fields import field, number, words
from torpor.models.rendering import dumps
from torpor.models.surrogates import Mender

SIGNED = "anthropic"
"""Origin of reasoning whose opaque value is a signature."""

REDACTED = "anthropic:redacted"
"""Origin of reasoning that is nothing but an opaque value."""

STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class _Block:
    """A content block while it arrives."""

    __slots__ = ("call", "kind", "mender", "opaque", "start", "text")

    def __init__(self, kind: str, start: Any, call: int) -> None:
        self.kind = kind
        self.start = start
        self.call = call
        self.opaque = ""
        self.text = False
        self.mender = Mender()

    def delta(self, text: str) -> Iterator[AnyChunk]:
        """More of its text."""
        whole = self.mender.feed(text)
        if not whole:
            return
        self.text = True
        if self.kind == "text":
            yield TextDelta(whole)
        elif self.kind == "thinking":
            yield ReasoningDelta(whole)
        elif self.kind == "tool_use":
            yield CallDelta(index=self.call, text=whole)

    def done(self) -> Iterator[AnyChunk]:
        """The end of it. A call without any argument bytes has those of its start, or none."""
        if rest := self.mender.rest():
            yield from self.delta(rest)
        if self.kind == "thinking":
            yield ReasoningDone(opaque=self.opaque, origin=SIGNED)
        elif self.kind == "redacted_thinking":
            yield ReasoningDone(opaque=words(self.start, "data"), origin=REDACTED)
        elif self.kind == "tool_use" and not self.text:
            given = field(self.start, "input")
            yield CallDelta(index=self.call, text=dumps(given) if isinstance(given, dict) and given else "{}")


class AnthropicReader:
    """Reads one stream. Kinds of block that are not ours (a server's own tools) are passed over."""

    def __init__(self) -> None:
        self.ended = False
        self._reason = ""
        self._counts: dict[str, int] = {}
        self._model = ""
        self._product = ""
        self._ids: list[str] = []
        self._blocks: dict[int, _Block] = {}
        self._calls = 0

    def head(self, headers: Mapping[str, str]) -> None:
        self._keep_id(headers.get("request-id", ""))

    def read(self, event: Any) -> Iterator[AnyChunk]:
        kind = words(event, "type")
        if kind == "content_block_delta":
            yield from self._delta(event)
        elif kind == "content_block_start":
            yield from self._start(event)
        elif kind == "content_block_stop":
            block = self._blocks.pop(_index(event), None)
            if block is not None:
                yield from block.done()
        elif kind == "message_start":
            self._note(field(event, "message"))
        elif kind == "message_delta":
            self._stop(event)

    def finish(self) -> Iterator[AnyChunk]:
        for block in self._blocks.values():
            yield from block.done()
        yield Stop(
            reason=STOPS.get(self._reason, self._reason),
            usage=self._usage(),
            model=self._model,
            product=self._product,
            provider_ids=tuple(self._ids),
        )

    def _start(self, event: Any) -> Iterator[AnyChunk]:
        start = field(event, "content_block")
        kind = words(start, "type")
        block = self._blocks[_index(event)] = _Block(kind, start, self._calls)
        if kind == "tool_use":
            self._calls += 1
            yield CallStart(block.call, words(start, "name"), words(start, "id"))
        elif kind in {"text", "thinking"}:
            yield from block.delta(words(start, kind))

    def _delta(self, event: Any) -> Iterator[AnyChunk]:
        block = self._blocks.get(_index(event))
        if block is None:
            return
        delta = field(event, "delta")
        kind = words(delta, "type")
        if kind == "signature_delta":
            block.opaque += words(delta, "signature")
        elif kind in DELTAS:
            yield from block.delta(words(delta, DELTAS[kind]))

    def _note(self, message: Any) -> None:
        self._keep_id(words(message, "id"))
        self._model = words(message, "model")
        self._count(field(message, "usage"))

    def _stop(self, event: Any) -> None:
        self._count(field(event, "usage"))
        reason = words(field(event, "delta"), "stop_reason")
        if reason:
            self._reason, self.ended = reason, True

    def _keep_id(self, value: str) -> None:
        if value and value not in self._ids:
            self._ids.append(value)

    def _count(self, usage: Any) -> None:
        """Counts are cumulative: a later one replaces an earlier one."""
        for name in COUNTS:
            value = number(usage, name)
            if value is not None:
                self._counts[name] = value
        thinking = number(field(usage, "output_tokens_details"), "thinking_tokens")
        if thinking is not None:
            self._counts["thinking_tokens"] = thinking
        self._product = words(usage, "service_tier") or self._product

    def _usage(self) -> Usage | None:
        counts = self._counts
        if not counts:
            return None
        output = counts.get("output_tokens", 0)
        reasoning = min(counts.get("thinking_tokens", 0), output)
        return Usage(
            input=counts.get("input_tokens", 0),
            cache_read=counts.get("cache_read_input_tokens", 0),
            cache_write=counts.get("cache_creation_input_tokens", 0),
            output=output - reasoning,
            reasoning=reasoning,
        )


def _index(event: object) -> int:
    index = number(event, "index")
    return -1 if index is None else index
