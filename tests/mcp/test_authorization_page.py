"""What a browser is shown when it comes back from signing in."""

from collections.abc import AsyncIterator
from urllib.parse import urlencode

import aiohttp
import pytest

from tests.mcp.granting import Granting, agree, granting
from tests.web.places import served
from torpor import McpServer, Runtime
from torpor.tools.mcp.authorization import AuthorizationNeeded, Challenge

PLACE = "/oauth/callback/files"


class Page:
    """A runtime, and a browser that knows no token."""

    def __init__(self, runtime: Runtime, session: aiohttp.ClientSession, desk: Granting) -> None:
        self.runtime = runtime
        self.session = session
        self.desk = desk
        assert runtime.url is not None
        self.url = runtime.url

    async def back(self, user: str = "ann") -> str:
        """The query that a person comes back with."""
        needed = AuthorizationNeeded(McpServer("files", url=self.desk.mcp), user, Challenge())
        here = await self.runtime.parts.authorizations()
        consent = await here.begin(needed, "t1", "c1-0")
        assert consent is not None
        told = await agree(consent.url)
        assert told.pop("to") == self.url + PLACE
        return urlencode(told)

    async def open(self, path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
        """Status, text and headers."""
        async with self.session.request(method, self.url + path, allow_redirects=False) as response:
            return response.status, await response.text(), dict(response.headers)


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with granting() as desk, served("memory:") as (runtime, _), aiohttp.ClientSession() as session:
        yield Page(runtime, session, desk)


async def test_it_says_what_came_of_it(page: Page) -> None:
    query = await page.back()
    status, text, headers = await page.open(f"{PLACE}?{query}")
    assert status == 200
    assert "You are signed in" in text
    assert "user &#x27;ann&#x27;" in text
    assert "<script" not in text
    assert headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    status, text, _ = await page.open(f"{PLACE}?{query}")
    assert status == 410
    assert "This link is over" in text


async def test_names_are_shown_as_they_are(page: Page) -> None:
    query = await page.back("<script>alert(1)</script>")
    _, text, _ = await page.open(f"{PLACE}?{query}")
    assert "<script" not in text
    assert "&lt;script&gt;" in text


async def test_nothing_of_the_query_is_shown_or_followed(page: Page) -> None:
    bad = {
        "error": "<b>",
        "error_description": "call 555-0199",
        "error_uri": "https://evil.test",
        "redirect_uri": "https://evil.test",
        "next": "//evil.test",
        "state": "<i>",
        "code": "<u>",
    }
    status, text, headers = await page.open(f"{PLACE}?{urlencode(bad)}")
    assert status == 400
    assert "Location" not in headers
    for word in ("<b>", "&lt;b&gt;", "555", "evil", "<i>", "<u>", "&lt;i", "&lt;u"):
        assert word not in text


async def test_whatever_looks_ahead_does_not_use_it_up(page: Page) -> None:
    query = await page.back()
    status, text, _ = await page.open(f"{PLACE}?{query}", "HEAD")
    assert (status, text) == (200, "")
    assert (await page.open(f"{PLACE}?{query}", "POST"))[0] == 405
    assert page.desk.forms == []
    assert (await page.open(f"{PLACE}?{query}"))[0] == 200


async def test_a_query_that_says_things_twice_is_refused(page: Page) -> None:
    query = await page.back()
    assert (await page.open(f"{PLACE}?{query}&code=other"))[0] == 400
    assert (await page.open(f"{PLACE}?state=x&{query}"))[0] == 400
    assert page.desk.forms == []
    assert (await page.open(f"{PLACE}?{query}"))[0] == 200


@pytest.mark.parametrize("path", ["/oauth/callback/", "/oauth/callback/a%20b", "/oauth/callback/" + "a" * 65])
async def test_there_are_no_other_places(page: Page, path: str) -> None:
    assert (await page.open(path))[0] == 404


async def test_only_this_is_open_to_all(page: Page) -> None:
    assert (await page.open(PLACE))[0] == 400
    assert (await page.open("/oauth/callback"))[0] == 404
    assert (await page.open("/threads"))[0] == 401
    assert (await page.open("/oauth/../threads"))[0] in (401, 404)
    assert (await page.open("/oauth/%2e%2e/threads"))[0] in (401, 404)


async def test_a_client_can_be_described_by_its_url(page: Page) -> None:
    async with page.session.get(f"{page.url}/oauth/client/files") as response:
        told = await response.json()
    assert told["client_id"] == f"{page.url}/oauth/client/files"
    assert told["redirect_uris"] == [f"{page.url}{PLACE}"]
    assert told["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in told
