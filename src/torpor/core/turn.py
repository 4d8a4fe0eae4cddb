"""Chunks into a turn: gathering a stream, judging how it ended, cutting it short."""

import re
from typing import Any

import msgspec

from torpor.core.chunks import (
    AnyChunk,
    CallDelta,
    CallStart,
    ReasoningDone,
    Stop,
    TextDelta,
)
from torpor.core.errors import Unavailable
from torpor.core.messages import Reasoning, Text
from torpor.core.text import clean

TRIES_WHEN_CUT_OFF = 2
"""Tries of a completion whose output ends inside a call."""

DEEPEST = 100
"""Brackets inside brackets that arguments may have."""

_CLOSING = {"{": "}", "[": "]"}
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?P<end>"?)|[\[\]{}]', re.DOTALL)


class RawCall(msgspec.Struct, frozen=True):
    """A call as the model wrote it. ``text`` is what it gave for arguments."""

    name: str
    text: str
    provider_id: str = ""
    opaque: str = ""


RawPart = Text | Reasoning | RawCall


class Gathering:
    """One stream's chunks so far, in the order in which their parts began.

    Chunks are kept as they come, and become parts when somebody asks for those: once, at the end of nearly
    all streams.
    """

    __slots__ = ("_calls", "_chunks", "_folded", "_open", "_parts", "_stop", "_stray", "add")

    def __init__(self) -> None:
        self._chunks: list[AnyChunk] = []
        self.add = self._chunks.append
        """Take one more chunk."""
        self._folded = 0
        """How many chunks have become parts."""
        self._stop: Stop | None = None
        self._parts: list[_Growing] = []
        self._open: _Growing | None = None
        self._calls: dict[int, _Growing] = {}
        self._stray: int | None = None
        """A call that got arguments and never began."""

    @property
    def stop(self) -> Stop | None:
        """How the stream ended, once it has."""
        self._fold()
        return self._stop

    def _fold(self) -> None:
        """Turn the chunks that came since into parts."""
        if self._folded == len(self._chunks):
            return
        chunks, self._folded = self._chunks[self._folded :], len(self._chunks)
        for chunk in chunks:
            growing = self._open
            if type(chunk) is TextDelta and growing is not None and growing.kind == "text":  # nearly all are
                growing.pieces.append(chunk.text)
            else:
                self._take(chunk)

    def _take(self, chunk: AnyChunk) -> None:
        if isinstance(chunk, TextDelta):
            self._grow("text").pieces.append(chunk.text)
        elif isinstance(chunk, Stop):
            self._stop = chunk
        elif isinstance(chunk, CallStart):
            self._begin(chunk)
        elif isinstance(chunk, CallDelta):
            self._argued(chunk)
        elif isinstance(chunk, ReasoningDone):
            self._reasoned(chunk)
        else:
            self._grow("reasoning").pieces.append(chunk.text)

    def parts(self) -> tuple[RawPart, ...]:
        """What the model produced, once its stream has stopped.

        Raises ``Unavailable`` if the stream died, or was cut off inside a call whatever reason it gave.
        """
        stop = self.stop
        if self._stray is not None:
            raise Unavailable(f"The model's stream sent arguments of a call {self._stray} that never began.")
        if stop is None:
            raise Unavailable("The model's stream ended before its end.")
        parts = self.so_far()
        for part in parts:
            if isinstance(part, RawCall) and (is_cut_off(part.text) or _has_run_out(stop, part, parts[-1])):
                raise Unavailable(
                    f"The model's output ended inside the arguments of {part.name!r}.",
                    tries=TRIES_WHEN_CUT_OFF,
                )
        return parts

    def so_far(self) -> tuple[RawPart, ...]:
        """All parts as they stand, finished or not: for watchers."""
        self._fold()
        return tuple([part.finished() for part in self._parts])

    def cut(self) -> tuple[RawPart, ...]:
        """What may stay of a stream that a person cut short: visible text and complete calls.

        It never ends in reasoning or blank text.
        """
        parts = self.so_far()
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
        self._open = None
        self._calls[chunk.index] = part

    def _argued(self, chunk: CallDelta) -> None:
        part = self._calls.get(chunk.index)
        if part is None:
            self._stray = chunk.index
        else:
            part.pieces.append(chunk.text)

    def _reasoned(self, chunk: ReasoningDone) -> None:
        self._grow("reasoning").done = chunk
        self._open = None


def _has_run_out(stop: Stop, part: RawCall, last: RawPart) -> bool:
    """Whether the output ran out before the last call's first argument."""
    return stop.reason == "length" and part is last and not part.text.strip()


NO_CALL = CallStart(0, "")
NO_REASONING = ReasoningDone()


class _Growing:
    """A part while it grows."""

    __slots__ = ("done", "kind", "pieces", "start")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.start = NO_CALL
        self.done = NO_REASONING

    def finished(self) -> RawPart:
        text = clean("".join(self.pieces))
        if self.kind == "text":
            return Text(text)
        if self.kind == "reasoning":
            return Reasoning(text, clean(self.done.opaque), self.done.origin)
        start = self.start
        return RawCall(clean(start.name), text, clean(start.provider_id), clean(start.opaque))


def _is_visible(part: RawPart) -> bool:
    return isinstance(part, Text) and bool(part.text.strip())


def _is_whole(text: str) -> bool:
    return bool(text.strip()) and arguments_of(text) is not None


def arguments_of(text: str) -> dict[str, Any] | None:
    """Arguments as an object; None if the text is no JSON object. No text at all means ``{}``.

    JSON's own rules: ``NaN`` and ``Infinity`` are refused. So is nesting deeper than ``DEEPEST``.
    """
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not _is_deep(text) else None


def _is_deep(text: str) -> bool:
    """Whether whole JSON text is nested deeper than is safe to read anywhere on its way."""
    return text.count("{") + text.count("[") > DEEPEST and _nesting(text).deepest > DEEPEST


def is_cut_off(text: str) -> bool:
    """Whether text is the beginning of a JSON value that ends too soon, rather than whole or wrong."""
    if not text.lstrip().startswith(("{", "[")) or arguments_of(text) is not None:
        return False
    return _nesting(text).is_open


class _Nesting(msgspec.Struct, frozen=True):
    deepest: int
    is_open: bool
    """The text ends inside a string or bracket, and no bracket before was closed by another kind."""


def _nesting(text: str) -> _Nesting:
    opened: list[str] = []
    deepest = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in _CLOSING:
            opened.append(_CLOSING[first])
            deepest = max(deepest, len(opened))
        elif first == '"':
            if not token.group("end"):
                return _Nesting(deepest, is_open=True)
        elif not opened or opened.pop() != first:
            return _Nesting(deepest, is_open=False)
    return _Nesting(deepest, is_open=bool(opened))
