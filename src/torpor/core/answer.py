"""A turn into each call's fate: refused, decided here, run within the slice, or sent out.

Every call of a turn gets exactly one fate. The turn is appended first, then the results that are known at
once, in call order.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core import compaction, consent
from torpor.core.absorb import say_queued
from torpor.core.builtins import decide
from torpor.core.calls import send, wake_if_free
from torpor.core.chunks import Stop
from torpor.core.decisions import Act, Decision, Wait
from torpor.core.definition import ToolSpec
from torpor.core.family import close, rest
from torpor.core.messages import By, Call, Result, Text, Turn, TurnPart
from torpor.core.request import INJECTED
from torpor.core.sleeps import arm
from torpor.core.step import Step
from torpor.core.text import clean
from torpor.core.turn import RawCall, RawPart, arguments_of
from torpor.core.waits import ask

VIOLATIONS_SHOWN = 5
VIOLATION_SHOWN = 500
"""Characters of one violation: some quote the value that is wrong."""
NAMES_SHOWN = 50
NAME_SHOWN = 100
"""Characters of a name that the model made up."""


class Asked(msgspec.Struct, frozen=True):
    """Facts of the completion that produced a turn."""

    upto: int
    token: str
    """Random text given to the slice: call ids are made of it."""
    model: str = ""
    seconds: float = 0.0


class Refuse(msgspec.Struct, frozen=True):
    """Settle with an error the model reads."""

    cause: str
    text: str


class Decide(msgspec.Struct, frozen=True):
    """A built-in has decided."""

    decision: Decision

    @property
    def waits(self) -> bool:
        """The call stays open, as a passive wait."""
        return isinstance(self.decision, Wait)


class Run(msgspec.Struct, frozen=True, eq=False):
    """Run the function within the slice, before the commit."""

    spec: ToolSpec
    arguments: dict[str, Any]


class Send(msgspec.Struct, frozen=True, eq=False):
    """Send it out after the commit; held back while the turn has too many under way."""

    spec: ToolSpec
    held: bool = False


class Ask(msgspec.Struct, frozen=True, eq=False):
    """Keep it back until a person has approved it."""

    spec: ToolSpec


Fate = Refuse | Decide | Run | Send | Ask


class Inline(msgspec.Struct, frozen=True, eq=False):
    """A call that the slice runs itself, then settles with ``settle_inline``."""

    call: str
    spec: ToolSpec
    arguments: dict[str, Any]


def answer(step: Step, raw: Sequence[RawPart], stop: Stop, asked: Asked) -> list[Inline]:
    """Append a turn and give each of its calls its fate; what must run within the slice is given back.

    A turn that answers no more than an earlier one did is recorded as paid, and what it says is dropped.
    """
    step.moment = step.now
    if asked.upto <= step.head.answered:
        step.add(_turn(step, (), stop, asked, end=not step.head.exchange.open))
        return []
    step.woken_by = "news that came meanwhile" if step.head.owed > asked.upto else ""
    parts, fates = _assigned(step, raw, asked.token)
    loopback = bool(fates) and all(map(_is_decided, fates))
    step.add(_turn(step, parts, stop, asked, loopback=loopback, end=_ends(step, fates, asked.upto)))
    calls = [part for part in parts if isinstance(part, Call)]
    return [
        inline
        for call, fate in zip(calls, fates, strict=True)
        if (inline := _carry_out(step, call, fate)) is not None
    ]


def _carry_out(step: Step, call: Call, fate: Fate) -> Inline | None:
    step.opened.append(call.id)
    match fate:
        case Refuse():
            step.settle_here(call.id, fate.cause, f"Error: {fate.text}")
        case Decide():
            _decided(step, call.id, fate.decision)
        case Run():
            return Inline(call.id, fate.spec, fate.arguments)
        case Send(held=False):
            send(step, call.id, call, step.now)
        case Ask():
            ask(step, call, fate.spec)
        case _:
            pass
    return None


def _decided(step: Step, call: str, decision: Decision) -> None:
    if isinstance(decision, Wait):
        arm(step, call, decision)
        return
    settled = decision.do(step, call, decision.arguments) if isinstance(decision, Act) else decision
    step.settle_here(call, "decided", settled.text, is_error=settled.is_error)


def answer_cut(step: Step, raw: Sequence[RawPart], asked: Asked) -> None:
    """Append a turn that a person cut short; none of its calls is sent."""
    step.moment = step.now
    parts: list[TurnPart] = []
    for part in raw:
        index = sum(isinstance(earlier, Call) for earlier in parts)
        parts.append(_call(part, asked.token, index) if isinstance(part, RawCall) else part)
    step.add(_turn(step, tuple(parts), Stop("cut"), asked, cut=True))
    for call in (part for part in parts if isinstance(part, Call)):
        step.settle_here(call.id, "not_sent", "Not sent: the turn was cut short by a person.")


def finish_turn(step: Step) -> None:
    """Once every fate is carried out: news that the turn had not seen ends its sleeps at once, and text that
    waited for the end of the exchange is said if this is it. A thread that its model closes is closed, and a
    child that has come to an end says so.
    """
    if step.closing is not None:
        close(step, By("model", step.thread), step.closing)
        return
    step.wakes_all = bool(step.woken_by)
    wake_if_free(step)
    if step.head.queued and not step.head.busy:
        say_queued(step)
    rest(step)


def settle_inline(step: Step, result: Result) -> None:
    """Settle a call that ran within the slice."""
    parts = tuple(Text(clean(part.text)) if isinstance(part, Text) else part for part in result.parts)
    step.settle(msgspec.structs.replace(result, parts=parts))


def _assigned(step: Step, raw: Sequence[RawPart], token: str) -> tuple[tuple[TurnPart, ...], list[Fate]]:
    parts: list[TurnPart] = []
    fates: list[Fate] = []
    sent = 0
    for part in raw:
        if not isinstance(part, RawCall):
            parts.append(part)
            continue
        fate = _fate(step, part, sent, fates)
        sent += isinstance(fate, Send)
        parts.append(_call(part, token, len(fates), fate))
        fates.append(fate)
    return tuple(parts), fates


def _call(raw: RawCall, token: str, index: int, fate: Fate | None = None) -> Call:
    spec = fate.spec if isinstance(fate, Send | Run | Ask) else None
    wait = fate.decision if isinstance(fate, Decide) and isinstance(fate.decision, Wait) else None
    return Call(
        id=f"{token}{index}",
        name=raw.name,
        arguments=raw.text if raw.text.strip() else "{}",
        provider_id=raw.provider_id,
        index=index,
        invalid=not isinstance(fate, Decide | Run | Send | Ask) and arguments_of(raw.text) is None,
        server=spec.server if spec else "",
        repeat=spec.repeat if spec else "",
        passive=wait is not None,
        held=isinstance(fate, Ask) or (isinstance(fate, Send) and fate.held),
        approval=isinstance(fate, Ask),
        opaque=raw.opaque,
        awaits=wait.awaits if wait else (),
        needs=wait.needs if wait else 0,
    )


def _fate(step: Step, call: RawCall, sent: int, before: Sequence[Fate]) -> Fate:
    spec = step.definition.tools.get(call.name)
    if compaction.refuses(step.head, call.name):
        return Refuse("compaction", compaction.REFUSED)
    if call.name == INJECTED:
        return Refuse(
            "reserved", f"{INJECTED} is not a tool: the runtime shows news under that name by itself."
        )
    if spec is None:
        return Refuse("unknown_tool", f"there is no tool {call.name[:NAME_SHOWN]!r}. {_known(step)}")
    arguments = arguments_of(call.text)
    if arguments is None:
        return Refuse("invalid_arguments", f"the arguments of {call.name} must be a JSON object.")
    violations = spec.check(arguments)
    if violations:
        told = "; ".join(violation[:VIOLATION_SHOWN] for violation in violations[:VIOLATIONS_SHOWN])
        return Refuse("invalid_arguments", f"the arguments of {call.name} do not fit its schema: {told}")
    if spec.builtin:
        return Decide(decide(step, call.name, arguments, _spoken_to(before)))
    if consent.is_needed(step.definition.approvals, spec):
        return Ask(spec)
    if spec.inline:
        return Run(spec, arguments)
    return Send(spec, held=sent >= step.definition.limits.parallel)


def _spoken_to(fates: Sequence[Fate]) -> set[str]:
    """Children that earlier calls of the turn send messages."""
    acts = [fate.decision for fate in fates if isinstance(fate, Decide) and isinstance(fate.decision, Act)]
    return {str(act.arguments["thread_id"]) for act in acts if "message" in act.arguments}


def _known(step: Step) -> str:
    names = sorted(step.definition.tools)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"Known: {', '.join(names[:NAMES_SHOWN])}{more}."


def _turn(
    step: Step,
    parts: tuple[TurnPart, ...],
    stop: Stop,
    asked: Asked,
    *,
    loopback: bool = False,
    end: bool = False,
    cut: bool = False,
) -> Turn:
    return Turn(
        at=step.now,
        upto=asked.upto,
        ordinal=step.head.ordinal,
        parts=parts,
        model=stop.model or asked.model,
        product=stop.product,
        provider_ids=stop.provider_ids,
        usage=stop.usage,
        seconds=asked.seconds,
        stop=stop.reason,
        cut=cut,
        loopback=loopback,
        end=end,
        trace=step.trace,
    )


def _is_decided(fate: Fate) -> bool:
    """The call is settled here and now."""
    return isinstance(fate, Refuse) or (isinstance(fate, Decide) and not fate.waits)


def _ends(step: Step, fates: list[Fate], upto: int) -> bool:
    """Nothing but sleeps is left to wait for, and nothing has come that the turn did not see."""
    if step.head.active or step.head.owed > upto:
        return False
    return all(isinstance(fate, Decide) and fate.waits for fate in fates)
