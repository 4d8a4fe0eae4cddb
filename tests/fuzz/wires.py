"""What tool servers and runtimes send each other."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.fuzz.bounds import Target, fields, ours, text
from tests.protocol.desk import Desk, subscribed, waiting
from torpor.core.errors import Refused
from torpor.stores.memory import MemoryStore
from torpor.tools import protocol
from torpor.tools.catalog import RapServer, check_for, read_manifest
from torpor.tools.schema import compile_schema
from torpor.tools.server import wire
from torpor.tools.signatures import Secrets, Unsigned
from torpor.tools.strict import Malformed, parse_object

SERVER = RapServer("https://tools.example.com")
SECRET = "whsec_" + "c2VjcmV0IG9mIHRlc3RzIG9ubHksIDMyIGJ5dGVzIQ=="

ITEMS = [{"type": "text", "text": "a"}, {"type": "image", "data": "aGk=", "mediaType": "image/png"}]
CALL = {"group_id": "T", "id": "call_1"}
LATER = {"expires_at": "2030-01-01T00:00:00Z"}
BODIES: tuple[dict[str, Any], ...] = (
    {"type": "tool_result", **CALL, "text": "done", "is_error": True},
    {
        "type": "tool_result",
        **CALL,
        "content": ITEMS,
        "display_as": [{"type": "diff", "content": {"path": "a", "patch": "b"}}],
        "subscription": True,
        "event_id": "e1",
    },
    {"type": "subscription_event", "group_id": "T", "tool_call_id": "call_2", "text": "a", "final": True},
    {"type": "oauth", **CALL, "auth_url": "https://id.test/a", **LATER},
    {
        "type": "user_choice",
        **CALL,
        "prompt": "Which?",
        "choices": ["a", "b"],
        "default": 1,
        "response_url": "https://tools.example.com/choice",
    },
    {"type": "view_update", "group_id": "T", "view_type": "x-progress", "content": {"fraction": 0.5}},
)
HEADERS = b"webhook-id: m1\nwebhook-timestamp: 1700000000\nwebhook-signature: v1,AAAA"


def digest(store: MemoryStore) -> bytes:
    """All that a store in memory holds, as one value to compare."""
    threads = [
        (id, one.row, one.inbox, sorted(one.outbox), one.bodies, one.seen, one.dropped)
        for id, one in store._threads.items()
    ]
    return repr((threads, store._spaces, sorted(store._blobs))).encode("utf-8", "replace")


async def _desk() -> Desk:
    desk = await Desk().open()
    await desk.thread("T", pending={"call_1": waiting()}, subscriptions={"call_2": subscribed()})
    await desk.thread("closed", state="closed")
    return desk


def _headers(given: bytes) -> Iterator[tuple[str, str]]:
    for line in given.split(b"\n")[:20]:
        name, _, value = line.partition(b":")
        yield name.strip().decode("latin-1"), value.strip().decode("latin-1")


async def _callback(data: bytes) -> None:
    which, headers, body = fields(data, 3)
    desk = await _desk()
    calls = (("T", "call_1"), ("T", "call_2"), ("closed", "call_1"), ("gone", "call_1"), ("T", "over"))
    if which[:1].isdigit():
        thread, call = calls[which[0] % len(calls)]
        token = desk.keys.mint(thread, call)
    else:
        token = text(which)
    before = digest(desk.store)  # type: ignore[arg-type]
    outcome = await desk.callbacks.receive(token, body, tuple(_headers(headers)))
    after = digest(desk.store)  # type: ignore[arg-type]
    assert outcome.status in (200, 400, 401, 403, 404, 410, 413), outcome
    inbox = await desk.inbox()
    if outcome.status in (401, 403, 404, 410):
        assert before == after, "a refusal has changed something"
    elif outcome.status in (400, 413) and before != after:
        assert [signal.id for signal in inbox] == [f"{inbox[0].call}/unusable"]  # type: ignore[union-attr]
    assert all(signal.thread == "T" for signal in inbox)
    assert not await desk.inbox("closed")


LOOP = asyncio.new_event_loop()


def callback(data: bytes) -> None:
    """A callback, with its token and headers, at a desk where one call and one subscription are open."""
    LOOP.run_until_complete(_callback(data))


def manifest(data: bytes) -> None:
    """A manifest, and a value for the first of its tools."""
    body, given = fields(data, 2)
    try:
        found = read_manifest(body)
        check_for(found, SERVER)
    except Refused:
        return
    schema = found.tools[0].schema
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        value = {}
    problems = compile_schema(schema)(value)
    assert all(isinstance(problem, str) for problem in problems)


def invocation(data: bytes) -> None:
    """What the kit is asked, at each of its paths."""
    for read in (
        wire.read_invocation,
        wire.read_notice,
        wire.read_closure,
        wire.read_selection,
        wire.read_migration,
    ):
        try:
            found = read(data)
        except Malformed:
            continue
        if isinstance(found, wire.Invocation):
            found.digest()
            wire.result_body(found.thread, found.id, found.call_id, {"text": "done"})
            wire.question_body(found, "t", {"auth_url": "https://id.test/?a=1"}, "e", 0.0)
            assert wire.read_url(found.callback_url, "callback_url") == found.callback_url
        msgspec.json.encode(found)


def answers(data: bytes) -> None:
    """What a tool server answers to questions."""
    assert protocol.status_answer(data) in ("alive", "dead", "invalid")
    ours(lambda: parse_object(data))
    facts = {
        "name": "n",
        "arguments": text(data),
        "call": "c",
        "thread": "t",
        "callback": "https://rt.test/c",
    }
    ours(lambda: protocol.invocation(facts, "k", share_user=False))


def signature(data: bytes) -> None:
    """Headers of a signed message, and its body."""
    given, body = fields(data, 2)
    secrets = Secrets(SECRET)
    headers = list(_headers(given))
    try:
        verified = secrets.verify(headers, body, 1_700_000_000.0)
    except Unsigned:
        return
    signed = secrets.sign(verified.id, 1_700_000_000.0, body)
    assert signed["webhook-signature"] in {name.lower(): value for name, value in headers}.values()


TARGETS = (
    Target(
        "callback",
        callback,
        tuple(
            b"%d\x00%s\x00" % (n % 3, HEADERS) + json.dumps(body).encode() for n, body in enumerate(BODIES)
        ),
    ),
    Target(
        "manifest",
        manifest,
        (
            b'{"name":"kit","endpoint":"https://tools.example.com/invoke","tools":[{"name":"add",'
            b'"description":"Add.","inputSchema":{"type":"object","properties":{"a":{"type":"integer"},'
            b'"b":{"$ref":"#/$defs/n"}},"required":["a"],"$defs":{"n":{"anyOf":[{"type":"number"},'
            b'{"pattern":"^(a+)+$"}]}}}}],"needsMigration":false,"features":["rap-ext/1"]}\x00{"a":1,"b":"aaaa"}',
        ),
    ),
    Target(
        "invocation",
        invocation,
        (
            b'{"operation":"add","arguments":{"a":1},"id":"c-1","callback_url":"http://127.0.0.1:1/cb",'
            b'"group_id":"th-1","thread_ancestors":["r"],"user_id":"u","deadline":"2030-01-01T00:00:00+00:00",'
            b'"idempotency_key":"k","features":["rap-ext/1"],"call_id":"x"}',
            b'{"thread_id":"t","tool_call_id":"c"}',
            b'{"id":"c","selected":1}',
            b'{"session_id":"s","destination_url":"http://127.0.0.1:2/"}',
        ),
    ),
    Target("answers", answers, (b'{"alive":true}', b'{"a":"\\ud800","b":[1e5,{"c":null}]}')),
    Target("signature", signature, (HEADERS + b"\x00{}",)),
)
