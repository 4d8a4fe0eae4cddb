"""What a model sends while it answers: the union of chunks, in the order they come.

A stream ends with exactly one ``Stop``. One that ends without has died: its caller drops what it gathered.
"""

import msgspec

from torpor.core.messages import Usage


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Settings shared by all chunks."""


class TextDelta(Chunk, frozen=True):
    """More of the text being written."""

    text: str


class ReasoningDelta(Chunk, frozen=True):
    """More of the reasoning being written."""

    text: str


class ReasoningDone(Chunk, frozen=True):
    """The reasoning block is complete. ``opaque`` is the provider's own value, sent back unchanged."""

    opaque: str = ""
    origin: str = ""


class CallStart(Chunk, frozen=True):
    """The model begins a call. ``index`` tells the calls of one stream apart."""

    index: int
    name: str
    provider_id: str = ""
    opaque: str = ""


class CallDelta(Chunk, frozen=True):
    """More of the JSON text of a call's arguments."""

    index: int
    text: str


class Stop(Chunk, frozen=True):
    """The end. ``reason`` is ``end``, ``calls``, ``length``, ``refusal`` or the provider's own word."""

    reason: str = "end"
    usage: Usage | None = None
    model: str = ""
    product: str = ""
    """What was sold: ``standard``, ``flex``, ``batch``, ``priority`` or the provider's own word."""
    provider_ids: tuple[str, ...] = ()


AnyChunk = TextDelta | ReasoningDelta | ReasoningDone | CallStart | CallDelta | Stop
