"""Callbacks of a tool server that signs what it sends: cases CBK-01, CBK-02, CBK-05, CBK-08 and CBK-10."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.protocol.desk import SERVER, Desk, event, result, subscribed, waiting
from torpor.core.messages import Text
from torpor.core.views import views_space
from torpor.testing.clock import FakeClock
from torpor.tools.catalog import RapServer
from torpor.tools.signatures import ID, SIGNATURE, TIMESTAMP, Secrets
from torpor.tools.tokens import scope_of

OLD, NEW = b"0" * 32, b"1" * 32
AT = 1_767_225_600
SIGNED = scope_of(SERVER)

Headers = Sequence[tuple[str, str]]


def rap_server(**more: Any) -> RapServer:
    return RapServer(SERVER, secret=[NEW, OLD], **more)


@pytest.fixture
async def desk() -> Desk:
    desk = await Desk({"servers": [rap_server()]}, clock=FakeClock(AT)).open()
    await desk.thread()
    return desk


def raw(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def headers(body: object, id: str = "evt_01", key: bytes = NEW, at: float = AT) -> list[tuple[str, str]]:
    """The headers of a signed message."""
    return list(Secrets(key).sign(id, at, raw(body)).items())


async def handed(desk: Desk, body: object, given: Headers | None = None, **more: Any) -> int:
    """Hand in a body, signed unless headers are given; the status of the answer."""
    given = headers(body) if given is None else given
    return (await desk.post(raw(body), scope=SIGNED, headers=given, **more)).status


async def test_cbk_01_a_signed_result_is_taken_on_its_raw_bytes() -> None:
    secret = "whsec_test_key_32_bytes_long_____"
    desk = await Desk({"servers": [RapServer(SERVER, secret=secret)]}, clock=FakeClock(AT)).open()
    await desk.thread("th_1")
    body = '{"type":"tool_result","group_id":"th_1","id":"call_1","text":"café"}'.encode()
    given = [
        (ID, "evt_01"),
        (TIMESTAMP, str(AT)),
        (SIGNATURE, "v1,yHM+ag+mkCZpKSFKh+8JXU6XifHsaANhseCr/Uxom3g="),
    ]
    for other in (json.dumps(json.loads(body)).encode(), body + b" "):
        assert await handed(desk, other, given, thread="th_1") == 401
    assert not await desk.inbox("th_1")
    assert await handed(desk, body, given, thread="th_1") == 200
    [settled] = await desk.results("th_1")
    assert settled.parts == (Text("café"),)
    assert (settled.by.verified, settled.by.key_id, settled.by.id) == ("signature", "0", SERVER)


async def test_cbk_02_a_captured_result_has_no_second_effect(desk: Desk) -> None:
    body, given = result(), headers(result())
    assert await handed(desk, body, given) == 200
    assert await handed(desk, body, given) == 200
    assert len(await desk.results()) == 1
    clock = desk.clock
    assert isinstance(clock, FakeClock)
    clock.advance(360)
    assert await handed(desk, body, given) == 401
    assert await handed(desk, body, headers(body, at=AT + 360)) == 200, (
        "a retry keeps its id and is timed anew"
    )
    clock.advance(1)
    [settled] = await desk.results()
    await desk.becomes("T", (settled.id,))
    assert await handed(desk, body, headers(body, at=AT + 361)) == 200
    assert await handed(desk, body, headers(body, "evt_02", at=AT + 361)) == 200, "the same result"
    assert await handed(desk, result("x"), headers(result("x"), "evt_03", at=AT + 361)) == 410
    assert not await desk.inbox()


async def test_an_id_counts_once_whatever_is_sent_under_it(desk: Desk) -> None:
    await desk.becomes("T", subscriptions={"call_1": subscribed()})
    for text in ("one", "two"):
        assert await handed(desk, event(text)) == 200
    [happened] = await desk.events()
    assert (happened.id, happened.event_id) == ("call_1/webhook/evt_01", "evt_01")
    assert happened.by.verified == "signature"
    assert await handed(desk, event("three"), headers(event("three"), "evt_02")) == 200
    assert len(await desk.events()) == 2


async def test_a_captured_view_does_not_come_back(desk: Desk) -> None:
    def view(n: int) -> dict[str, Any]:
        return {"type": "view_update", "group_id": "T", "view_type": "diff", "content": {"n": n}}

    first = headers(view(1), "v1")
    assert await handed(desk, view(1), first) == 200
    assert await handed(desk, view(2), headers(view(2), "v2")) == 200
    assert await handed(desk, view(1), first) == 200
    [kept] = (await desk.store.entries(views_space("T"))).values()
    assert b'{"n": 2}' in kept


@pytest.mark.parametrize(
    "given",
    [
        [],
        headers(result())[:2],
        headers(result(), key=b"2" * 32),
        headers(result(), at=AT - 301),
        headers(result(), at=AT + 301),
        [*headers(result())[:2], (SIGNATURE, "v1,é")],
        [(ID, "evt_01"), (TIMESTAMP, "NaN"), headers(result())[2]],
        [*headers(result()), headers(result())[2]],
        [*headers(result()), (TIMESTAMP, "1")],
    ],
)
async def test_cbk_05_and_08_what_is_not_signed_is_401_without_effect(desk: Desk, given: Headers) -> None:
    outcome = await desk.post(raw(result()), scope=SIGNED, headers=given)
    assert (outcome.status, outcome.ring) == (401, None)
    for body in (b"{", b"", raw({"type": "oauth"}), raw(event())):
        assert await handed(desk, body, []) == 401
    assert not await desk.inbox()


async def test_cbk_08_the_old_secret_still_verifies_and_several_signatures_may_stand_together(
    desk: Desk,
) -> None:
    body = result()
    assert await handed(desk, body, headers(body, key=OLD)) == 200
    assert [one.by.key_id for one in await desk.results()] == ["1"]
    [id, time, new], old = headers(body, "evt_02"), headers(body, "evt_02", key=OLD)[2]
    assert await handed(desk, body, [id, time, (SIGNATURE, f"{old[1]} {new[1]}")]) == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"type":"tool_result"}', 400),
        (b'{"type":"nope","group_id":"T"}', 400),
        (raw(result(id="unknown")), 403),
        (raw(result(group_id="other-thread")), 403),
        (b'{"type":"tool_result","group_id":"T","id":"call_1"}', 400),
        (raw(result("a", content=[])), 200),
    ],
)
async def test_cbk_10_what_is_signed_is_judged_like_any_other(desk: Desk, body: bytes, status: int) -> None:
    await desk.thread("other-thread")
    assert await handed(desk, body) == status
    assert not await desk.inbox("other-thread")
    assert len(await desk.inbox()) == (0 if status == 403 else 1)


async def test_a_body_that_is_too_large_settles_nothing_unless_its_sender_is_known() -> None:
    desk = await Desk({"servers": [rap_server()], "body_limit": 100}, clock=FakeClock(AT)).open()
    await desk.thread()
    assert await handed(desk, b"x" * 101) == 413
    assert not await desk.inbox()


async def test_what_comes_for_a_settled_call_has_to_be_signed_too(desk: Desk) -> None:
    await desk.becomes("T")
    view = {"type": "view_update", "group_id": "T", "view_type": "diff", "content": {"n": 1}}
    assert await handed(desk, view, []) == 401
    assert await handed(desk, result(), []) == 401
    assert await handed(desk, view) == 200
    assert await handed(desk, result(), headers(result(), "evt_02")) == 410


async def test_who_does_not_know_the_server_does_not_judge(desk: Desk) -> None:
    elsewhere = await Desk(store=desk.store).open()
    outcome = await elsewhere.post(raw(result()), scope=SIGNED, headers=headers(result()))
    assert outcome.status == 503
    assert outcome.retry_after
    assert not await desk.inbox()


async def test_a_secret_that_came_later_is_asked_for_from_older_tokens_too(desk: Desk) -> None:
    assert (await desk.post(result())).status == 401
    assert (await desk.post(raw(result()), headers=headers(result()))).status == 200


async def test_other_servers_need_not_sign(desk: Desk) -> None:
    await desk.becomes("T", pending={"call_1": waiting(), "call_2": other_call()})
    outcome = await desk.post(result(id="call_2"), call="call_2", headers=[(SIGNATURE, "v1,x"), (ID, "w")])
    assert outcome.status == 200
    assert [one.by.verified for one in await desk.results()] == ["callback"]
    assert await handed(desk, result(id="call_1"), []) == 401


def other_call() -> Any:
    """A call to a server without a secret."""
    return msgspec.structs.replace(waiting(), server="http://127.0.0.1:9")
