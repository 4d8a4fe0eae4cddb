"""The page about HTTP shows what a live server answers, for every path there is."""

import re

import pytest

from tests.docs.exchange import desk, exchanges
from torpor.web.routes import ROUTES

UNSHOWN = ("openapi", "oauth_callback", "oauth_client")
"""Too long to show, or not asked for by clients."""
REWRITE = "run `python -m tests.docs.exchange`"


@pytest.mark.slow
async def test_a_live_server_answers_as_the_page_says() -> None:
    async with desk() as asked:
        for request, answer in exchanges():
            assert await asked.ask(request.text) == answer.text, f"{request}: {REWRITE}"


def test_every_path_is_shown() -> None:
    asked = [request.text.split("\n")[0].split("?")[0] for request, _ in exchanges()]
    for endpoint in (one for one in ROUTES if one.name not in UNSHOWN):
        pattern = re.escape(endpoint.method) + " " + re.sub(r"\\{\w+\\}", "[A-Z]+", re.escape(endpoint.path))
        assert any(re.fullmatch(pattern, line) for line in asked), f"{endpoint.method} {endpoint.path}"
