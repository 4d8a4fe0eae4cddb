"""Histories of threads that continue others, or that were summed up, made of random lives."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from torpor.core.messages import Born, Link, Message, Noted, Reported, Summary, Text, Turn
from torpor.core.projection import Projection
from torpor.core.request import AnyItem, Request

ID = re.compile(r"t\d+-\d+")

Items = tuple[AnyItem, ...]


def renamed(messages: Iterable[Message], prefix: str) -> list[Message]:
    """The same messages with other ids of calls, so that two lives do not share any."""
    return [msgspec.convert(_renamed(msgspec.to_builtins(one), prefix), Message) for one in messages]


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, str):
        return ID.sub(lambda found: prefix + found[0], value)
    if isinstance(value, list | tuple):
        return [_renamed(one, prefix) for one in value]
    if isinstance(value, dict):
        return {_renamed(key, prefix): _renamed(one, prefix) for key, one in value.items()}
    return value


def inserted(messages: Sequence[Message], at: int, message: Message) -> list[Message]:
    """The same history with one more message at a position; what turns have answered moves along."""
    moved = [_moved(one, at) for one in messages]
    return [*moved[: at - 1], message, *moved[at - 1 :]]


def _moved(message: Message, at: int) -> Message:
    if isinstance(message, Turn) and message.upto >= at:
        return msgspec.structs.replace(message, upto=message.upto + 1)
    return message


def child_of(
    messages: Sequence[Message], lineage: Sequence[Link], call: str = "", purpose: str = "child"
) -> list[Message]:
    """A life as that of a child, with its birth and its seed."""
    parent = lineage[-1].thread if lineage else "parent"
    born = Born("tester", purpose=purpose, parent=parent, ancestors=("root", parent), call=call)
    born = msgspec.structs.replace(born, lineage=tuple(lineage))
    word = Reported(900.0, parent, "born", call, "spawn_thread", parts=(Text("Do."),), purpose=purpose)
    return [Noted(900.0, born), *inserted(messages, 2, word)[1:]]


def played(messages: Sequence[Message], projection: Projection) -> tuple[list[Items], Projection]:
    """What each turn of a history was asked, and the projection of all of it."""
    asked: list[Items] = []
    answered = 0
    for message in messages:
        if isinstance(message, Turn) and message.upto > answered:
            answered = message.upto
            shown = projection.fork()
            shown._show(answered)
            asked.append(tuple(shown.items))
        projection.add(message)
    return asked, projection


def begun(thread: str, history: Sequence[Message], summary: Summary, *, marked: bool = False) -> Projection:
    """A projection that was loaded from what a summary leaves."""
    projection = Projection(thread)
    projection.resume(summary, marked=marked)
    for message in history[summary.upto :]:
        projection.add(message)
    return projection


def request(items: Sequence[AnyItem]) -> Request:
    """Items as a request."""
    return Request("tester", "any", "Be brief.", (), tuple(items), {"max_tokens": 9000})


def seen(projection: Projection) -> tuple[Any, ...]:
    """All that a projection shows and tells, once everything is shown."""
    shown = projection.fork()
    shown.show()
    return tuple(shown.items), shown.digest, shown.size, shown.cuts, shown.position
