"""Requests that proxies and servers may understand differently, bombs, floods: one answer, or none."""

import asyncio
import contextlib
import gzip
import json
import zlib
from collections.abc import AsyncIterator

import pytest

from tests.attacks.test_connections import connect, kit
from tests.fuzz.wires import digest
from tests.web.places import TOKEN, echo, served
from torpor.connections import HEAD_LIMIT

JSON = "Content-Type: application/json\r\n"
HEAD = f"POST /threads HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n{JSON}"
START = b'{"agent":"echo","text":"hi"}'
INNER = f"DELETE /threads/T HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()

SMUGGLED = {
    "both lengths": (f"Content-Length: {len(START)}\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "both, the other way": ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"0\r\n\r\n"),
    "two lengths": ("Content-Length: 0\r\nContent-Length: 28\r\n", b""),
    "a list of lengths": ("Content-Length: 0, 28\r\n", b""),
    "a signed length": ("Content-Length: +0\r\n", b""),
    "a negative length": ("Content-Length: -1\r\n", b""),
    "a length in hex": ("Content-Length: 0x0\r\n", b""),
    "a huge length": (f"Content-Length: {'9' * 40}\r\n", b""),
    "an unknown coding": ("Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "a coding twice": ("Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    "a space before the colon": ("Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    "a folded header": ("Transfer-Encoding:\r\n chunked\r\nContent-Length: 0\r\n", b"0\r\n\r\n"),
    "a bare carriage return": ("X: a\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n", b""),
    "a bare line feed": ("X: a\nContent-Length: 0\r\nContent-Length: 5\r\n", b""),
    "a zero byte": ("X: a\x00b\r\nContent-Length: 0\r\nContent-Length: 7\r\n", b""),
    "a chunk of a bad size": ("Transfer-Encoding: chunked\r\n", b"-1\r\n"),
    "a chunk of a huge size": ("Transfer-Encoding: chunked\r\n", b"fffffffffffffffff\r\n"),
    "a chunk with another end": ("Transfer-Encoding: chunked\r\n", b"1\r\nab\r\n0\r\n\r\n"),
}


async def exchange(url: str, sent: bytes) -> bytes:
    """All that comes back for some bytes, once no more are sent."""
    reader, writer = await connect(url)
    with contextlib.suppress(ConnectionError):
        writer.write(sent)
        await writer.drain()
        writer.write_eof()
        async with asyncio.timeout(30):
            seen = await reader.read()
    writer.close()
    return seen


@pytest.mark.parametrize("name", SMUGGLED)
async def test_no_request_hides_in_another(name: str) -> None:
    """What two servers could read differently is refused as a whole, and the connection ends."""
    lines, body = SMUGGLED[name]
    async with served("memory:", workers=0) as (runtime, client):
        await client.ask("POST", "/threads", json={"agent": "echo", "thread": "T"})
        seen = await exchange(client.url, (HEAD + lines + "\r\n").encode() + body + INNER)
        assert b" 200 " not in seen, seen
        assert b" 201 " not in seen, seen
        assert seen.count(b"HTTP/1.1 ") <= 1
        assert await runtime.parts.store.row("T") is not None


async def test_the_same_way_a_plain_request_goes_through() -> None:
    async with served("memory:", workers=0) as (_, client):
        plain = f"{HEAD}Content-Length: {len(START)}\r\n\r\n".encode() + START
        chunked = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{len(START):x}\r\n".encode()
        seen = await exchange(client.url, plain + chunked + START + b"\r\n0\r\n\r\n")
        assert seen.count(b"HTTP/1.1 201 ") == 2


@pytest.mark.parametrize("name", SMUGGLED)
async def test_no_call_hides_in_another(name: str) -> None:
    lines, body = SMUGGLED[name]
    head = "POST /invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    async with kit() as url:
        seen = await exchange(
            url,
            (head + lines + "\r\n").encode()
            + body
            + b"GET /.well-known/rap-toolset HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        )
        assert b" 200 " not in seen, seen


def bombs() -> dict[str, bytes]:
    whole = b'{"agent":"echo","text":"' + b"x" * 50_000_000 + b'"}'
    return {"gzip": gzip.compress(whole, 1), "deflate": zlib.compress(whole, 1)}


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_bodies_are_not_unpacked(coding: str) -> None:
    """A compressed body is what it is: bytes that are no JSON. So a bomb has no effect at all."""
    async with served("memory:", workers=0) as (runtime, client):
        bomb = bombs()[coding]
        before = digest(runtime.parts.store)  # type: ignore[arg-type]
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        async with client.session.post(f"{client.url}/threads", data=bomb, headers=headers) as answer:
            assert answer.status == 400
            assert "not valid JSON" in (await answer.json())["error"]["message"]
        assert digest(runtime.parts.store) == before  # type: ignore[arg-type]


async def test_answers_are_not_compressed() -> None:
    """So that no secret beside words of a stranger can be guessed by the length of an answer."""
    async with (
        served("memory:", workers=0) as (_, client),
        client.session.get(f"{client.url}/openapi.json", headers={"Accept-Encoding": "gzip, br"}) as answer,
    ):
        assert "content-encoding" not in answer.headers


@contextlib.asynccontextmanager
async def web() -> AsyncIterator[str]:
    async with served("memory:", [echo()]) as (runtime, _):
        yield runtime.url


@pytest.mark.parametrize("server", [web, kit])
@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
        b"CONNECT 10.0.0.1:80 HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
        b"TRACE /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: secret\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"\x00" * 1_000,
        b"\r\n" * 1_000,
    ],
)
async def test_what_is_no_request_of_ours_ends(server: object, sent: bytes) -> None:
    async with server() as url:  # type: ignore[operator]
        seen = await exchange(url, sent)
        assert b"secret" not in seen
        assert b"Traceback" not in seen
        assert b" 200 " not in seen or b"healthz" in sent
        assert len(seen) < HEAD_LIMIT


async def test_the_answer_to_a_bad_request_repeats_nothing_of_it() -> None:
    async with served("memory:", workers=0) as (_, client):
        seen = await exchange(client.url, b"GET /<script>alert(1)</script> HTTP/1.1\r\nHost: <b>\r\n\r\n")
        assert b"<" not in seen
        status, body = await client.ask("GET", "/threads/%3Cscript%3E")
        assert status == 404
        assert json.dumps(body).isascii()
