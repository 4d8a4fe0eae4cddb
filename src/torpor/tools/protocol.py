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
from torpor.tools.strict import ID_LIMIT, Malformed, Reader, parse_object, repeated

_ITEM = frozenset({"type", "text", "data", "mediaType"})

SETTLE_NOTHING = frozenset({"subscription_event", "view_update"})
"""Types that never settle a call, so that a malformed one does not either."""

FEATURES = ("rap-ext/1",)
"""What this end understands beyond the published protocol."""

INVOCATION_LIMIT = 1_000_000
"""Bytes of one invocation; tool servers commonly refuse more."""
DISPLAY_KEPT = 64_000
"""Characters of display segments that are kept with one result."""
PROMPT_KEPT = 8_000
"""Characters of what a person is asked that are kept."""
CHOICES_MOST = 100
CHOICE_MOST = 1_000
"""Choices of one question, and characters of one choice."""
URL_MOST = 8_000

MANIFEST_PATH = "/.well-known/rap-toolset"
CANCEL_PATH = "/cancel_tool_call"
CLOSE_PATH = "/close_thread"
STATUS_PATH = "/tool_call_status"
MIGRATE_PATH = "/migrate"

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""An escape in JSON text; as a group, the half of a pair of surrogates that stands alone."""


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
    expires: float = 0.0
    """When the tool stops waiting for it, in seconds since the epoch; 0: it did not say."""


class Choice(Callback, frozen=True, kw_only=True):
    """The tool asks a person to choose; ``default`` is a valid index of ``choices``."""

    prompt: str
    choices: tuple[str, ...]
    default: int
    response_url: str
    expires: float = 0.0
    """As for an authorization."""


class View(Callback, frozen=True, kw_only=True):
    """New content of one view of a thread; no content clears it."""

    type: str
    content: Mapping[str, Any]
    text: str = "{}"
    """The content as JSON text, just as it came."""
    seq: int = 0


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
    read = _CALLBACKS[reader.type](reader)
    return msgspec.structs.replace(read, text=_as_it_came(body)) if isinstance(read, View) else read


class _Content(msgspec.Struct):
    content: msgspec.Raw


_content = msgspec.json.Decoder(_Content)


def _as_it_came(body: bytes) -> str:
    """A view's content as JSON text, with its numbers and the order of its members as they came."""
    whole = _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], body) if b"\\" in body else body
    try:
        return bytes(_content.decode(whole).content).decode()
    except msgspec.MsgspecError:  # strict in other ways than what has read it already
        raise Malformed("The body is not JSON in UTF-8.", type="view_update") from None


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
    return Event(
        **_shared(reader),
        text=reader.text("text"),
        associative=reader.flag("associative"),
        final=reader.flag("final"),
        seq=reader.number("seq"),
        natural_key=reader.extension("natural_key", ID_LIMIT),
    )


def _authorization(reader: Reader) -> Authorization:
    _identified(reader)
    url = reader.text("auth_url")
    if not url.lower().startswith("https://") or len(url) > URL_MOST:
        reader.fail(f"'auth_url' must be an https URL of at most {URL_MOST:,} characters.")
    return Authorization(**_shared(reader), url=url, expires=reader.instant("expires_at"))


def _choice(reader: Reader) -> Choice:
    _identified(reader)
    choices = _choices(reader)
    default = reader.index("default")
    if not 0 <= default < len(choices):
        reader.fail("'default' must be an index of 'choices'.")
    url = reader.text("response_url")
    if len(url) > URL_MOST:
        reader.fail(f"'response_url' must have at most {URL_MOST:,} characters.")
    return Choice(
        **_shared(reader),
        prompt=_shortened(reader.text("prompt"), PROMPT_KEPT),
        choices=choices,
        default=default,
        response_url=url,
        expires=reader.instant("expires_at"),
    )


def _choices(reader: Reader) -> tuple[str, ...]:
    choices = reader.list("choices") or []
    if not choices or not all(isinstance(choice, str) for choice in choices):
        reader.fail("'choices' must be an array of at least one string.")
    if len(choices) > CHOICES_MOST:
        reader.fail(f"'choices' must be at most {CHOICES_MOST}.")
    return tuple(_shortened(clean(choice), CHOICE_MOST) for choice in choices)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [cut, {len(text):,} characters]"


def _view(reader: Reader) -> View:
    reader.call = ""
    kind = reader.id("view_type")
    content = reader.value("content")
    if not isinstance(content, dict):
        reader.fail("'content' must be an object.")
    return View(**_shared(reader), type=kind, content=content, seq=reader.number("seq"))


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
