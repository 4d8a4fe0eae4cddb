"""Waits of people: choices, forms, authorizations and approvals; each has an id and is settled once.

No wait holds up more than its call: new words are answered beside it, and whatever settles the call settles
its waits.
"""

from torpor.core import consent
from torpor.core.calls import ABSORBED, SETTLED, note
from torpor.core.definition import ToolSpec
from torpor.core.effects import Choose
from torpor.core.messages import Answered, By, Call, OpenWait, Requested
from torpor.core.signals import AnsweredSignal, Due, RequestedSignal
from torpor.core.step import Step
from torpor.core.text import clean
from torpor.core.thread import OpenCall, shortened

NO_WAIT = "no such wait"
NO_CALL = "no such call"
NO_ANSWER = "no such answer"
TOO_MANY = "too many questions"

MOST = 8
"""Waits that one call may have open."""
COMMENT_KEPT = 2_000
"""Characters of a person's comment that are kept."""

DISMISS = "dismiss"
DECLINE = "decline"
"""To fill in a form; its tool goes on without."""
_FILLED = {DECLINE: "declined", DISMISS: "dismissed"}


def ask(step: Step, call: Call, spec: ToolSpec) -> None:
    """Ask a person to approve a call before it is sent."""
    approvals = step.definition.approvals
    wait = OpenWait(
        id=_id(step, call.id, "approval"),
        kind="approval",
        call=call.id,
        name=call.name,
        at=step.moment,
        default=approvals.default if approvals.seconds else "",
        deadline=step.now + approvals.seconds if approvals.seconds else 0.0,
        server=call.server,
        arguments=shortened(call.arguments),
        digest=consent.digest(approvals, spec, call.arguments),
    )
    _open(step, wait)


def requested(step: Step, signal: RequestedSignal) -> str:
    """A tool server needs a person for one of its calls."""
    call = step.open_call(signal.call)
    if call is None or call.given_up:
        return NO_CALL
    if len(step.waits_of(signal.call)) >= MOST:
        return TOO_MANY
    wait = OpenWait(
        id=_id(step, signal.call, signal.kind),
        kind=signal.kind,
        call=signal.call,
        name=call.name,
        at=step.moment,
        prompt=signal.prompt,
        choices=signal.choices,
        default=signal.default,
        deadline=signal.expires,
        server=call.server,
        url=signal.url,
        schema=signal.schema,
        told=signal.told,
    )
    _open(step, wait)
    return ABSORBED


def answered(step: Step, signal: AnsweredSignal) -> str:
    """A person has answered."""
    wait = step.head.waits.get(signal.wait)
    if wait is None:
        return SETTLED if signal.wait.startswith(f"{step.thread}.") else NO_WAIT
    match wait.kind, signal.value:
        case "choice", value if value == DISMISS or _is_index(wait, value):
            _choose(step, wait, signal)
        case "form", value if value in (DECLINE, DISMISS) or value.startswith("{"):
            _fill_in(step, wait, _FILLED.get(value, "filled"), signal)
        case "authorization", "done":
            _over(step, wait, "authorized", signal)
            if wait.told:
                _tell(step, wait, value="done")
        case "authorization", "dismiss":
            _unauthorized(step, wait, "dismissed", signal)
        case "approval", "approve":
            _approve(step, wait, "approved", signal)
        case "approval", "deny":
            _deny(step, wait, signal)
        case _:
            return NO_ANSWER
    return ABSORBED


def expired(step: Step, signal: Due) -> str:
    """Nobody has answered in time: what was agreed for that counts."""
    wait = step.head.waits.get(signal.call)
    if wait is None:
        return SETTLED
    if wait.kind == "choice":
        _choose(step, wait, signal)
    elif wait.kind == "form":
        _fill_in(step, wait, "expired", signal)
    elif wait.kind == "authorization":
        _unauthorized(step, wait, "expired", signal)
    elif wait.default == "approve":
        _approve(step, wait, "expired", signal)
    else:
        _over(step, wait, "expired", signal)
        text = "nobody approved it within the time for that. No person has denied it."
        _settle(step, wait, "expired", f"Error: {wait.name} was not run: {text}")
    return ABSORBED


def _id(step: Step, call: str, kind: str) -> str:
    """The id of a call's next wait of a kind: of the second one on, with its number."""
    open_ = step.open_call(call)
    before = open_.asked.get(kind, 0) if open_ else 0
    return f"{step.thread}.{call}.{kind}" + (f".{before + 1}" if before else "")


def _open(step: Step, wait: OpenWait) -> None:
    note(step, Requested(wait))
    if wait.deadline:
        due = Due(step.thread, f"{wait.id}/wait", step.now, due=wait.deadline, call=wait.id, what="wait")
        step.timers.append(due)


def _is_index(wait: OpenWait, value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 4 and int(value) < len(wait.choices)


def _choose(step: Step, wait: OpenWait, signal: AnsweredSignal | Due) -> None:
    """Tell the tool server what was chosen: the default, if nobody has."""
    value, outcome = wait.default, "expired"
    if isinstance(signal, AnsweredSignal):
        outcome = "dismissed" if signal.value == DISMISS else "chosen"
        value = wait.default if signal.value == DISMISS else signal.value
    _over(step, wait, outcome, signal, value)
    _tell(step, wait, int(value))


def _tell(step: Step, wait: OpenWait, selected: int = 0, value: str = "") -> None:
    step.effects.append(Choose(f"{wait.id}/choice", wait.call, wait.server, wait.url, selected, value))


def _fill_in(step: Step, wait: OpenWait, outcome: str, signal: AnsweredSignal | Due) -> None:
    """Tell the tool server what a person has filled in, or that nobody does."""
    value = signal.value if isinstance(signal, AnsweredSignal) else DISMISS
    _over(step, wait, outcome, signal, value)
    _tell(step, wait, value=value)


def _unauthorized(step: Step, wait: OpenWait, outcome: str, signal: AnsweredSignal | Due) -> None:
    _over(step, wait, outcome, signal)
    step.give_up(wait.call, _call(step, wait))
    why = "nobody authorized it in time" if outcome == "expired" else "a person did not want to authorize it"
    _settle(step, wait, outcome, f"Error: {wait.name} was given up: {why}.")


def _approve(step: Step, wait: OpenWait, outcome: str, signal: AnsweredSignal | Due) -> None:
    """The call may go out, if it is still what was shown to the person."""
    call = _call(step, wait)
    why = consent.objection(step.definition, call.name, call.arguments, wait.digest)
    _over(step, wait, "stale" if why else outcome, signal, "approve")
    if why:
        _settle(step, wait, "stale", consent.told(wait.name, why))


def _deny(step: Step, wait: OpenWait, signal: AnsweredSignal) -> None:
    _over(step, wait, "denied", signal, "deny")
    who, words = signal.by.id or "a person", _comment(signal)
    said = f" What they say: {words}" if words else ""
    _settle(step, wait, "denied", f"Error: {wait.name} was not run: {who} denied it.{said}")


def _call(step: Step, wait: OpenWait) -> OpenCall:
    call = step.open_call(wait.call)
    assert call is not None, "a wait does not outlive its call"
    return call


def _settle(step: Step, wait: OpenWait, cause: str, text: str) -> None:
    step.settle_here(wait.call, cause, text)
    step.woken_by = f"the end of the {wait.kind} for {wait.name}"


def _over(step: Step, wait: OpenWait, outcome: str, signal: AnsweredSignal | Due, value: str = "") -> None:
    step.answered(wait, outcome)
    by = signal.by if isinstance(signal, AnsweredSignal) else By("timer")
    note(step, Answered(wait.id, outcome, value, _comment(signal), signal.id, by))


def _comment(signal: AnsweredSignal | Due) -> str:
    return clean(signal.comment)[:COMMENT_KEPT] if isinstance(signal, AnsweredSignal) else ""
