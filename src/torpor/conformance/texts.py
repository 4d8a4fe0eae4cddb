"""What can be told from the words of a result."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

ERROR = "Error: "

_SOUNDS_WRONG = re.compile(
    r"\b(error|invalid|unknown|unsupported|missing|required|must|cannot|can't|not|no such|failed|expected)\b",
    re.IGNORECASE,
)
_INTERNALS = re.compile(
    r"Traceback \(most recent call last\)|^[ \t]*File \"[^\"]+\", line \d+|^[ \t]+at .+\(.*:\d+:\d+\)"
    r"|^[ \t]+at .+:\d+:\d+$|/site-packages/|/node_modules/|goroutine \d+ \[|panicked at ",
    re.MULTILINE,
)


def texts(result: Mapping[str, Any]) -> Iterator[str]:
    """All texts that a model would read of a result or an event."""
    if isinstance(result.get("text"), str):
        yield result["text"]
    for item in _dicts(result.get("content")):
        if isinstance(item.get("text"), str):
            yield item["text"]


def is_error(result: Mapping[str, Any]) -> bool:
    """A result that says, by form or flag, that something went wrong."""
    first = next(texts(result), "")
    return first.startswith("Error") or result.get("is_error") is True


def sounds_wrong(result: Mapping[str, Any]) -> bool:
    """A result whose words say that something went wrong, in whatever form."""
    return is_error(result) or any(_SOUNDS_WRONG.search(text[:2_000]) for text in texts(result))


def internals(text: str) -> str:
    """The first trace of a server's inside in a text; empty: none."""
    found = _INTERNALS.search(text[:200_000])
    return found[0].strip()[:100] if found else ""


def items(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content items of a result that are objects."""
    return list(_dicts(result.get("content")))


def segments(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The display segments of a result that are objects."""
    return list(_dicts(result.get("display_as")))


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    yield from (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()
