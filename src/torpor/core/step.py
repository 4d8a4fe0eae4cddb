"""The notebook of one slice: what has been decided so far, and the head as it is after that."""

from typing import Any

import msgspec

from torpor.core.checks import open_checks
from torpor.core.definition import Definition
from torpor.core.effects import Cancel, Choose, Effect
from torpor.core.messages import Message, Result, Text
from torpor.core.news import opens_nothing
from torpor.core.record import WaitSettled
from torpor.core.signals import AnySignal
from torpor.core.thread import Head, OpenCall, OpenWait, Subscription, evolve


class Mark(msgspec.Struct, frozen=True):
    """A place in a step to which it can go back."""

    head: Head
    now: float
    counts: tuple[int, ...]
    timers: tuple[AnySignal, ...]


class Step:
    """Grows while signals are absorbed and a turn is answered; committed whole or forgotten."""

    __slots__ = (
        "arrived",
        "asked_for_summary",
        "cancelled",
        "closing",
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
        "wakes_all",
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
        self.asked_for_summary = False
        """A person wants the history summed up."""
        self.closing: str | None = None
        """What the thread says last: its model closes it at the end of the slice."""
        self.woken_by = ""
        """In words, the news that ends passive waits; empty: none came."""
        self.wakes_all = False
        """It ends those too that wait for other news."""

    def mark(self) -> Mark:
        """This place in the step."""
        counts = tuple([len(grown) for grown in self._grown()])
        return Mark(self.head, self.now, counts, tuple(self.timers))

    def back(self, mark: Mark) -> None:
        """Forget all that was decided since a mark."""
        self.head, self.now, self.timers = mark.head, mark.now, list(mark.timers)
        self.closing = None
        for grown, count in zip(self._grown(), mark.counts, strict=True):
            del grown[count:]

    def _grown(self) -> tuple[list[Any], ...]:
        return (self.messages, self.effects, self.cancelled, self.settled, self.opened)

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
        for wait in self.waits_of(result.call):
            self.answered(wait, result.cause or "settled")
        if opens_nothing(result):
            self.ungathered(result.call)
        kind = "sleep" if call.passive else "call"
        outcome = result.cause or ("error" if result.is_error else "result")
        self.settled.append(WaitSettled(result.call, kind, call.at, self.now, outcome))
        if not (call.passive or call.server):
            return  # a function's call has no timers
        checks = open_checks(result.call, call.at, self.now, held=False) if call.server else ()
        for timer in (f"{result.call}/sleep", f"{result.call}/deadline", *checks):
            self.drop_timer(timer)

    def waits_of(self, call: str) -> list[OpenWait]:
        """What people are asked for a call."""
        return [wait for wait in self.head.waits.values() if wait.call == call] if self.head.waits else []

    def answered(self, wait: OpenWait, outcome: str) -> None:
        """Record that a wait of a person's is over; its timer no longer matters."""
        self.settled.append(WaitSettled(wait.id, wait.kind, wait.at, self.now, outcome))
        self.drop_timer(f"{wait.id}/wait")

    def drop_timer(self, id: str) -> None:
        """A timer no longer matters, whether it is stored already or was written in this step."""
        self.cancelled.append(id)
        self.timers = [timer for timer in self.timers if timer.id != id]

    def unsubscribed(self, id: str, subscription: Subscription, outcome: str) -> None:
        """Record that a subscription is over."""
        wait = WaitSettled(id, "subscription", subscription.at, self.now, outcome)
        self.settled.append(wait)
        for timer in open_checks(id, subscription.at, self.now, held=True):
            self.drop_timer(timer)
        if outcome != "final":
            self.ungathered(id)

    def ungathered(self, call: str) -> None:
        """Events of a call are given to no child; their timer no longer matters."""
        gathered = self.head.gathered.get(call)
        if gathered is not None:
            self.drop_timer(gathered.timer(call))

    def settle_here(self, id: str, cause: str, text: str, *, is_error: bool = True) -> None:
        """Settle a call with words of the runtime's own."""
        self.settle(Result(self.moment, id, (Text(text),), is_error=is_error, cause=cause, trace=self.trace))

    def give_up(self, id: str, call: OpenCall) -> None:
        """Tell whoever works on a call that it is no longer wanted."""
        if not (call.held or call.passive):
            self.effects.append(Cancel(f"{id}/cancel", id, call.server))
        for wait in self.waits_of(id):
            if wait.kind == "choice":
                chosen = Choose(f"{wait.id}/choice", id, wait.server, wait.url, int(wait.default))
                self.effects.append(chosen)
