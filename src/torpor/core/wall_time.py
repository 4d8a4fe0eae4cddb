"""Wall times: a date, a time and a zone as an instant, clock changes included."""

import re
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")

SHOWN = 100
"""Characters of what the model made up, shown back to it."""


def wall_time(day: str, clock: str, zone: str) -> tuple[float, str]:
    """The instant of a wall time, and a sentence if a clock change had to be resolved.

    In a gap: the first instant after it. In an overlap: the earlier of the two.
    Raises ValueError, with words for the model, for what is no date, time or zone.
    """
    local = datetime.combine(_date(day), _time(clock))
    place = _zone(zone)
    first, second = (local.replace(tzinfo=place, fold=fold) for fold in (0, 1))
    before, after = _offset(first), _offset(second)
    if before == after:
        return first.timestamp(), ""
    if before > after:
        return first.timestamp(), f" ({local} comes twice in {zone}; this is the earlier.)"
    told = f" ({local} does not exist in {zone}; this is the first instant after the gap.)"
    return _gap_end(second.timestamp(), first.timestamp(), place), told


def _gap_end(low: float, high: float, place: ZoneInfo) -> float:
    """The instant at which the offset changes, between one before it and one after it: by bisection."""
    after = _offset(datetime.fromtimestamp(high, place))
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(datetime.fromtimestamp(middle, place)) == after:
            high = middle
        else:
            low = middle
    return high


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta(0)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:SHOWN]!r} is not a date of the form YYYY-MM-DD.") from None


def _time(text: str) -> time:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:SHOWN]!r} is not a time of the form HH:MM or HH:MM:SS.")
    hour, minute, second = map(int, match.groups("0"))
    return time(hour, minute, second)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(
            f"{name[:SHOWN]!r} is not a time zone; give an IANA name such as Europe/Berlin."
        ) from None
