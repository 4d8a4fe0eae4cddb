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
        self._keep_id(headers.get("x-request-id"))

    def read(self, event: Any) -> Iterator[AnyChunk]:
        self._note(event)
        for choice in getattr(event, "choices", None) or ():
            if getattr(choice, "index", 0):
                continue
            delta = getattr(choice, "delta", None)
            if delta is not None:
                yield from self._delta(delta)
            reason = getattr(choice, "finish_reason", None)
            if reason:
                self._reason, self.ended = str(reason), True

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
        self._keep_id(getattr(event, "id", None))
        self._model = getattr(event, "model", None) or self._model
        tier = getattr(event, "service_tier", None)
        if tier:
            self._product = PRODUCTS.get(tier, tier)
        usage = getattr(event, "usage", None)
        if usage is not None:
            self._usage = usage_of(usage)

    def _keep_id(self, value: object) -> None:
        if isinstance(value, str) and value and value not in self._ids and len(self._ids) < 4:
            self._ids.append(value)

    def _delta(self, delta: Any) -> Iterator[AnyChunk]:
        thought = _text(getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None))
        if thought and (whole := self._thoughts.feed(thought)):
            self._thinking = True
            yield ReasoningDelta(whole)
        refusal = _text(getattr(delta, "refusal", None))
        self._refused = self._refused or bool(refusal)
        words = _text(getattr(delta, "content", None)) + refusal
        if words:
            yield from self._close_thinking()
            if whole := self._words.feed(words):
                yield TextDelta(whole)
        for piece in getattr(delta, "tool_calls", None) or ():
            yield from self._close_thinking()
            yield from self._call(piece)

    def _close_thinking(self) -> Iterator[AnyChunk]:
        if rest := self._thoughts.rest():
            yield ReasoningDelta(rest)
        if self._thinking:
            self._thinking = False
            yield ReasoningDone(origin=self._origin)

    def _call(self, piece: Any) -> Iterator[AnyChunk]:
        function = getattr(piece, "function", None)
        name = _text(getattr(function, "name", None))
        text = _arguments(getattr(function, "arguments", None))
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
        identity = _text(getattr(piece, "id", None))
        index = getattr(piece, "index", None)
        key: int | str = index if isinstance(index, int) else identity
        current = self._places.get(key)
        if current is None and key == "" and self._calls:
            current = self._calls[-1]
        if current is None or current.followed(identity, name, text):
            current = self._places[key] = self._begin(piece, identity)
        current.id = current.id or identity
        return current

    def _begin(self, piece: Any, identity: str) -> _Growing:
        call = _Growing(len(self._calls), identity)
        extra = getattr(piece, "extra_content", None)
        if isinstance(extra, dict):
            call.opaque = dumps({"origin": self._origin, "extra_content": extra})
        self._calls.append(call)
        return call


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and _is_words(part))
    return ""


def _is_words(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _arguments(value: object) -> str:
    return dumps(value) if isinstance(value, dict) else _text(value)


def usage_of(usage: Any) -> Usage | None:
    """Token counts by class, without overlap; None if the server sent none."""
    prompt = _count(usage, "prompt_tokens")
    answer = _count(usage, "completion_tokens")
    if prompt is None and answer is None:
        return None
    prompt, answer = prompt or 0, answer or 0
    of_prompt = getattr(usage, "prompt_tokens_details", None)
    read = _count(of_prompt, "cached_tokens") or 0
    write = _count(of_prompt, "cache_write_tokens") or 0
    reasoning = _count(getattr(usage, "completion_tokens_details", None), "reasoning_tokens") or 0
    apart = reasoning > answer or _count(usage, "total_tokens") == prompt + answer + reasoning
    return Usage(
        input=max(prompt - read - write, 0),
        cache_read=read,
        cache_write=write,
        output=answer if apart else answer - reasoning,
        reasoning=reasoning,
    )


def _count(holder: object, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
