"""What a model was shown, and what must hold of it."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from torpor.core.chunks import AnyChunk
from torpor.core.messages import Born, Call, Happened, Message, Noted, Result, Said, Turn, text_of
from torpor.core.request import AnyItem, Attempt, Request, ResultsItem, TurnItem
from torpor.models import Anthropic, OpenAI
from torpor.ports import Clock, Model
from torpor.testing.pairing import check_anthropic, check_openai

OPENAI = OpenAI("m", base_url="http://127.0.0.1:1")
ANTHROPIC = Anthropic("claude-sonnet-5")


@dataclass
class Asked:
    """One request, by which try of which completion it was."""

    at: float
    attempt: Attempt
    request: Request


class Watched:
    """A model that notes what it is shown, across processes."""

    def __init__(self, model: Model, asked: list[Asked], clock: Clock) -> None:
        self.name = model.name
        self._model = model
        self._asked = asked
        self._clock = clock

    def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        self._asked.append(Asked(self._clock.now(), attempt, request))
        return self._model.stream(request, attempt)


def check_requests(asked: Sequence[Asked], *, wires: bool = False) -> None:
    """Each is valid, and what was answered only grew at its end, by whole items."""
    for one in asked:
        check_items(one.request.items)
    answered = list({one.attempt.ordinal: one.request for one in asked}.values())
    for shorter, longer in pairwise(answered):
        assert longer.items[: len(shorter.items)] == shorter.items
    if wires:
        check_wires(answered)


def check_items(items: Sequence[AnyItem]) -> None:
    """Each call is answered once, at once, in call order; the model is shown something new at the end."""
    owed: list[str] = []
    seen: set[str] = set()
    for item in items:
        if isinstance(item, ResultsItem):
            assert [result.call for result in item.results] == owed
            owed = []
            continue
        assert owed == []
        if isinstance(item, TurnItem):
            owed = [call.id for call in item.calls]
            assert not seen.intersection(owed)
            seen.update(owed)
    assert owed == []
    assert not isinstance(items[-1], TurnItem)


def check_wires(requests: Sequence[Request]) -> None:
    """The same by the providers' own rules, and byte for byte."""
    sent = []
    for request in requests:
        bytes_ = OPENAI.wire_bytes(request)
        check_openai(json.loads(bytes_)["messages"], asking=True)
        check_anthropic(json.loads(ANTHROPIC.wire_bytes(request))["messages"], asking=True)
        sent.append(bytes_)
    for shorter, longer in pairwise(sent):
        assert longer.startswith(shorter.removesuffix(b"]}"))


def story(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """A history without ids and times: what happened, in order."""
    names: dict[str, str] = {}
    told: list[tuple[Any, ...]] = []
    for message in messages:
        match message:
            case Said():
                told.append(("said", text_of(message.parts), message.mode))
            case Turn():
                told.append(_turn(message, names))
            case Result():
                text = re.sub(r"\d+ seconds", "N seconds", text_of(message.parts))
                told.append(("result", names.get(message.call), text, message.cause))
            case Happened():
                told.append(("happened", names.get(message.call), text_of(message.parts), message.final))
            case Noted(note=Born()):
                continue
            case Noted(note=note):
                told.append(("noted", type(note).__name__))
    return told


def _turn(turn: Turn, names: dict[str, str]) -> tuple[Any, ...]:
    calls = [part for part in turn.parts if isinstance(part, Call)]
    for call in calls:
        names[call.id] = f"call {len(names)}"
    made = [(names[call.id], call.name, call.arguments) for call in calls]
    return ("turn", turn.ordinal, text_of(turn.parts), made, turn.end, turn.cut)


def without_order(told: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A story in which results between two turns stand in call order, whenever they came."""
    arranged: list[tuple[Any, ...]] = []
    for is_turn, run in groupby(told, lambda one: one[0] == "turn"):
        entries = [one for one in run if one != ("noted", "Sent")]
        arranged += entries if is_turn else sorted(entries)
    return arranged
