"""History into requests: what the model sees. Pure, always valid, and only ever growing at the end.

The order follows from ``upto``: a turn answers all up to that position. So what is shown before a turn is
what its request covered, and what came later is shown after it. Between two turns stand, in this order: the
results of the first one's calls, all of them, in call order; then news and words as they came. A call whose
result is not there yet is shown as still running, and its result comes later as news. Items, once shown,
never change: a later request is the earlier one and more.
"""

from hashlib import sha256

import msgspec

from torpor.core.definition import Definition
from torpor.core.messages import (
    Call,
    Detached,
    Happened,
    Message,
    Noted,
    Parked,
    Result,
    Said,
    Text,
    Turn,
)
from torpor.core.request import (
    PROJECTION,
    AnyItem,
    InjectedItem,
    InputItem,
    NoticeItem,
    Request,
    ResultsItem,
    ResultView,
    TurnItem,
)
from torpor.core.showing import event_shown, late_shown, result_shown, turn_shown, words_shown
from torpor.core.thread import LEAVES_OPEN

ASIDE = "[Something that came here was set aside after a failure and is not shown.]"
GO_ON = "[Nothing new has come. Go on.]"
RUNNING = "Still running. Its result will come as an event."
MISSING = "No result was recorded for this call."
News = Said | Result | Happened | Noted
"""Messages that may stand between turns."""

_SET_ASIDE = Noted(0.0, Parked("", aside=True))
"""Stands for news that was set aside."""

DIGEST = 16
"""Bytes kept of a hash."""

_encode = msgspec.msgpack.Encoder().encode


class Projection:
    """A thread's history as items, folded message by message.

    ``items`` are fixed: shown to some model before. ``_later`` is what came after the last shown position.
    """

    __slots__ = (
        "_answered",
        "_batch",
        "_detached",
        "_hash",
        "_later",
        "_names",
        "_shown",
        "items",
        "position",
    )

    def __init__(self) -> None:
        self.items: list[AnyItem] = []
        # SHA-256, which processors do by themselves: a third of the time that blake2b takes.
        self._hash = sha256()
        self.position = 0
        self._answered = self._shown = 0
        self._later: list[tuple[int, News]] = []
        self._batch: tuple[Call, ...] = ()
        """The calls of the last shown turn, as long as their results have not been shown."""
        self._detached: frozenset[str] = frozenset()
        self._names: dict[str, Call] = {}
        """Calls shown as still running or given up, for showing their results as news."""

    @property
    def digest(self) -> bytes:
        """Hash over all fixed items."""
        return self._hash.digest()[:DIGEST]

    def fork(self) -> "Projection":
        """An independent copy; items are shared."""
        copy = Projection()
        copy.items, copy.position = self.items.copy(), self.position
        copy._hash = self._hash.copy()
        copy._answered, copy._shown = self._answered, self._shown
        copy._later = self._later.copy()
        copy._batch, copy._detached = self._batch, self._detached
        copy._names = self._names.copy()
        return copy

    def add(self, message: Message) -> None:
        """Fold in the next message."""
        self.position += 1
        if isinstance(message, Turn):
            self._turned(message)
        elif isinstance(message, Noted):
            self._noted(message)
        else:
            self._later.append((self.position, message))

    def show(self) -> None:
        """Fix everything that has come: it is what the next request ends with."""
        self._show(self.position)

    def _turned(self, turn: Turn) -> None:
        if turn.upto <= self._answered:
            return
        self._answered = turn.upto
        self._show(turn.upto)
        parts = turn_shown(turn.parts)
        if not parts:
            return
        self._batch = tuple([part for part in parts if isinstance(part, Call)])
        for call in self._batch:
            self._names[call.id] = call
        self._fix(TurnItem(parts))

    def _noted(self, message: Noted) -> None:
        note = message.note
        if isinstance(note, Detached):
            self._detached |= frozenset(note.calls)
        elif isinstance(note, Parked) and note.aside:
            self._later = [(position, _aside(kept)) for position, kept in self._later]

    def _show(self, upto: int) -> None:
        waiting = bool(self.items) and not isinstance(self.items[-1], TurnItem)
        if waiting and upto <= self._shown:
            return
        self._shown = upto
        shown = [(position, message) for position, message in self._later if position <= upto]
        self._later = [(position, message) for position, message in self._later if position > upto]
        results = self._results(shown)
        if any(isinstance(message, Noted) for _, message in shown):
            self._fix(NoticeItem(ASIDE))
        for position, message in shown:
            if not isinstance(message, Noted) and results.get(_call_of(message)) is not message:
                self._fix(self._item(position, message))
        if not self.items or isinstance(self.items[-1], TurnItem):
            self._fix(NoticeItem(GO_ON))

    def _results(self, shown: list[tuple[int, News]]) -> dict[str, Result]:
        """Fix the results of the last turn's calls; gives the messages that were used."""
        batch, self._batch = self._batch, ()
        if not batch:
            return {}
        used: dict[str, Result] = {}
        ids = {call.id for call in batch}
        for _, message in shown:
            if isinstance(message, Result) and message.call in ids:
                used.setdefault(message.call, message)
        self._fix(ResultsItem(tuple([self._view(call, used.get(call.id)) for call in batch])))
        self._detached = frozenset()
        return used

    def _view(self, call: Call, result: Result | None) -> ResultView:
        if result is not None:
            self._forget(result)
            return ResultView(call.id, call.name, result_shown(result), result.is_error)
        text = RUNNING if call.id in self._detached else MISSING
        return ResultView(call.id, call.name, (Text(text),), is_error=text is MISSING)

    def _forget(self, result: Result) -> None:
        """No further result of this call can be shown."""
        if result.cause not in LEAVES_OPEN:
            self._names.pop(result.call, None)

    def _item(self, position: int, message: Said | Result | Happened) -> AnyItem:
        if isinstance(message, Result):
            return self._late(position, message)
        if isinstance(message, Happened):
            return event_shown(position, message)
        return InputItem(message.at, words_shown(message.parts))

    def _late(self, position: int, result: Result) -> InjectedItem:
        call = self._names.get(result.call, Call(result.call, "unknown"))
        self._forget(result)
        return late_shown(position, result, call)

    def _fix(self, item: AnyItem) -> None:
        self.items.append(item)
        self._hash.update(_encode(item))


def request(definition: Definition, projection: Projection, fixed: "Fixed") -> Request:
    """The request for a projection whose last news has been shown."""
    whole = sha256(fixed.digest + projection.digest)
    return Request(
        agent=definition.agent,
        model=definition.model,
        instructions=definition.instructions,
        tools=fixed.tools,
        items=tuple(projection.items),
        settings=definition.settings,
        hash=whole.hexdigest()[: 2 * DIGEST],
        epoch=fixed.epoch,
    )


class Fixed:
    """What is the same in all requests of a definition, hashed once."""

    __slots__ = ("digest", "epoch", "tools")

    def __init__(self, definition: Definition) -> None:
        self.tools = tuple(spec.shown() for spec in definition.tools.values())
        model = [PROJECTION, definition.agent, definition.model, definition.settings]
        told = [definition.instructions, self.tools]
        self.digest = sha256(_encode([model, told])).digest()[:DIGEST]
        self.epoch = self.digest.hex()


def _aside(message: News) -> News:
    """A message as it stands once it was set aside: a settled call stays settled, other news is one line.

    The runtime's own words stay as they are: no model chokes on them.
    """
    if isinstance(message, Result) and message.cause:
        return message
    if isinstance(message, Result):
        return msgspec.structs.replace(message, parts=(Text(ASIDE),), handle="")
    return _SET_ASIDE


def _call_of(message: News) -> str:
    return message.call if isinstance(message, Result) else ""
