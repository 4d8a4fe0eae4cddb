"""Values are sealed for one place, and attempts are one at a time."""

import asyncio

import pytest

from torpor.core.errors import Refused
from torpor.stores.memory import MemoryStore
from torpor.testing.clock import FakeClock
from torpor.tools.mcp.attempts import HELD_SECONDS, Attempts
from torpor.tools.mcp.vault import Vault


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FakeClock())


async def test_a_value_comes_back_and_lies_there_sealed(store: MemoryStore) -> None:
    vault = await Vault.open(store)
    await vault.put("space", "key", b"token")
    assert await vault.get("space", "key") == b"token"
    kept = await store.get("space", "key")
    assert kept is not None
    assert b"token" not in kept
    again = await Vault.open(store)
    assert await again.get("space", "key") == b"token"
    await vault.put("space", "key", b"token")
    assert await store.get("space", "key") != kept
    await vault.put("space", "key", b"")
    assert await store.get("space", "key") == b""
    assert await vault.get("space", "key") is None
    assert await vault.get("space", "other") is None


async def test_a_value_opens_at_its_place_only(store: MemoryStore) -> None:
    vault = await Vault.open(store)
    sealed = vault.seal("space", "key", b"token")
    assert vault.unseal("space", "key", sealed) == b"token"
    assert vault.unseal("space", "other", sealed) is None
    assert vault.unseal("spac", "ekey", sealed) is None
    for at in range(len(sealed)):
        broken = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        assert vault.unseal("space", "key", broken) is None
        assert vault.unseal("space", "key", sealed[:at]) is None


async def test_a_new_secret_seals_while_the_old_one_opens(store: MemoryStore) -> None:
    old, new = "o" * 16, "n" * 16
    first = await Vault.open(store, old)
    assert await store.entries("keys") == {}
    await first.put("space", "a", b"1")
    both = await Vault.open(store, f"{new}, {old}")
    assert await both.get("space", "a") == b"1"
    await both.put("space", "b", b"2")
    assert await first.get("space", "b") is None
    assert await (await Vault.open(store, new)).get("space", "b") == b"2"


async def test_what_the_stores_own_key_has_sealed_opens_beside_a_secret(store: MemoryStore) -> None:
    await (await Vault.open(store)).put("space", "a", b"1")
    secret = await Vault.open(store, "s" * 16)
    assert await secret.get("space", "a") == b"1"
    await secret.put("space", "b", b"2")
    assert await (await Vault.open(store)).get("space", "b") is None


@pytest.mark.parametrize("secret", ["short", "x" * 15, f"{'x' * 16},y"])
async def test_a_secret_that_is_too_short_is_refused(store: MemoryStore, secret: str) -> None:
    with pytest.raises(Refused, match="TORPOR_SECRET"):
        await Vault.open(store, secret)


async def test_one_attempt_at_a_time(store: MemoryStore) -> None:
    here, there = Attempts(store), Attempts(store)
    found = await asyncio.gather(*(one.take("x") for one in (here, there, here, there)))
    [held] = [one for one in found if one is not None]
    assert await here.take("x") is None
    assert await here.take("y") is not None
    await there.end(held, lost=False)
    again = await here.take("x")
    assert again is not None
    assert (again.count.next, again.count.lost) == (1, 0)


async def test_an_attempt_that_nobody_ends_is_lost(store: MemoryStore) -> None:
    passed = [100.0]
    here, dead = Attempts(store, lambda: passed[0]), Attempts(store)
    assert await dead.take("x") is not None
    assert await here.take("x") is None
    passed[0] += HELD_SECONDS - 1
    assert await here.take("x") is None
    passed[0] += 1
    taken = await here.take("x")
    assert taken is not None
    assert taken.count.lost == 1
    assert await dead.take("x") is None
    await here.end(taken, lost=True)
    last = await dead.take("x")
    assert last is not None
    assert last.count.lost == 2
