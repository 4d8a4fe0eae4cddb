"""What became of a thread while a client waited for it, as clients read it."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core.request import instant
from torpor.runtime.questions import Question

REPLIED = "replied"
WORKING = "working"
ASKING = "asking"


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a person is asked; the thread (or that part of it) rests until it is answered."""

    wait: str
    """Its id, for the tool ``answer``."""
    kind: str
    """``choice``, ``authorization``, ``approval`` or ``form``."""
    tool: str
    """The tool that asks, or that wants to run."""
    prompt: str = ""
    answers: list[str] = []
    """What may be answered."""
    arguments: str = ""
    """Of a call that shall be approved, as JSON text."""
    url: str = ""
    """Where a person authorizes the tool."""
    form: str = ""
    """The JSON Schema of the answer, as JSON text."""
    default: str = ""
    """What counts if nobody answers until then."""
    until: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Where a thread stands after a bounded wait."""

    thread: str
    """Its id: give it to the other tools."""
    state: str
    """``replied``; ``working``: no reply yet; ``asking``: a person must answer first; else it has come to an
    end without a reply: ``parked``, ``stopped`` or ``closed``."""
    text: str
    """The reply, or in words where it stands."""
    position: int = 0
    """Where in the thread's history the reply stands; 0 without one."""
    asks: list[Asked] = []

    @property
    def is_final(self) -> bool:
        """Nothing more comes by itself."""
        return self.state not in (WORKING, ASKING)


def asked(question: Question) -> Asked:
    """A question as clients read it."""
    return Asked(
        wait=question.id,
        kind=question.kind,
        tool=question.name,
        prompt=question.prompt,
        answers=list(question.answers),
        arguments=question.arguments,
        url=question.url,
        form=question.form,
        default=question.default if question.until else "",
        until=instant(question.until) if question.until else "",
    )


def words(outcome: Outcome) -> str:
    """An outcome as text, for clients and models that read no structure."""
    if outcome.state == REPLIED:
        return outcome.text
    lines = [f"{outcome.text} (thread {outcome.thread}, {outcome.state})"]
    lines += [_question(one) for one in outcome.asks]
    return "\n".join(lines)


def _question(one: Asked) -> str:
    facts = [f"{one.kind} for {one.tool}"]
    facts += [f'"{one.prompt}"'] if one.prompt else []
    facts += [f"arguments {one.arguments}"] if one.arguments else []
    facts += [f"at {one.url}"] if one.url else []
    facts += [f"by this schema: {one.form}"] if one.form else []
    answers = f"; answers: {' | '.join(one.answers)}" if one.answers else ""
    return f"A person is asked, wait {one.wait}: {', '.join(facts)}{answers}"


def schema(kind: type[Any]) -> dict[str, Any]:
    """The JSON Schema of a shape, without references, as clients with plain readers need it."""
    _, parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    found: dict[str, Any] = _inlined(parts[kind.__name__], parts)
    return {key: value for key, value in found.items() if key not in ("title", "description")}


def _inlined(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        name = str(value.get("$ref", "")).rpartition("/")[2]
        if name:
            return _inlined(parts[name], parts)
        return {key: _inlined(one, parts) for key, one in value.items()}
    return [_inlined(one, parts) for one in value] if isinstance(value, list) else value


def structure(value: Any) -> dict[str, Any]:
    """A shape as JSON."""
    found: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return found


def listed(questions: Sequence[Question]) -> list[Asked]:
    """Questions as clients read them."""
    return [asked(question) for question in questions]
