"""Questions to people as forms of MCP, and what such a form's answer says."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from torpor.core.waits import DECLINE, DISMISS
from torpor.mcp.outcomes import Asked
from torpor.runtime.questions import Value

FIELD = "answer"


def form_of(asked: Asked) -> tuple[str, dict[str, Any]]:
    """The message and the flat schema by which a client asks its user."""
    if asked.kind == "form":
        return asked.prompt or f"{asked.tool} asks", json.loads(asked.form or "{}")
    answers = asked.answers[:-1] if asked.kind == "choice" else asked.answers  # the last one is to dismiss it
    fields: dict[str, Any] = {FIELD: {"type": "string", "title": "Answer", "enum": answers}}
    if asked.kind != "approval":
        return asked.prompt or f"{asked.tool} asks", _object(fields)
    fields["comment"] = {"type": "string", "title": "Comment for the agent"}
    return f"May {asked.tool} run with {asked.arguments}?", _object(fields)


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [FIELD]}


class Given(msgspec.Struct, frozen=True):
    """What a person answered."""

    value: Value
    comment: str = ""


def read(asked: Asked, action: str, content: Mapping[str, Any] | None) -> Given | None:
    """What a form's answer says; None: it was put away, and the question stays open."""
    if action == "cancel" or asked.kind == "authorization":
        return None
    if action != "accept":
        return Given({"approval": "deny", "form": DECLINE}.get(asked.kind, DISMISS))
    filled = dict(content or {})
    if asked.kind == "form":
        return Given(filled)
    comment = filled.get("comment")
    return Given(filled.get(FIELD), comment if isinstance(comment, str) else "")
