"""Every callback that came, whatever it was asked for, is held against the rules of its kind."""

from collections.abc import Iterator
from typing import Any

import msgspec

from torpor.conformance.listening import Asked, Callback
from torpor.conformance.probe import Probe
from torpor.conformance.texts import internals, items, segments, sounds_wrong, texts
from torpor.tools.strict import repeated

TYPES = {
    "tool_result": "id",
    "subscription_event": "tool_call_id",
    "oauth": "id",
    "user_choice": "id",
    "view_update": "",
}
"""Messages, each with the member that names its call."""
LINE = 200
"""Characters that still count as about a line."""


def audit(probe: Probe) -> None:
    """Judge all callbacks that came."""
    ledger, stub = probe.ledger, probe.stub
    for asked, callback in stub.callbacks:
        _form(probe, callback)
        if callback.body:
            _address(probe, asked, callback)
            _content(probe, asked, callback)
    for stray in stub.strays:
        why = "a callback came that fits no call: it has another URL and other ids than were given"
        ledger.broken("TS-50", why, stray.exchange)
    if stub.dropped:
        ledger.notes.append(f"{stub.dropped} callbacks were too large, too slow or too many, and not kept")


def _form(probe: Probe, callback: Callback) -> None:
    problem = callback.defect
    if callback.method != "POST":
        problem = f"it is a {callback.method}"
    elif callback.content_type.partition(";")[0].strip().lower() != "application/json":
        problem = f"its content type is {callback.content_type[:80]!r}"
    elif callback.body and repeated(callback.body):
        problem = "a member comes more than once"
    probe.ledger.judge("TS-32", not problem, problem, callback.exchange)


def _address(probe: Probe, asked: Asked, callback: Callback) -> None:
    ledger, body, shown = probe.ledger, callback.body, (asked.exchange, callback.exchange)
    known = callback.type in TYPES
    ledger.judge("TS-36", known, f"there is no message type {str(body.get('type'))[:60]!r}", *shown)
    row = "TS-88" if callback.type == "view_update" else "TS-33"
    thread = body.get("group_id")
    ledger.judge(row, thread == asked.thread, f"its group_id is {str(thread)[:80]!r}", *shown)
    member = TYPES.get(callback.type)
    if not member:
        return
    is_event = callback.type == "subscription_event"
    fits = body.get(member) == asked.id
    why = f"its {member} is {str(body.get(member))[:80]!r}"
    ledger.judge("TS-59" if is_event else "TS-34", fits, why, *shown)
    if is_event and thread != asked.thread:
        ledger.broken("TS-59", f"its group_id is {str(thread)[:80]!r}", *shown)


def _content(probe: Probe, asked: Asked, callback: Callback) -> None:
    body = callback.body
    match callback.type:
        case "tool_result":
            _result(probe, asked, callback)
        case "subscription_event":
            valid = isinstance(body.get("text"), str)
            why = "an event has no 'text'"
            probe.ledger.judge("TS-59", valid, why, callback.exchange)
            _structured(probe, "TS-60", callback)
        case "view_update":
            content = body.get("content")
            valid = isinstance(content, dict) and isinstance(body.get("view_type"), str)
            probe.ledger.judge("TS-36", valid, "a view has no type or content", callback.exchange)
            probe.ledger.judge("TS-90", content is not None, "a view has no content", callback.exchange)
    _secrets(probe, asked, callback)


def _result(probe: Probe, asked: Asked, callback: Callback) -> None:
    body, shown = callback.body, (asked.exchange, callback.exchange)
    filled = isinstance(body.get("text"), str) or bool(items(body))
    probe.ledger.judge("TS-39", filled, "a result has neither 'text' nor 'content'", *shown)
    for problem in (*_flags(body), *_item_problems(body), *_segment_problems(body)):
        probe.ledger.broken("TS-36", problem, *shown)
    _structured(probe, "TS-40", callback)
    if any(item.get("type") == "image" for item in items(body)):
        leads = items(body)[0].get("type") == "text"
        probe.ledger.judge("TS-45", leads, "an image comes before any text", *shown)
    _display(probe, callback)


def _flags(body: dict[str, Any]) -> Iterator[str]:
    for name in ("content", "display_as"):
        if not isinstance(body.get(name), list | None):
            yield f"'{name}' is no array"
    if not isinstance(body.get("subscription"), bool | None):
        yield "'subscription' is no boolean"


def _item_problems(body: dict[str, Any]) -> Iterator[str]:
    for item in items(body):
        match item.get("type"):
            case "text":
                fits = isinstance(item.get("text"), str)
            case "image":
                fits = isinstance(item.get("data"), str) and isinstance(item.get("mediaType"), str)
            case _:
                fits = False
        if not fits:
            yield f"an item of type {str(item.get('type'))[:60]!r} has not the form that is defined"


def _segment_problems(body: dict[str, Any]) -> Iterator[str]:
    for segment in segments(body):
        content = segment.get("content")
        match segment.get("type"):
            case "text":
                fits = isinstance(content, str)
            case "diff":
                fits = isinstance(content, dict) and {"path", "patch"} <= content.keys()
            case "image":
                fits = isinstance(content, dict) and {"data", "mediaType"} <= content.keys()
            case _:
                fits = False
        if not fits:
            yield f"a segment of type {str(segment.get('type'))[:60]!r} has not the form that is defined"


def _structured(probe: Probe, row: str, callback: Callback) -> None:
    """Text that looks like JSON is JSON."""
    text = callback.body.get("text")
    if not isinstance(text, str) or text.strip()[:2] not in ('{"', "[{", '["', "{}", "[]"):
        return
    try:
        msgspec.json.decode(text)
        problem = ""
    except (msgspec.DecodeError, RecursionError):
        problem = "a text looks like JSON and is none"
    probe.ledger.judge(row, not problem, problem, callback.exchange)


def _display(probe: Probe, callback: Callback) -> None:
    shown = segments(callback.body)
    if not shown:
        return
    ledger, kinds = probe.ledger, [segment.get("type") for segment in shown]
    if "image" in kinds:
        ends = kinds[-1] == "text" and kinds[kinds.index("image") + 1 : kinds.index("image") + 2] == ["text"]
        ledger.judge("TS-46", ends, "an image segment is not followed by text", callback.exchange)
    said = [str(segment.get("content")) for segment in shown if segment.get("type") == "text"]
    if said:
        brief = all(len(text) <= LINE and text.strip().count("\n") == 0 for text in said)
        ledger.judge("TS-47", brief, "a text segment is longer than a line", callback.exchange)


def _secrets(probe: Probe, asked: Asked, callback: Callback) -> None:
    ledger, token = probe.ledger, probe.caller.token
    failed = callback.type == "tool_result" and sounds_wrong(callback.body)
    for text in texts(callback.body):
        inside = internals(text) if failed else ""
        ledger.judge(
            "TS-43", not inside, f"an error shows the server's inside: {inside!r}", callback.exchange
        )
        leaked = bool(token) and str(token) in text
        ledger.judge("TS-44", not leaked, "a text shows the credential of the request", callback.exchange)
        named = asked.url in text or asked.target.strip("/") in text
        ledger.judge("TS-52", not named, "a text shows the callback URL", callback.exchange)
