"""A turn into each call's fate: refused, decided here, run within the slice, or sent out.

Every call of a turn gets exactly one fate. The turn is appended first, then the results that are known at
once, in call order.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core.absorb import say_queued, send
from torpor.core.builtins import PASSIVE, Decision, Told, Unsubscribe, Wait, arm, decide, unsubscribe
from torpor.core.chunks import Stop
from torpor.core.definition import ToolSpec
from torpor.core.messages import Call, Result, Turn, TurnPart
from torpor.core.request import INJECTED
from torpor.core.step import Step
from torpor.core.turn import RawCall, RawPart, arguments_of

VIOLATIONS_SHOWN = 5
NAMES_SHOWN = 50


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


class Run(msgspec.Struct, frozen=True, eq=False):
    """Run the function within the slice, before the commit."""

    spec: ToolSpec
    arguments: dict[str, Any]


class Send(msgspec.Struct, frozen=True, eq=False):
    """Send it out after the commit; held back while the turn has too many under way."""

    spec: ToolSpec
    held: bool = False


Fate = Refuse | Decide | Run | Send


class Inline(msgspec.Struct, frozen=True, eq=False):
    """A call that the slice runs itself, then settles with ``settle_inline``."""

    call: str
    spec: ToolSpec
    arguments: dict[str, Any]


def answer(step: Step, raw: Sequence[RawPart], stop: Stop, asked: Asked) -> list[Inline]:
    """Append a turn and give each of its calls its fate; what must run within the slice is given back."""
    parts, fates = _assigned(step, raw, asked.token)
    calls = [part for part in parts if isinstance(part, Call)]
    step.add(_turn(step, tuple(parts), fates, stop, asked))
    inline: list[Inline] = []
    for call, fate in zip(calls, fates, strict=True):
        step.opened.append(call.id)
        match fate:
            case Refuse():
                step.settle_here(call.id, fate.cause, f"Error: {fate.text}")
            case Decide():
                _decided(step, call, fate.decision)
            case Run():
                inline.append(Inline(call.id, fate.spec, fate.arguments))
            case Send():
                if not fate.held:
                    send(step, call.id, call.name, call.arguments, call.server, call.repeat)
    return inline


def answer_cut(step: Step, raw: Sequence[RawPart], asked: Asked) -> None:
    """Append a turn that a person cut short; none of its calls is sent."""
    parts = tuple(
        _call(part, asked.token, index, None, held=False) if isinstance(part, RawCall) else part
        for index, part in enumerate(raw)
    )
    step.add(
        Turn(
            at=step.now,
            upto=asked.upto,
            ordinal=step.head.ordinal,
            parts=parts,
            model=asked.model,
            seconds=asked.seconds,
            stop="cut",
            cut=True,
            trace=step.trace,
        )
    )
    for part in parts:
        if isinstance(part, Call):
            step.settle_here(part.id, "not_sent", "Not sent: the turn was cut short by a person.")


def finish_turn(step: Step) -> None:
    """Once every fate is carried out: if the exchange has ended, say what waited for that."""
    if step.head.queued and not step.head.exchange.open:
        say_queued(step)


def settle_inline(step: Step, result: Result) -> None:
    """Settle a call that ran within the slice."""
    step.settle(result)


def _assigned(step: Step, raw: Sequence[RawPart], token: str) -> tuple[list[TurnPart], list[Fate]]:
    parts: list[TurnPart] = []
    fates: list[Fate] = []
    sent = 0
    for part in raw:
        if not isinstance(part, RawCall):
            parts.append(part)
            continue
        fate = _fate(step, part, sent)
        sent += isinstance(fate, Send)
        parts.append(_call(part, token, len(fates), _spec(fate), held=isinstance(fate, Send) and fate.held))
        fates.append(fate)
    return parts, fates


def _spec(fate: Fate) -> ToolSpec | None:
    return fate.spec if isinstance(fate, Send | Run) else None


def _call(raw: RawCall, token: str, index: int, spec: ToolSpec | None, *, held: bool) -> Call:
    return Call(
        id=f"{token}{index}",
        name=raw.name,
        arguments=raw.text if raw.text.strip() else "{}",
        provider_id=raw.provider_id,
        index=index,
        invalid=arguments_of(raw.text) is None,
        server=spec.server if spec else "",
        repeat=spec.repeat if spec else "",
        passive=raw.name in PASSIVE,
        held=held,
        opaque=raw.opaque,
    )


def _fate(step: Step, call: RawCall, sent: int) -> Fate:
    spec = step.definition.tools.get(call.name)
    if call.name == INJECTED:
        return Refuse(
            "reserved", f"{INJECTED} is not a tool: the runtime shows news under that name by itself."
        )
    if spec is None:
        return Refuse("unknown_tool", f"there is no tool {call.name!r}. {_known(step)}")
    arguments = arguments_of(call.text)
    if arguments is None:
        return Refuse("invalid_arguments", f"the arguments of {call.name} must be a JSON object.")
    violations = spec.check(arguments)
    if violations:
        told = "; ".join(violations[:VIOLATIONS_SHOWN])
        return Refuse("invalid_arguments", f"the arguments of {call.name} do not fit its schema: {told}")
    if spec.builtin:
        return Decide(decide(step, call.name, arguments))
    if spec.inline:
        return Run(spec, arguments)
    return Send(spec, held=sent >= step.definition.limits.parallel)


def _known(step: Step) -> str:
    names = sorted(step.definition.tools)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"Known: {', '.join(names[:NAMES_SHOWN])}{more}."


def _decided(step: Step, call: Call, decision: Decision) -> None:
    match decision:
        case Wait():
            arm(step, call.id, decision)
        case Told():
            step.settle_here(call.id, "decided", decision.text, is_error=decision.is_error)
        case Unsubscribe():
            step.settle_here(call.id, "decided", unsubscribe(step, decision), is_error=False)


def _turn(step: Step, parts: tuple[TurnPart, ...], fates: list[Fate], stop: Stop, asked: Asked) -> Turn:
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
        loopback=bool(fates) and all(_settles_here(fate) for fate in fates),
        end=_ends(step, fates, asked.upto),
        trace=step.trace,
    )


def _ends(step: Step, fates: list[Fate], upto: int) -> bool:
    """Nothing but sleeps is left to wait for, and nothing has come that the turn did not see."""
    if step.head.active or step.head.owed > upto:
        return False
    return all(isinstance(fate, Decide) and isinstance(fate.decision, Wait) for fate in fates)


def _settles_here(fate: Fate) -> bool:
    return isinstance(fate, Refuse) or (isinstance(fate, Decide) and not isinstance(fate.decision, Wait))
