"""What commands print on: two rich consoles that take no markup from texts."""

import json
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from torpor.cli.visible import visible


def out() -> Console:
    """Standard output."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


def err() -> Console:
    """Standard error."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def line(*pieces: "str | tuple[str, str]") -> Text:
    """One line of pieces, each a text or a text with its style; all made harmless."""
    return Text.assemble(
        *(visible(piece) if isinstance(piece, str) else (visible(piece[0]), piece[1]) for piece in pieces)
    )


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """A value as JSON text of plain ASCII, which no terminal obeys."""
    return json.dumps(msgspec.to_builtins(value), indent=indent, ensure_ascii=True)


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    words = []
    for size, name in units:
        count, whole = divmod(whole, size)
        if count:
            words.append(f"{count} {name}")
    return " ".join(words[:2])
