"""A model that follows a script: the stand-in of all tests, and of yours.

Its place in the script is the completion's number in its thread, so that it survives restarts, and a try
that failed is followed by the same reply.
"""

import asyncio
import copy
import inspect
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

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
from torpor.core.errors import ModelRefused, TorporError, Unavailable
from torpor.core.messages import Usage
from torpor.core.request import Attempt, Request
from torpor.models.windows import check_window


class Event(Protocol):
    """What a stalled reply may wait for; ``asyncio.Event`` is one."""

    async def wait(self) -> Any:
        """Return once it has happened."""


class Say(msgspec.Struct, frozen=True):
    """Text."""

    text: str


class Ask(msgspec.Struct, frozen=True):
    """A call. ``arguments`` is text, valid or not."""

    name: str
    arguments: str
    id: str = ""


class Think(msgspec.Struct, frozen=True):
    """A block of reasoning."""

    text: str
    opaque: str = ""
    origin: str = ""


class Stall(msgspec.Struct, frozen=True):
    """Nothing more until the event; without one, until cut."""

    until: Event | None = None


class Fail(msgspec.Struct, frozen=True):
    """A failure after so many chunks of the reply; None: where it stands."""

    error: TorporError
    after: int | None = None


class Ends(msgspec.Struct, frozen=True):
    """The reason to stop."""

    reason: str


class Used(msgspec.Struct, frozen=True):
    """The tokens of this reply; None: the provider tells none."""

    usage: Usage | None


class Tries(msgspec.Struct, frozen=True):
    """One reply for each try of the same completion; the last one for all later ones."""

    replies: "tuple[Reply, ...]"


Piece = Say | Ask | Think | Stall | Fail | Ends | Used
Words = Piece | str | Sequence["Words"]
Reply = Words | Tries | Callable[[Request], "Words | Awaitable[Words]"]
Script = Sequence[Reply] | Callable[[Request], "Words | Awaitable[Words]"]


def say(text: str) -> Say:
    """The model says something."""
    return Say(text)


def call(name: str, /, *, _raw: str | None = None, _id: str = "", **arguments: Any) -> Ask:
    """The model calls a tool. ``_raw`` is the arguments' text as it stands; ``_id`` the provider's id."""
    return Ask(name, json.dumps(arguments, ensure_ascii=False) if _raw is None else _raw, _id)


def reason(text: str, *, opaque: str = "", origin: str = "scripted") -> Think:
    """The model thinks aloud."""
    return Think(text, opaque, origin)


def stall(text: str = "", *, until: Event | None = None) -> list[Piece]:
    """The model says ``text`` and then nothing more until the event; without one, until it is cut."""
    return [*([Say(text)] if text else []), Stall(until)]


def fail(error: TorporError | None = None, *, after: int | None = None) -> Fail:
    """The stream fails after so many chunks of the reply; by default where this stands in it."""
    return Fail(error or Unavailable("the scripted model is busy"), after)


def empty() -> list[Piece]:
    """A completion with nothing in it."""
    return []


def stop(why: str) -> Ends:
    """The model gives this reason to stop, such as ``length``."""
    return Ends(why)


def used(**tokens: int) -> Used:
    """The tokens that this reply is said to have taken: ``used(input=9, output=4)``, fields of ``Usage``."""
    return Used(Usage(**tokens))


def tries(*replies: Reply) -> Tries:
    """What the first, second, … try of one completion gets; the last reply serves all later ones."""
    return Tries(replies)


Step = AnyChunk | Stall | Fail


class Reel(msgspec.Struct, frozen=True):
    """A reply compiled. ``plain``: chunks and nothing else."""

    steps: tuple[Step, ...]
    plain: bool


class ScriptedModel:
    """A model that gives the replies of a script, one for each completion of a thread.

    A reply is ``say(...)``, ``call(...)``, ``reason(...)``, plain text, a list of them, ``tries(...)``, or a
    function of the request (sync or async) that gives one. A function as the whole script answers every
    completion. Past the end of the script it raises ``ModelRefused``, or with ``loop`` begins again.

    ``chunk`` is the number of characters in each piece of text or arguments (0: whole). ``usage`` is told
    where a reply says nothing else. ``pace`` is the pause in seconds before each chunk; without it the stream
    never yields to the loop. ``requests`` holds the last ``remember`` requests it was shown. ``window`` is
    how many tokens it is said to take; 0: not known.
    """

    def __init__(
        self,
        script: Script,
        *,
        loop: bool = False,
        chunk: int = 0,
        usage: Usage | None = None,
        pace: float | None = None,
        remember: int = 256,
        name: str = "scripted:script",
        window: int = 0,
    ) -> None:
        self.name = name
        self.window = check_window(window)
        self.requests: deque[Request] = deque(maxlen=remember)
        self._script: Script = [script] if isinstance(script, str) else script
        self._loop = loop
        self._chunk = chunk
        self._usage = usage
        self._pace = pace
        self._compiled: dict[int, Reel] = {}
        """By place in the script, the replies that are always the same."""

    async def stream(self, request: Request, attempt: Attempt) -> AsyncGenerator[AnyChunk, None]:
        """The reply at ``attempt.ordinal``; see the ``Model`` port."""
        self.requests.append(request)
        place = self._place(attempt.ordinal)
        reel = self._compiled.get(place)
        if reel is None:
            reel = await self._reel(place, request, attempt)
        if self._pace is None and reel.plain:
            for chunk in reel.steps:
                yield chunk  # type: ignore[misc]  # a plain reel holds chunks alone
            return
        for step in reel.steps:
            if self._pace is not None:
                await asyncio.sleep(self._pace)
            if isinstance(step, Stall):
                await _wait(step)
            elif isinstance(step, Fail):
                raise copy.copy(step.error)
            else:
                yield step

    def _place(self, ordinal: int) -> int:
        script = self._script
        if callable(script):
            return -1
        if ordinal < len(script):
            return ordinal
        if self._loop and script:
            return ordinal % len(script)
        told = f"{self.name} has {len(script)} replies and was asked for number {ordinal + 1}"
        raise ModelRefused(f"{told}: add replies, or say loop=True", kind="setup")

    async def _reel(self, place: int, request: Request, attempt: Attempt) -> Reel:
        reply: Reply = self._script if callable(self._script) else self._script[place]
        kept = not (callable(reply) or isinstance(reply, Tries))
        if isinstance(reply, Tries):
            reply = reply.replies[min(attempt.attempt, len(reply.replies) - 1)]
        steps = self._compile(await _words(reply, request))
        reel = Reel(steps, not any(isinstance(step, Stall | Fail) for step in steps))
        if kept:
            self._compiled[place] = reel
        return reel

    def _compile(self, words: Words) -> tuple[Step, ...]:
        reason, usage, calls = "", self._usage, 0
        steps: list[Step] = []
        failure: Fail | None = None
        for piece in _flat(words):
            if isinstance(piece, Ends):
                reason = piece.reason
            elif isinstance(piece, Used):
                usage = piece.usage
            elif isinstance(piece, Fail) and piece.after is not None:
                failure = piece
            else:
                steps.extend(self._chunks(piece, calls))
                calls += isinstance(piece, Ask)
        if failure is not None:
            return (*steps[: failure.after], failure)
        return (*steps, Stop(reason or ("calls" if calls else "end"), usage, self.name, "standard"))

    def _chunks(self, piece: Say | Ask | Think | Stall | Fail | str, index: int) -> Iterator[Step]:
        if isinstance(piece, str):
            yield from map(TextDelta, self._cut(piece))
        elif isinstance(piece, Say):
            yield from map(TextDelta, self._cut(piece.text))
        elif isinstance(piece, Think):
            yield from map(ReasoningDelta, self._cut(piece.text))
            yield ReasoningDone(piece.opaque, piece.origin)
        elif isinstance(piece, Ask):
            yield CallStart(index, piece.name, piece.id or f"scripted_{index}")
            yield from (CallDelta(index, text) for text in self._cut(piece.arguments))
        elif isinstance(piece, Stall | Fail):
            yield piece
        else:
            raise _no_part(piece)

    def _cut(self, text: str) -> list[str]:
        size = self._chunk or len(text) or 1
        return [text[start : start + size] for start in range(0, len(text), size)]


def _no_part(piece: object) -> ModelRefused:
    told = f"{piece!r} is no part of a scripted reply: use say, call, reason, …"
    return ModelRefused(told, kind="setup")


async def _words(reply: Reply, request: Request) -> Words:
    assert not isinstance(reply, Tries), "tries inside tries"
    if not callable(reply):
        return reply
    words = reply(request)
    return await words if inspect.isawaitable(words) else words


def _flat(words: Words) -> Iterator[Piece | str]:
    if isinstance(words, str) or not isinstance(words, Sequence):
        yield words
        return
    for piece in words:
        yield from _flat(piece)


async def _wait(stalled: Stall) -> None:
    if stalled.until is not None:
        await stalled.until.wait()
    else:
        await asyncio.get_running_loop().create_future()
