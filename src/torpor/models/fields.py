"""Fields of decoded JSON that somebody else made: what is missing or of another kind is nothing."""

from typing import Any

MOST = 2**53


def field(holder: object, name: str) -> Any:
    """A field of an object, or None."""
    return holder.get(name) if isinstance(holder, dict) else None


def words(holder: object, name: str) -> str:
    """A field that should be text; empty if it is none."""
    value = field(holder, name)
    return value if isinstance(value, str) else ""


def number(holder: object, name: str) -> int | None:
    """A field that should be a whole number, as JSON's readers agree on: from 0 and below ``MOST``."""
    value = field(holder, name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else None


def each(holder: object, name: str) -> list[Any]:
    """A field that should be a list; empty if it is none."""
    value = field(holder, name)
    return value if isinstance(value, list) else []
