"""What follows a failure: when to try again, or that trying is over. The only retry policy there is."""

import math

import msgspec

from torpor.core.errors import Broken, Refused, TorporError, Unavailable

FIRST = 1.0
LONGEST = 300.0
GROWTH = 2.0


class Again(msgspec.Struct, frozen=True):
    """Try again at an instant."""

    at: float
    attempt: int


class Park(msgspec.Struct, frozen=True):
    """Set the thread aside. ``aside``: so are the inputs that may be what the model choked on."""

    reason: str
    kind: str
    aside: bool = False


BLAMELESS = frozenset({"quota", "auth", "setup"})
"""Kinds of refusal that no input caused."""


def after_failure(error: TorporError, attempt: int, now: float, tries: int, jitter: float) -> Again | Park:
    """Judge a failed try of a completion.

    ``attempt`` counts the tries that failed before this one; ``jitter`` is uniform in [0, 1).
    """
    if isinstance(error, Refused):
        kind = getattr(error, "kind", "request")
        return Park(str(error), kind, aside=kind not in BLAMELESS)
    if not isinstance(error, Unavailable):
        return Park(str(error), "broken", aside=isinstance(error, Broken))
    failed = attempt + 1
    if failed >= (error.tries or tries):
        return Park(f"Gave up after {failed} tries: {error}", "tries")
    return Again(now + max(backoff(attempt, jitter), error.retry_after or 0.0), failed)


def told_wait(told: str, now: float) -> float | None:
    """Seconds to wait as a ``Retry-After`` header tells, as a number or a date; None if it tells neither."""
    from email.utils import parsedate_to_datetime  # slow to load, and rarely needed

    try:
        seconds = float(told)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(told).timestamp() - now
        except (TypeError, ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def backoff(attempt: int, jitter: float, first: float = FIRST, longest: float = LONGEST) -> float:
    """Seconds to wait after ``attempt`` earlier failures: doubling, bounded, between half and all of it."""
    return float(min(longest, first * GROWTH ** min(attempt, 30)) * (0.5 + jitter / 2))
