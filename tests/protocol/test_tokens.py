import asyncio
import base64

import pytest

from torpor.clock import SystemClock
from torpor.core.errors import Refused, Unavailable
from torpor.stores.memory import MemoryStore
from torpor.tools.tokens import KNOWN_FOR, Keys, Token, mark_of, scope_of


@pytest.fixture
def side() -> MemoryStore:
    return MemoryStore(SystemClock())


async def refused(keys: Keys, token: str) -> bool:
    try:
        await keys.read(token)
    except Refused:
        return True
    return False


async def test_a_token_says_what_it_was_minted_for(side: MemoryStore) -> None:
    keys = await Keys.open(side)
    for thread, call in (("t1", "c1-0"), ("t" * 20, "c" * 40), ("fäd/..?&", "c\x00\U0001f600")):
        token = keys.mint(thread, call)
        assert await keys.read(token) == Token(thread, call, "call", "k1")
        assert token.isascii()
        assert not set(token) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert (await keys.read(keys.mint("t", "c", "ticket"))).scope == "ticket"
    assert len(keys.mint("t" * 20, "c" * 19)) < 100


def test_a_token_without_a_key_cannot_be_minted(side: MemoryStore) -> None:
    with pytest.raises(Unavailable):
        Keys(side).mint("t", "c")


def tampered(token: str, other: str) -> list[str]:
    key, payload, mac = token.split(".")
    _, other_payload, other_mac = other.split(".")
    flipped = ("A" if mac[0] != "A" else "B") + mac[1:]
    longer = base64.urlsafe_b64encode(base64.urlsafe_b64decode(payload + "==") + b"x").rstrip(b"=").decode()
    return [
        "",
        ".",
        "..",
        "...",
        "k1",
        f"{key}.{payload}",
        f"{key}.{payload}.",
        f"{key}..{mac}",
        f".{payload}.{mac}",
        f"{key}.{payload}.{flipped}",
        f"{key}.{payload}.{mac[:-1]}",
        f"{key}.{payload}.{mac}A",
        f"{key}.{payload}.{mac}=",
        f"{key}.{payload}.{mac[:-1]}{'A' if mac[-1] != 'A' else 'B'}",
        f"{key}.{payload}.{other_mac}",
        f"{key}.{other_payload}.{mac}",
        f"{key}.{longer}.{mac}",
        f"{key}.{payload}=.{mac}",
        f"{key.upper()}.{payload}.{mac}",
        f"k2.{payload}.{mac}",
        f"k0.{payload}.{mac}",
        f"k01.{payload}.{mac}",
        f"k-1.{payload}.{mac}",
        f"k\u0661.{payload}.{mac}",
        f"k{'9' * 500}.{payload}.{mac}",
        f"{key}.{payload}.{mac}.{mac}",
        f" {token}",
        f"{token}\n",
        f"{token}\x00",
        f"{token}/../x",
        f"{key}.{payload}.{'é' * 22}",
        f"{key}.{payload}.{mac[:-1]}é",
        f"{key}.\ud800.{mac}",
        token.replace(".", "%2E"),
        token.swapcase(),
        token * 50,
    ]


async def test_a_tampered_token_is_refused_and_nothing_else_happens(side: MemoryStore) -> None:
    keys = await Keys.open(side)
    token = keys.mint("t1", "c1")
    for text in tampered(token, keys.mint("t2", "c1")):
        assert await refused(keys, text), text
    for place, letter in enumerate(token):
        changed = token[:place] + ("A" if letter != "A" else "B") + token[place + 1 :]
        assert await refused(keys, changed), changed
    assert not await refused(keys, token)


async def test_a_token_of_another_store_is_refused(side: MemoryStore) -> None:
    foreign = await Keys.open(MemoryStore(SystemClock()))
    assert await refused(await Keys.open(side), foreign.mint("t1", "c1"))


async def test_two_processes_that_start_at_once_agree_on_one_key(side: MemoryStore) -> None:
    rings = await asyncio.gather(*(Keys.open(side) for _ in range(5)))
    for ring in rings:
        assert ring.ids == ("k1",)
        assert (await rings[0].read(ring.mint("t", "c"))).thread == "t"


async def test_a_new_key_signs_and_the_old_ones_still_verify(side: MemoryStore) -> None:
    keys, elsewhere = await Keys.open(side), await Keys.open(side)
    old = keys.mint("t1", "c1")
    assert await keys.rotate() == "k2"
    new = keys.mint("t1", "c1")
    assert keys.ids == ("k1", "k2")
    assert (await keys.read(old)).key_id == "k1"
    assert (await keys.read(new)).key_id == "k2"
    assert (await elsewhere.read(new)).key_id == "k2"
    assert elsewhere.ids == ("k1", "k2")


async def test_a_retired_key_is_gone_for_good(side: MemoryStore) -> None:
    keys = await Keys.open(side)
    old = keys.mint("t1", "c1")
    with pytest.raises(Refused, match="rotate first"):
        await keys.retire("k1")
    await keys.rotate()
    await keys.retire("k1")
    assert keys.ids == ("k2",)
    assert await refused(keys, old)
    assert await refused(await Keys.open(side), old)
    with pytest.raises(Refused, match="no key 'k1'"):
        await keys.retire("k1")
    assert await keys.rotate() == "k3"


async def test_other_entries_beside_the_keys_are_left_alone(side: MemoryStore) -> None:
    await side.put("keys", "api-token", b"secret")
    keys = await Keys.open(side)
    assert keys.ids == ("k1",)
    assert await side.get("keys", "api-token") == b"secret"


async def test_keys_show_no_secret(side: MemoryStore) -> None:
    keys = await Keys.open(side, fresh=lambda size: b"S" * size)
    assert "SSSS" not in repr(keys)
    assert await side.get("keys", "k1") == b"S" * 32


async def test_a_process_signs_with_no_key_that_another_has_retired(side: MemoryStore) -> None:
    here, elsewhere = await Keys.open(side), await Keys.open(side)
    await elsewhere.rotate()
    await elsewhere.retire("k1")
    assert (await elsewhere.read(await here.sign("t", "c"))).key_id == "k2"


async def test_a_process_learns_within_a_bound_that_a_key_was_retired(side: MemoryStore) -> None:
    passed = [0.0]
    here, elsewhere = await Keys.open(side, passed=lambda: passed[0]), await Keys.open(side)
    old = here.mint("t", "c")
    await elsewhere.rotate()
    await elsewhere.retire("k1")
    passed[0] = KNOWN_FOR
    assert await refused(here, old)
    assert here.ids == ("k2",)


async def test_tokens_that_come_all_the_time_do_not_put_off_the_bound(side: MemoryStore) -> None:
    passed = [0.0]
    here, elsewhere = await Keys.open(side, passed=lambda: passed[0]), await Keys.open(side)
    old = here.mint("t", "c")
    await elsewhere.rotate()
    await elsewhere.retire("k1")
    for second in range(int(KNOWN_FOR)):
        passed[0] = float(second)
        assert not await refused(here, old)
    passed[0] = KNOWN_FOR
    assert await refused(here, old)


async def test_processes_of_a_store_prove_it_to_each_other(side: MemoryStore) -> None:
    here, elsewhere = await Keys.open(side), await Keys.open(side)
    stranger = await Keys.open(MemoryStore(SystemClock()))
    await elsewhere.rotate()
    assert await here.proves("any challenge", elsewhere.proof("any challenge"))
    assert not await here.proves("any challenge", elsewhere.proof("another"))
    assert not await here.proves("any challenge", stranger.proof("any challenge"))
    assert not await here.proves("any challenge", "")
    assert elsewhere.proof("") == ""


async def test_a_token_may_name_the_server_that_has_to_sign() -> None:
    keys = await Keys.open(MemoryStore(SystemClock()))
    server = "https://tools.example.com/" + "x" * 2_000
    token = await keys.read(await keys.sign("t", "c", scope_of(server)))
    assert (token.thread, token.call, token.server) == ("t", "c", mark_of(server))
    assert mark_of(server) != mark_of(server + "/")
    assert (await keys.read(await keys.sign("t", "c"))).server == ""
