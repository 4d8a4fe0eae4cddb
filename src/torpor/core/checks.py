"""When a tool server is asked whether it still works on a call: after an hour, then ever more rarely."""

FIRST = 3_600.0
MOST = 86_400.0
"""Seconds between two questions: from the first to the most."""
DOUBLINGS = 5

MARGIN = 60.0
"""Seconds that a call sent out late is left in peace at least."""


def next_check(at: float, now: float) -> tuple[int, float]:
    """Number and instant of the next question about what was opened at ``at``."""
    age = max(0.0, now - at) + MARGIN
    for number in range(1, DOUBLINGS + 1):
        if age < FIRST * (2**number - 1):
            return number, at + FIRST * (2**number - 1)
    doubled = FIRST * (2**DOUBLINGS - 1)
    days = (age - doubled) // MOST + 1
    return DOUBLINGS + int(days), at + doubled + days * MOST


def check_id(call: str, number: int, *, held: bool) -> str:
    """The id of the timer of a question about a call, or about the subscription (``held``) that it opened."""
    return f"{call}/{'held' if held else 'status'}/{number}"


def open_checks(call: str, at: float, now: float, *, held: bool) -> list[str]:
    """Ids of the timers that may be there: of one that is due just now, and of the next question."""
    last, _ = next_check(at, now)
    first, _ = next_check(at, now - MARGIN)
    return [check_id(call, number, held=held) for number in range(first - 1, last + 1)]
