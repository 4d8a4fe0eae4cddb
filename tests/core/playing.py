"""A thread played slice by slice without a store: what the runtime does, as plain values.

After every slice it checks what must always hold of the core: the head is the fold of the messages, also
once they were stored and read, and requests are valid and only grow at the end.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from torpor.core.absorb import absorb
from torpor.core.answer import Asked, Inline, answer, answer_cut, finish_turn, settle_inline
from torpor.core.builtins import BUILTINS
from torpor.core.chunks import Stop
from torpor.core.codec import decode_head, decode_message, encode
from torpor.core.definition import Definition, Limits, ToolSpec
from torpor.core.effects import Cancel, Effect, Invoke
from torpor.core.family import park
from torpor.core.head import Head
from torpor.core.messages import Born, By, Call, Message, Noted, Result, Text, Turn, Usage, text_of
from torpor.core.plan import Complete, owes_now, plan
from torpor.core.prompt import Fixed, Projection, request
from torpor.core.request import InjectedItem, Request, ResultsItem, TurnItem
from torpor.core.signals import (
    AnySignal,
    BornSignal,
    ClosedSignal,
    Due,
    Finished,
    HappenedSignal,
    Nudged,
    ReportedSignal,
    SaidSignal,
    StoppedSignal,
)
from torpor.core.step import Step
from torpor.core.thread import fold
from torpor.core.turn import RawCall, RawPart
from torpor.tools.schema import compile_schema

THREAD = "thread00000000000001"
SERVER = "http://tools.test"
START = 1_000.0

Kind = TypeVar("Kind")


def _anything(arguments: object) -> list[str]:
    return ["$.bad: not allowed"] if isinstance(arguments, dict) and "bad" in arguments else []


def tool(name: str, **fields: Any) -> ToolSpec:
    """A tool that takes any object without a field ``bad``."""
    return ToolSpec(name, f"The tool {name}.", {"type": "object"}, _anything, **fields)


TOOLS = {
    spec.name: spec
    for spec in (
        tool("read", repeat="safe"),
        tool("write"),
        tool("remote", server=SERVER),
        tool("bounded", server=SERVER, timeout=60.0),
        tool("quick", repeat="safe", inline=True),
        *(
            ToolSpec(b.name, b.description, b.schema, compile_schema(b.schema), builtin=True)
            for b in BUILTINS
        ),
    )
}


def definition(**fields: Any) -> Definition:
    """An agent with all the tools above; fields of its limits may be given too, but for ``events``."""
    limits = {key: fields.pop(key) for key in Limits.__struct_fields__ if key in fields and key != "events"}
    return Definition("tester", tools=dict(TOOLS), limits=Limits(**limits), **fields)


def call(name: str, text: str = "", **fields: Any) -> RawCall:
    """A call as a model writes it."""
    return RawCall(name, text, **fields)


class Birth(msgspec.Struct, frozen=True, eq=False):
    """How a child begins: its first signal, what its lineage shows, and when."""

    signal: BornSignal
    shown: Projection
    at: float


class Played:
    """One thread. Each method that takes signals runs one slice."""

    def __init__(self, *, birth: Birth | None = None, **fields: Any) -> None:
        self.thread = birth.signal.thread if birth else THREAD
        self.definition = definition(**fields)
        self.fixed = Fixed(self.definition)
        self.head = Head()
        self.messages: list[Message] = []
        self.ancestry = birth.shown if birth else Projection(THREAD)
        self.projection = self.ancestry.fork()
        self.requests: list[Request] = []
        self.effects: list[Effect] = []
        self.timers: dict[str, AnySignal] = {}
        self.outcomes: dict[str, str] = {}
        self.now = birth.at if birth else START
        self.last: Step | None = None
        self._numbers = 0
        first = self._step()
        if birth is None:
            first.add(Noted(self.now, Born("tester")))
        else:
            absorb(first, [birth.signal])
        self._commit(first)

    # ------------------------------------------------------------ signals

    def _id(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}/{self._numbers}"

    @property
    def coming(self) -> float:
        """When the next slice will be, and when its signals come."""
        return self.now + 1.0

    def text(self, text: str = "hello", mode: str = "steer", **fields: Any) -> SaidSignal:
        """A person's words."""
        parts = fields.pop("parts", (Text(text),))
        return SaidSignal(self.thread, self._id("said"), self.coming, parts=parts, mode=mode, **fields)

    def result(self, call: str, text: str = "done", **fields: Any) -> Finished:
        """A tool's result."""
        parts = fields.pop("parts", (Text(text),))
        by = fields.pop("by", By("runtime"))
        return Finished(
            self.thread, self._id(f"{call}/result"), self.coming, by, call=call, parts=parts, **fields
        )

    def event(self, call: str, text: str = "news", **fields: Any) -> HappenedSignal:
        """An event of a subscription, for the thread itself unless said otherwise."""
        fields = {"associative": True, **fields}
        return HappenedSignal(
            self.thread, self._id("event"), self.coming, call=call, parts=(Text(text),), **fields
        )

    def word(self, child: str, text: str, what: str = "report") -> ReportedSignal:
        """A child's word."""
        known = self.head.children.get(child)
        return ReportedSignal(
            self.thread,
            self._id(what),
            self.coming,
            By("thread", child, "store"),
            child=child,
            what=what,
            call=known.call if known else "",
            name="spawn_thread",
            purpose=known.purpose if known else "child",
            parts=(Text(text),),
            owes=what not in ("rested", "parked"),
        )

    def stop(self) -> StoppedSignal:
        """A person stops it."""
        return StoppedSignal(self.thread, self._id("stop"), self.coming)

    def close(self) -> ClosedSignal:
        """The end for good."""
        return ClosedSignal(self.thread, self._id("close"), self.coming)

    def nudge(self) -> Nudged:
        """A person asks it to go on."""
        return Nudged(self.thread, self._id("nudge"), self.coming)

    @property
    def alarms(self) -> dict[str, AnySignal]:
        """Its timers, without those that ask tool servers how old calls are doing."""
        return {
            id: timer
            for id, timer in self.timers.items()
            if not (isinstance(timer, Due) and timer.what == "status")
        }

    def timer(self, call: str, what: str = "sleep") -> Due:
        """A timer that the thread has set for a call."""
        due = self.timers[f"{call}/{what}"]
        assert isinstance(due, Due)
        return due

    # ------------------------------------------------------------- slices

    def absorb(self, *signals: AnySignal) -> Step:
        """A slice that does not ask the model, even if an answer is owed."""
        step = self._step()
        absorb(step, signals)
        return self._commit(step)

    def reply(
        self,
        *raw: RawPart | str,
        signals: Sequence[AnySignal] = (),
        meanwhile: Sequence[AnySignal] = (),
        inline: Callable[[Inline], Result] | None = None,
        cut: bool = False,
        stop: Stop | None = None,
    ) -> list[str]:
        """A slice that asks and gets this answer; gives the ids of its calls.

        ``meanwhile`` is recorded between the request and its answer, as for an answer that is bought slowly.
        """
        step = self._step()
        absorb(step, signals)
        assert plan(step.head, self.definition.limits) == Complete(), plan(step.head, self.definition.limits)
        token = f"{'' if self.thread == THREAD else self.thread}t{step.head.length}-"
        asked = Asked(step.head.length, token, "scripted:model", 0.5)
        projection: Projection | None = self._ask(step)
        if meanwhile:
            self._commit(step)
            self.absorb(*meanwhile)
            step, projection = self._step(), None
        parts = tuple(Text(part) if isinstance(part, str) else part for part in raw)
        if cut:
            answer_cut(step, parts, asked)
        else:
            for run in answer(step, parts, stop or Stop(usage=Usage(10, output=5)), asked):
                settle_inline(step, inline(run) if inline else _ran(step, run))
            finish_turn(step)
        self._commit(step, projection)
        return [call for call in step.opened if call.startswith(asked.token)] or self._ids(asked.token)

    def decide(self, act: Callable[[Step, Projection], Kind]) -> Kind:
        """A slice in which only this is decided, from what the model would be shown. Requests begin anew."""
        step, shown = self._step(), self.projection.fork()
        shown.show()
        decided = act(step, shown)
        self._commit(step)
        self.requests.clear()
        return decided

    def park(self, *signals: AnySignal, aside: bool = False, reason: str = "limit") -> Step:
        """A slice whose completion failed for good."""
        step = self._step()
        absorb(step, signals)
        park(step, reason, "limit", aside=aside)
        return self._commit(step)

    def _ids(self, token: str) -> list[str]:
        calls = [part for turn in self.all(Turn) for part in turn.parts if isinstance(part, Call)]
        return [call.id for call in calls if call.id.startswith(token)]

    def _step(self) -> Step:
        self.now += 1.0
        return Step(self.thread, self.head, self.now, self.definition, "trace")

    def _ask(self, step: Step) -> Projection:
        projection = self.projection.fork()
        for message in step.messages:
            projection.add(message)
        projection.show()
        asked = request(self.definition, projection, self.fixed)
        check_items(asked)
        if self.requests:
            check_prefix(self.requests[-1], asked)
        self.requests.append(asked)
        return projection

    def fail(self, *signals: AnySignal) -> None:
        """A slice whose completion failed and will be tried again: nothing is committed."""
        requests, step = self.requests.copy(), self._step()
        absorb(step, signals)
        if plan(step.head, self.definition.limits) == Complete():
            self._ask(step)
        self.requests = requests

    def _commit(self, step: Step, projection: Projection | None = None) -> Step:
        projection = projection or self.projection.fork()
        known = projection.position - len(self.messages) if self.messages else 0
        for message in step.messages[known:]:
            projection.add(message)
        self.projection = projection
        self.messages += step.messages
        self.head = step.head
        self.effects += step.effects
        self.outcomes |= step.outcomes
        for id in (*step.cancelled, *step.outcomes):
            self.timers.pop(id, None)
        self.timers |= {timer.id: timer for timer in step.timers}
        self.last = step
        self.check()
        return step

    # ----------------------------------------------------------- checking

    def check(self) -> None:
        """What must hold after every commit."""
        stored = [decode_message(encode(message)) for message in self.messages]
        assert stored == self.messages
        assert fold(stored) == self.head
        assert all(message.trace for message in self.messages[1:])
        assert decode_head(encode(self.head)) == self.head
        assert list(decode_head(encode(self.head)).detached) == list(self.head.detached)
        rebuilt = self.ancestry.fork()
        for message in stored:
            rebuilt.add(message)
        live = self.projection.fork()
        live.show()
        rebuilt.show()
        assert rebuilt.items == live.items
        assert rebuilt.digest == live.digest

    # ------------------------------------------------------------- seeing

    @property
    def why(self) -> str:
        """What the thread does now: ``complete``, ``waiting``, ``idle``, a state, or a limit's words."""
        planned = plan(self.head, self.definition.limits)
        return (
            "complete" if planned == Complete() else getattr(planned, "why", getattr(planned, "reason", ""))
        )

    @property
    def owes(self) -> bool:
        """As stored in the thread's row."""
        return owes_now(self.head)

    def all(self, kind: type[Kind]) -> list[Kind]:
        """All messages of a kind, or all noted facts of a kind."""
        facts = [message.note if isinstance(message, Noted) else message for message in self.messages]
        return [fact for fact in facts if isinstance(fact, kind)]

    @property
    def invoked(self) -> list[str]:
        """Calls sent out so far, in order."""
        return [effect.call for effect in self.effects if isinstance(effect, Invoke)]

    @property
    def cancelled(self) -> list[str]:
        """Calls that were told to stop, in order."""
        return [effect.call for effect in self.effects if isinstance(effect, Cancel)]

    def shown(self) -> list[str]:
        """What the model would be shown now, since its last turn, as short text."""
        projection = self.projection.fork()
        projection.show()
        return [line(item) for item in request(self.definition, projection, self.fixed).since_turn]

    def last_results(self) -> list[Result]:
        """The results that the last slice added."""
        return [message for message in self.last.messages if isinstance(message, Result)] if self.last else []

    def results(self) -> dict[str, str]:
        """The results that stand in the history, by call: the cause, or the text of a tool's own."""
        return {result.call: result.cause or text_of(result.parts) for result in self.all(Result)}


def _ran(step: Step, run: Inline) -> Result:
    return Result(step.now, run.call, (Text("ran"),), trace=step.trace)


def line(item: Any) -> str:
    """An item as one short line."""
    if isinstance(item, ResultsItem):
        return "results: " + " | ".join(view.text for view in item.results)
    if isinstance(item, InjectedItem):
        return f"{item.source} of {item.name}: {item.text}"
    if isinstance(item, TurnItem):
        return f"turn: {item.text}"
    return str(item.text)


def check_items(asked: Request) -> None:
    """Every call is answered once, in the very next item, in call order; ids are unique; the end asks."""
    ids: list[str] = []
    for i, item in enumerate(asked.items):
        if isinstance(item, InjectedItem):
            ids.append(item.id)
            msgspec.json.decode(item.wrapped)
        if isinstance(item, ResultsItem):
            before = asked.items[i - 1]
            assert i > 0
            assert isinstance(before, TurnItem)
            assert [view.call for view in item.results] == [c.id for c in before.calls]
            assert all(view.parts for view in item.results)
        if isinstance(item, TurnItem):
            assert item.parts
            ids += [c.id for c in item.calls]
            assert all(isinstance(msgspec.json.decode(c.arguments), dict) for c in item.calls)
            if item.calls:
                assert isinstance(asked.items[i + 1], ResultsItem)
    assert len(ids) == len(set(ids))
    assert not isinstance(asked.items[-1], TurnItem)


def check_prefix(before: Request, after: Request) -> None:
    """The later request is the earlier one and more."""
    assert after.items[: len(before.items)] == before.items
    assert len(after.items) > len(before.items) or after == before
