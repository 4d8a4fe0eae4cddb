"""Histories and requests as short lines, in which calls go by the names that a case gave them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from torpor.core.messages import (
    Born,
    Call,
    Equipped,
    Happened,
    Message,
    Noted,
    Reasoning,
    Reported,
    Result,
    Said,
    Sent,
    Summary,
    Text,
    Turn,
    text_of,
)
from torpor.core.request import AnyItem, InjectedItem, InputItem, ResultsItem, TurnItem, item_text

Labels = Mapping[str, str]
"""Names of calls, by id."""
QUIET = Born | Equipped | Sent
"""Facts that are in every history, and left out of these."""


def labels_of(calls: Iterable[Call]) -> dict[str, str]:
    """The name of each call: its provider's id, with a number from the second of a name on."""
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    for call in calls:
        name = call.provider_id or call.name
        seen[name] = seen.get(name, 0) + 1
        found[call.id] = name if seen[name] == 1 else f"{name}#{seen[name]}"
    return found


def lines(messages: Sequence[Message], labels: Labels) -> Iterator[str]:
    """One for each message, without what is in every history."""
    for message in messages:
        if not (isinstance(message, Noted) and isinstance(message.note, QUIET)):
            yield _line(message, labels)


def _line(message: Message, labels: Labels) -> str:
    match message:
        case Said():
            mode = "" if message.mode == "steer" else f" [{message.mode}]"
            return f"said {text_of(message.parts)}{mode}"
        case Turn():
            return turn_line(message.parts, labels) + (" (cut)" if message.cut else "")
        case Result():
            kind = "error" if message.is_error else "result"
            cause = f" [{message.cause}]" if message.cause else ""
            return f"{kind} {labels.get(message.call, '?')} {text_of(message.parts)}{cause}"
        case Happened():
            return f"event {labels.get(message.call, '?')} {text_of(message.parts)}"
        case Reported():
            return f"reported {message.what} {text_of(message.parts)}".rstrip()
        case Summary():
            return f"summary {message.text}"
        case _:
            return _noted(message, labels)


def _noted(message: Noted, labels: Labels) -> str:
    note = message.note
    words = [str(getattr(note, name)) for name in ("reason", "why", "outcome", "what") if hasattr(note, name)]
    if hasattr(note, "call") and note.call:
        words.insert(0, labels.get(note.call, "?"))
    if hasattr(note, "parts"):
        words.append(text_of(note.parts))
    return " ".join(["noted", type(note).__name__, *filter(None, words)])


def turn_line(parts: Sequence[Text | Reasoning | Call], labels: Labels) -> str:
    calls = [labels.get(part.id, "?") for part in parts if isinstance(part, Call)]
    text = text_of(tuple(parts))
    words = [text] if text else []
    return "turn " + " + ".join([*words, *([f"calls {' '.join(calls)}"] if calls else [])] or ["(empty)"])


def item_lines(items: Sequence[AnyItem], labels: Labels) -> Iterator[str]:
    """What a model is shown, one line for each item."""
    for item in items:
        match item:
            case InputItem():
                yield f"said {item.text}"
            case TurnItem():
                yield turn_line(item.parts, labels)
            case ResultsItem():
                told = [f"{labels.get(one.call, '?')}={one.text}" for one in item.results]
                yield f"results {' '.join(told)}"
            case InjectedItem():
                notes = f" ({'; '.join(item.notes)})" if item.notes else ""
                yield f"news {labels.get(item.call, item.name)} {item.text}{notes}"
            case _:
                yield f"notice {item_text(item)}"


def like(pattern: str, line: str) -> bool:
    """Whether a line is as a pattern says, in which ``*`` stands for anything."""
    parts = [re.escape(part) for part in pattern.split("*")]
    return re.fullmatch(".*".join(parts), line, re.DOTALL) is not None


def in_order(patterns: Sequence[str], given: Sequence[str]) -> str:
    """The first pattern that no later line fits; empty if all are there, in their order."""
    rest = iter(given)
    for pattern in patterns:
        if not any(like(pattern, line) for line in rest):
            return pattern
    return ""
