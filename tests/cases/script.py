"""What a case's model says, as the scripted model is told."""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from tests.runtime.cast import here, shown, tells
from torpor.core.errors import ModelRefused, TorporError, Unavailable
from torpor.core.request import Request
from torpor.models import call, say
from torpor.models.failures import error_of, facts_of
from torpor.models.scripted import Reply, Stall, Words, fail, reason, stop, tries, used

_STACK = re.compile(r"from the root to here: ([^.]*)\.")

Acts = Callable[[list[Any]], Awaitable[None]]
"""Carries out steps."""
Named = Callable[[str], str]
"""The id of a call by its name."""


class Deed:
    """Steps that happen while a model speaks; the stream goes on when they are done."""

    def __init__(self, act: Acts, steps: list[Any]) -> None:
        self._act = act
        self._steps = steps

    async def wait(self) -> None:
        await self._act(self._steps)


def reply(told: Any, act: Acts, named: Named) -> Reply:
    """One completion: a list of pieces, or ``{tries: [...]}`` with one reply for each try."""
    if isinstance(told, dict) and "tries" in told:
        return tries(*(reply(one, act, named) for one in told["tries"]))
    pieces = told if isinstance(told, list) else [told]
    return lambda request: [piece(one, act, named, request) for one in pieces]


def piece(told: Any, act: Acts, named: Named, request: Request) -> Words:
    """A part of a reply: text, a call, a failure, steps that happen meanwhile, …"""
    if isinstance(told, str):
        kind, _, rest = told.partition(": ")
        if told == "stall":
            return Stall()
        told = {kind: rest}
    [(kind, value)] = told.items()
    if kind == "do":
        return Stall(Deed(act, value))
    if kind in _OF_CALLS:
        return _OF_CALLS[kind](value, named)
    if kind in _OF_THREADS:
        return _OF_THREADS[kind](value, request)
    assert kind in _PIECES, f"no piece of a reply: {told!r}"
    return _PIECES[kind](value)


def _call(told: Any) -> Words:
    """``ID NAME WHAT``, or fields: ``id``, ``name``, and ``args`` or, as they come, ``raw``."""
    if isinstance(told, str):
        id, name, *rest = told.split(" ", 2)
        if rest and rest[0].startswith("{"):
            return call(name, _id=id, _raw=rest[0])
        return call(name, _id=id, **({"what": rest[0]} if rest else {}))
    raw = told["raw"] if "raw" in told else json.dumps(told.get("args", {}), ensure_ascii=False)
    return call(told["name"], _id=told.get("id", ""), _raw=raw)


def _spawns(told: str, stack: list[str]) -> Words:
    """``ID PART``: a child that plays a part of the cast."""
    id, part = told.split(" ")
    return call("spawn_thread", _id=id, instructions=f"as {part}: work", child_of=stack)


def _ancestors(request: Request) -> list[str]:
    told = _STACK.findall(shown(request))
    return told[-1].split(", ")[1:] if told else []


def _reporting(value: str) -> dict[str, str]:
    return {"report_to_parent": value} if value else {}


def _error(told: Any) -> TorporError:
    """What a provider answered (``status``, ``headers``, ``body``) as our adapters tell it; or as named."""
    if isinstance(told, dict) and "status" in told:
        headers = {str(name): str(value) for name, value in told.get("headers", {}).items()}
        return error_of(facts_of("provider", status=told["status"], body=told.get("body"), headers=headers))
    facts: dict[str, Any] = {"text": told} if isinstance(told, str) else dict(told)
    text = facts.pop("text", "the provider failed")
    if "kind" in facts:
        return ModelRefused(text, kind=facts["kind"])
    return Unavailable(text, retry_after=facts.get("retry_after"), tries=facts.get("tries"))


def names_in(told: Any) -> set[str]:
    """Tools that are called somewhere in a reply."""
    if isinstance(told, list):
        return set().union(*map(names_in, told))
    if isinstance(told, str):
        return {told.split(" ")[2]} if told.startswith("call: ") else set()
    if not isinstance(told, dict):
        return set()
    found: set[str] = set()
    for kind, value in told.items():
        if kind in ("call", "calls"):
            many = value if isinstance(value, list) else [value]
            found |= {one.split(" ")[1] if isinstance(one, str) else one["name"] for one in many}
        elif kind == "long_call":
            found.add(value["name"])
        elif kind == "tries":
            found |= names_in(value)
    return found


def _waits_for(told: dict[str, Any], named: Named) -> Words:
    ids = [named(name) for name in told["of"]]
    return call("wait_for", _id=told["id"], ids=ids, **{k: told[k] for k in ("seconds", "mode") if k in told})


_OF_CALLS: dict[str, Callable[[Any, Named], Words]] = {
    "wait_for": _waits_for,
    "unsubscribe": lambda told, named: call(
        "cancel_subscription", _id=told["id"], tool_call_id=named(told["of"])
    ),
}
_PIECES: dict[str, Callable[[Any], Words]] = {
    "text": say,
    "call": _call,
    "long_call": lambda value: call(value["name"], _id=value["id"], text="x" * (value["chars"] - 12)),
    "calls": lambda value: [_call(one) for one in value],
    "report": lambda value: call("report_to_parent", report=value),
    "think": reason,
    "stop": stop,
    "used": lambda value: used(**value),
    "fail": lambda value: fail(_error(value)),
}
_OF_THREADS: dict[str, Callable[[Any, Request], Words]] = {
    "spawn": lambda value, request: _spawns(value, ["root", *_ancestors(request)]),
    "close": lambda value, request: call("close_thread", thread_id=here(request), **_reporting(value)),
    "tell": lambda value, request: tells(value)(request),
    "recount": lambda value, request: say(" and ".join(r.text for r in request.results) or request.text),
}
