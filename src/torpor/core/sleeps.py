"""Passive waits: the three sleeps, which any news ends, and the wait for certain news."""

from collections.abc import Collection
from typing import Any

import msgspec

from torpor.core.decisions import Decision, Settle, Wait, error
from torpor.core.head import WAIT_FOR
from torpor.core.request import Tool, instant
from torpor.core.signals import Due
from torpor.core.step import Step
from torpor.core.thread import OpenCall
from torpor.core.wall_time import SHOWN, wall_time

LONGEST = 10 * 366 * 86_400.0
"""Seconds: ten years."""

IDS = 50
"""Things that one call can wait for."""

_TOO_LONG = f"a sleep may last at most {LONGEST:.0f} seconds (ten years)."


def arm(step: Step, call: str, wait: Wait) -> None:
    """Write the timer of a passive wait."""
    if wait.until:
        step.timers.append(Due(step.thread, f"{call}/sleep", step.now, due=wait.until, call=call))


def sleep(now: float, arguments: dict[str, Any]) -> Decision:
    """So many seconds."""
    seconds = arguments["seconds"]
    if seconds <= 0:
        return Settle("Slept 0 seconds.")
    return error(_TOO_LONG) if seconds > LONGEST else Wait(now + seconds)


def sleep_until(now: float, arguments: dict[str, Any]) -> Decision:
    """Until a wall time."""
    day, clock, zone = arguments["date"], arguments["time"], arguments.get("timezone", "UTC")
    try:
        moment, rule = wall_time(day, clock, zone)
    except ValueError as wrong:
        return error(str(wrong))
    if moment <= now:
        return Settle(f"{day} {clock} in {zone} has already passed, so there was no sleep.{rule}")
    return error("a sleep may last at most ten years.") if moment - now > LONGEST else Wait(moment)


def wait_for(step: Step, arguments: dict[str, Any], spoken_to: Collection[str] = ()) -> Decision:
    """Until there is news of some calls, subscriptions or children.

    ``spoken_to``: children that the same turn has sent a message before.
    """
    ids = tuple(dict.fromkeys(arguments["ids"]))
    seconds = arguments.get("seconds", 0)
    wrong = [f"{id[:SHOWN]!r} {why}" for id in ids if (why := _silent(step, id, spoken_to))]
    if wrong:
        return error(f"this would wait for ever: {'; '.join(wrong)}.{_known(step)}")
    if seconds > LONGEST:
        return error(_TOO_LONG)
    until = step.now + seconds if seconds > 0 else 0.0
    return Wait(until, ids, len(ids) if arguments.get("mode") == "all" else 1)


def _silent(step: Step, id: str, spoken_to: Collection[str]) -> str:
    """Why no news of something can come; empty if it can."""
    head = step.head
    child, call = head.children.get(id), head.detached.get(id)
    if id in head.subscriptions or (call is not None and not call.given_up):
        return ""
    if child is None:
        return "is no running call, subscription or child thread of this thread"
    if child.state == "open" or id in spoken_to:
        return ""
    return f"is {_STATES[child.state]}: send it a message first"


_STATES = {
    "ended": "a child that has ended its work",
    "parked": "a child that was set aside",
    "stopped": "a child that was stopped",
}


def _known(step: Step) -> str:
    head = step.head
    running = [id for id, call in head.detached.items() if not call.given_up]
    open_ = [id for id, child in head.children.items() if child.state == "open"]
    ids = [*running, *head.subscriptions, *open_]
    return f" News can come of: {', '.join(ids[:IDS]) or 'nothing'}."


def slept(call: OpenCall, due: float) -> str:
    """What the model reads when a wait ran its full time, until ``due``."""
    if call.name == WAIT_FOR:
        return f"The time for this wait has passed, at {instant(due)}, without the news.{_missing(call)}"
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
    """What the model reads when news ended a wait."""
    seconds = f"{max(0.0, now - call.at):.0f} seconds"
    if call.is_over:
        return f"What was waited for is there, or over, after {seconds}.{_missing(call)}"
    return f"Woken after {seconds} by {by}.{_missing(call)}"


def _missing(call: OpenCall) -> str:
    return f" Nothing has come yet of: {', '.join(call.awaits)}." if call.awaits else ""


NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}

_SECONDS: dict[str, Any] = {
    **NOTHING,
    "properties": {
        "seconds": {"type": "number", "description": "How long; fractions are allowed."},
        "reason": {"type": "string", "description": "Why, for people who watch."},
    },
    "required": ["seconds"],
}

_WALL_TIME: dict[str, Any] = {
    **NOTHING,
    "properties": {
        "date": {"type": "string", "description": "YYYY-MM-DD"},
        "time": {"type": "string", "description": "HH:MM or HH:MM:SS"},
        "timezone": {"type": "string", "description": "IANA name; UTC if left out."},
    },
    "required": ["date", "time"],
}

_AWAITED: dict[str, Any] = {
    **NOTHING,
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": IDS,
            "description": "Ids of calls that still run, of subscriptions (the call that opened each) and of "
            "child threads.",
        },
        "mode": {
            "type": "string",
            "enum": ["any", "all"],
            "description": "Until there is news of any of them (if left out), or of all.",
        },
        "seconds": {"type": "number", "description": "How long at most; without end if left out."},
    },
    "required": ["ids"],
}

SLEEPS: tuple[Tool, ...] = (
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
        NOTHING,
    ),
)

WAITS: tuple[Tool, ...] = (
    Tool(
        WAIT_FOR,
        "Wait for news of certain calls, subscriptions or child threads. Other news waits for the end of it; "
        "a person's message ends it. Waiting costs nothing.",
        _AWAITED,
    ),
)
