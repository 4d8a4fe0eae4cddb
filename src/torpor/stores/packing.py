"""What threads at rest keep, made small: entries side by side, compressed as one.

An agent of the agent_scale workload takes a third (varied text) to a twelfth (the same) of its memory so,
for half a millisecond of work. The setting ``pack_after = 0`` leaves everything as it was written.
"""

from typing import Any

import msgspec
import zstandard

from torpor.core.errors import Broken

LEVEL = 3
"""Higher ones take far longer and give little: single histories are too short for them."""
WIDEST = 128 * 1024
"""Bytes that one compressed byte can stand for at most: a block of the format holds no more."""


def pack(value: Any) -> bytes:
    """A value as msgpack, compressed."""
    # What the compressor gives holds the room it might have needed; a copy does not.
    return bytes(memoryview(zstandard.ZstdCompressor(level=LEVEL).compress(msgspec.msgpack.encode(value))))


def unpack(body: bytes, shape: Any = Any) -> Any:
    """What was packed. ``Broken`` for damaged bytes, before they are given the room that they ask for."""
    try:
        if zstandard.frame_content_size(body) > WIDEST * len(body):
            raise Broken("Packed rows cannot be read: their bytes are damaged (no such size).")
        return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(body), type=shape)
    except (zstandard.ZstdError, msgspec.DecodeError, RecursionError, MemoryError) as error:
        raise Broken(f"Packed rows cannot be read: their bytes are damaged ({error}).") from error
