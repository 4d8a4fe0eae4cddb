"""Who is let in: tokens, host names, origins, addresses, tickets; and what stays out of the log."""

import logging
from pathlib import Path

import aiohttp
import pytest

from tests.web.places import TOKEN, Client, served
from torpor import Refused
from torpor.settings import parse_listen
from torpor.web.access import Access
from torpor.web.app import redacted
from torpor.web.listening import listening
from torpor.web.tickets import Tickets
from torpor.wiring import open_parts

BEARER = f"Bearer {TOKEN}"
HEADERS: list[tuple[str, dict[str, str], int]] = [
    ("the token", {"Authorization": BEARER}, 200),
    ("lower case", {"Authorization": f"bearer {TOKEN}"}, 200),
    ("no token", {}, 401),
    ("an empty token", {"Authorization": "Bearer "}, 401),
    ("another token", {"Authorization": f"Bearer {TOKEN}x"}, 401),
    ("a part of it", {"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
    ("not ASCII", {"Authorization": "Bearer \u00e9"}, 401),
    ("basic", {"Authorization": f"Basic {TOKEN}"}, 401),
    ("localhost", {"Authorization": BEARER, "Host": "localhost:1234"}, 200),
    ("IPv6 loopback", {"Authorization": BEARER, "Host": "[::1]:1234"}, 200),
    ("the public host", {"Authorization": BEARER, "Host": "agents.example"}, 200),
    ("another host", {"Authorization": BEARER, "Host": "evil.example"}, 403),
    ("a host that begins well", {"Authorization": BEARER, "Host": "localhost.evil.example"}, 403),
    ("a host with a user", {"Authorization": BEARER, "Host": "localhost@evil.example"}, 403),
    ("another address", {"Authorization": BEARER, "Host": "10.0.0.1"}, 403),
    ("a broken host", {"Authorization": BEARER, "Host": "[::1"}, 403),
    ("own page", {"Authorization": BEARER, "Host": "localhost:99", "Origin": "http://localhost:99"}, 200),
    ("public page", {"Authorization": BEARER, "Origin": "https://agents.example"}, 200),
    ("other port", {"Authorization": BEARER, "Host": "localhost:99", "Origin": "http://localhost:98"}, 403),
    ("other page", {"Authorization": BEARER, "Origin": "https://evil.example"}, 403),
    ("no origin", {"Authorization": BEARER, "Origin": "null"}, 403),
    ("public page, plain", {"Authorization": BEARER, "Origin": "http://agents.example"}, 403),
]


async def test_headers() -> None:
    async with (
        served("memory:", workers=0, public_url="https://agents.example") as (runtime, _),
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, runtime.url)
        for what, headers, status in HEADERS:
            before = len(await runtime.threads())
            for path in ("/threads", "/openapi.json"):
                answered, body = await client.ask("GET", path, headers=headers)
                assert answered == status, (what, body)
                assert TOKEN not in str(body)
            answered, _ = await client.ask("POST", "/threads", json={"agent": "echo"}, headers=headers)
            assert answered == (201 if status == 200 else status), what
            assert len(await runtime.threads()) - before == (1 if status == 200 else 0), what


async def test_callbacks_and_health_need_no_token() -> None:
    async with served("memory:", workers=0) as (runtime, _), aiohttp.ClientSession() as session:
        client = Client(session, runtime.url)
        odd = {"Host": "tunnel.example", "Origin": "https://elsewhere.example"}
        assert (await client.ask("GET", "/healthz", headers=odd))[0] == 200
        status, body = await client.ask("POST", "/callbacks/wrong", json={}, headers=odd)
        assert (status, body["error"]["message"]) == (403, "The callback token is not valid.")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "agents.example:0"])
async def test_without_a_token_only_loopback(listen: str) -> None:
    from torpor.web.app import build

    async with open_parts("memory:") as parts:
        app = build(parts.threads, parts.callbacks)
        with pytest.raises(Refused, match="token"):
            async with listening(app, listen):
                pass


@pytest.mark.parametrize(
    ("client", "host", "let_in"),
    [
        (("127.0.0.1", 5), b"127.0.0.1:80", True),
        (("::1", 5), b"localhost", True),
        (("203.0.113.5", 5), b"127.0.0.1", False),
        (("127.0.0.1", 5), b"agents.example", False),
        (None, b"127.0.0.1", False),
    ],
)
def test_without_a_token_only_this_machine(client: tuple[str, int] | None, host: bytes, let_in: bool) -> None:
    access = Access(public_url="https://agents.example")
    scope = {
        "type": "http", "method": "GET", "path": "/threads", "query_string": b"",
        "headers": [(b"host", host)], "client": client,
    }  # fmt: skip
    problem = access.check(scope)
    assert (problem is None) == let_in
    assert problem is None or problem.status == 403


@pytest.mark.parametrize(
    "listen", ["", "8377", ":8377", "localhost", "localhost:x", "localhost:70000", "h:-1"]
)
def test_bad_addresses_to_listen_on(listen: str) -> None:
    with pytest.raises(Refused, match=r"host:port|a port is a number from 0 to 65535"):
        parse_listen(listen)


async def test_an_address_in_use_is_said() -> None:
    async with served("memory:", workers=0) as (runtime, _):
        with pytest.raises(Refused, match="Cannot listen"):
            async with served("memory:", workers=0, listen=runtime.url.removeprefix("http://")):
                pass


async def test_a_ticket_opens_one_stream_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "torpor.web.access")
    async with served("memory:") as (runtime, client), aiohttp.ClientSession() as bare:
        one, other = await client.start(), await client.start()
        status, body = await client.ask("POST", "/tickets", json={"thread": one})
        assert (status, body["seconds"]) == (201, 60.0)
        ticket = {"ticket": body["ticket"]}
        assert (await client.ask("POST", "/tickets", json={"thread": "nobody"}))[0] == 404
        async with bare.get(f"{runtime.url}/threads/{one}/messages", params=ticket) as response:
            assert response.status == 401
        async with bare.get(f"{runtime.url}/threads/{one}/events", params=ticket) as response:
            assert response.status == 200
            assert await response.content.readline() == b"retry: 2000\n"
        async with bare.get(f"{runtime.url}/threads/{one}/events", params=ticket) as response:
            assert response.status == 401
        _, body = await client.ask("POST", "/tickets", json={"thread": one})
        async with bare.get(
            f"{runtime.url}/threads/{other}/events", params={"ticket": body["ticket"]}
        ) as response:
            assert response.status == 401
    assert ticket["ticket"] not in caplog.text


def test_a_ticket_runs_out() -> None:
    now = 0.0
    tickets = Tickets(lambda: now)
    early, late = tickets.issue("/a"), tickets.issue("/a")
    now = 59.0
    assert tickets.take(early, "/a")
    assert not tickets.take(early, "/a")
    now = 60.0
    assert not tickets.take(late, "/a")


def test_tickets_are_bounded() -> None:
    tickets = Tickets(lambda: 0.0)
    issued = [tickets.issue("/a") for _ in range(1_001)]
    assert not tickets.take(issued[0], "/a")
    assert tickets.take(issued[1], "/a")


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("/threads/abc", "/threads/abc"),
        ("/callbacks/secret", "/callbacks/*"),
        ("//CallBacks/secret", "/callbacks/*"),
        ("/x/" + "s" * 65, "/x/*"),
        ("/\x1b[31m\n", "/%1B%5B31m%0A"),
    ],
)
def test_paths_as_they_are_logged(path: str, logged: str) -> None:
    assert redacted(path) == logged


async def test_secrets_stay_out_of_the_log(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(f"sqlite:///{tmp_path / 'a.db'}", workers=0) as (runtime, client):
        thread = await client.start("words of a person")
        token = runtime.parts.keys.mint(thread, "call-1")
        await client.ask("POST", f"/callbacks/{token}", json={"type": "tool_result"})
        await client.ask("POST", f"/callbacks/{token}x", json={"type": "tool_result"})
    assert "POST /callbacks/* 4" in caplog.text
    assert token not in caplog.text
    assert TOKEN not in caplog.text
    assert "words of a person" not in caplog.text
