"""What people are asked: questions as they are shown, answers as they may be given, and how they ended."""

from collections.abc import Callable
from typing import Any

import msgspec

from torpor.core.codec import decode_head, decode_message
from torpor.core.errors import Broken, Refused
from torpor.core.messages import Answered, By, Noted, OpenWait, Requested, Result
from torpor.core.signals import AnsweredSignal
from torpor.core.text import clean
from torpor.core.thread import Head
from torpor.core.waits import COMMENT_KEPT, DECLINE, DISMISS
from torpor.ports import AUTHORIZATIONS, Row, Side, Store

UNKNOWN = "unknown"
RECEIVED = "received"
ANSWERED = "answered"

Value = str | int | bool | dict[str, Any] | None
"""An answer as a person gives it; a form's is an object."""

Fits = Callable[[str, object], list[str]]
"""Says what is wrong with a value by a JSON Schema, given as JSON text."""

FORM_KEPT = 16_000
"""Bytes of what is filled into a form, as JSON."""
SHOWN = 10
"""Of what is wrong with it, how much is told at once."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person is asked for a thread."""

    id: str
    """Answer it by this id; it names the thread, the call and the kind."""
    thread: str
    kind: str
    """``choice``, ``form``, ``authorization`` or ``approval``."""
    call: str
    name: str
    """The tool's."""
    since: float
    until: float = 0.0
    """When ``default`` counts as the answer; 0: never."""
    prompt: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    """What counts then, or if it is dismissed: the text of a choice, ``approve`` or ``deny``."""
    server: str = ""
    """The tool server that asks, or that the call would go to; empty for a function."""
    url: str = ""
    """Where a person authorizes the tool."""
    arguments: str = ""
    """Of a call that shall be approved, all of them, as JSON text."""
    answers: tuple[str, ...] = ()
    """What may be answered; of a choice also its place, from 0; of a form also an object."""
    form: str = ""
    """What an object that is filled in must be: a JSON Schema, as JSON text."""


class Settled(msgspec.Struct, frozen=True):
    """What became of an answer.

    ``received``: it is stored and will be followed. With any other outcome it changes nothing: ``unknown``
    (there never was such a wait), ``answered`` (another answer is on its way), or how the wait has ended:
    ``chosen``, ``filled``, ``declined``, ``authorized``, ``approved``, ``denied``, ``dismissed``,
    ``expired``, ``stale``, ``interrupted``, ``stopped``, ``closed``, ``settled``.
    """

    wait: str
    outcome: str

    @property
    def taken(self) -> bool:
        """The answer counts."""
        return self.outcome == RECEIVED


def asked(row: Row) -> list[Question]:
    """What people are asked for a thread now, oldest first."""
    head = decode_head(row.head, row.shape)
    return [_question(row.thread, head, wait) for wait in head.waits.values()]


async def addressed(side: Side, questions: list[Question]) -> list[Question]:
    """Questions with the URLs of authorizations, which are kept elsewhere while their calls are open."""
    return [await _addressed(side, one) if one.kind == "authorization" else one for one in questions]


async def _addressed(side: Side, question: Question) -> Question:
    url = await side.get(AUTHORIZATIONS, f"{question.thread}/{question.url}")
    return msgspec.structs.replace(question, url=(url or b"").decode())


def _question(thread: str, head: Head, wait: OpenWait) -> Question:
    call = head.pending.get(wait.call) or head.detached.get(wait.call)
    return Question(
        id=wait.id,
        thread=thread,
        kind=wait.kind,
        call=wait.call,
        name=wait.name,
        since=wait.at,
        until=wait.deadline,
        prompt=wait.prompt,
        choices=wait.choices,
        default=_default(wait),
        server=wait.server,
        url=wait.url if wait.kind == "authorization" else "",
        arguments=call.arguments if call and wait.kind == "approval" else "",
        answers=_answers(wait),
        form=wait.schema,
    )


def _default(wait: OpenWait) -> str:
    if wait.kind != "choice":
        return wait.default
    try:
        return wait.choices[int(wait.default)]
    except (ValueError, IndexError):
        raise Broken(f"The wait {wait.id!a:.130} has no such default: its row is damaged.") from None


def _answers(wait: OpenWait) -> tuple[str, ...]:
    match wait.kind:
        case "choice":
            return (*wait.choices, DISMISS)
        case "form":
            return (DECLINE, DISMISS)
        case "authorization":
            return ("done", DISMISS)
        case _:
            return ("approve", "deny")


def value_of(wait: OpenWait, given: Value, fits: Fits) -> str:
    """An answer as it is stored. ``Refused`` says which ones there are, or what is wrong with a form's."""
    if wait.kind == "form" and isinstance(given, dict):
        return _filled(wait, given, fits)
    value = _chosen(wait, given) if wait.kind == "choice" else _said(wait, given)
    if not value:
        known = ", ".join(repr(answer) for answer in _answers(wait))
        more = {
            "choice": f", or a place from 0 to {len(wait.choices) - 1}",
            "form": ", or an object that fits its schema",
        }.get(wait.kind, "")
        raise Refused(f"{given!a:.130} is no answer to this {wait.kind}. Answers: {known}{more}.")
    return value


def _filled(wait: OpenWait, given: dict[str, Any], fits: Fits) -> str:
    try:
        text = msgspec.json.encode(given).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"What was filled in has no JSON form: {error}.") from None
    if len(text.encode()) > FORM_KEPT:
        raise Refused(f"What is filled into a form may have {FORM_KEPT:,} bytes.")
    problems = fits(wait.schema or "{}", given)
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise Refused(f"What was filled in does not fit the form: {'; '.join(problems[:SHOWN])}{more}.")
    return text


def _chosen(wait: OpenWait, given: Value) -> str:
    """The place of what was chosen; empty: it is none of the choices, or more than one of them."""
    if isinstance(given, str):
        places = [place for place, choice in enumerate(wait.choices) if choice == given]
        if places or given == DISMISS:
            return str(places[0]) if len(places) == 1 else "" if places else DISMISS
        given = int(given) if given.isascii() and given.isdecimal() and len(given) < 5 else False
    if given is None:
        return DISMISS
    is_place = isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(wait.choices)
    return str(given) if is_place else ""


def _said(wait: OpenWait, given: Value) -> str:
    if wait.kind == "approval" and isinstance(given, bool):
        return "approve" if given else "deny"
    if wait.kind == "form" and given is None:
        return DISMISS
    if wait.kind == "authorization" and (given is None or given is True):
        return "done" if given else DISMISS
    return given if isinstance(given, str) and given in _answers(wait) else ""


def open_wait(row: Row | None, wait: str) -> OpenWait | None:
    """A wait that is still open, by its id."""
    return decode_head(row.head, row.shape).waits.get(wait) if row else None


def answer_to(wait: OpenWait, thread: str, value: str, comment: object, by: By, at: float) -> AnsweredSignal:
    """A person's answer as a signal; its id is the same for all answers to a wait, so that one counts."""
    if not isinstance(comment, str) or len(comment) > COMMENT_KEPT:
        raise Refused(f"A comment is a text of at most {COMMENT_KEPT:,} characters.")
    return AnsweredSignal(
        thread, f"{wait.id}/answer", at, by, wait=wait.id, value=value, comment=clean(comment)
    )


def thread_of(wait: str) -> str:
    """The thread that a wait's id names."""
    return clean(wait.partition(".")[0])


async def repeated(store: Store, answer: AnsweredSignal) -> Settled:
    """What becomes of an answer where one was posted before: it counts if that says the same."""
    for one in await store.inbox(answer.thread):
        if isinstance(one, AnsweredSignal) and one.id == answer.id:
            same = (one.value, one.comment) == (answer.value, answer.comment)
            return Settled(answer.wait, RECEIVED if same else ANSWERED)
    return await settled(store, answer.wait)


async def settled(store: Store, wait: str) -> Settled:
    """How a wait ended that is not open any more, as its thread's history tells."""
    call, after, thread, named = "", 0, thread_of(wait), wait.encode(errors="surrogatepass")
    if await store.row(thread) is None:
        return Settled(wait, UNKNOWN)
    while page := await store.read(thread, after):
        for stored in page:
            body = stored.body
            if named not in body and (not call or call.encode() not in body):
                continue  # who is not named in the bytes is not in the message
            match decode_message(body):
                case Noted(note=Requested(wait=OpenWait(id=id, call=asked_for))) if id == wait:
                    call = asked_for
                case Noted(note=Answered(wait=id, outcome=outcome)) if id == wait:
                    return Settled(wait, outcome)
                case Result(call=id, cause=cause) if call and id == call:
                    return Settled(wait, cause or "settled")
        after = page[-1].position
    return Settled(wait, UNKNOWN)
