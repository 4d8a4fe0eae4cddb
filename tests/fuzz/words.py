"""Short texts that people, servers and files give: settings, addresses, ids, durations, times."""

import contextlib
import ipaddress
import os
import tempfile
from pathlib import Path

from yarl import URL

from tests.fuzz.bounds import Target, fields, ours, text
from tests.fuzz.wires import LOOP
from torpor.cli.visible import one_line, visible
from torpor.core.errors import Refused
from torpor.core.retry import told_wait
from torpor.core.text import clean
from torpor.core.wall_time import wall_time
from torpor.ports import Row
from torpor.runtime import given, questions
from torpor.settings import Settings, check_store, load, parse_listen, shown_store
from torpor.stores.memory import MemoryStore
from torpor.tools.addresses import (
    Blocked,
    check_literal,
    check_url,
    host_of,
    is_loopback,
    is_public,
    literal,
    may_reach,
)
from torpor.tools.reading import Reach, read_range
from torpor.tools.server import wire
from torpor.tools.strict import Malformed, Reader
from torpor.tools.tokens import Keys
from torpor.web.app import redacted

FOLDER = Path(tempfile.mkdtemp(prefix="torpor-fuzz-"))
FILE = FOLDER / "torpor.toml"


def settings(data: bytes) -> None:
    """A settings file, and variables of the environment."""
    body, lines = fields(data, 2)
    FILE.write_bytes(body)
    pairs = [line.partition(b"=") for line in lines.split(b"\n")]
    environ = {"TORPOR_" + text(name): text(value) for name, _, value in pairs if name}
    with contextlib.suppress(Refused):
        found = load(FILE, environ=environ)
        assert isinstance(found, Settings)
        _ = repr(found), found.token_path
        for table in found.mcp.values():
            ours(lambda table=table: table.filled(environ))  # type: ignore[misc]


def addresses(data: bytes) -> None:
    """A URL as a tool server may name one: what was checked is what would be connected to."""
    url = text(data)
    host_of(url)
    literal(url)
    with contextlib.suppress(Malformed):
        wire.read_url(url, "u")
    try:
        check_url(url, allow_http=True, what="It")
        target = URL(url, encoded=url.isascii())
        check_literal(str(target), frozenset())
    except (Refused, Blocked, ValueError):
        return
    host = (target.raw_host or "").rstrip(".").lower()
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host.split("%", 1)[0])
        assert is_public(address), f"{url!r} leads to {address}"
        assert not is_loopback(host)
        assert may_reach(host, address, frozenset())


def places(data: bytes) -> None:
    """Stores, places to listen at, and what is shown of them."""
    word = text(data)
    ours(lambda: parse_listen(word))
    ours(lambda: check_store(word))
    shown = shown_store(f"postgresql://user:sesame@host/{word}")
    assert "sesame" not in shown
    assert redacted(word).isascii()
    assert redacted(word).isprintable()


def ids(data: bytes) -> None:
    """Ids and keys that others choose."""
    word = text(data)
    ours(lambda: given.thread_id(word))
    ours(lambda: given.agent_name(word))
    ours(lambda: given.idempotency_key(word))
    clean(questions.thread_of(word)).encode()
    with contextlib.suppress(Malformed):
        wire.read_id(word, "id")
    assert questions.open_wait(Row(thread="T", agent="a"), word) is None
    LOOP.run_until_complete(_kept(word))


async def _kept(word: str) -> None:
    store = MemoryStore()
    keys = await Keys.open(store)
    good = keys.mint("T", "c")
    with contextlib.suppress(Refused):
        assert await keys.read(word) == await keys.read(good), "a forged token was taken"
    with contextlib.suppress(Refused):
        await read_range(Reach(store, store, "T"), word, 0, 10)


def times(data: bytes) -> None:
    """Instants, waits and wall times."""
    day, clock, zone = map(text, fields(data, 3))
    with contextlib.suppress(ValueError):
        wall_time(day, clock, zone)
    wait = told_wait(day, 1_700_000_000.0)
    assert wait is None or wait >= 0
    assert Reader({"at": day}).instant("at") >= 0


def terminal(data: bytes) -> None:
    """Whatever a terminal is shown."""
    word = text(data)
    shown = visible(word)
    assert not any((ord(char) < 32 and char not in "\t\n") or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode()
    line = one_line(word, 80)
    assert len(line.splitlines()) <= 1
    assert len(line) <= 80 * 9


TARGETS = (
    Target(
        "settings",
        settings,
        (
            b'store = "sqlite:///a.db"\nlisten = "127.0.0.1:1"\nagents = ["a.b:c"]\nlease = 2.5\n'
            b'[mcp.x]\ncommand = ["a"]\nenv = { A = "${B:-c}" }\nheaders = {}\nneeds_approval = ["z"]\n'
            b"\x00STORE=memory:\nWORKERS=3\nPUBLIC_URL=https://a.test/",
            b'[mcp.y]\nurl = "https://x.test"\noauth = { client_id = "c" }\n\x00OWNER_CAP=1',
        ),
    ),
    Target(
        "addresses",
        addresses,
        (
            b"https://tools.example.com/x?y=1",
            b"http://2130706433/",
            b"http://[::ffff:127.0.0.1]:80/a",
            b"http://user@10.0.0.1\\@example.com/",
            "http://\uff11\uff12\uff17.0.0.1/".encode(),
            b"http://0x7f.1/%2e%2e",
            b"https://xn--nxasmq6b/",
        ),
    ),
    Target("places", places, (b"127.0.0.1:80", b"[::1]:0", b"sqlite:////a", b"/callbacks/k1.a.b")),
    Target("ids", ids, (b"T.c.choice.2", b"k1.k6FUoWOkY2FsbA.AAAAAAAAAAAAAAAAAAAAAA", b"T.1")),
    Target(
        "times",
        times,
        (
            b"2026-03-29\x0002:30\x00Europe/Berlin",
            b"Wed, 21 Oct 2026 07:28:00 GMT\x00\x00UTC",
            b"9999-12-31\x0023:59:59\x00Pacific/Apia",
        ),
    ),
    Target("terminal", terminal, (b"\x1b]0;a\x07\x9b31m", "\u202eabc\U000e0041".encode(), b"a\tb\nc")),
)

os.environ.setdefault("HOME", str(FOLDER))
