"""The head: the small state of a thread, and ``evolve``, which folds one message into it.

The head is never anything but this fold: ``fold(messages)`` equals what is stored, always.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from torpor.core.head import Exchange, Gathered, Head, OpenCall, QueuedText, Subscription
from torpor.core.lives import lived
from torpor.core.messages import (
    Call,
    Closed,
    Detached,
    Happened,
    Late,
    Message,
    Noted,
    Parked,
    Queued,
    Reported,
    Result,
    Resumed,
    Said,
    Sent,
    Stopped,
    Summary,
    Turn,
    Unsubscribed,
    Usage,
)
from torpor.core.parts import OpenWait

__all__ = [
    "GIVES_UP",
    "LEAVES_OPEN",
    "Exchange",
    "Head",
    "OpenCall",
    "OpenWait",
    "QueuedText",
    "Subscription",
    "evolve",
    "fold",
    "shortened",
]

T = TypeVar("T")

ARGUMENTS_KEPT = 2_000
"""Characters of a call's arguments that the head keeps, for showing it with later news."""

GIVEN_UP_KEPT = 64
"""Calls that the runtime settled and that may still get their one real result."""

NAP = 60.0
"""Seconds: a sleep that ends by itself in less does not begin an exchange, so that limits hold for it too."""

LEAVES_OPEN = frozenset({"unknown", "undelivered", "dead", "timeout"})
"""Causes for which the runtime settles a call whose real result, if it comes, is shown as news."""

GIVES_UP = frozenset({"interrupted", "stopped"})
"""Causes for which a person gave a call up: its real result is kept and not shown."""

_TOO_SOON = LEAVES_OPEN | GIVES_UP


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
        case Happened(threaded=True):
            return _gathered(head, position, message)
        case Happened():
            return _owing(head, position, message.at, **_told(head, message))
        case Reported():
            return _reported(head, position, message)
        case Summary():
            return _summed_up(head, position, message)
        case _:
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
        turned=position,
        answered=max(head.answered, turn.upto),
        owed=position if turn.cut else head.owed,
        pending=pending,
        window=_window(turn.usage, head.window),
        **_measured(head, turn.usage),
        exchange=Exchange(
            open=not turn.end,
            since=spent.since,
            completions=spent.completions + 1,
            loopbacks=spent.loopbacks + 1 if turn.loopback else 0,
            tokens=spent.tokens + tokens,
            seconds=spent.seconds + turn.seconds,
        ),
    )


def _measured(head: Head, usage: Usage | None) -> dict[str, object]:
    """What the last compaction brought, told by the next turn that was paid for: a third, or nothing."""
    if not head.measured or not usage or not usage.total:
        return {}
    if usage.total * 3 <= head.measured * 2:
        return {"measured": 0, "uncompacted": 0, "uncompacted_why": ""}
    why = f"A summary left {usage.total} tokens of {head.measured}."
    return {"measured": 0, "uncompacted": head.uncompacted + 1, "uncompacted_why": why}


def _window(usage: Usage | None, before: int) -> int:
    return usage.total if usage and usage.total else before


def _opened(call: Call, position: int, at: float) -> OpenCall:
    return OpenCall(
        name=call.name,
        turn=position,
        index=call.index,
        arguments=call.arguments if call.held else shortened(call.arguments),
        server=call.server,
        repeat=call.repeat,
        passive=call.passive,
        held=call.held,
        at=at,
        approval=call.approval,
    )


def shortened(arguments: str, invalid: bool = False, limit: int = ARGUMENTS_KEPT) -> str:
    """Arguments as JSON text of an object, cut to a marked beginning where long or no object."""
    if invalid or len(arguments) > limit:
        cut = {"beginning": arguments[:limit].replace("\0", "\ufffd"), "characters": len(arguments)}
        return msgspec.json.encode(cut).decode()
    return arguments


def _settled(head: Head, position: int, result: Result) -> Head:
    pending, detached, subscriptions = head.pending, head.detached, head.subscriptions
    call = pending.get(result.call) or detached.get(result.call)
    if call is None:
        return _owing(head, position, result.at)
    pending, detached = _dropped(pending, result.call), _dropped(detached, result.call)
    if result.cause in _TOO_SOON and not (call.given_up or call.passive or call.held):
        detached = _given_up(detached, result.call, call, result.cause)
    if result.subscription and not call.ended:
        opened = Subscription(call.name, call.arguments, call.server, position, result.at, call.seq)
        subscriptions = {**subscriptions, result.call: opened}
    if result.cause == "slept" and result.at - call.at < NAP:
        head = msgspec.structs.replace(head, exchange=msgspec.structs.replace(head.exchange, open=True))
    return _owing(
        head,
        position,
        result.at,
        pending=pending,
        detached=detached,
        subscriptions=subscriptions,
        **_ended(head, result),
    )


def _ended(head: Head, result: Result) -> dict[str, object]:
    """What ends with a call: what people were asked for it, and events of a subscription that never was."""
    changes: dict[str, object] = {}
    if head.waits:
        changes["waits"] = {id: wait for id, wait in head.waits.items() if wait.call != result.call}
    if result.call in head.gathered and not result.subscription and result.cause not in LEAVES_OPEN:
        changes["gathered"] = _dropped(head.gathered, result.call)
    return changes


def _given_up(detached: dict[str, OpenCall], id: str, call: OpenCall, cause: str) -> dict[str, OpenCall]:
    given_up = [known for known, open_ in detached.items() if open_.given_up]
    for oldest in given_up[: max(0, len(given_up) + 1 - GIVEN_UP_KEPT)]:
        detached = _dropped(detached, oldest)
    arguments = "{}" if cause in GIVES_UP else call.arguments  # shown no more
    return {**detached, id: msgspec.structs.replace(call, given_up=cause, arguments=arguments)}


def _told(head: Head, event: Happened) -> dict[str, object]:
    """What an event changes: its subscription or, before there is one, the call that will open it."""
    known = head.subscriptions.get(event.call)
    if known is None:
        pending, detached = _foretold(head.pending, event), _foretold(head.detached, event)
        return {"pending": pending, "detached": detached}
    if event.final:
        return {"subscriptions": _dropped(head.subscriptions, event.call)}
    seen = msgspec.structs.replace(known, seq=max(known.seq, event.seq))
    return {"subscriptions": {**head.subscriptions, event.call: seen}}


def _gathered(head: Head, position: int, event: Happened) -> Head:
    """An event for a child of its own: it waits here until one is given it."""
    known = head.gathered.get(event.call)
    held = Gathered((*known.positions, position), known.since) if known else Gathered((position,), event.at)
    gathered = {**head.gathered, event.call: held}
    return msgspec.structs.replace(head, length=position, gathered=gathered, **_told(head, event))


def _reported(head: Head, position: int, word: Reported) -> Head:
    changes: dict[str, object] = {}
    child = head.children.get(word.thread)
    if child is not None and word.what in ("ended", "parked", "stopped"):
        changes["children"] = {**head.children, word.thread: msgspec.structs.replace(child, state=word.what)}
    elif child is not None and word.what == "closed":
        changes["children"] = _dropped(head.children, word.thread)
        changes["used"] = head.used - child.quota - 1
    elif word.what in ("born", "told"):
        changes["heard"] = False
    if word.owes:
        return _owing(head, position, word.at, **changes)
    return msgspec.structs.replace(head, length=position, **changes)


def _summed_up(head: Head, position: int, summary: Summary) -> Head:
    """Of two summaries the one that covers more counts."""
    head = msgspec.structs.replace(head, length=position, compaction=None)
    if summary.upto <= head.base:
        return head
    return msgspec.structs.replace(
        head, base=summary.upto, summary=position, measured=summary.before, window=0
    )


def _foretold(calls: dict[str, OpenCall], event: Happened) -> dict[str, OpenCall]:
    call = calls.get(event.call)
    if call is None:
        return calls
    seen = msgspec.structs.replace(call, seq=max(call.seq, event.seq), ended=call.ended or event.final)
    return {**calls, event.call: seen}


def _noted(head: Head, message: Noted) -> Head:
    note = message.note
    change = msgspec.structs.replace
    match note:
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
        case Parked() | Resumed() | Stopped() | Closed():
            return _changed(head, message.at, note)
        case _:
            return lived(head, message.at, note)


def _changed(head: Head, at: float, note: Parked | Resumed | Stopped | Closed) -> Head:
    change = msgspec.structs.replace
    match note:
        case Parked():
            owed = head.answered if note.aside else head.owed
            return change(head, state="parked", reason=note.reason, owed=owed)
        case Resumed():
            fresh = Exchange(open=True, since=at)
            return change(head, state="open", reason="", owed=head.length, exchange=fresh, uncompacted=0)
        case Stopped():
            ended = change(head.exchange, open=False)
            return change(head, state="stopped", reason="", exchange=ended)
        case _:
            return _closed(head)


def _closed(head: Head) -> Head:
    return msgspec.structs.replace(
        head,
        state="closed",
        reason="",
        exchange=msgspec.structs.replace(head.exchange, open=False),
        queued=(),
        detached={},
        subscriptions={},
        waits={},
        children={},
        used=0,
        gathered={},
        compaction=None,
    )


def _dropped(entries: dict[str, T], id: str) -> dict[str, T]:
    return {known: entry for known, entry in entries.items() if known != id} if id in entries else entries


def _sent(calls: dict[str, OpenCall], note: Sent) -> dict[str, OpenCall]:
    return {id: _out(call) if id in note.calls else call for id, call in calls.items()}


def _out(call: OpenCall) -> OpenCall:
    return msgspec.structs.replace(call, held=False, arguments=shortened(call.arguments))
