"""Text that others wrote: made fit to be stored, and read as strict JSON."""

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

Members = Callable[[list[tuple[str, Any]]], Any]


def clean(text: str) -> str:
    """Text as it may be stored: pairs of surrogates are joined, lone ones become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def cleaned(value: Any) -> Any:
    """A value of JSON with all its texts, names of members too, as they may be stored."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(name): cleaned(item) for name, item in value.items()}
    return value


def read_json(body: bytes | str, members: Members = dict) -> Any:
    """A value of JSON: UTF-8 without a byte order mark, finite numbers.

    ``members`` makes an object of its members. ``ValueError`` says what is wrong.
    """
    text = body if isinstance(body, str) else body.decode("utf-8")
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=members)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
