"""Callbacks that are forged, replayed, or too many: nothing changes that should not, and little is kept."""

import random
from typing import Any

import pytest

from tests.fuzz.wires import digest
from tests.protocol.desk import Desk, event, result, subscribed, waiting
from torpor.core.signals import RequestedSignal
from torpor.core.views import View, views_space
from torpor.core.waits import MOST
from torpor.ports import AUTHORIZATIONS
from torpor.stores.memory import MemoryStore
from torpor.tools import reading
from torpor.tools.reading import Reach, read_range
from torpor.tools.tokens import Keys

OTHER = "http://127.0.0.1:9999"


async def desk_of(**calls: Any) -> Desk:
    desk = await Desk().open()
    await desk.thread("T", **(calls or {"pending": {"call_1": waiting()}}))
    return desk


def oauth(number: int) -> dict[str, Any]:
    return {
        "type": "oauth",
        "group_id": "T",
        "id": "call_1",
        "auth_url": f"https://id.test/{number}",
        "event_id": f"e{number}",
    }


async def test_no_change_of_a_token_is_taken() -> None:
    """Each bit of it, and each part of another one in its place."""
    desk = await desk_of()
    other = await Keys.open(MemoryStore())
    token, foreign = desk.keys.mint("T", "call_1"), other.mint("T", "call_1")
    parts, theirs = token.split("."), foreign.split(".")
    forged = {
        foreign,
        ".".join((parts[0], parts[1], theirs[2])),
        ".".join((parts[0], desk.keys.mint("T", "call_2").split(".")[1], parts[2])),
        ".".join(("k2", parts[1], parts[2])),
        f"{token}=",
        f"{token}.",
        f" {token}",
        f"{token}\n",
        token.upper(),
        token[:-1],
        "",
    } | {
        token[:at] + chr(ord(token[at]) ^ (1 << bit)) + token[at + 1 :]
        for at in range(len(token))
        for bit in range(7)
    }
    store: Any = desk.store
    before = digest(store)
    for one in forged - {token}:
        outcome = await desk.callbacks.receive(one, b"{}")
        assert outcome.status == 403, one
    assert digest(store) == before


async def test_a_captured_result_has_no_second_effect() -> None:
    desk = await desk_of()
    first = await desk.post(result())
    store: Any = desk.store
    before = digest(store)
    again = await desk.post(result())
    assert (first.status, again.status) == (200, 200)
    assert digest(store) == before


async def test_a_flood_of_questions_leaves_few_rows() -> None:
    desk = await desk_of()
    answers = [(await desk.post(oauth(number))).status for number in range(200)]
    assert answers == [200] * MOST + [400] * (200 - MOST)
    assert len(await desk.store.entries(AUTHORIZATIONS)) == MOST
    assert len([one for one in await desk.inbox() if isinstance(one, RequestedSignal)]) == MOST
    assert (await desk.post(oauth(0))).status == 200, "a repeat of what was taken is no other question"
    assert (await desk.post(result())).status == 200, "and the call can still end"


async def view(desk: Desk, call: str, seq: int, text: str) -> int:
    body = {"type": "view_update", "group_id": "T", "view_type": "v", "content": {"n": text}, "seq": seq}
    return (await desk.post(body, call=call)).status


async def test_numbers_of_one_server_hide_no_views_of_another() -> None:
    desk = await desk_of(
        pending={"call_1": waiting(), "call_2": waiting()},
        subscriptions={"far": subscribed()},
    )
    row = await desk.store.row("T")
    assert row is not None
    await desk.becomes(
        "T",
        pending={"call_1": waiting()},
        subscriptions={"far": type(subscribed())("watch", "{}", OTHER, 3)},
    )

    async def shown() -> str:
        return View(**_plain((await desk.store.entries(views_space("T")))["v"])).content

    assert await view(desk, "call_1", 2**52, "near") == 200
    assert await view(desk, "far", 1, "far") == 200
    assert await shown() == '{"n": "far"}'
    assert await view(desk, "far", 1, "older") == 200
    assert await shown() == '{"n": "far"}', "a number of the same server counts once"
    assert await view(desk, "call_1", 3, "near again") == 200
    assert await shown() == '{"n": "near again"}'


def _plain(body: bytes) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.msgpack.decode(body)
    return found


async def test_a_closed_thread_takes_nothing_and_changes_nothing() -> None:
    desk = await desk_of(state="closed")
    store: Any = desk.store
    before = digest(store)
    for body in (result(), event(), oauth(1)):
        assert (await desk.post(body)).status == 410
    assert digest(store) == before


# ------------------------------------------------------------------ long results


class Watched(MemoryStore):
    """Says how many bytes of a blob are read at once."""

    largest = 0

    async def get_blob(self, thread: str, hash: str, start: int = 0, size: int = -1) -> bytes | None:
        body = await super().get_blob(thread, hash, start, size)
        self.largest = max(self.largest, len(body or b""))
        return body


async def test_pages_of_a_long_result_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where characters have several bytes: what is held at once is bounded, and every page is right."""
    monkeypatch.setattr(reading, "BLOCK", 64)
    store, chance = Watched(), random.Random(1)
    whole = "".join(chance.choices("aé漢😀\u0301\n", k=3_000))
    await store.put_blob("T", "x" * 32 + "u", whole.encode())
    reach = Reach(store, store, "T")
    for start in (*range(200), *range(2_800, 3_010), 10**9):
        for length in (1, 7, 64, 500):
            text, more = await read_range(reach, "x" * 32 + "u", start, length)
            assert text == whole[start : start + length], (start, length)
            assert more == (start + length < len(whole))
    assert store.largest <= 64
