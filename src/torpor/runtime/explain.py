"""What a thread waits for and since when, in data and in words."""

from collections.abc import Sequence

import msgspec

from torpor.core.plan import owes_now
from torpor.core.request import instant
from torpor.core.signals import AnySignal, Due
from torpor.core.thread import Head
from torpor.ports import Row


class Waiting(msgspec.Struct, frozen=True):
    """One thing that a thread waits for. ``until`` 0: nobody knows when it ends."""

    id: str
    kind: str
    """``call``, ``sleep``, ``detached``, ``subscription``, ``retry``, ``slice`` or ``agent``."""
    name: str
    since: float
    until: float = 0.0
    blocks: bool = True
    """The model is not asked before it ends."""


class Explanation(msgspec.Struct, frozen=True):
    """Why a thread is not running now."""

    thread: str
    agent: str
    state: str
    reason: str
    owes: bool
    received: int
    """Signals that have come and are not yet absorbed."""
    waits: tuple[Waiting, ...]
    text: str


def explain(
    row: Row, head: Head, inbox: Sequence[AnySignal], now: float, agents: Sequence[str]
) -> Explanation:
    """Explain a thread from its row, head and inbox."""
    received = sum(1 for signal in inbox if signal.due <= now)
    waits = (*_calls(head, inbox), *_subscriptions(head), *_slices(row, head, received, now, agents))
    owes = owes_now(head)
    text = _words(row, head, waits, now)
    return Explanation(row.thread, row.agent, row.state, head.reason, owes, received, tuple(waits), text)


def _calls(head: Head, inbox: Sequence[AnySignal]) -> list[Waiting]:
    due = {signal.call: signal.due for signal in inbox if isinstance(signal, Due)}
    pending = [
        Waiting(id, "sleep" if call.passive else "call", call.name, call.at, due.get(id, 0.0))
        for id, call in head.pending.items()
    ]
    detached = [
        Waiting(id, "detached", call.name, call.at, due.get(id, 0.0), blocks=False)
        for id, call in head.detached.items()
        if not call.given_up
    ]
    return pending + detached


def _subscriptions(head: Head) -> list[Waiting]:
    return [
        Waiting(id, "subscription", open_.name, open_.at, blocks=False)
        for id, open_ in head.subscriptions.items()
    ]


def _slices(row: Row, head: Head, received: int, now: float, agents: Sequence[str]) -> list[Waiting]:
    if row.not_before > now:
        return [Waiting(f"{row.thread}/retry", "retry", row.agent, row.updated, row.not_before)]
    if not (received or owes_now(head)) or row.state == "closed":
        return []
    known = row.agent in agents or not agents
    kind = "slice" if known else "agent"
    name = row.agent if known else f"{row.agent} (known here: {', '.join(agents)})"
    return [Waiting(f"{row.thread}/slice", kind, name, row.updated)]


def _words(row: Row, head: Head, waits: Sequence[Waiting], now: float) -> str:
    if row.state != "open":
        return f"The thread is {row.state}{': ' + head.reason if head.reason else '.'}"
    if not waits:
        return "The thread is idle: nothing is owed and nothing is pending."
    return "The thread waits for " + "; ".join(_phrase(wait, now) for wait in waits) + "."


def _phrase(wait: Waiting, now: float) -> str:
    since = f"for {now - wait.since:.0f} s"
    until = f", until {instant(wait.until)}" if wait.until else ""
    match wait.kind:
        case "retry":
            return f"its model, which failed last time{until}"
        case "slice":
            return f"a worker to run its next slice ({since})"
        case "agent":
            return f"a worker that knows the agent {wait.name}"
        case "subscription":
            return f"events of {wait.name} ({since})"
        case "detached":
            return f"the late result of {wait.name} ({since}{until})"
        case _:
            return f"{wait.name} ({since}{until})"
