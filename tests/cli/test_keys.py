"""``torpor keys``: a new key signs, old ones are taken until somebody retires them."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from torpor import Refused
from torpor.wiring import open_parts


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    if request.param == "sqlite":
        yield Shell(tmp_path)
    else:
        yield Shell(tmp_path, TORPOR_STORE=request.getfixturevalue("postgres_url"))


def test_a_key_is_rotated_and_the_old_one_retired(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.good("new", "echo", "hi")
    monkeypatch.chdir(shell.folder)
    url = shell.environment.get("TORPOR_STORE", "sqlite:///threads.db")
    old = asyncio.run(_signed(url))
    assert shell.good("keys", "rotate") == "k2 signs from now on; still taken: k1\n"
    assert json.loads(shell.good("keys", "list", "--json")) == {"keys": ["k1", "k2"], "signs": "k2"}
    assert shell.good("keys", "list") == "k1\nk2  signs\n"
    assert asyncio.run(_signed(url)).startswith("k2.")
    assert asyncio.run(_reads(url, old))
    unasked = shell.run("keys", "retire", "k1")
    assert (unasked.returncode, "--yes" in unasked.stderr) == (1, True)
    assert "k1 is retired; left: k2" in shell.good("keys", "retire", "k1", "--yes")
    assert not asyncio.run(_reads(url, old))
    assert "the newest k2" in shell.run("doctor").stdout
    for key, says in (("k2", "rotate first"), ("k1", "There is no key 'k1'")):
        refused = shell.run("keys", "retire", key, "--yes")
        assert (refused.returncode, says in refused.stderr) == (1, True)


def test_there_is_nothing_to_rotate_without_a_store(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("keys", "rotate")
    assert (done.returncode, "There is no store threads.db yet" in done.stderr) == (1, True)
    assert not (tmp_path / "threads.db").exists()


async def _signed(url: str) -> str:
    async with open_parts(url) as parts:
        return await parts.keys.sign("thread", "call")


async def _reads(url: str, token: str) -> bool:
    async with open_parts(url) as parts:
        try:
            return (await parts.keys.read(token)).call == "call"
        except Refused:
            return False
