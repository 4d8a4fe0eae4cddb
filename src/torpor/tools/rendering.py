"""What a function returned, as parts that a model can read.

Text stays text. Everything else becomes JSON; numbers that JSON cannot express (NaN, the infinities) become
null there, while text that spells them stays as it is.
"""

import base64
import json
import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from torpor.core.messages import File, Image, Part, Text
from torpor.core.text import clean
from torpor.tools.results import image_type

NOTHING = "(no result)"
ERROR_KEPT = 2_000
"""Characters of an exception's message that the model reads."""


def render(value: object) -> tuple[Part, ...]:
    """A returned value as parts. TypeError if it has no JSON form."""
    if isinstance(value, list | tuple) and any(isinstance(one, Text | Image | File | bytes) for one in value):
        return tuple(part for one in value for part in render(one))
    match value:
        case None:
            return (Text(NOTHING),)
        case Text() | Image() | File():
            return (value,)
        case str():
            return (Text(clean(value)),)
        case bytes() | bytearray() | memoryview():
            return (_bytes(bytes(value)),)
        case _:
            return (Text(_json(value)),)


def failure(error: BaseException) -> Text:
    """What the model reads of an exception: its type and message, never a traceback."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the message of a stranger's exception may fail in any way
        message = ""
    message = clean(message)[:ERROR_KEPT]
    name = type(error).__name__
    return Text(f"Error: {name}: {message}" if message else f"Error: {name}")


def _bytes(body: bytes) -> Part:
    media_type = image_type(body)
    if media_type:
        return Image(base64.b64encode(body).decode(), media_type)
    try:
        return Text(body.decode())
    except UnicodeDecodeError:
        return Text(f"[{len(body)} bytes that are no text and no image left out]")


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except (UnicodeEncodeError, OverflowError):
        built = msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)
        return clean(json.dumps(_finite(built), ensure_ascii=False))
    except RecursionError:
        raise TypeError("it refers to itself or is nested too deeply") from None


def _plain(value: Any) -> Any:
    """Forms of values that msgspec does not know."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
