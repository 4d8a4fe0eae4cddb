"""The head: the small state of a thread, and ``evolve``, which folds one message into it.

The head is never anything but this fold: ``fold(messages)`` equals what is stored, always.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from torpor.core.messages import (
    Born,
    By,
    Call,
    Closed,
    Detached,
    Equipped,
    Happened,
    Late,
    Message,
    Noted,
    Parked,
    Part,
    Queued,
    Result,
    Resumed,
    Said,
    Sent,
    Stopped,
    Stored,
    Turn,
    Unsubscribed,
    Usage,
)

T = TypeVar("T")

ARGUMENTS_KEPT = 2_000
"""Characters of a call's arguments that the head keeps, for showing it with later news."""

GIVEN_UP_KEPT = 64
"""Calls that the runtime settled and that may still get their one real result."""

LEAVES_OPEN = frozenset({"unknown", "undelivered", "dead", "timeout"})
"""Causes for which the runtime settles a call whose real result, if it comes, is shown as news."""

GIVES_UP = frozenset({"interrupted", "stopped"})
"""Causes for which a person gave a call up: its real result is kept and not shown."""


class OpenCall(Stored, frozen=True):
    """What the head keeps of a call that may still get a result."""

    name: str
    turn: int
    """Position of its turn."""
    index: int = 0
    arguments: str = "{}"
    server: str = ""
    repeat: str = ""
    passive: bool = False
    held: bool = False
    """Not sent yet; its arguments are then kept whole."""
    at: float = 0.0
    given_up: str = ""
    """The cause for which the runtime settled it; one real result may still come."""


class Subscription(Stored, frozen=True):
    """A settled call whose tool keeps sending events."""

    name: str
    arguments: str
    server: str
    opened: int
    """Position of the result that opened it."""
    at: float = 0.0
    seq: int = 0
    """The highest number of its source's own seen so far."""


class QueuedText(Stored, frozen=True):
    """Text to be said when the exchange ends."""

    parts: tuple[Part, ...]
    signal: str
    by: By
    at: float


class Exchange(Stored, frozen=True):
    """What has been spent since news from outside opened the exchange."""

    open: bool = False
    since: float = 0.0
    completions: int = 0
    loopbacks: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Head(Stored, frozen=True):
    """The state of a thread. ``length`` is also the position of its last message."""

    agent: str = ""
    definition: str = ""
    state: str = "open"
    """``open``, ``parked``, ``stopped`` or ``closed``."""
    length: int = 0
    ordinal: int = 0
    """Completions so far."""
    answered: int = 0
    """The highest position that a turn has answered."""
    owed: int = 0
    """The position of the latest message that an answer is owed to."""
    exchange: Exchange = Exchange()
    pending: dict[str, OpenCall] = {}
    detached: dict[str, OpenCall] = {}
    subscriptions: dict[str, Subscription] = {}
    queued: tuple[QueuedText, ...] = ()
    toolsets: dict[str, str] = {}
    window: int = 0
    """Tokens that the last completion occupied."""
    reason: str = ""
    """Why it is parked."""

    @property
    def owes(self) -> bool:
        """An answer is owed, blocked or not."""
        return self.owed > self.answered

    @property
    def active(self) -> bool:
        """A pending call is work in progress, not only a sleep."""
        return any(not call.passive for call in self.pending.values())


def fold(messages: Iterable[Message]) -> Head:
    """The head of a whole history."""
    head = Head()
    for message in messages:
        head = evolve(head, message)
    return head


def evolve(head: Head, message: Message) -> Head:
    """The head after one more message."""
    position = head.length + 1
    match message:
        case Said():
            return _owing(head, position, message.at, queued=_without(head.queued, message.signal))
        case Turn():
            return _turned(head, position, message)
        case Result():
            return _settled(head, position, message)
        case Happened():
            return _owing(head, position, message.at, subscriptions=_told(head.subscriptions, message))
        case Noted():
            return _noted(msgspec.structs.replace(head, length=position), message)


def _owing(head: Head, position: int, at: float, **changes: object) -> Head:
    exchange = head.exchange if head.exchange.open else Exchange(open=True, since=at)
    return msgspec.structs.replace(head, length=position, owed=position, exchange=exchange, **changes)


def _without(queued: tuple[QueuedText, ...], signal: str) -> tuple[QueuedText, ...]:
    return tuple(text for text in queued if text.signal != signal) if queued else queued


def _turned(head: Head, position: int, turn: Turn) -> Head:
    tokens = turn.usage.total if turn.usage else 0
    spent = head.exchange
    pending = dict(head.pending)
    for part in turn.parts:
        if isinstance(part, Call):
            pending[part.id] = _opened(part, position, turn.at)
    return msgspec.structs.replace(
        head,
        length=position,
        ordinal=turn.ordinal + 1,
        answered=max(head.answered, turn.upto),
        pending=pending,
        window=_window(turn.usage, head.window),
        exchange=Exchange(
            open=not turn.end,
            since=spent.since,
            completions=spent.completions + 1,
            loopbacks=spent.loopbacks + 1 if turn.loopback else 0,
            tokens=spent.tokens + tokens,
            seconds=spent.seconds + turn.seconds,
        ),
    )


def _window(usage: Usage | None, before: int) -> int:
    return usage.total if usage and usage.total else before


def _opened(call: Call, position: int, at: float) -> OpenCall:
    return OpenCall(
        name=call.name,
        turn=position,
        index=call.index,
        arguments=call.arguments if call.held else shortened(call.arguments, call.invalid),
        server=call.server,
        repeat=call.repeat,
        passive=call.passive,
        held=call.held,
        at=at,
    )


def shortened(arguments: str, invalid: bool = False, limit: int = ARGUMENTS_KEPT) -> str:
    """Arguments as JSON text of an object, cut to a marked beginning where they are long or were no object."""
    if invalid or len(arguments) > limit:
        cut = {"beginning": arguments[:limit], "characters": len(arguments)}
        return msgspec.json.encode(cut).decode()
    return arguments


def _settled(head: Head, position: int, result: Result) -> Head:
    pending, detached, subscriptions = head.pending, head.detached, head.subscriptions
    call = pending.get(result.call) or detached.get(result.call)
    if call is None:
        return _owing(head, position, result.at)
    pending = {id: open_ for id, open_ in pending.items() if id != result.call}
    detached = {id: open_ for id, open_ in detached.items() if id != result.call}
    if result.cause in LEAVES_OPEN | GIVES_UP and not (call.given_up or call.passive or call.held):
        detached = _given_up(detached, result.call, call, result.cause)
    if result.subscription:
        opened = Subscription(call.name, call.arguments, call.server, position, result.at)
        subscriptions = {**subscriptions, result.call: opened}
    return _owing(head, position, result.at, pending=pending, detached=detached, subscriptions=subscriptions)


def _given_up(detached: dict[str, OpenCall], id: str, call: OpenCall, cause: str) -> dict[str, OpenCall]:
    given_up = [known for known, open_ in detached.items() if open_.given_up]
    for oldest in given_up[: len(given_up) + 1 - GIVEN_UP_KEPT]:
        del detached[oldest]
    return {**detached, id: msgspec.structs.replace(call, given_up=cause, held=False)}


def _told(subscriptions: dict[str, Subscription], event: Happened) -> dict[str, Subscription]:
    if event.final:
        return {id: open_ for id, open_ in subscriptions.items() if id != event.call}
    open_ = subscriptions.get(event.call)
    if open_ is None or event.seq <= open_.seq:
        return subscriptions
    return {**subscriptions, event.call: msgspec.structs.replace(open_, seq=event.seq)}


def _noted(head: Head, message: Noted) -> Head:
    note = message.note
    change = msgspec.structs.replace
    match note:
        case Born():
            return change(head, agent=note.agent, definition=note.definition)
        case Equipped():
            return change(head, toolsets={**head.toolsets, note.server: note.manifest})
        case Queued():
            text = QueuedText(note.parts, note.signal, note.by, message.at)
            return change(head, queued=(*head.queued, text))
        case Detached():
            moved = {id: call for id, call in head.pending.items() if id in note.calls}
            kept = {id: call for id, call in head.pending.items() if id not in note.calls}
            return change(head, pending=kept, detached={**head.detached, **moved})
        case Sent():
            return change(head, pending=_sent(head.pending, note), detached=_sent(head.detached, note))
        case Late():
            return change(head, detached=_dropped(head.detached, note.call))
        case Unsubscribed():
            return change(head, subscriptions=_dropped(head.subscriptions, note.call))
        case _:
            return _lived(head, message.at, note)


def _lived(head: Head, at: float, note: Parked | Resumed | Stopped | Closed) -> Head:
    change = msgspec.structs.replace
    match note:
        case Parked():
            owed = head.answered if note.aside else head.owed
            return change(head, state="parked", reason=note.reason, owed=owed)
        case Resumed():
            owed = head.length if note.why == "nudge" else head.owed
            return change(head, state="open", reason="", owed=owed, exchange=Exchange(open=True, since=at))
        case Stopped():
            ended = change(head.exchange, open=False)
            return change(head, state="stopped", reason="", exchange=ended)
        case Closed():
            ended = change(head.exchange, open=False)
            return change(head, state="closed", reason="", exchange=ended, queued=())


def _dropped(entries: dict[str, T], id: str) -> dict[str, T]:
    return {known: entry for known, entry in entries.items() if known != id}


def _sent(calls: dict[str, OpenCall], note: Sent) -> dict[str, OpenCall]:
    return {
        id: msgspec.structs.replace(call, held=False) if id in note.calls else call
        for id, call in calls.items()
    }
