"""Chunks into a turn: gathering a stream, judging how it ended, cutting it short."""

from typing import Any

import msgspec

from torpor.core.chunks import (
    AnyChunk,
    CallDelta,
    CallStart,
    ReasoningDelta,
    ReasoningDone,
    Stop,
    TextDelta,
)
from torpor.core.errors import Unavailable
from torpor.core.messages import Reasoning, Text

TRIES_WHEN_CUT_OFF = 2
"""Tries of a completion whose output ends inside a call."""


class RawCall(msgspec.Struct, frozen=True):
    """A call as the model wrote it. ``text`` is what it gave for arguments."""

    name: str
    text: str
    provider_id: str = ""
    opaque: str = ""


RawPart = Text | Reasoning | RawCall


class Gathering:
    """One stream's chunks so far, in the order in which their parts began."""

    __slots__ = ("_calls", "_open", "_parts", "stop")

    def __init__(self) -> None:
        self.stop: Stop | None = None
        self._parts: list[_Growing] = []
        self._open: _Growing | None = None
        self._calls: dict[int, _Growing] = {}

    def add(self, chunk: AnyChunk) -> None:
        """Take one more chunk."""
        match chunk:
            case TextDelta():
                self._grow("text").pieces.append(chunk.text)
            case CallDelta():
                self._call(chunk.index).pieces.append(chunk.text)
            case CallStart():
                self._begin(chunk)
            case ReasoningDelta():
                self._grow("reasoning").pieces.append(chunk.text)
            case ReasoningDone():
                self._reasoned(chunk)
            case Stop():
                self.stop = chunk

    def parts(self) -> tuple[RawPart, ...]:
        """What the model produced, once its stream has stopped.

        Raises ``Unavailable`` if the stream died, or was cut off inside a call whatever reason it gave.
        """
        if self.stop is None:
            raise Unavailable("The model's stream ended before its end.")
        parts = tuple(part.finished() for part in self._parts)
        for part in parts:
            if isinstance(part, RawCall) and is_cut_off(part.text):
                raise Unavailable(
                    f"The model's output ended inside the arguments of {part.name!r}.",
                    tries=TRIES_WHEN_CUT_OFF,
                )
        return parts

    @property
    def begun(self) -> bool:
        """Something has come."""
        return bool(self._parts)

    def so_far(self) -> tuple[RawPart, ...]:
        """All parts as they stand, finished or not: for watchers."""
        return tuple(part.finished() for part in self._parts)

    def cut(self) -> tuple[RawPart, ...]:
        """What may stay of a stream that a person cut short: visible text and complete calls.

        It never ends in reasoning or blank text.
        """
        parts = [part.finished() for part in self._parts]
        whole = [part for part in parts if not isinstance(part, RawCall) or _is_whole(part.text)]
        while whole and not isinstance(whole[-1], RawCall) and not _is_visible(whole[-1]):
            whole.pop()
        return tuple(whole)

    def _grow(self, kind: str) -> "_Growing":
        if self._open is None or self._open.kind != kind:
            self._open = _Growing(kind)
            self._parts.append(self._open)
        return self._open

    def _begin(self, chunk: CallStart) -> None:
        part = _Growing("call")
        part.start = chunk
        self._parts.append(part)
        self._open = part
        self._calls[chunk.index] = part

    def _call(self, index: int) -> "_Growing":
        part = self._calls.get(index)
        if part is None:
            raise Unavailable(f"The model's stream sent arguments of a call {index} that never began.")
        return part

    def _reasoned(self, chunk: ReasoningDone) -> None:
        self._grow("reasoning").done = chunk
        self._open = None


class _Growing:
    """A part while it grows."""

    __slots__ = ("done", "kind", "pieces", "start")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.start = CallStart(0, "")
        self.done = ReasoningDone()

    def finished(self) -> RawPart:
        text = clean("".join(self.pieces))
        if self.kind == "text":
            return Text(text)
        if self.kind == "reasoning":
            return Reasoning(text, self.done.opaque, self.done.origin)
        return RawCall(self.start.name, text, self.start.provider_id, self.start.opaque)


def clean(text: str) -> str:
    """Text as it may be stored: lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_visible(part: RawPart) -> bool:
    return isinstance(part, Text) and bool(part.text.strip())


def _is_whole(text: str) -> bool:
    return not text.strip() or arguments_of(text) is not None


def arguments_of(text: str) -> dict[str, Any] | None:
    """Arguments as an object; None if the text is no JSON object. No text at all means ``{}``.

    JSON's own rules: ``NaN`` and ``Infinity`` are refused.
    """
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def is_cut_off(text: str) -> bool:
    """Whether text is the beginning of a JSON value that ends too soon, rather than whole or plainly wrong."""
    if not text.lstrip().startswith(("{", "[")) or arguments_of(text) is not None:
        return False
    depth, inside, escaped = 0, False, False
    for character in text:
        if escaped:
            escaped = False
        elif inside:
            escaped = character == "\\"
            inside = character != '"'
        elif character == '"':
            inside = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
    return inside or depth > 0
