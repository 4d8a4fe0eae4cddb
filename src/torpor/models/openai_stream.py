"""Chat Completions chunks as ours, also those of servers that only resemble the original."""

import json
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
from torpor.models.fields import each, field, number, words
from torpor.models.rendering import dumps
from torpor.models.surrogates import Mender

STOPS = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refusal",
}
PRODUCTS = {"default": "standard"}
MOST_IDS = 4


class _Growing:
    """A call while it arrives."""

    __slots__ = ("id", "index", "mender", "name", "opaque", "started", "text")

    def __init__(self, index: int, identity: str) -> None:
        self.index = index
        self.id = identity
        self.name = ""
        self.opaque = ""
        self.text = ""
        self.started = False
        self.mender = Mender()

    def whole(self) -> bool:
        """Whether the arguments so far are a complete JSON object."""
        if not self.text.rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads(self.text), dict)
        except ValueError:
            return False

    def followed(self, identity: str, name: str, text: str) -> bool:
        """Whether a piece with a name, for the same place, begins another call."""
        if not name or not self.name:
            return False
        if name != self.name or (identity and self.id and identity != self.id):
            return True
        return text.lstrip().startswith("{") and self.whole()

    def start(self) -> Iterator[AnyChunk]:
        """Announce it, once its name is known."""
        self.started = True
        yield CallStart(index=self.index, name=self.name, provider_id=self.id, opaque=self.opaque)
        if self.text:
            yield CallDelta(index=self.index, text=self.text)


class OpenAIReader:
    """Reads one stream. ``origin`` marks opaque values as this server's."""

    def __init__(self, origin: str) -> None:
        self.ended = False
        self._origin = origin
        self._reason = ""
        self._refused = False
        self._thinking = False
        self._usage: Usage | None = None
        self._model = ""
        self._product = ""
        self._ids: list[str] = []
        self._calls: list[_Growing] = []
        self._places: dict[int | str, _Growing] = {}
        self._words = Mender()
        self._thoughts = Mender()

    def head(self, headers: Mapping[str, str]) -> None:
        self._keep_id(headers.get("x-request-id", ""))

    def read(self, event: Any) -> Iterator[AnyChunk]:
        self._note(event)
        for choice in each(event, "choices"):
            if field(choice, "index"):
                continue
            if delta := field(choice, "delta"):
                yield from self._delta(delta)
            if reason := words(choice, "finish_reason"):
                self._reason, self.ended = reason, True

    def finish(self) -> Iterator[AnyChunk]:
        yield from self._close_thinking()
        if rest := self._words.rest():
            yield TextDelta(rest)
        for call in self._calls:
            if not call.started:
                yield from call.start()
            if rest := call.mender.rest():
                yield CallDelta(index=call.index, text=rest)
        yield Stop(
            reason=self._why(),
            usage=self._usage,
            model=self._model,
            product=self._product,
            provider_ids=tuple(self._ids),
        )

    def _why(self) -> str:
        reason = STOPS.get(self._reason, self._reason)
        if reason == "end":
            return "calls" if self._calls else "refusal" if self._refused else "end"
        return reason

    def _note(self, event: Any) -> None:
        self._keep_id(words(event, "id"))
        self._model = words(event, "model") or self._model
        if tier := words(event, "service_tier"):
            self._product = PRODUCTS.get(tier, tier)
        if usage := field(event, "usage"):
            self._usage = usage_of(usage)

    def _keep_id(self, value: str) -> None:
        if value and value not in self._ids and len(self._ids) < MOST_IDS:
            self._ids.append(value)

    def _delta(self, delta: Any) -> Iterator[AnyChunk]:
        thought = _text(field(delta, "reasoning_content") or field(delta, "reasoning"))
        if thought and (whole := self._thoughts.feed(thought)):
            self._thinking = True
            yield ReasoningDelta(whole)
        refusal = words(delta, "refusal")
        self._refused = self._refused or bool(refusal)
        said = _text(field(delta, "content")) + refusal
        if said:
            yield from self._close_thinking()
            if whole := self._words.feed(said):
                yield TextDelta(whole)
        for piece in each(delta, "tool_calls"):
            yield from self._close_thinking()
            yield from self._call(piece)

    def _close_thinking(self) -> Iterator[AnyChunk]:
        if rest := self._thoughts.rest():
            yield ReasoningDelta(rest)
        if self._thinking:
            self._thinking = False
            yield ReasoningDone(origin=self._origin)

    def _call(self, piece: Any) -> Iterator[AnyChunk]:
        function = field(piece, "function")
        name = words(function, "name")
        text = _arguments(field(function, "arguments"))
        call = self._place(piece, name, text)
        call.name = call.name or name
        text = call.mender.feed(text)
        call.text += text
        if call.started:
            if text:
                yield CallDelta(index=call.index, text=text)
        elif call.name:
            yield from call.start()

    def _place(self, piece: Any, name: str, text: str) -> _Growing:
        """Which call a piece belongs to: by index, else by id, else the last one."""
        identity = words(piece, "id")
        index = number(piece, "index")
        key: int | str = identity if index is None else index
        current = self._places.get(key)
        if current is None and key == "" and self._calls:
            current = self._calls[-1]
        if current is None or current.followed(identity, name, text):
            current = self._places[key] = self._begin(piece, identity)
        current.id = current.id or identity
        return current

    def _begin(self, piece: Any, identity: str) -> _Growing:
        call = _Growing(len(self._calls), identity)
        extra = field(piece, "extra_content")
        if isinstance(extra, dict):
            call.opaque = dumps({"origin": self._origin, "extra_content": extra})
        self._calls.append(call)
        return call


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(words(part, "text") for part in value if words(part, "type") == "text")
    return ""


def _arguments(value: object) -> str:
    return dumps(value) if isinstance(value, dict) else _text(value)


def usage_of(usage: Any) -> Usage | None:
    """Token counts by class, without overlap; None if the server sent none."""
    prompt = number(usage, "prompt_tokens")
    answer = number(usage, "completion_tokens")
    if prompt is None and answer is None:
        return None
    prompt, answer = prompt or 0, answer or 0
    of_prompt = field(usage, "prompt_tokens_details")
    read = number(of_prompt, "cached_tokens") or 0
    write = number(of_prompt, "cache_write_tokens") or 0
    reasoning = number(field(usage, "completion_tokens_details"), "reasoning_tokens") or 0
    apart = reasoning > answer or number(usage, "total_tokens") == prompt + answer + reasoning
    return Usage(
        input=max(prompt - read - write, 0),
        cache_read=read,
        cache_write=write,
        output=answer if apart else answer - reasoning,
        reasoning=reasoning,
    )
