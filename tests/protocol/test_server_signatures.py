"""EX-08 on the kit's side: callbacks are signed, and messages must be where that is asked for."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.stubs import Peer, eventually, talking
from torpor.tools.server import Retry, ToolCall, ToolServer
from torpor.tools.signatures import Secrets

OLD = "whsec_b25lLW9uZS1vbmUtb25lLW9uZS1vbmUt"
NEW = "whsec_dHdvLXR3by10d28tdHdvLXR3by10d28t"
NOTICE = {"thread_id": "th-1", "tool_call_id": "c-1"}


def depots(path: Path, **options: Any) -> ToolServer:
    server = ToolServer("depots", outbox=path / "o.db", retry=Retry(first=0.02, longest=0.1), **options)

    @server.tool
    async def watch(call: ToolCall) -> str:
        """Ask, show, subscribe, and end."""
        await call.choose("Watch?", ["yes"])
        await call.view("diff", {"a": "ü"})
        await call.subscribe("Watching.")
        await call.event("news")
        return "seen it all"

    return server


async def post(
    peer: Peer, path: str, body: Any, signed: Secrets | None, id: str = "m-1", **wrong: str
) -> int:
    raw = json.dumps(body).encode()
    headers = signed.sign(id, time.time(), raw) if signed else {}
    return (await peer.post(path, raw, headers={**headers, **wrong}))[0]


async def test_every_callback_is_signed_with_the_first_secret(tmp_path: Path) -> None:
    async with talking(depots(tmp_path, secret=[NEW, OLD])) as (peer, stub):
        await peer.invoke("watch")
        [question] = await stub.count(1)
        await peer.post(question["response_url"].removeprefix(peer.base), {"id": "c-1", "selected": 0})
        received = await stub.until(lambda all_: len(all_) == 5)
        for one in received:
            signed = Secrets(NEW).verify(list(one.headers.items()), one.raw, time.time())
            assert signed.id == one.body["event_id"]
        kinds = {one.body["type"] for one in received}
        assert kinds == {"user_choice", "view_update", "tool_result", "subscription_event"}


async def test_a_retry_keeps_its_id_and_renews_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent_at: list[float] = []
    sign = Secrets.sign

    def noted(secrets: Secrets, id: str, at: float, body: bytes) -> dict[str, str]:
        sent_at.append(at)
        return sign(secrets, id, at, body)

    monkeypatch.setattr(Secrets, "sign", noted)
    async with talking(depots(tmp_path, secret=NEW), script=[503]) as (peer, stub):
        await peer.invoke("watch", {"wrong": 1})
        first, second = await stub.until(lambda all_: len(all_) == 2)
        assert first.raw == second.raw
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == first.body["event_id"]
        assert [int(one.headers["webhook-timestamp"]) for one in (first, second)] == [
            int(at) for at in sent_at
        ]
        assert sent_at[0] < sent_at[1]


async def test_without_a_secret_nothing_is_signed(tmp_path: Path) -> None:
    async with talking(depots(tmp_path)) as (peer, stub):
        await peer.invoke("watch", {"wrong": 1})
        [one] = await stub.until(lambda all_: len(all_) == 1)
        assert not [name for name in one.headers if name.lower().startswith("webhook")]


async def test_what_is_not_signed_is_refused_where_signatures_are_required(tmp_path: Path) -> None:
    server = depots(tmp_path, secret=[NEW, OLD], require_signatures=True)
    moved: list[str] = []
    server.migrate(lambda session, _: moved.append(session))
    async with talking(server) as (peer, stub):
        await peer.discover()
        invocation = peer.invocation("watch", {"wrong": 1})
        bodies: list[tuple[str, Any]] = [
            ("/invoke", invocation),
            ("/cancel_tool_call", NOTICE),
            ("/close_thread", {"thread_id": "th-1"}),
            ("/tool_call_status", NOTICE),
            ("/user_choice_response/x", {"id": "c-1", "selected": 0}),
            ("/migrate", {"session_id": "th-1", "destination_url": peer.base}),
        ]
        other = Secrets("a-secret-that-nobody-agreed-on")
        for path, body in bodies:
            assert await post(peer, path, body, None) == 401
            assert await post(peer, path, body, other) == 401
            assert await post(peer, path, {**body, "more": 1}, Secrets(NEW), **{"webhook-id": "m-2"}) == 401
        assert stub.received == []
        assert moved == []
        for number, (path, body) in enumerate(bodies):
            signed_by = Secrets(NEW if number % 2 else OLD)
            assert await post(peer, path, body, signed_by, id=f"m-{number}") == 200
        assert moved == ["th-1"]
        await stub.result("c-1")


async def test_a_captured_message_has_no_second_effect(tmp_path: Path) -> None:
    closed: list[str] = []
    server = depots(tmp_path, secret=NEW, require_signatures=True)
    server.on_close(closed.append)
    server.migrate(lambda session, _: closed.append(f"moved {session}"))
    signed_by = Secrets(NEW)
    async with talking(server) as (peer, stub):
        for _ in range(2):
            assert await post(peer, "/invoke", peer.invocation("watch", {"wrong": 1}), signed_by) == 200
            assert await post(peer, "/close_thread", {"thread_id": "th-1"}, signed_by, id="m-2") == 200
        move = {"session_id": "th-1", "destination_url": peer.base}
        assert await post(peer, "/migrate", move, signed_by, id="m-3") == 200
        assert await post(peer, "/migrate", move, signed_by, id="m-3") == 409
        await eventually(lambda: len(closed) == 2)
        assert sorted(closed) == ["moved th-1", "th-1"]
        await post(peer, "/close_thread", {"thread_id": "th-2"}, signed_by, id="m-4")
        await eventually(lambda: "th-2" in closed)
        assert {one.body["text"] for one in stub.received} == {(await stub.result("c-1"))["text"]}


async def test_where_signatures_are_not_required_they_are_not_looked_at(tmp_path: Path) -> None:
    async with talking(depots(tmp_path, secret=NEW)) as (peer, stub):
        invocation = peer.invocation("watch", {"wrong": 1})
        assert await post(peer, "/invoke", invocation, None, **{"webhook-signature": "v1,none"}) == 200
        await asyncio.wait_for(stub.result("c-1"), 5)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"require_signatures": True}, "only be required with a secret"),
        ({"secret": "short"}, "must have at least"),
        ({"secret": []}, "at least one"),
        ({"secret": [NEW, NEW]}, "twice"),
    ],
)
def test_secrets_that_guard_nothing_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ToolServer("depots", outbox=":memory:", **options)
