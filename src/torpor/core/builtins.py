"""The tools that every agent has, as pure decisions. What they are like, and who decides their calls."""

from collections.abc import Callable, Collection
from typing import Any

from torpor.core import family_tools, sleeps
from torpor.core.calls import note
from torpor.core.decisions import Act, Decision, Settle, Wait, error
from torpor.core.definition import Limits
from torpor.core.effects import Cancel
from torpor.core.head import WAIT_FOR
from torpor.core.messages import Titled, Unsubscribed
from torpor.core.request import Tool
from torpor.core.step import Step
from torpor.core.wall_time import SHOWN

TITLE = 200
"""Characters of a title."""


def decide(step: Step, name: str, arguments: dict[str, Any], spoken_to: Collection[str] = ()) -> Decision:
    """Decide a call of a built-in tool. Its arguments conform to its schema.

    ``spoken_to``: children that the same turn has sent a message before.
    """
    match name:
        case "sleep":
            return sleeps.sleep(step.now, arguments)
        case "sleep_until":
            return sleeps.sleep_until(step.now, arguments)
        case "sleep_until_event_or_input":
            return Wait()
        case _ if name == WAIT_FOR:
            return sleeps.wait_for(step, arguments, spoken_to)
        case _:
            return Act(_ACTS[name], arguments)


def _cancel_subscription(step: Step, _: str, arguments: dict[str, Any]) -> Settle:
    """End a subscription, and say what the model reads about that."""
    id = arguments["tool_call_id"]
    subscription = step.head.subscriptions.get(id)
    if subscription is None:
        known = ", ".join(step.head.subscriptions) or "none"
        return error(f"{id[:SHOWN]!r} is not an active subscription of this thread. Active: {known}.")
    step.unsubscribed(id, subscription, "cancelled")
    note(step, Unsubscribed(id, "cancelled"))
    step.effects.append(Cancel(f"{id}/cancel/subscription", id, subscription.server))
    return Settle(f"The subscription {id} of {subscription.name} is cancelled.")


def _set_title(step: Step, _: str, arguments: dict[str, Any]) -> Settle:
    title = " ".join(arguments["title"].split())[:TITLE]
    if not title:
        return error("the title is empty.")
    note(step, Titled(title))
    return Settle(f"The title of this thread is {title!r} now.")


_ACTS: dict[str, Callable[[Step, str, dict[str, Any]], Settle]] = {
    "cancel_subscription": _cancel_subscription,
    "set_title": _set_title,
    **family_tools.ACTS,
}

_SUBSCRIPTION: dict[str, Any] = {
    **sleeps.NOTHING,
    "properties": {
        "tool_call_id": {"type": "string", "description": "The call that opened the subscription."}
    },
    "required": ["tool_call_id"],
}

_TITLE: dict[str, Any] = {
    **sleeps.NOTHING,
    "properties": {"title": {"type": "string", "description": "One short line."}},
    "required": ["title"],
}

BUILTINS: tuple[Tool, ...] = (
    *sleeps.SLEEPS,
    Tool(
        "cancel_subscription",
        "End a subscription of this thread, so that its tool sends no more events.",
        _SUBSCRIPTION,
    ),
    *sleeps.WAITS,
    *family_tools.TOOLS,
    Tool("set_title", "Give this thread a title, by which people find it.", _TITLE),
)


def offered(limits: Limits) -> tuple[Tool, ...]:
    """The built-in tools of an agent with these limits: nobody is offered children that it cannot have."""
    if limits.depth and limits.children:
        return BUILTINS
    return tuple(tool for tool in BUILTINS if tool.name not in family_tools.FOR_PARENTS)
