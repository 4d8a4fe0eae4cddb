"""What crosses the wire: invocations and notices in, results and events out. Its names stay here."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from torpor.core.text import clean, cleaned
from torpor.tools.addresses import is_loopback, is_public, literal
from torpor.tools.strict import Malformed, parse_object, repeats_within

FEATURE = "rap-ext/1"
CHOICE_PATH = "/user_choice_response"
LONGEST_ID = 256
LONGEST_KEY = 255
LONGEST_URL = 8192


class Invocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call as it was received. `refusal` says why it cannot run (None: nothing seen so far).

    `server` is the base URL under which this server was reached; `extended` whether the runtime knows the
    optional members that the kit sends.
    """

    thread: str
    id: str
    callback_url: str
    operation: str = ""
    arguments: dict[str, Any] = {}
    call_id: str | None = None
    ancestors: tuple[str, ...] = ()
    user_id: str | None = None
    key: str | None = None
    deadline: datetime | None = None
    server: str = ""
    extended: bool = False
    refusal: str | None = None

    def digest(self) -> str:
        """What was asked and for whom: equal for repeats of one call."""
        return digest_of((self.operation, self.arguments, self.user_id, self.refusal))


def digest_of(value: object) -> str:
    """A digest of a JSON value, in hexadecimal digits."""
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _members(body: bytes) -> dict[str, Any]:
    members = parse_object(body)
    if repeats_within(members):
        raise Malformed("The body repeats a member.")
    return members


def read_id(value: object, name: str) -> str:
    """Check an opaque id: 1 to 256 characters, none of them a control character or half a surrogate pair."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID:
        raise Malformed(f"{name} must be a string of 1 to {LONGEST_ID} characters")
    if any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000 for char in value):
        raise Malformed(f"{name} contains a character that ids may not have")
    return value


def read_notice(body: bytes) -> tuple[str, str]:
    """Read the thread and call id of a cancellation or a status check."""
    members = _members(body)
    return read_id(members.get("thread_id"), "thread_id"), read_id(
        members.get("tool_call_id"), "tool_call_id"
    )


def read_closure(body: bytes) -> str:
    """Read the thread id of a closure notice."""
    return read_id(_members(body).get("thread_id"), "thread_id")


def read_selection(body: bytes) -> tuple[str, object]:
    """Read the call id of an answer to a choice, and what it selects, whatever that is."""
    members = _members(body)
    return read_id(members.get("id"), "id"), members.get("selected")


def read_migration(body: bytes) -> tuple[str, str]:
    """Read the session that is to move and the base URL of the instance to move it to."""
    members = _members(body)
    session = read_id(members.get("session_id"), "session_id")
    return session, read_url(members.get("destination_url"), "destination_url").rstrip("/")


def read_invocation(body: bytes, key_header: str | None = None) -> Invocation:
    """Read an invocation.

    Raises Malformed if there is no way to answer it; any other defect becomes its `refusal`.
    """
    members = _members(body)
    thread = read_id(members.get("group_id"), "group_id")
    ident = read_id(members.get("id"), "id")
    url = read_url(members.get("callback_url"), "callback_url")
    try:
        asked = _read_asked(members)
    except Malformed as error:
        asked = {"refusal": str(error)}
    call_id = members.get("call_id")
    return Invocation(
        thread=thread,
        id=ident,
        callback_url=url,
        call_id=call_id if isinstance(call_id, str) else None,
        key=_read_key(members.get("idempotency_key"), key_header),
        deadline=_read_instant(members.get("deadline")),
        extended=_is_extended(members.get("features")),
        **asked,
    )


def _read_asked(members: Mapping[str, Any]) -> dict[str, Any]:
    operation = members.get("operation")
    if not isinstance(operation, str) or not operation:
        raise Malformed("operation must be the name of a tool")
    arguments = members.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise Malformed("arguments must be a JSON object")
    if members.get("call_id") is not None:
        read_id(members["call_id"], "call_id")
    ancestors = members.get("thread_ancestors") or []
    if not isinstance(ancestors, list):
        raise Malformed("thread_ancestors must be an array of strings")
    user = members.get("user_id")
    return {
        "operation": clean(operation),
        "arguments": cleaned(arguments),
        "ancestors": tuple(read_id(ancestor, "thread_ancestors") for ancestor in ancestors),
        "user_id": None if user is None else read_id(user, "user_id"),
    }


def read_url(value: object, name: str) -> str:
    """Check that a URL is absolute and http(s); it is kept exactly as it came."""
    if (
        not isinstance(value, str)
        or len(value) > LONGEST_URL
        or not value.isascii()
        or not value.isprintable()
    ):
        raise Malformed(f"{name} must be an absolute http(s) URL")
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or " " in value:
        raise Malformed(f"{name} must be an absolute http(s) URL")
    return value


def is_private(host: str) -> bool:
    """Say whether a host is, by its address or name, one that only this machine or network reaches."""
    address = literal(host)
    return is_loopback(host) if address is None else not is_public(address)


def _read_key(member: object, header: str | None) -> str | None:
    for value in (member, header):
        if isinstance(value, str) and 0 < len(value) <= LONGEST_KEY and value.isprintable():
            return value
    return None


def _read_instant(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return None
    return instant if instant.tzinfo else None


def _is_extended(features: object) -> bool:
    return isinstance(features, list) and FEATURE in features


def result_members(content: Mapping[str, Any], *, failed: bool, subscription: bool) -> dict[str, Any]:
    """The part of a result that does not depend on whom it is sent to; sent again, it is the same."""
    members: dict[str, Any] = {**content, "event_id": new_event_id(), "occurred_at": utc_now()}
    if failed:
        members["is_error"] = True
    if subscription:
        members["subscription"] = True
    return members


def result_body(thread: str, ident: str, call_id: str | None, members: Mapping[str, Any]) -> bytes:
    """Address a result to the call it answers."""
    head = {"type": "tool_result", "group_id": thread, "id": ident}
    if call_id is not None:
        head["call_id"] = call_id
    return msgspec.json.encode({**head, **members})


def event_body(thread: str, ident: str, seq: int, members: Mapping[str, Any]) -> bytes:
    """Address event number `seq` (from 1) to the subscription it belongs to."""
    head = {"type": "subscription_event", "group_id": thread, "tool_call_id": ident, "seq": seq}
    return msgspec.json.encode({**head, **members})


def event_members(
    text: str, *, final: bool, associative: bool, occurred_at: datetime | None
) -> dict[str, Any]:
    """The part of an event that does not depend on its place in the subscription."""
    members: dict[str, Any] = {
        "text": clean(text),
        "event_id": new_event_id(),
        "occurred_at": utc_now(occurred_at),
    }
    if associative:
        members["associative"] = True
    if final:
        members["final"] = True
    return members


def question_body(
    invocation: Invocation, token: str, asked: Mapping[str, Any], id: str, expires_at: float
) -> bytes:
    """Ask what `asked` says for a call: its `auth_url`, or its `choices`. The answer bears the token."""
    if "auth_url" in asked:
        said = {"type": "oauth", "auth_url": with_state(asked["auth_url"], token)}
    else:
        at = f"{invocation.server}{CHOICE_PATH}/{token}"
        said = {"type": "user_choice", **asked, "response_url": at}
    head: dict[str, Any] = {"type": said.pop("type"), "group_id": invocation.thread, "id": invocation.id}
    if invocation.call_id is not None:
        head["call_id"] = invocation.call_id
    expires = utc_now(datetime.fromtimestamp(expires_at, UTC))
    return msgspec.json.encode(
        {**head, **said, "event_id": id, "occurred_at": utc_now(), "expires_at": expires}
    )


def with_state(url: str, state: str) -> str:
    """An authorization URL that bears a `state`: its own, else this one."""
    parts = urlsplit(url)
    if any(name == "state" for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return url
    query = f"{parts.query}&state={state}" if parts.query else f"state={state}"
    return parts._replace(query=query).geturl()


def view_body(thread: str, kind: str, content: Mapping[str, Any], id: str, seq: int) -> bytes:
    """Show new content in a thread's view; `seq` is its number among those of this view, 0: unnumbered."""
    numbered = {"seq": seq} if seq else {}
    return msgspec.json.encode(
        {
            "type": "view_update",
            "group_id": thread,
            "view_type": kind,
            "content": content,
            "event_id": id,
            **numbered,
            "occurred_at": utc_now(),
        }
    )


def new_event_id() -> str:
    """An id that no other message of any sender has."""
    return uuid.uuid4().hex


def utc_now(instant: datetime | None = None) -> str:
    """An instant (default: now) as RFC 3339 in UTC."""
    moment = (instant or datetime.now(UTC)).astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
