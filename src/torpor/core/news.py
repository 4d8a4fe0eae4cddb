"""The part of ``evolve`` that folds news: results, events, and words of other threads."""

from typing import TypeVar

import msgspec

from torpor.core.head import Child, Exchange, Gathered, Head, OpenCall, Subscription
from torpor.core.lives import in_state
from torpor.core.messages import Happened, Reported, Result

T = TypeVar("T")

GIVEN_UP_KEPT = 64
"""Calls that the runtime settled and that may still get their one real result."""

NAP = 60.0
"""Seconds: a sleep that ends by itself in less does not begin an exchange, so that limits hold for it too."""

LEAVES_OPEN = frozenset({"unknown", "undelivered", "dead", "timeout"})
"""Causes for which the runtime settles a call whose real result, if it comes, is shown as news."""

GIVES_UP = frozenset({"interrupted", "stopped"})
"""Causes for which a person gave a call up: its real result is kept and not shown."""

_TOO_SOON = LEAVES_OPEN | GIVES_UP


def owing(head: Head, position: int, at: float, **changes: object) -> Head:
    """The head after news that an answer is owed to."""
    exchange = head.exchange if head.exchange.open else Exchange(open=True, since=at)
    return msgspec.structs.replace(head, length=position, owed=position, exchange=exchange, **changes)


def settled(head: Head, position: int, result: Result) -> Head:
    """The head after a result."""
    pending, detached, subscriptions = head.pending, head.detached, head.subscriptions
    call = pending.get(result.call) or detached.get(result.call)
    if call is None:
        return owing(head, position, result.at)
    pending = noticed(dropped(pending, result.call), result.call)
    detached = dropped(detached, result.call)
    if result.cause in _TOO_SOON and not (call.given_up or call.passive or call.held):
        detached = _given_up(detached, result.call, call, result.cause)
    if result.subscription and not call.ended:
        opened = Subscription(call.name, call.arguments, call.server, position, result.at, call.seq)
        subscriptions = {**subscriptions, result.call: opened}
    if result.cause == "slept" and result.at - call.at < NAP:
        head = msgspec.structs.replace(head, exchange=msgspec.structs.replace(head.exchange, open=True))
    return owing(
        head,
        position,
        result.at,
        pending=pending,
        detached=detached,
        subscriptions=subscriptions,
        **_ended(head, result),
    )


def _ended(head: Head, result: Result) -> dict[str, object]:
    """What ends with a call: what people were asked for it, and events of a subscription that never was.

    A child that goes on with what a tool gave it, after a report, has more to say.
    """
    changes: dict[str, object] = {}
    if head.purpose == "child" and head.heard and not result.cause:
        changes |= {"heard": False, "rested": False}
    if head.waits:
        changes["waits"] = {id: wait for id, wait in head.waits.items() if wait.call != result.call}
    if opens_nothing(result) and result.call in head.gathered:
        changes["gathered"] = dropped(head.gathered, result.call)
    return changes


def opens_nothing(result: Result) -> bool:
    """The call has no subscription, and none can come of it."""
    return not result.subscription and result.cause not in LEAVES_OPEN


def _given_up(detached: dict[str, OpenCall], id: str, call: OpenCall, cause: str) -> dict[str, OpenCall]:
    given_up = [known for known, open_ in detached.items() if open_.given_up]
    for oldest in given_up[: max(0, len(given_up) + 1 - GIVEN_UP_KEPT)]:
        detached = dropped(detached, oldest)
    arguments = "{}" if cause in GIVES_UP else call.arguments  # shown no more
    return {**detached, id: msgspec.structs.replace(call, given_up=cause, arguments=arguments)}


def happened(head: Head, position: int, event: Happened) -> Head:
    """The head after an event. One for a child waits here until a child is given it."""
    changes = _told(head, event)
    if not event.threaded:
        return owing(head, position, event.at, **changes)
    known = head.gathered.get(event.call) or Gathered((), event.at, position)
    held = msgspec.structs.replace(known, positions=(*known.positions, position))
    changes["gathered"] = {**head.gathered, event.call: held}
    return msgspec.structs.replace(head, length=position, **changes)


def _told(head: Head, event: Happened) -> dict[str, object]:
    """What an event changes: its subscription or, before there is one, the call that will open it."""
    shown = event.final or not event.threaded
    pending = noticed(head.pending, event.call) if shown else head.pending
    known = head.subscriptions.get(event.call)
    if known is None:
        pending, detached = _foretold(pending, event), _foretold(head.detached, event)
        return {"pending": pending, "detached": detached}
    if event.final:
        return {"pending": pending, "subscriptions": dropped(head.subscriptions, event.call)}
    seen = msgspec.structs.replace(known, seq=max(known.seq, event.seq))
    return {"pending": pending, "subscriptions": {**head.subscriptions, event.call: seen}}


def _foretold(calls: dict[str, OpenCall], event: Happened) -> dict[str, OpenCall]:
    call = calls.get(event.call)
    if call is None:
        return calls
    seen = msgspec.structs.replace(call, seq=max(call.seq, event.seq), ended=call.ended or event.final)
    return {**calls, event.call: seen}


def reported(head: Head, position: int, word: Reported) -> Head:
    """The head after another thread's word."""
    changes: dict[str, object] = {}
    child = head.children.get(word.thread)
    if child is not None:
        changes = _of_child(head, word, child)
    elif word.what in ("born", "told"):
        changes = {"heard": False, "rested": False, "last_words": ""}
    if word.owes:
        return owing(head, position, word.at, **changes)
    return msgspec.structs.replace(head, length=position, **changes)


_STATES = {"ended": "ended", "rested": "ended", "parked": "parked", "stopped": "stopped"}


def _of_child(head: Head, word: Reported, child: Child) -> dict[str, object]:
    changes: dict[str, object] = {"pending": noticed(head.pending, word.thread, child.source)}
    if word.owes and head.rested:  # it goes on after all: its parent shall hear what comes of that
        changes |= {"heard": False, "rested": False}
    if word.what in _STATES:
        changes |= in_state(head, word.thread, _STATES[word.what])
    elif word.what in ("closed", "undelivered"):
        changes["children"] = dropped(head.children, word.thread)
        changes["used"] = head.used - child.places
    return changes


def noticed(pending: dict[str, OpenCall], *ids: str) -> dict[str, OpenCall]:
    """Pending calls, after news of something: waits for that have less to wait for."""
    if not any(call.awaits for call in pending.values()):
        return pending
    return {id: _less(call, ids) for id, call in pending.items()}


def _less(call: OpenCall, ids: tuple[str, ...]) -> OpenCall:
    left = tuple(id for id in call.awaits if id not in ids)
    found = len(call.awaits) - len(left)
    return msgspec.structs.replace(call, awaits=left, needs=max(0, call.needs - found)) if found else call


def dropped(entries: dict[str, T], id: str) -> dict[str, T]:
    """Entries without one of them."""
    return {known: entry for known, entry in entries.items() if known != id} if id in entries else entries
