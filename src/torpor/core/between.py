"""What may stand between two turns of a history, and what becomes of it there."""

import msgspec

from torpor.core.kinship import is_bookkeeping, is_seed
from torpor.core.messages import Happened, Noted, Parked, Reported, Result, Said, Text
from torpor.core.showing import LONG

ASIDE = "[Something that came here was set aside after a failure and is not shown.]"

Told = Said | Result | Happened | Reported
"""Messages that models are shown between turns."""

News = Told | Noted
"""The same, or a note that stands for some of them."""

Settles = Result | Reported
"""What a call can be answered with: its result, or in a child that it made, the seed."""

_SET_ASIDE = Noted(0.0, Parked("", aside=True))
"""Stands for news that was set aside."""


def is_hidden(message: News) -> bool:
    """No model is shown it: an event for a child of its own, or how a temporary child ended."""
    if isinstance(message, Happened):
        return message.threaded
    return isinstance(message, Reported) and is_bookkeeping(message)


def is_short(message: Told) -> bool:
    """Nothing of it is ever folded, as can be seen at once."""
    parts = message.parts
    return len(parts) == 1 and isinstance(parts[0], Text) and len(parts[0].text) <= LONG


def set_aside(message: News) -> News:
    """A message as it stands once it was set aside: a settled call stays settled, other news is one line.

    The runtime's own words stay as they are: no model chokes on them.
    """
    if isinstance(message, Result) and message.cause:
        return message
    if isinstance(message, Result):
        return msgspec.structs.replace(message, parts=(Text(ASIDE),), handle="")
    if isinstance(message, Reported) and message.what == "born":
        return msgspec.structs.replace(message, parts=(Text(ASIDE),))
    return _SET_ASIDE


def call_of(message: News) -> str:
    """The call that a message may settle."""
    if isinstance(message, Reported):
        return message.call if is_seed(message) else ""
    return message.call if isinstance(message, Result) else ""
