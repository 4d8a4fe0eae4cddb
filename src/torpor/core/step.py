"""The notebook of one slice: what has been decided so far, and the head as it is after that."""

from typing import Any

import msgspec

from torpor.core.definition import Definition
from torpor.core.effects import Cancel, Effect
from torpor.core.messages import Message, Result, Text
from torpor.core.record import WaitSettled
from torpor.core.signals import AnySignal
from torpor.core.thread import Head, OpenCall, Subscription, evolve


class Mark(msgspec.Struct, frozen=True):
    """A place in a step to which it can go back."""

    head: Head
    now: float
    counts: tuple[int, ...]


class Step:
    """Grows while signals are absorbed and a turn is answered; committed whole or forgotten."""

    __slots__ = (
        "arrived",
        "cancelled",
        "definition",
        "effects",
        "head",
        "messages",
        "moment",
        "now",
        "opened",
        "outcomes",
        "settled",
        "thread",
        "timers",
        "trace",
        "woken_by",
    )

    def __init__(self, thread: str, head: Head, now: float, definition: Definition, trace: str = "") -> None:
        self.thread = thread
        self.head = head
        self.now = now
        self.moment = now
        """When what is being recorded came: the same however often its slice is tried."""
        self.definition = definition
        self.trace = trace
        self.messages: list[Message] = []
        self.effects: list[Effect] = []
        self.timers: list[AnySignal] = []
        self.cancelled: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.settled: list[WaitSettled] = []
        self.opened: list[str] = []
        self.arrived: frozenset[str] = frozenset()
        """Calls whose own result is among the signals being absorbed."""
        self.woken_by = ""
        """In words, the news that ends passive waits; empty: none came."""

    def mark(self) -> Mark:
        """This place in the step."""
        return Mark(self.head, self.now, tuple([len(grown) for grown in self._grown()]))

    def back(self, mark: Mark) -> None:
        """Forget all that was decided since a mark."""
        self.head, self.now = mark.head, mark.now
        for grown, count in zip(self._grown(), mark.counts, strict=True):
            del grown[count:]

    def _grown(self) -> tuple[list[Any], ...]:
        return (self.messages, self.effects, self.timers, self.cancelled, self.settled, self.opened)

    def add(self, message: Message) -> None:
        """Append a message and fold it into the head."""
        self.messages.append(message)
        self.head = evolve(self.head, message)

    def open_call(self, id: str) -> OpenCall | None:
        """A call that may still get a result."""
        return self.head.pending.get(id) or self.head.detached.get(id)

    def settle(self, result: Result) -> None:
        """Append a call's result; its timers no longer matter."""
        call = self.open_call(result.call)
        if call is not None:
            self._record(result, call)
        self.add(result)

    def _record(self, result: Result, call: OpenCall) -> None:
        kind = "sleep" if call.passive else "call"
        outcome = result.cause or ("error" if result.is_error else "result")
        self.settled.append(WaitSettled(result.call, kind, call.at, self.now, outcome))
        if not (call.passive or call.server):
            return  # a function's call has no timers
        timers = (f"{result.call}/sleep", f"{result.call}/deadline")
        self.cancelled += timers
        self.timers = [timer for timer in self.timers if timer.id not in timers]

    def unsubscribed(self, id: str, subscription: Subscription, outcome: str) -> None:
        """Record that a subscription is over."""
        wait = WaitSettled(id, "subscription", subscription.at, self.now, outcome)
        self.settled.append(wait)

    def settle_here(self, id: str, cause: str, text: str, *, is_error: bool = True) -> None:
        """Settle a call with words of the runtime's own."""
        self.settle(Result(self.moment, id, (Text(text),), is_error=is_error, cause=cause, trace=self.trace))

    def give_up(self, id: str, call: OpenCall) -> None:
        """Tell whoever works on a call that it is no longer wanted."""
        if not (call.held or call.passive):
            self.effects.append(Cancel(f"{id}/cancel", id, call.server))
