"""The tools that every agent has, as pure decisions: the three sleeps and ``cancel_subscription``."""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from torpor.core.effects import Cancel
from torpor.core.messages import Noted, Unsubscribed
from torpor.core.request import Tool, instant
from torpor.core.signals import Due
from torpor.core.step import Step
from torpor.core.thread import OpenCall

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")

LONGEST_SLEEP = 10 * 366 * 86_400.0
"""Seconds: ten years."""

ID_SHOWN = 100
"""Characters of an id that the model made up, shown back to it."""


class Wait(msgspec.Struct, frozen=True):
    """The call stays pending as a passive wait. ``until`` 0: only news ends it."""

    until: float = 0.0


class Told(msgspec.Struct, frozen=True):
    """The call is settled at once with these words."""

    text: str
    is_error: bool = False


class Unsubscribe(msgspec.Struct, frozen=True):
    """The call ends the subscription that another call opened."""

    call: str


Decision = Wait | Told | Unsubscribe


def decide(now: float, name: str, arguments: dict[str, Any]) -> Decision:
    """Decide a call of a built-in tool. Its arguments conform to its schema."""
    return _DECISIONS[name](now, arguments)


def arm(step: Step, call: str, wait: Wait) -> None:
    """Write the timer of a passive wait."""
    if wait.until:
        step.timers.append(Due(step.thread, f"{call}/sleep", step.now, due=wait.until, call=call))


def unsubscribe(step: Step, id: str) -> Told:
    """End a subscription, and say what the model reads about that."""
    subscription = step.head.subscriptions.get(id)
    if subscription is None:
        known = ", ".join(step.head.subscriptions) or "none"
        shown = repr(id[:ID_SHOWN])
        return Told(f"Error: {shown} is not an active subscription of this thread. Active: {known}.", True)
    step.add(Noted(step.now, Unsubscribed(id, "cancelled"), step.trace))
    step.effects.append(Cancel(f"{id}/cancel/subscription", id, subscription.server))
    step.unsubscribed(id, subscription, "cancelled")
    return Told(f"The subscription {id} of {subscription.name} is cancelled.")


def _sleep(now: float, arguments: dict[str, Any]) -> Decision:
    seconds = arguments["seconds"]
    if seconds <= 0:
        return Told("Slept 0 seconds.")
    if seconds > LONGEST_SLEEP:
        return Told(
            f"Error: a sleep may last at most {LONGEST_SLEEP:.0f} seconds (ten years).", is_error=True
        )
    return Wait(now + seconds)


def _sleep_until(now: float, arguments: dict[str, Any]) -> Decision:
    day, clock, zone = arguments["date"], arguments["time"], arguments.get("timezone", "UTC")
    try:
        moment, rule = wall_time(day, clock, zone)
    except ValueError as error:
        return Told(f"Error: {error}", is_error=True)
    if moment <= now:
        return Told(f"{day} {clock} in {zone} has already passed, so there was no sleep.{rule}")
    if moment - now > LONGEST_SLEEP:
        return Told("Error: a sleep may last at most ten years.", is_error=True)
    return Wait(moment)


def _sleep_until_news(now: float, arguments: dict[str, Any]) -> Decision:
    return Wait()


def _cancel_subscription(now: float, arguments: dict[str, Any]) -> Decision:
    return Unsubscribe(arguments["tool_call_id"])


_DECISIONS: dict[str, Callable[[float, dict[str, Any]], Decision]] = {
    "sleep": _sleep,
    "sleep_until": _sleep_until,
    "sleep_until_event_or_input": _sleep_until_news,
    "cancel_subscription": _cancel_subscription,
}


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
        raise ValueError(f"{text[:ID_SHOWN]!r} is not a date of the form YYYY-MM-DD.") from None


def _time(text: str) -> time:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:ID_SHOWN]!r} is not a time of the form HH:MM or HH:MM:SS.")
    hour, minute, second = map(int, match.groups("0"))
    return time(hour, minute, second)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(
            f"{name[:ID_SHOWN]!r} is not a time zone; give an IANA name such as Europe/Berlin."
        ) from None


def slept(call: OpenCall, due: float) -> str:
    """What the model reads when a sleep ran its full time, until ``due``."""
    match msgspec.json.decode(call.arguments):
        case {"seconds": seconds}:
            return f"Slept {seconds} seconds."
        case {"date": day, "time": clock, **rest}:
            zone = str(rest.get("timezone", "UTC"))
            _, rule = wall_time(day, clock, zone)
            return f"It is {day} {clock} in {zone}.{rule}"
        case _:
            return f"Slept until {instant(due)}."


def woken(call: OpenCall, now: float, by: str) -> str:
    """What the model reads when news ended a sleep."""
    return f"Woken after {max(0.0, now - call.at):.0f} seconds by {by}."


_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}

_SECONDS: dict[str, Any] = {
    **_NOTHING,
    "properties": {
        "seconds": {"type": "number", "description": "How long; fractions are allowed."},
        "reason": {"type": "string", "description": "Why, for people who watch."},
    },
    "required": ["seconds"],
}

_WALL_TIME: dict[str, Any] = {
    **_NOTHING,
    "properties": {
        "date": {"type": "string", "description": "YYYY-MM-DD"},
        "time": {"type": "string", "description": "HH:MM or HH:MM:SS"},
        "timezone": {"type": "string", "description": "IANA name; UTC if left out."},
    },
    "required": ["date", "time"],
}

_SUBSCRIPTION: dict[str, Any] = {
    **_NOTHING,
    "properties": {
        "tool_call_id": {"type": "string", "description": "The call that opened the subscription."}
    },
    "required": ["tool_call_id"],
}

BUILTINS: tuple[Tool, ...] = (
    Tool(
        "sleep",
        "Sleep for a number of seconds. News (a message, an event, a result) ends the sleep early. "
        "Sleeping costs nothing.",
        _SECONDS,
    ),
    Tool(
        "sleep_until",
        "Sleep until a wall time. News ends the sleep early. A time that has passed returns at once.",
        _WALL_TIME,
    ),
    Tool(
        "sleep_until_event_or_input",
        "Sleep until there is news: an event, a late result or a message.",
        _NOTHING,
    ),
    Tool(
        "cancel_subscription",
        "End a subscription of this thread, so that its tool sends no more events.",
        _SUBSCRIPTION,
    ),
)
