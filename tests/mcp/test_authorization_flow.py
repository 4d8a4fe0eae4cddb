"""Signing in at MCP servers: from the refusal of a request to the request that goes through."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.mcp.granting import agree, granting
from tests.mcp.signing_world import PLACE, World
from torpor.core.errors import Refused, Unavailable
from torpor.tools.bridged import McpServer, OAuth
from torpor.tools.mcp.attempts import HELD_SECONDS
from torpor.tools.mcp.authorization import AuthorizationNeeded, Challenge
from torpor.tools.mcp.flows import LIFE
from torpor.tools.mcp.grants import mark_of


async def nothing(_: Request) -> Response:
    return Response("no such place", 404)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with granting() as desk:
        yield World(desk)


async def test_a_person_signs_in_and_the_call_goes_on(world: World) -> None:
    here = await world.open()
    url = await world.url(here)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == world.desk.mcp
    assert asked["scope"] == "files:read"
    finished = await world.finish(here, url)
    assert finished.ok
    assert finished.status == 200
    assert world.told == [("t1", "c1-0", "authorized")]
    response = await world.ask(here)
    assert response.status_code == 200
    assert response.json() == {"scope": "files:read"}
    assert await here.has_token(world.server, "ann", "files:read")
    assert not await here.has_token(world.server, "ann", "files:write")


async def test_another_process_finishes_days_later(world: World) -> None:
    url = await world.url(await world.open())
    world.clock.advance(5 * 86_400)
    later = await world.open()
    assert (await world.finish(later, url)).ok
    assert (await world.ask(await world.open())).status_code == 200


async def test_a_link_is_over_after_a_month(world: World) -> None:
    here = await world.open()
    url = await world.url(here)
    world.clock.advance(LIFE + 1)
    assert (await world.finish(here, url)).status == 410
    assert world.told == []


async def test_tokens_are_a_users_own(world: World) -> None:
    here = await world.open()
    await world.sign_in(here, "ann")
    await world.needed(here, "bob")
    await world.needed(here, "")
    await world.sign_in(here, "", thread="t2")
    assert (await world.ask(here, "")).status_code == 200
    await world.needed(here, "bob")


async def test_a_server_of_the_same_name_elsewhere_gets_no_token(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    other = McpServer("files", url=f"{world.desk.url}/elsewhere")
    async with httpx2.AsyncClient(verify=False, auth=here.auth(other, "ann")) as client:
        response = await client.post(other.url or "")
        assert "authorization" not in response.request.headers
    async with httpx2.AsyncClient(verify=False, auth=here.auth(world.server, "ann")) as client:
        response = await client.get(world.desk.url.replace("127.0.0.1", "localhost"))
        assert "authorization" not in response.request.headers


async def test_one_consent_lets_all_calls_of_a_user_go_on(world: World) -> None:
    here = await world.open()
    first = await world.url(here, thread="t1")
    second = await world.url(here, thread="t2")
    other = await world.url(here, "bob", thread="t3")
    assert len({first, second, other}) == 3
    assert len(world.desk.clients) == 1
    assert (await world.finish(here, second)).ok
    assert sorted(world.told) == [("t1", "c1-0", "authorized"), ("t2", "c1-0", "authorized")]
    assert (await world.finish(here, first)).status == 410
    assert (await world.finish(here, other)).ok
    assert world.told[2:] == [("t3", "c1-0", "authorized")]


async def test_a_call_that_comes_late_needs_no_consent_of_its_own(world: World) -> None:
    here = await world.open()
    late = await world.needed(here)
    await world.sign_in(here)
    assert await here.begin(late, "t9", "c9-0") is None


async def test_a_call_that_asks_again_gets_the_same_link(world: World) -> None:
    here = await world.open()
    url = await world.url(here)
    assert await world.url(here) == url
    assert await world.url(await world.open()) == url
    world.place = "http://127.0.0.1:2"
    moved = await world.url(here)
    assert moved != url
    assert (await world.finish(here, moved)).ok


async def test_a_person_declines(world: World) -> None:
    here = await world.open()
    world.desk.denies = True
    finished = await world.finish(here, await world.url(here))
    assert (finished.ok, finished.title) == (False, "You have declined")
    assert world.told == [("t1", "c1-0", "declined")]
    world.desk.denies = False
    await world.sign_in(here)


async def test_a_code_that_is_not_taken_leads_to_another_link(world: World) -> None:
    here = await world.open()
    url = await world.url(here)
    back = await agree(url)
    finished = await here.finish("files", back["state"], "another code", iss=back["iss"])
    assert (finished.ok, finished.status) == (False, 502)
    assert world.told == [("t1", "c1-0", "failed")]
    again = await world.url(here)
    assert again != url
    assert (await world.finish(here, again)).ok


async def test_a_server_that_is_busy_is_asked_again_with_the_same_code(world: World) -> None:
    here = await world.open()
    back = await agree(await world.url(here))

    async def busy(_: Request) -> Response:
        return Response("later", 503)

    world.desk.instead["/token"] = busy
    assert (await here.finish("files", back["state"], back["code"], iss=back["iss"])).status == 503
    assert world.told == []
    world.desk.instead.clear()
    assert (await here.finish("files", back["state"], back["code"], iss=back["iss"])).ok


async def test_a_client_that_was_forgotten_is_registered_anew(world: World) -> None:
    here = await world.open()
    back = await agree(await world.url(here))
    world.desk.clients.clear()
    assert not (await here.finish("files", back["state"], back["code"], iss=back["iss"])).ok
    await world.sign_in(here)
    assert len(world.desk.clients) == 1


async def test_given_credentials_are_used_and_shown_to_one_server_only(world: World) -> None:
    here = await world.open()
    redirect = f"{PLACE}/oauth/callback/files"
    world.desk.clients["ours"] = {"redirect_uris": [redirect], "client_secret": "s3cr:et &"}
    server = McpServer("files", url=world.desk.mcp, oauth=OAuth("ours", "s3cr:et &", "files:read more"))
    url = await world.url(here, server=server)
    assert "scope=files%3Aread+more" in url
    assert (await world.finish(here, url)).ok
    assert "/register" not in world.desk.asked
    assert "client_secret" not in world.desk.forms[-1]
    assert (await world.ask(here, server=server)).status_code == 200
    async with granting() as thief:
        world.desk.resource["authorization_servers"] = [thief.url]
        needed = await world.needed(here, "bob", server)
        world.clock.advance(3600)
        with pytest.raises(Refused, match="another authorization server"):
            await here.begin(needed, "t2", "c1-0")
        await here.forget(server)
        assert await here.begin(needed, "t2", "c1-0") is not None
        assert thief.forms == []


async def test_more_scopes_are_asked_for_on_top_of_those_granted(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    world.desk.scopes = "files:write"
    url = await world.url(here)
    assert "scope=files%3Aread+files%3Awrite" in url
    assert await here.has_token(world.server, "ann")
    assert (await world.finish(here, url)).ok
    assert (await world.ask(here)).json() == {"scope": "files:read files:write"}


async def test_a_scope_that_was_granted_and_is_asked_for_again_troubles_nobody(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)

    async def never(_: Request) -> Response:
        return world.desk.refusal(403, error="insufficient_scope")

    world.desk.instead["/mcp"] = never
    assert (await world.ask(here)).status_code == 403


async def test_a_server_that_takes_no_token_is_not_asked_about_for_ever(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)

    async def never(_: Request) -> Response:
        return world.desk.refusal(401)

    world.desk.instead["/mcp"] = never
    with pytest.raises(Refused, match="do not fit together"):
        await world.ask(here)
    world.clock.advance(3600)
    await world.needed(here)


async def test_tokens_are_renewed_before_their_end(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    world.clock.advance(3600 - 30)
    assert (await world.ask(here)).status_code == 200
    assert list(world.desk.used.values()) == [1]
    assert world.desk.forms[-1]["resource"] == world.desk.mcp
    for _ in range(3):
        world.clock.advance(3600 + 5)
        assert (await world.ask(await world.open())).status_code == 200
    assert list(world.desk.used.values()) == [1, 1, 1, 1]


async def test_a_refresh_token_that_stays_is_kept(world: World) -> None:
    here = await world.open()
    world.desk.rotates = False
    await world.sign_in(here)
    for _ in range(3):
        world.clock.advance(3600)
        assert (await world.ask(here)).status_code == 200
    assert list(world.desk.used.values()) == [3]


async def test_a_refused_token_is_renewed_and_the_request_sent_again(world: World) -> None:
    here = await world.open()
    world.desk.life = None
    await world.sign_in(here)
    world.desk.tokens.clear()
    assert (await world.ask(here)).status_code == 200
    assert list(world.desk.used.values()) == [1]


async def test_a_grant_that_was_revoked_asks_the_person_again(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    world.desk.tokens.clear()
    world.desk.refreshing.clear()
    world.clock.advance(120)
    await world.needed(here)
    assert not await here.has_token(world.server, "ann")
    await world.sign_in(here)
    assert (await world.ask(here)).status_code == 200


async def test_a_token_without_a_refresh_token_ends(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    world.desk.refreshing.clear()
    world.clock.advance(7200)
    world.desk.tokens.clear()
    needed = await world.needed(here)
    assert await here.begin(needed, "t2", "c1-0") is not None


async def test_many_calls_renew_once(world: World) -> None:
    here, there = await world.open(), await world.open()
    await world.sign_in(here)
    world.clock.advance(3600)
    found = await asyncio.gather(*(world.ask(one) for one in (here, there) for _ in range(20)))
    assert {response.status_code for response in found} == {200}
    assert list(world.desk.used.values()) == [1]


async def test_a_token_is_kept_while_it_cannot_be_renewed(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)

    async def busy(_: Request) -> Response:
        return Response("later", 503, headers={"Retry-After": "7"})

    world.desk.instead["/token"] = busy
    world.clock.advance(3600 - 30)
    assert (await world.ask(here)).status_code == 200  # it is still good
    world.clock.advance(60)
    with pytest.raises(Unavailable, match="renewed") as raised:
        await world.ask(here)
    assert raised.value.retry_after == pytest.approx(7)
    world.desk.instead.clear()
    world.clock.advance(8)
    assert (await world.ask(here)).status_code == 200
    assert list(world.desk.used.values()) == [1]


async def test_a_renewal_outlives_the_call_that_began_it(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    world.clock.advance(3600)
    going = asyncio.Event()

    async def slow(request: Request) -> Response:
        await request.body()
        going.set()
        await asyncio.sleep(0.1)
        return await world.desk.usual["/token"](request)

    world.desk.instead["/token"] = slow
    call = asyncio.create_task(world.ask(here))
    await going.wait()
    world.desk.instead.clear()
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    await here.close()
    assert (await world.ask(here)).status_code == 200
    assert list(world.desk.used.values()) == [1]


async def test_logging_out_revokes_and_forgets(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    assert await here.forget(world.server, "ann")
    assert "/revoke" in world.desk.asked
    assert world.desk.refreshing == {}
    assert not await here.forget(world.server, "ann")
    await world.needed(here)


async def test_a_call_that_nobody_could_tell_is_told_later(world: World) -> None:
    here = await world.open()
    url = await world.url(here)
    here.settled = None
    assert (await world.finish(here, url)).ok
    assert (await world.finish(here, url)).status == 410
    later = await world.open()
    assert await later.recover() == 1
    assert world.told == [("t1", "c1-0", "authorized")]
    assert await later.recover() == 0


async def test_a_call_that_is_given_up_leaves_no_link(world: World) -> None:
    here = await world.open()
    needed = await world.needed(here)
    consent = await here.begin(needed, "t1", "c1-0")
    assert consent is not None
    await here.withdraw(consent.key, "t1", "c1-0")
    assert not await here.is_waiting(consent.key, "t1", "c1-0")
    assert (await world.finish(here, consent.url)).status == 410


async def test_nothing_secret_is_seen(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    here = await world.open()
    needed = await world.needed(here)
    consent = await here.begin(needed, "t1", "c1-0")
    assert consent is not None
    flow = await here._flows.read(f"t1/c1-0/{consent.key}")
    assert flow is not None
    back = await agree(consent.url)
    assert flow.verifier.encode() not in await world.dump()
    assert (await here.finish("files", back["state"], back["code"], iss=back["iss"])).ok
    world.clock.advance(3600)
    await world.ask(here)
    secrets = [*world.desk.tokens, *world.desk.refreshing, *world.desk.used, flow.verifier, back["code"]]
    grant = await here._grants.read(consent.key)
    seen = f"{needed!r} {consent!r} {flow!r} {grant!r} {flow.client!r} {caplog.text}"
    kept = await world.dump()
    for secret in secrets:
        assert secret not in seen
        assert secret.encode() not in kept


async def test_tokens_that_were_sealed_with_a_secret_need_it(world: World) -> None:
    first, second = "1" * 32, "2" * 32
    await world.sign_in(await world.open(first))
    for secret in (f"{second},{first}", first):
        assert (await world.ask(await world.open(secret))).status_code == 200
    for secret in (second, ""):
        await world.needed(await world.open(secret))
    assert (await world.ask(await world.open(first))).status_code == 200
    with pytest.raises(Refused, match="at least 16"):
        await world.open("short")


async def test_a_document_describes_the_client_where_that_is_possible(world: World) -> None:
    world.place = "https://agents.test/base/"
    world.desk.metadata["client_id_metadata_document_supported"] = True
    here = await world.open()
    url = await world.url(here)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert asked["client_id"] == "https://agents.test/base/oauth/client/files"
    assert asked["redirect_uri"] == "https://agents.test/base/oauth/callback/files"
    told = await here.document("files")
    assert told["client_id"] == asked["client_id"]
    assert told["redirect_uris"] == [asked["redirect_uri"]]
    assert told["application_type"] == "web"
    assert world.desk.clients == {}


async def test_a_server_that_is_its_own_authorization_server(world: World) -> None:
    """As the protocol had it in March 2025: no metadata of a resource."""
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        world.desk.instead[path] = nothing
    here = await world.open()
    await world.sign_in(here)
    assert (await world.ask(here)).status_code == 200
    world.desk.metadata["issuer"] = "https://other.test"
    world.clock.advance(120)
    with pytest.raises(Refused, match="another authorization server"):
        await world.url(here, "bob")


async def test_a_server_that_does_not_say_where_to_sign_in(world: World) -> None:
    for path in (
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server",
    ):
        world.desk.instead[path] = nothing
    here = await world.open()
    with pytest.raises(Refused, match="give it in headers"):
        await world.url(here)


@pytest.mark.parametrize(
    "at", ["/.well-known/openid-configuration/as", "/as/.well-known/openid-configuration"]
)
async def test_metadata_is_found_where_openid_has_it(world: World, at: str) -> None:
    issuer = f"{world.desk.url}/as"
    world.desk.resource["authorization_servers"] = [f"{world.desk.url}/none", issuer]
    world.desk.metadata["issuer"] = world.desk.issuer = issuer
    world.desk.instead[at] = world.desk.usual["/.well-known/oauth-authorization-server"]
    here = await world.open()
    await world.sign_in(here)
    assert (await world.ask(here)).status_code == 200


async def test_a_renewal_that_died_with_its_process_is_tried_again(world: World) -> None:
    here, dead = await world.open(), await world.open()
    await world.sign_in(here)
    mark = mark_of(world.server, "ann")
    grant = await here._grants.read(mark)
    assert grant is not None
    passed = [0.0]
    here._attempts._passed = lambda: passed[0]
    assert await dead._attempts.take(grant.id) is not None
    world.clock.advance(3600)
    asked = asyncio.create_task(world.ask(here))
    await asyncio.sleep(0.1)
    assert not asked.done()
    assert world.desk.used == {}
    passed[0] += HELD_SECONDS
    assert (await asked).status_code == 200
    assert list(world.desk.used.values()) == [1]


async def test_a_refresh_token_whose_answers_are_lost_is_given_up(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)

    async def lost(request: Request) -> Response:
        await world.desk.usual["/token"](request)
        return Response("", 502)

    world.desk.instead["/token"] = lost
    for _ in range(2):
        world.clock.advance(3600)
        with pytest.raises(Unavailable):
            await world.ask(here)
    world.clock.advance(3600)
    await world.needed(here)
    assert list(world.desk.used.values()) == [2]
    world.desk.instead.clear()
    await world.sign_in(here)
    assert (await world.ask(here)).status_code == 200


async def test_a_consent_during_a_renewal_wins(world: World) -> None:
    here = await world.open()
    await world.sign_in(here)
    world.clock.advance(3600)
    going, on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        form = await request.body()
        if b"refresh_token" in form and not on.is_set():
            going.set()
            await on.wait()
        return await world.desk.usual["/token"](request)

    world.desk.instead["/token"] = slow
    renewal = asyncio.create_task(world.ask(here))
    await going.wait()
    mark = mark_of(world.server, "ann")
    used = await here._grants.read(mark)
    assert used is not None
    needed = AuthorizationNeeded(world.server, "ann", Challenge(used=used.id))
    consent = await here.begin(needed, "t2", "c1-0")
    assert consent is not None
    assert (await world.finish(here, consent.url)).ok
    agreed = await here._grants.read(mark)
    on.set()
    assert (await renewal).status_code == 200
    assert await here._grants.read(mark) == agreed


@pytest.mark.parametrize("error", ["unauthorized_client", "server_error", "<b>made up</b>"])
async def test_an_authorization_server_that_gives_no_code(
    world: World, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    here = await world.open()
    back = await agree(await world.url(here))
    found = await here.finish("files", back["state"], iss=back["iss"], error=error)
    assert (found.ok, found.status) == (False, 502)
    assert world.told == [("t1", "c1-0", "failed")]
    assert (error in caplog.text) == ("<" not in error)
    await world.sign_in(here)
    assert len(world.desk.clients) == (2 if error == "unauthorized_client" else 1)


async def test_calls_that_come_together_ask_a_server_that_is_away_once(world: World) -> None:
    here = await world.open()
    needed = await world.needed(here)

    async def busy(_: Request) -> Response:
        return Response("later", 503, headers={"Retry-After": "9"})

    world.desk.instead["/.well-known/oauth-protected-resource/mcp"] = busy
    begun = [here.begin(needed, f"t{number}", "c1-0") for number in range(20)]
    found = await asyncio.gather(*begun, return_exceptions=True)
    assert {type(one) for one in found} == {Unavailable}
    assert {getattr(one, "retry_after", None) for one in found} == {9.0}
    assert world.desk.asked.count("/.well-known/oauth-protected-resource/mcp") == 1
    world.clock.advance(10)
    world.desk.instead.clear()
    assert await here.begin(needed, "t1", "c1-0") is not None


async def test_a_consent_that_comes_while_another_call_begins(world: World) -> None:
    here, there = await world.open(), await world.open()
    late = await world.needed(there)
    first = await world.url(here)
    place = there._place

    async def meanwhile() -> str:
        there._place = place
        assert (await world.finish(here, first)).ok
        return await place()

    there._place = meanwhile
    assert await there.begin(late, "t9", "c9-0") is None
    assert await here._flows.waiting() == []
