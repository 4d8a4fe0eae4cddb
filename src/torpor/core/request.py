"""What a model is asked: a provider-neutral request, made of items that never change once shown.

Each item becomes one or more whole provider messages, always the same ones, so that a longer history is
the shorter one plus something at its end. Adapters translate item by item and decide nothing else.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from torpor.core.messages import Call, Part, Reasoning, Text, text_of

INJECTED = "receive_event__injected"
"""The reserved call under which events, reports and late results are shown; never offered as a tool."""

PROJECTION = 1
"""Version of the rules by which histories become items; part of each request's hash."""


class Item(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Settings shared by all items."""


class InputItem(Item, frozen=True, tag="input"):
    """What a person said, with the instant it came."""

    at: float
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The words alone."""
        return text_of(self.parts)

    @property
    def stamp(self) -> str:
        """The line that tells the model when this came."""
        return f"[{instant(self.at)}]"


class TurnItem(Item, frozen=True, tag="turn"):
    """What the model itself produced: text, reasoning and calls in its own order."""

    parts: tuple[Text | Reasoning | Call, ...]

    @property
    def text(self) -> str:
        """The words alone."""
        return text_of(self.parts)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls alone."""
        return tuple(part for part in self.parts if isinstance(part, Call))


class ResultView(Item, frozen=True):
    """One call's result as the model sees it; ``parts`` is never empty."""

    call: str
    name: str
    parts: tuple[Part, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The words alone."""
        return text_of(self.parts)


class ResultsItem(Item, frozen=True, tag="results"):
    """The results of all calls of the turn just before, in call order."""

    results: tuple[ResultView, ...]

    @property
    def text(self) -> str:
        """The words of all, one after the other."""
        return "\n".join(result.text for result in self.results)


class InjectedItem(Item, frozen=True, tag="injected"):
    """News of an earlier call: an event of its subscription, its late result, or a thread that it made.

    Rendered as a call of ``receive_event__injected`` with its result or, where a provider would refuse a call
    it did not make, as marked text. ``id`` is the rendered call's id.
    """

    id: str
    name: str
    call: str
    arguments: str
    parts: tuple[Part, ...]
    at: float = 0.0
    source: str = "event"
    """``event``, ``result``, or what another thread says (``Reported.what``)."""
    notes: tuple[str, ...] = ()
    """Facts the runtime adds: a gap in the numbering, when it happened, that it was the last."""

    @property
    def text(self) -> str:
        """The words alone."""
        return text_of(self.parts)

    @property
    def wrapped(self) -> str:
        """The arguments of the rendered call, as JSON text."""
        original = msgspec.json.decode(self.arguments)
        fields = {
            "original_tool_name": self.name,
            "original_tool_call_id": self.call,
            "original_args": original,
        }
        return msgspec.json.encode(fields).decode()

    @property
    def heading(self) -> str:
        """The line before the payload: when it came and what the runtime knows about it."""
        return " ".join((f"[{instant(self.at)}]", *self.notes))


class NoticeItem(Item, frozen=True, tag="notice"):
    """A line of the runtime's own, shown as a person's text would be."""

    text: str


class SummaryItem(Item, frozen=True, tag="summary"):
    """What stands in the place of earlier history; shown as a person's text would be, and marked."""

    at: float
    summary: str
    """A model's words."""
    facts: str = ""
    """The runtime's own."""

    @property
    def text(self) -> str:
        """All of it, as it is shown."""
        facts = ("[What the runtime knows besides, as of then:]", self.facts) if self.facts.strip() else ()
        return "\n".join(
            (
                f"[{instant(self.at)}] [Summary, made by the runtime: it stands for all earlier history.]",
                self.summary,
                *facts,
                "[End of the summary. What follows came after what it covers.]",
            )
        )


AnyItem = InputItem | TurnItem | ResultsItem | InjectedItem | NoticeItem | SummaryItem


class Tool(Item, frozen=True):
    """A tool as a model is told of it. ``schema`` is a JSON Schema object."""

    name: str
    description: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One completion asked for, free of any provider's form."""

    agent: str
    model: str
    instructions: str
    tools: tuple[Tool, ...]
    items: tuple[AnyItem, ...]
    settings: dict[str, Any] = {}
    hash: str = ""
    """Hash of all the above, with the projection's version."""
    epoch: str = ""
    """Changes where cached prefixes cannot be kept: another model, other tools."""

    @property
    def text(self) -> str:
        """The words of the last item, whatever it is."""
        return item_text(self.items[-1]) if self.items else ""

    @property
    def results(self) -> tuple[ResultView, ...]:
        """The results shown since the last turn."""
        return tuple(r for item in self.since_turn if isinstance(item, ResultsItem) for r in item.results)

    @property
    def since_turn(self) -> tuple[AnyItem, ...]:
        """The items after the model's last turn: what it is asked to answer."""
        for i in range(len(self.items) - 1, -1, -1):
            if isinstance(self.items[i], TurnItem):
                return self.items[i + 1 :]
        return self.items


class Attempt(msgspec.Struct, frozen=True):
    """Which try of which completion this is; beside the request, outside its hash and the wire."""

    thread: str
    ordinal: int
    """The completion's number in its thread, from 0; empty and cut turns count."""
    attempt: int = 0
    """How many tries of it failed before."""
    seconds: float = 0.0
    """The time the whole completion may take; 0: no bound."""


def item_text(item: AnyItem) -> str:
    """The words of any item."""
    return item.text


def instant(at: float) -> str:
    """An instant as ``2026-11-29 16:39:10 UTC``, to the second."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
