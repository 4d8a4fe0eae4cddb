"""What people give, made fit to be kept: lone surrogates become U+FFFD, and what cannot be is refused."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core.compaction import tokens
from torpor.core.errors import Refused
from torpor.core.messages import File, Image, Part, Text, text_of
from torpor.core.moves import AWAY
from torpor.core.text import clean

TEXT_LIMIT = 1_000_000
"""Characters of one person's message; longer ones are refused to their sender."""
KEY_LIMIT = 200
"""Characters of an idempotency key."""
STATES = ("open", "parked", "stopped", "closed", *sorted(AWAY))
AGENT_LIMIT = 100


def words(parts: Sequence[Part]) -> tuple[Part, ...]:
    """What a person says. ``Refused`` if there is nothing in it, or too much."""
    kept = tuple(_part(part) for part in parts)
    if not kept or (all(isinstance(part, Text) for part in kept) and not text_of(kept).strip()):
        raise Refused("There is nothing in this message: give some text, an image or a file.")
    if len(text_of(kept)) > TEXT_LIMIT:
        raise Refused(f"The text has more than {TEXT_LIMIT} characters; send a part of it, or a file.")
    return kept


def check_fits(parts: Sequence[Part], window: int) -> None:
    """Raise ``Refused`` for words that alone fill more than half of a model's window of so many tokens.

    That is an estimate, at four characters a token, which most languages exceed; 0: the window is not known.
    """
    size = sum(len(part.text) for part in parts if isinstance(part, Text | File))
    if window and tokens(size) * 2 > window:
        raise Refused(
            f"The text has {size} characters, about {tokens(size)} tokens: more than half of the {window} "
            "that the agent's model takes. Send a part of it, or let a tool read it."
        )


def _part(part: object) -> Part:
    if not isinstance(part, Text | Image | File):
        raise Refused(f"Words are a text, or a list of Text, Image and File, not {type(part).__name__}.")
    fields = {name: _cleaned(name, getattr(part, name)) for name in part.__struct_fields__}
    return type(part)(**fields)


def _cleaned(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise Refused(f"The field {name} of words must be text, not {type(value).__name__}.")
    return clean(value)


def title(parts: Sequence[Part]) -> str:
    """The beginning of some words, on one line."""
    return clean(" ".join(text_of(tuple(parts)).split())[:80])


def thread_id(id: str) -> str:
    """An id that a thread may be given."""
    if not 1 <= len(id) <= 64 or not id.isascii() or not all(c.isalnum() or c in "-_" for c in id):
        raise Refused("A thread id is 1 to 64 letters, digits, '-' or '_'.")
    return id


def agent_name(name: str) -> str:
    """A name that an agent somewhere may have."""
    if not 1 <= len(name) <= AGENT_LIMIT or not name.isprintable() or name != name.strip():
        raise Refused(f"An agent's name is 1 to {AGENT_LIMIT} printable characters, not {name!a:.130}.")
    return name


def idempotency_key(key: str) -> str:
    """A key by which something counts once; empty for none. The same everywhere, also in HTTP headers."""
    if len(key) > KEY_LIMIT or not (key.isascii() and key.isprintable()):
        raise Refused(f"An idempotency key has at most {KEY_LIMIT} printable ASCII characters.")
    return key


def context_text(context: Any) -> str:
    """A thread's context as JSON text; empty for None."""
    if context is None:
        return ""
    try:
        return msgspec.json.encode(context).decode()
    except UnicodeEncodeError:
        return clean(json.dumps(msgspec.to_builtins(context), ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"The context must have a JSON form: {error}.") from None


def filters(**given: str | None) -> dict[str, Any]:
    """What rows are asked for by; None: by nothing. ``Refused`` for a state that no thread can be in."""
    state = given.get("state")
    if state is not None and state not in STATES:
        raise Refused(f"A thread's state is one of {', '.join(STATES)}, not {state!a:.130}.")
    return {name: None if text is None else clean(text) for name, text in given.items()}
