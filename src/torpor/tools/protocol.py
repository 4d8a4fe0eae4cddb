"""The wire of RAP, the runtime's end: what is sent, and strict reading of what comes.

The protocol's own names stay in this file. Members that are null count as absent, unknown ones are ignored,
a known one that comes twice makes the body malformed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from torpor.core.errors import Refused
from torpor.core.messages import Part, Segment, Text
from torpor.core.text import clean
from torpor.tools.results import image_part
from torpor.tools.strict import ID_LIMIT, Malformed, Reader, parse_object, repeated, repeats_within

_ITEM = frozenset({"type", "text", "data", "mediaType"})

SETTLE_NOTHING = frozenset({"subscription_event", "view_update"})
"""Types that never settle a call, so that a malformed one does not either."""

FEATURES = ("rap-ext/1",)
"""What this end understands beyond the published protocol."""

INVOCATION_LIMIT = 1_000_000
"""Bytes of one invocation; tool servers commonly refuse more."""
DISPLAY_KEPT = 64_000
"""Characters of display segments that are kept with one result."""

MANIFEST_PATH = "/.well-known/rap-toolset"
CANCEL_PATH = "/cancel_tool_call"
CLOSE_PATH = "/close_thread"
STATUS_PATH = "/tool_call_status"
MIGRATE_PATH = "/migrate"

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """What all callbacks say. ``call`` is empty for a view."""

    thread: str
    call: str = ""
    event_id: str = ""
    occurred_at: str = ""


class ToolResult(Callback, frozen=True, kw_only=True):
    """The result of a call."""

    parts: tuple[Part, ...]
    display: tuple[Segment, ...] = ()
    subscription: bool = False
    is_error: bool = False


class Event(Callback, frozen=True, kw_only=True):
    """An event of a subscription. ``seq`` is the source's own number, 0 if it gave none."""

    text: str
    associative: bool = False
    final: bool = False
    seq: int = 0
    natural_key: str = ""


class Authorization(Callback, frozen=True, kw_only=True):
    """The tool needs a person to authorize it at ``url``."""

    url: str


class Choice(Callback, frozen=True, kw_only=True):
    """The tool asks a person to choose; ``default`` is a valid index of ``choices``."""

    prompt: str
    choices: tuple[str, ...]
    default: int
    response_url: str


class View(Callback, frozen=True, kw_only=True):
    """New content of one view of a thread."""

    type: str
    content: Mapping[str, Any]


AnyCallback = ToolResult | Event | Authorization | Choice | View


# ------------------------------------------------------------------ reading


def parse_callback(body: bytes) -> AnyCallback:
    """A callback from its body. Raises ``Malformed`` with the ids that could be read."""
    reader = Reader(parse_object(body))
    reader.thread = reader.extension("group_id", ID_LIMIT)
    reader.call = reader.extension("id", ID_LIMIT) or reader.extension("tool_call_id", ID_LIMIT)
    reader.type = reader.text("type")
    reader.thread = reader.id("group_id")
    if reader.type not in _CALLBACKS:
        reader.fail("The type of the message is not known here.")
    return _CALLBACKS[reader.type](reader)


def _identified(reader: Reader) -> None:
    reader.call = reader.id("id")
    call_id = reader.value("call_id")
    if call_id is not None and not isinstance(call_id, str):
        reader.fail("'call_id' must be a string.")


def _shared(reader: Reader) -> dict[str, Any]:
    return {
        "thread": reader.thread,
        "call": reader.call,
        "event_id": reader.extension("event_id"),
        "occurred_at": reader.extension("occurred_at", 64),
    }


def _tool_result(reader: Reader) -> ToolResult:
    _identified(reader)
    subscription = reader.flag("subscription")
    segments = reader.list("display_as")
    return ToolResult(
        **_shared(reader),
        parts=_parts(reader),
        display=_display(segments or ()),
        subscription=subscription,
        is_error=reader.members.get("is_error") is True,
    )


def _parts(reader: Reader) -> tuple[Part, ...]:
    """What the model is given: the content where there is a usable one, else the text."""
    content, text = reader.value("content"), reader.value("text")
    parts = [_item(item) for item in content] if content and isinstance(content, list) else [None]
    usable = tuple(part for part in parts if part is not None)
    if len(usable) == len(parts):
        return usable
    if not isinstance(text, str):
        reader.fail("The result has neither a usable 'text' nor a usable 'content'.")
    return (Text(clean(text)),)


def _item(item: object) -> Part | None:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str) or repeated(item) & _ITEM:
        return None
    kind = item["type"]
    if kind == "text":
        text = item.get("text")
        return Text(clean(text)) if isinstance(text, str) else None
    if kind == "image":
        known = isinstance(item.get("data"), str) and isinstance(item.get("mediaType"), str)
        return image_part(item["data"]) if known else None
    return Text(f"[an item of the unknown type {clean(kind)[:64]!r} left out]")


def _display(segments: Iterable[object]) -> tuple[Segment, ...]:
    """The segments of known type and shape, up to a bounded size; others are skipped."""
    kept: list[Segment] = []
    room = DISPLAY_KEPT
    for segment in segments:
        if not isinstance(segment, dict) or not _fits(segment.get("type"), segment.get("content")):
            continue
        content = clean(json.dumps(segment["content"], ensure_ascii=False))
        if len(content) <= room:
            room -= len(content)
            kept.append(Segment(segment["type"], content))
    return tuple(kept)


def _fits(kind: object, content: object) -> bool:
    match kind:
        case "text":
            return isinstance(content, str)
        case "diff":
            names = ("path", "patch")
        case "image":
            names = ("data", "mediaType")
        case _:
            return False
    return isinstance(content, dict) and all(isinstance(content.get(name), str) for name in names)


def _event(reader: Reader) -> Event:
    reader.call = reader.id("tool_call_id")
    seq = reader.members.get("seq")
    return Event(
        **_shared(reader),
        text=reader.text("text"),
        associative=reader.flag("associative"),
        final=reader.flag("final"),
        seq=seq if type(seq) is int and 0 < seq < 2**53 else 0,
        natural_key=reader.extension("natural_key", ID_LIMIT),
    )


def _authorization(reader: Reader) -> Authorization:
    _identified(reader)
    url = reader.text("auth_url")
    if not url.lower().startswith("https://"):
        reader.fail("'auth_url' must be an https URL.")
    return Authorization(**_shared(reader), url=url)


def _choice(reader: Reader) -> Choice:
    _identified(reader)
    choices = reader.list("choices") or []
    if not choices or not all(isinstance(choice, str) for choice in choices):
        reader.fail("'choices' must be an array of at least one string.")
    default = reader.index("default")
    if not 0 <= default < len(choices):
        reader.fail("'default' must be an index of 'choices'.")
    return Choice(
        **_shared(reader),
        prompt=reader.text("prompt"),
        choices=tuple(clean(choice) for choice in choices),
        default=default,
        response_url=reader.text("response_url"),
    )


def _view(reader: Reader) -> View:
    reader.call = ""
    kind = reader.text("view_type")
    content = reader.value("content")
    if not isinstance(content, dict):
        reader.fail("'content' must be an object.")
    return View(**_shared(reader), type=kind, content=content)


_CALLBACKS: dict[str, Callable[[Reader], AnyCallback]] = {
    "tool_result": _tool_result,
    "subscription_event": _event,
    "oauth": _authorization,
    "user_choice": _choice,
    "view_update": _view,
}


# ------------------------------------------------------------------ sending


def invocation(facts: Mapping[str, Any], key: str, *, share_user: bool) -> bytes:
    """The body of an invocation.

    ``facts`` holds ``name``, ``arguments`` (JSON text of an object), ``call``, ``thread``, ``callback`` and,
    where there are any, ``ancestors``, ``user_id`` and ``deadline``. ``Refused`` if it is too large.
    """
    members = {
        "operation": facts["name"],
        "arguments": _arguments(facts["arguments"]),
        "id": facts["call"],
        "callback_url": facts["callback"],
        "group_id": facts["thread"],
        "thread_ancestors": list(facts.get("ancestors") or ()),
        "user_id": facts.get("user_id") if share_user else None,
        "deadline": facts.get("deadline"),
        "idempotency_key": key,
        "features": list(FEATURES),
    }
    body = msgspec.json.encode(
        {name: value for name, value in members.items() if value or name == "arguments"}
    )
    if len(body) > INVOCATION_LIMIT:
        raise Refused(
            f"The arguments make an invocation of {len(body):,} bytes; a tool server is sent at most "
            f"{INVOCATION_LIMIT:,}. Pass less, or pass the name of something it can read by itself."
        )
    return body


def _arguments(text: str) -> msgspec.Raw:
    """Arguments as they came, number for number; only lone surrogates are replaced."""
    text = clean(text)
    try:
        if _ESCAPED_SURROGATE.search(text):
            text = clean(json.dumps(parse_object(text), ensure_ascii=False))
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        raise Refused("The arguments are not JSON text of an object.") from None
    return msgspec.Raw(text.encode())


def cancellation(thread: str, call: str) -> bytes:
    """The body that tells a server that a call or a subscription is no longer wanted."""
    return msgspec.json.encode({"thread_id": thread, "tool_call_id": call})


def closure(thread: str) -> bytes:
    """The body that tells a server that a thread is closed."""
    return msgspec.json.encode({"thread_id": thread})


def status_question(thread: str, call: str) -> bytes:
    """The body that asks a server whether it still works on a call, or holds its subscription."""
    return msgspec.json.encode({"thread_id": thread, "tool_call_id": call})


def status_answer(body: bytes) -> str:
    """What an answer to that says: ``alive``, ``dead``, or ``invalid`` for anything else."""
    try:
        members = parse_object(body)
    except Malformed:
        return "invalid"
    alive = members.get("alive")
    if type(alive) is not bool or "alive" in repeated(members):
        return "invalid"
    return "alive" if alive else "dead"


def selection(call: str, selected: int) -> bytes:
    """The body that tells a server what a person has chosen, by index."""
    return msgspec.json.encode({"id": call, "selected": selected})


def migration(session: str, destination: str) -> bytes:
    """The body that has a server move a session to the instance at another base URL."""
    return msgspec.json.encode({"session_id": session, "destination_url": destination})


# ---------------------------------------------------------------- manifests


class WireTool(msgspec.Struct, frozen=True):
    """A tool as a manifest defines it; ``schema`` may still be anything."""

    name: str
    description: str
    schema: Any
    read_only: bool = False
    idempotent: bool = False


class WireManifest(msgspec.Struct, frozen=True):
    """A manifest's members, of the right types; what they mean is for the catalogue to judge."""

    name: str
    endpoint: str
    tools: tuple[WireTool, ...]
    features: tuple[str, ...]
    defects: tuple[str, ...]
    """What is wrong with the shape, member by member; the manifest is unusable if there is any."""


def parse_manifest(body: bytes) -> WireManifest:
    """A manifest from its bytes, with all defects of shape. ``Malformed`` if it is no JSON object."""
    members = parse_object(body)
    defects: list[str] = [f"'{name}' comes more than once" for name in repeated(members) & _MANIFEST]
    name = _string(members, "name", "the toolset", defects)
    if name and len(name) > 128:
        defects.append("'name' of the toolset has more than 128 characters")
    _string(members, "description", "the toolset", defects, needed=False)
    if not isinstance(members.get("needsMigration"), bool | None):
        defects.append("'needsMigration' must be true or false")
    listed = members.get("tools")
    if not isinstance(listed, list) or not listed:
        defects.append("'tools' must be an array of at least one tool")
        listed = []
    features = members.get("features")
    return WireManifest(
        name=name,
        endpoint=_string(members, "endpoint", "the toolset", defects),
        tools=tuple(_wire_tool(tool, number, defects) for number, tool in enumerate(listed, 1)),
        features=tuple(f for f in features if isinstance(f, str)) if isinstance(features, list) else (),
        defects=tuple(defects),
    )


_MANIFEST = frozenset({"name", "description", "endpoint", "tools", "needsMigration"})
_TOOL = frozenset({"name", "description", "inputSchema", "annotations", "displayScript"})


def _wire_tool(tool: object, number: int, defects: list[str]) -> WireTool:
    if not isinstance(tool, dict):
        defects.append(f"tool {number} is not an object")
        return WireTool("", "", {})
    where = f"tool {number}"
    defects += [f"'{name}' of {where} comes more than once" for name in repeated(tool) & _TOOL]
    name = _string(tool, "name", where, defects)
    where = f"tool {name[:128]!r}" if name else where
    description = _string(tool, "description", where, defects, empty=True)
    _string(tool, "displayScript", where, defects, needed=False)
    annotations = tool.get("annotations")
    if annotations is not None and not isinstance(annotations, dict):
        defects.append(f"'annotations' of {where} must be an object")
        annotations = None
    if "inputSchema" not in tool:
        defects.append(f"'inputSchema' of {where} is missing")
    elif repeats_within(tool["inputSchema"]):
        defects.append(f"a member within 'inputSchema' of {where} comes more than once")
    told = annotations or {}
    schema = tool.get("inputSchema", {})
    return WireTool(name, description, schema, told.get("readOnly") is True, told.get("idempotent") is True)


def _string(
    members: dict[str, Any],
    name: str,
    where: str,
    defects: list[str],
    *,
    needed: bool = True,
    empty: bool = False,
) -> str:
    value = members.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str):
        defects.append(f"'{name}' of {where} must be a string")
        return ""
    if not value and needed and not empty:
        defects.append(f"'{name}' of {where} is empty")
    return clean(value)
