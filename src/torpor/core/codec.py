"""Bytes and values: msgpack maps with short tags, defaults left out.

``SHAPE`` counts incompatible changes of what is stored. A row of a newer shape, or with a kind or field this
code does not know, is given back untouched (``Unavailable``): newer code will read it.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from torpor.core.effects import Effect
from torpor.core.errors import Broken, Unavailable
from torpor.core.messages import Message
from torpor.core.record import SliceRecord
from torpor.core.signals import AnySignal
from torpor.core.thread import Head

SHAPE = 1

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()
_message: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_signal: msgspec.msgpack.Decoder[AnySignal] = msgspec.msgpack.Decoder(AnySignal)
_effect: msgspec.msgpack.Decoder[Effect] = msgspec.msgpack.Decoder(Effect)
_record: msgspec.msgpack.Decoder[SliceRecord] = msgspec.msgpack.Decoder(SliceRecord)
_head: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)


def encode(value: Message | AnySignal | Effect | SliceRecord | Head) -> bytes:
    """The bytes that are stored for a value."""
    return _encoder.encode(value)


def decode_message(body: bytes) -> Message:
    """A message from its bytes."""
    return _decode(_message.decode, body, "message")


def decode_signal(body: bytes) -> AnySignal:
    """A signal from its bytes."""
    return _decode(_signal.decode, body, "signal")


def decode_effect(body: bytes) -> Effect:
    """An effect from its bytes."""
    return _decode(_effect.decode, body, "effect")


def decode_record(body: bytes) -> SliceRecord:
    """The record of a slice from its bytes."""
    return _decode(_record.decode, body, "slice record")


def decode_head(body: bytes, shape: int = SHAPE) -> Head:
    """A head from its bytes; an empty one for no bytes. One with fields unknown here is given back."""
    if shape > SHAPE:
        raise Unavailable(
            f"The thread is stored in shape {shape}; this release reads up to {SHAPE}. Upgrade it."
        )
    return _decode(_head.decode, body, "head") if body else Head()


def decode_kept(body: bytes, kind: type[T], what: str) -> T:
    """A small value that is kept beside threads. ``Broken`` for damaged bytes."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Broken(f"A kept {what} cannot be read: its bytes are damaged ({error}).") from error


def _decode(read: Callable[[bytes], T], body: bytes, what: str) -> T:
    try:
        return read(body)
    except (msgspec.DecodeError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError) and _is_map(body):
            raise Unavailable(
                f"A stored {what} is of a kind this release does not know ({error}). Upgrade it."
            ) from error
        raise Broken(f"A stored {what} cannot be read: its bytes are damaged ({error}).") from error


def _is_map(body: bytes) -> bool:
    """Whether bytes are whole and a map, as every release writes them."""
    try:
        return isinstance(msgspec.msgpack.decode(body), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
