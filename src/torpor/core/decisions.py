"""What a built-in tool decides of a call: it waits, is settled at once, or acts once the turn stands."""

from collections.abc import Callable
from typing import Any

import msgspec

from torpor.core.step import Step


class Wait(msgspec.Struct, frozen=True):
    """The call stays pending as a passive wait. ``until`` 0: only news ends it."""

    until: float = 0.0
    awaits: tuple[str, ...] = ()
    """Calls, subscriptions and threads whose news ends it; empty: any news does."""
    needs: int = 0
    """Of how many of them there must be news."""


class Settle(msgspec.Struct, frozen=True):
    """The call is settled at once with these words."""

    text: str
    is_error: bool = False


class Act(msgspec.Struct, frozen=True, eq=False):
    """Something is done when the turn has been recorded, and settles the call."""

    do: Callable[[Step, str, dict[str, Any]], Settle]
    """Takes the step, the call's id and its arguments."""
    arguments: dict[str, Any]


Decision = Wait | Settle | Act


def error(text: str) -> Settle:
    """The call fails: the model reads why."""
    return Settle(f"Error: {text}", is_error=True)
