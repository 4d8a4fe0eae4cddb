"""The head: the small state of a thread, and ``evolve``, which folds one message into it.

The head is never anything but this fold: ``fold(messages)`` equals what is stored, always.
"""

from collections.abc import Iterable

import msgspec

from torpor.core.head import Exchange, Head, OpenCall, QueuedText, Subscription
from torpor.core.lives import lived
from torpor.core.messages import (
    Call,
    Closed,
    Detached,
    Happened,
    Late,
    Message,
    Moved,
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
    text_of,
)
from torpor.core.news import GIVES_UP, LEAVES_OPEN, dropped, happened, noticed, owing, reported, settled
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

ARGUMENTS_KEPT = 2_000
"""Characters of a call's arguments that the head keeps, for showing it with later news."""


WORDS_KEPT = 4_000
"""Characters of a child's last words that the head keeps, for its parent."""


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
            return owing(head, position, message.at, queued=_without(head.queued, message.signal))
        case Turn():
            return _turned(head, position, message)
        case Result():
            return settled(head, position, message)
        case Happened():
            return happened(head, position, message)
        case Reported():
            return reported(head, position, message)
        case Summary():
            return _summed_up(head, position, message)
        case _:
            return _noted(msgspec.structs.replace(head, length=position), message)


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
        last_words=_last_words(head, turn),
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


def _last_words(head: Head, turn: Turn) -> str:
    if head.heard or head.purpose != "child":
        return ""
    return text_of(turn.parts).strip()[:WORDS_KEPT] or head.last_words


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
        awaits=call.awaits,
        needs=call.needs,
    )


def shortened(arguments: str, invalid: bool = False, limit: int = ARGUMENTS_KEPT) -> str:
    """Arguments as JSON text of an object, cut to a marked beginning where long or no object."""
    if invalid or len(arguments) > limit:
        cut = {"beginning": arguments[:limit].replace("\0", "\ufffd"), "characters": len(arguments)}
        return msgspec.json.encode(cut).decode()
    return arguments


def _summed_up(head: Head, position: int, summary: Summary) -> Head:
    """Of two summaries the one that covers more counts."""
    head = msgspec.structs.replace(head, length=position, compaction=None)
    if summary.upto <= head.base:
        return head
    return msgspec.structs.replace(
        head, base=summary.upto, summary=position, measured=summary.before, window=0
    )


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
            return change(head, detached=dropped(head.detached, note.call))
        case Unsubscribed():
            return change(
                head,
                subscriptions=dropped(head.subscriptions, note.call),
                gathered=dropped(head.gathered, note.call),
                pending=noticed(head.pending, note.call),
            )
        case Parked() | Resumed() | Stopped() | Closed() | Moved():
            return _changed(head, message.at, note)
        case _:
            return lived(head, message.at, note)


def _changed(head: Head, at: float, note: Parked | Resumed | Stopped | Closed | Moved) -> Head:
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
            below = {id: change(child, state="stopped") for id, child in head.children.items()}
            used = sum([child.places for child in below.values()])
            return change(head, state="stopped", reason=note.why, exchange=ended, children=below, used=used)
        case Moved():
            return change(_closed(head), pending={}, reason=f"It was moved to {note.to}.")
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


def _sent(calls: dict[str, OpenCall], note: Sent) -> dict[str, OpenCall]:
    return {id: _out(call) if id in note.calls else call for id, call in calls.items()}


def _out(call: OpenCall) -> OpenCall:
    return msgspec.structs.replace(call, held=False, arguments=shortened(call.arguments))
