"""The description: it covers every route, is valid, and real answers are as it says."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from starlette.routing import Route

from tests.web.places import Client, served
from torpor import Agent
from torpor.models import ScriptedModel, call
from torpor.web.openapi import document
from torpor.web.routes import ROUTES

DOCUMENT = document(ROUTES, "1.2.3")
METHODS = {"get", "post", "put", "delete", "patch", "head", "options", "trace"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def references(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        if isinstance(found.get("$ref"), str):
            yield found["$ref"]
        for value in found.values():
            yield from references(value)
    elif isinstance(found, list):
        for value in found:
            yield from references(value)


async def test_every_route_is_described_and_nothing_else() -> None:
    async with served("memory:", workers=0) as (runtime, client):
        _, given = await client.ask("GET", "/openapi.json")
        served_routes = [route for route in runtime.app.routes if isinstance(route, Route)]
        routes = {
            (route.path, method.lower())
            for route in served_routes
            for method in (route.methods or set()) - {"HEAD"}
        }
        described = {(path, method) for path, item in given["paths"].items() for method in item}
        assert described == routes
        assert given["openapi"].startswith("3.1.")


def test_it_has_the_form_of_openapi() -> None:
    assert set(DOCUMENT) == {"openapi", "info", "security", "paths", "components"}
    names = [operation["operationId"] for *_, operation in operations()]
    assert len(set(names)) == len(names)
    for path, method, operation in operations():
        assert method in METHODS
        assert operation["summary"]
        given = [one for one in operation.get("parameters", []) if one["in"] == "path"]
        assert [one["name"] for one in given] == re.findall(r"{(\w+)}", path)
        assert all(one["required"] for one in given)
        assert len({(one["in"], one["name"]) for one in operation.get("parameters", [])}) == len(
            operation.get("parameters", [])
        )
        for status, answer in operation["responses"].items():
            assert re.fullmatch(r"[1-5]\d\d", status)
            assert answer["description"]


def test_its_references_lead_somewhere_and_its_schemas_are_valid() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for reference in references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in schemas
    for name, schema in schemas.items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        assert jsonschema_rs.meta.is_valid(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        )


def check(method: str, path: str, status: int, body: Any) -> None:
    """Fail unless an answer is as the description says."""
    operation = DOCUMENT["paths"][path][method.lower()]
    answer = operation["responses"][str(status)]
    content = answer.get("content")
    if content is None:
        assert body is None
        return
    schema = content["application/json"]["schema"] | {"components": DOCUMENT["components"]}
    jsonschema_rs.validator_for(schema).validate(body)


class Checked:
    """A client whose every answer is compared with the description."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.seen: set[tuple[str, str, int]] = set()

    async def ask(self, method: str, path: str, /, given: Any = None, headers: Any = None, **ids: str) -> Any:
        options: dict[str, Any] = {"headers": headers or {}}
        if given is not None:
            options["json"] = given
        status, body = await self._client.ask(method, path.format(**ids), **options)
        path = path.partition("?")[0]
        check(method, path, status, body)
        self.seen.add((method, path, status))
        return body


@pytest.fixture
def agent() -> Agent:
    def script(request: Any) -> Any:
        return "done" if request.results else [call("nothing"), call("sleep", seconds=0.01)]

    return Agent("echo", model=ScriptedModel(script))


async def test_real_answers_are_as_described(agent: Agent) -> None:
    async with served("memory:", [agent]) as (runtime, client):
        checked = Checked(client)
        ask = checked.ask
        key = {"Idempotency-Key": "a"}
        started = await ask("POST", "/threads", {"agent": "echo", "text": "hi"}, key)
        await ask("POST", "/threads", {"agent": "echo", "text": "hi"}, key)
        await ask("POST", "/threads", {"agent": "echo", "text": "ho"}, key)
        await ask("POST", "/threads", {"agent": "nobody"})
        thread = started["id"]
        await client.settled(thread)
        await ask("GET", "/threads")
        await ask("GET", "/threads?limit=0")
        await ask("GET", "/threads", headers={"Authorization": ""})
        await ask("GET", "/threads", headers={"Host": "elsewhere.example"})
        await ask("POST", "/waits/{wait}", {"value": True}, wait="nothing")
        for path in ("", "/messages", "/records", "/explain", "/children", "/views", "/waits"):
            await ask("GET", "/threads/{thread}" + path, thread=thread)
            await ask("GET", "/threads/{thread}" + path, thread="nobody")
        await ask("POST", "/threads/{thread}/messages", {"text": "more"}, thread=thread)
        await ask("POST", "/threads/{thread}/messages", {"text": 5}, thread=thread)
        await ask("POST", "/threads/{thread}/fork", {"at": 1}, thread=thread)
        await ask("POST", "/threads/{thread}/fork", {"at": 0}, thread=thread)
        for word in ("compact", "stop", "nudge", "close"):
            await ask("POST", "/threads/{thread}/" + word, thread=thread)
        await ask("POST", "/tickets", {"thread": thread})
        await ask("GET", "/healthz")
        await ask("GET", "/openapi.json")
        await ask("GET", "/oauth/client/{server}", server="github")
        await ask("POST", "/callbacks/{token}", {}, token="x")
        minted = runtime.parts.keys.mint(thread, "none")
        await ask("POST", "/callbacks/{token}", {"type": "tool_result"}, token=minted)
        for forks in (
            "?forks=maybe",
            "",
            "?forks=true",
            "",
        ):  # the second names a fork, the last is told it is gone
            await ask("DELETE", "/threads/{thread}" + forks, thread=thread)
        await ask("POST", "/callbacks/{token}", {"type": "tool_result"}, token=minted)
        deleted = {status for method, _, status in checked.seen if method == "DELETE"}
        assert deleted == {400, 409, 200, 404}
        described = {(endpoint.method, endpoint.path) for endpoint in ROUTES}
        assert {(method, path) for method, path, _ in checked.seen} >= described - {
            ("GET", "/threads/{thread}/events"),
            ("GET", "/oauth/callback/{server}"),
        }
