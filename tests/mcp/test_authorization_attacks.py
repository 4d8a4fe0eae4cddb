"""Servers, browsers and stores that lie while somebody signs in at an MCP server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from aiohttp.abc import AbstractResolver
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from tests.mcp.granting import agree, granting
from tests.mcp.signing_world import World
from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.tools.bridged import McpServer, OAuth
from torpor.tools.client import PublicResolver
from torpor.tools.mcp import fetch
from torpor.tools.mcp.authorization import AuthorizationNeeded, Challenge
from torpor.tools.mcp.grants import SPACE as TOKENS
from torpor.tools.mcp.grants import mark_of

PRM = "/.well-known/oauth-protected-resource/mcp"
ASM = "/.well-known/oauth-authorization-server"
MEGABYTE = b" " * 1024 * 1024

Answering = Callable[[Request], Awaitable[Response]]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with granting() as desk:
        yield World(desk)


def always(body: bytes | dict[str, Any], status: int = 200, **headers: str) -> Answering:
    """An answer that is always the same."""

    async def answer(_: Request) -> Response:
        text = json.dumps(body).encode() if isinstance(body, dict) else body
        return Response(text, status, headers=headers, media_type="application/json")

    return answer


# ------------------------------------------------------------------ browsers


async def test_states_that_are_not_ours_are_refused(world: World) -> None:
    here = await world.open()
    url = await world.url(here)
    back = await agree(url)
    state, code = back["state"], back["code"]
    key, payload, mac = state.split(".")
    flow = (await here._flows.waiting())[0]
    callback = here._keys.mint("t1", "c1-0")
    others = here._keys.mint("t1", "c1-0", f"oauth@{flow[0]}.another")
    scope = (await here._keys.read(state)).scope
    as_callback = here._keys.mint("t1", "c1-0", scope.replace("oauth@", "call@"))
    thread = here._keys.mint("t2", "c1-0", (await here._keys.read(state)).scope)
    forged = [
        "",
        "x",
        "a" * 5_000,
        f"{key}.{payload}.{mac[::-1]}",
        f"k2.{payload}.{mac}",
        f"{key}.{payload}x.{mac}",
    ]
    for one in (*forged, callback, as_callback, others, thread):
        found = await here.finish("files", one, code, iss=back["iss"])
        assert not found.ok
        assert found.status in (400, 410)
    assert world.desk.forms == []
    assert world.told == []
    assert (await here.finish("files", state, code, iss=back["iss"])).ok


async def test_a_state_is_good_once(world: World) -> None:
    here = await world.open()
    back = await agree(await world.url(here))
    again = await agree(await world.url(here))
    assert (await here.finish("files", back["state"], back["code"], iss=back["iss"])).ok
    for code in (back["code"], again["code"]):
        assert (await here.finish("files", back["state"], code, iss=back["iss"])).status == 410
    assert len(world.desk.forms) == 1
    assert world.told == [("t1", "c1-0", "authorized")]


async def test_a_state_is_good_once_also_at_the_same_time(world: World) -> None:
    here, there = await world.open(), await world.open()
    url = await world.url(here)
    first, second = await agree(url), await agree(url)

    async def come(process: Any, back: dict[str, str]) -> bool:
        return bool((await process.finish("files", back["state"], back["code"], iss=back["iss"])).ok)

    found = await asyncio.gather(
        *(come(process, back) for process in (here, there) for back in (first, second, first))
    )
    assert sum(found) == 1
    assert len(world.desk.forms) == 1


async def test_another_issuer_than_was_asked_is_refused(world: World) -> None:
    here = await world.open()
    back = await agree(await world.url(here))
    for iss in ("https://evil.test", world.desk.url + "/", world.desk.url.upper(), ""):
        found = await here.finish("files", back["state"], back["code"], iss=iss)
        assert found.title == "This answer is not from the right place"
    assert world.desk.forms == []
    denied = await here.finish("files", back["state"], iss="https://evil.test", error="access_denied")
    assert denied.status == 400
    assert world.told == []


@pytest.mark.parametrize("tells", [True, False])
async def test_a_mixed_up_code_does_not_reach_the_attacker(world: World, tells: bool) -> None:
    """The attacker's server sends the browser on to the honest one, with the honest client's id."""
    world.desk.tells_issuer = tells
    here = await world.open()
    honest = await world.url(here)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(honest).query).items()}
    async with granting() as evil:
        evil.tells_issuer = False
        trap = McpServer("trap", url=evil.mcp)
        lured = await world.url(here, server=trap, thread="t2")
        theirs = {name: values[0] for name, values in parse_qs(urlsplit(lured).query).items()}
        sent_on = {**asked, "state": theirs["state"], "code_challenge": theirs["code_challenge"]}
        back = await agree(f"{world.desk.url}/authorize?{urlencode(sent_on)}")
        name = back["to"].rpartition("/")[2]
        found = await here.finish(name, back["state"], back["code"], iss=back.get("iss", ""))
        assert found.title == "This answer is not from the right place"
        assert evil.forms == []
        with pytest.raises(AssertionError):  # nor does the honest server send its codes to the trap's place
            await agree(
                f"{world.desk.url}/authorize?{urlencode({**sent_on, 'redirect_uri': theirs['redirect_uri']})}"
            )


async def test_a_code_of_somebody_else_is_of_no_use(world: World) -> None:
    here = await world.open()
    victim = await agree(await world.url(here, "victim", "t1"))
    attacker = await agree(await world.url(here, "attacker", "t2"))
    found = await here.finish("files", victim["state"], attacker["code"], iss=victim["iss"])
    assert not found.ok
    assert not await here.has_token(world.server, "victim")
    assert not await here.has_token(world.server, "attacker")


# ------------------------------------------------------------------- servers


@pytest.mark.parametrize(
    "resource",
    ["https://other.test/mcp", "{url}/mcp/more", "{url}/m", "{url}:1/mcp", "http://user@{host}/mcp"],
)
async def test_a_token_for_another_resource_is_not_asked_for(world: World, resource: str) -> None:
    here = await world.open()
    host = urlsplit(world.desk.url).netloc
    world.desk.resource["resource"] = resource.format(url=world.desk.url, host=host)
    with pytest.raises(Refused):
        await world.url(here)
    assert "/register" not in world.desk.asked


async def test_metadata_that_names_another_issuer_is_refused(world: World) -> None:
    here = await world.open()
    world.desk.metadata["issuer"] = "https://accounts.google.com"
    with pytest.raises(Refused, match="another authorization server"):
        await world.url(here)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "http://10.0.0.1/authorize"),
        ("authorization_endpoint", "https://10.0.0.1/authorize"),
        ("authorization_endpoint", "https://as.test/authorize?redirect_uri=https://evil.test"),
        ("authorization_endpoint", "https://as.test/authorize?STATE=1&state="),
        ("authorization_endpoint", "https://as.test/" + "a" * 5_000),
        ("authorization_endpoint", "https://user:password@as.test/"),
        ("token_endpoint", "https://169.254.169.254/token"),
        ("token_endpoint", "http://as.test/token"),
        ("token_endpoint", "file:///etc/passwd"),
        ("token_endpoint", None),
        ("registration_endpoint", "https://[fd00::1]/register"),
        ("registration_endpoint", "https://0x0a.1:22/register"),
        ("registration_endpoint", None),
        ("code_challenge_methods_supported", None),
        ("code_challenge_methods_supported", ["plain"]),
        ("code_challenge_methods_supported", "S256"),
    ],
)
async def test_metadata_that_is_not_safe_is_refused(world: World, member: str, value: Any) -> None:
    here = await world.open()
    world.desk.metadata[member] = value
    with pytest.raises(Refused):
        await world.url(here)
    assert world.desk.clients == {}


async def test_pkce_may_go_unsaid_where_a_client_is_configured(world: World) -> None:
    here = await world.open()
    world.desk.clients["ours"] = {"redirect_uris": [f"{world.place}/oauth/callback/files"]}
    server = McpServer("files", url=world.desk.mcp, oauth=OAuth("ours"))
    world.desk.metadata["code_challenge_methods_supported"] = ["plain"]
    with pytest.raises(Refused, match="PKCE"):
        await world.url(here, server=server)
    world.desk.metadata["code_challenge_methods_supported"] = None
    world.clock.advance(10)
    assert (await world.finish(here, await world.url(here, server=server))).ok


PRIVATE = [
    "http://127.0.0.1:{port}" + PRM,
    "http://localhost:{port}" + PRM,
    "http://[::1]:{port}" + PRM,
    "http://2130706433:{port}" + PRM,
    "http://x.localhost:{port}" + PRM,
    "https://10.0.0.1/metadata",
    "https://192.168.0.1./metadata",
    "https://[::ffff:10.0.0.1]/metadata",
    "https://169.254.169.254/latest/meta-data",
    "http://mcp.test/metadata",
    "file:///etc/passwd",
    "gopher://mcp.test/",
    "https://user:password@mcp.test/",
    "//mcp.test/",
    "https://mcp.test/" + "a" * 5_000,
]


@pytest.mark.parametrize("url", PRIVATE)
async def test_a_public_server_cannot_have_us_ask_what_is_private(world: World, url: str) -> None:
    here = await world.open()
    place = url.format(port=urlsplit(world.desk.url).port)
    needed = AuthorizationNeeded(McpServer("m", url="https://mcp.test/"), "", Challenge(place))
    with pytest.raises(Refused):
        await here.begin(needed, "t1", "c1-0")
    assert world.desk.asked == []


async def test_a_name_that_leads_to_a_private_address_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lying(AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: int = 0) -> Any:
            return [
                {"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}
            ]

        async def close(self) -> None:
            pass

    monkeypatch.setattr(fetch, "PublicResolver", lambda: PublicResolver(Lying()))
    here = await world.open()
    needed = AuthorizationNeeded(McpServer("m", url="https://mcp.test/"), "", Challenge("https://mcp.test/x"))
    with pytest.raises(Refused, match="may not go to"):
        await here.begin(needed, "t1", "c1-0")


@pytest.mark.parametrize("path", [PRM, ASM, "/register"])
@pytest.mark.parametrize(
    "answer",
    [
        always(MEGABYTE),
        always(b"{"),
        always(b"[" * 100_000),
        always(b'{"a":' * 30_000),
        always(b"\xff\xfe"),
        always(b"null"),
        always({}),
        always(b'{"issuer": 1}'),
        always(b"{}", 404),
        always(b"{}", 302, Location="http://127.0.0.1:1/"),
    ],
    ids=["huge", "cut", "deep", "deeper", "bytes", "null", "empty", "wrong", "404", "302"],
)
async def test_answers_that_cannot_be_used(world: World, path: str, answer: Answering) -> None:
    here = await world.open()
    world.desk.instead[path] = answer
    if path == PRM:
        world.desk.instead["/.well-known/oauth-protected-resource"] = answer
        world.desk.metadata["issuer"] = "https://other.test"
    with pytest.raises(Refused) as raised:
        await world.url(here)
    assert len(str(raised.value)) < 600
    assert not await here._flows.waiting()


async def test_an_endless_body_is_cut(world: World) -> None:
    here = await world.open()
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield MEGABYTE
            await asyncio.sleep(0)

    async def answer(_: Request) -> Response:
        return StreamingResponse(endless(), media_type="application/json")

    world.desk.instead[ASM] = answer
    with pytest.raises(Refused, match="more than"):
        await world.url(here)
    assert sent < 100


async def test_a_server_that_never_answers_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "SECONDS", 0.2)
    here = await world.open()
    url = await world.url(here)
    hangs = asyncio.Event()

    async def hang(_: Request) -> Response:
        await hangs.wait()
        return Response()

    world.desk.instead[ASM] = world.desk.instead["/token"] = hang
    world.clock.advance(3_600)
    with pytest.raises(Unavailable, match="did not answer"):
        await world.url(here, thread="t2")
    assert not (await world.finish(here, url)).ok
    assert world.told == [("t1", "c1-0", "failed")]
    hangs.set()


async def test_a_code_is_not_sent_where_a_redirect_leads(world: World) -> None:
    async with granting() as thief:
        here = await world.open()
        url = await world.url(here)

        async def on(_: Request) -> Response:
            return RedirectResponse(f"{thief.url}/token", 307)

        world.desk.instead["/token"] = on
        assert not (await world.finish(here, url)).ok
        assert thief.asked == []


@pytest.mark.parametrize(
    "token",
    [
        {},
        {"access_token": ""},
        {"access_token": "a\r\nX-Evil: 1"},
        {"access_token": "a b"},
        {"access_token": "ä"},
        {"access_token": "a" * 40_000},
        {"access_token": 5},
        {"access_token": "a", "token_type": "mac"},
        {"access_token": "a", "refresh_token": "b\n"},
        {"error": "invalid_request", "access_token": ""},
    ],
)
async def test_tokens_that_cannot_be_used(world: World, token: dict[str, Any]) -> None:
    here = await world.open()
    url = await world.url(here)
    world.desk.instead["/token"] = always(token)
    assert not (await world.finish(here, url)).ok
    assert not await here.has_token(world.server, "ann")
    assert world.told == [("t1", "c1-0", "failed")]


@pytest.mark.parametrize("life", ["soon", "1e999", "-5", "nan", None, "", "120", 1e300])
async def test_odd_lives_of_tokens(world: World, life: Any) -> None:
    here = await world.open()
    url = await world.url(here)
    world.desk.tokens["good"] = "files:read"
    world.desk.instead["/token"] = always({"access_token": "good", "expires_in": life})
    assert (await world.finish(here, url)).ok
    assert (await world.ask(here)).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"redirect_uris": ["https://evil.test/"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"client_id": "a\nb"},
        {"client_id": ""},
        {"client_id": "a" * 3_000},
    ],
)
async def test_clients_that_cannot_be_used(world: World, change: dict[str, Any]) -> None:
    async def register(request: Request) -> Response:
        return JSONResponse({**await request.json(), "client_id": "c", **change}, 201)

    here = await world.open()
    world.desk.instead["/register"] = register
    with pytest.raises(Refused, match="client_id"):
        await world.url(here)


async def test_what_is_asked_for_without_measure_is_left_out(world: World) -> None:
    here = await world.open()
    world.desk.scopes = " ".join(f"scope-{number}" for number in range(1_000))
    needed = await world.needed(here)
    assert needed.challenge.scope == ""
    consent = await here.begin(needed, "t1", "c1-0")
    assert consent is not None
    assert len(consent.url) < 2_000


async def test_words_of_servers_do_not_get_far(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    here = await world.open()
    back = await agree(await world.url(here))
    found = await here.finish("files", back["state"], "wrong", iss=back["iss"])
    assert "secret words" not in f"{found} {caplog.text}"
    world.desk.instead[ASM] = always({"issuer": "https://as.test/\x1b[31m<b>" + "x" * 1_000})
    world.clock.advance(3_600)
    with pytest.raises(TorporError) as raised:
        await world.url(here, thread="t2")
    assert "\x1b" not in str(raised.value)


# -------------------------------------------------------------------- stores


async def test_a_sealed_token_is_of_no_use_in_another_place(world: World) -> None:
    here = await world.open()
    await world.sign_in(here, "ann")
    mine, theirs = mark_of(world.server, "ann"), mark_of(world.server, "bob")
    kept = await world.store.get(TOKENS, mine)
    assert kept is not None
    await world.store.put(TOKENS, theirs, kept)
    await world.needed(here, "bob")
    await world.store.put(TOKENS, mine, kept[:-1] + bytes([kept[-1] ^ 1]))
    await world.needed(here, "ann")
    for broken in (b"x", b"\x01", kept[:20], kept[:9] + b"\0" * 40):
        await world.store.put(TOKENS, mine, broken)
        await world.needed(here, "ann")


async def test_users_whose_names_could_be_confused_are_kept_apart(world: World) -> None:
    names = ["ann", "Ann", "ann ", "ann/bob", "mcp:files", "", "ann\0"]
    assert len({mark_of(world.server, name) for name in names}) == len(names)
    other = McpServer("filesann", url=world.desk.mcp)
    assert mark_of(other, "") != mark_of(world.server, "ann")
