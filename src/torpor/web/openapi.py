"""The API's description in OpenAPI 3.1, made of the application's own table and of the values' types."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from torpor.core.messages import Message
from torpor.web.problems import Failed

ANY_OBJECT = "object"
EVENT_STREAM = "stream"
PAGE = "page"
NOTHING = "nothing"

Shape = type | str
"""A type, or one of the four words above."""

_MEANINGS = {
    200: "Done",
    201: "Made",
    202: "Stored; it will be followed",
    400: "The request is not as expected",
    401: "A valid bearer token is needed",
    403: "Not from here",
    404: "There is no such thing",
    409: "What was done before stands against it",
    410: "It is settled; send nothing more for it",
    413: "The body is too large",
    415: "The body is not JSON",
    500: "The server, or what it keeps, is broken",
    502: "An authorization server did not do its part",
    503: "Busy or away; come again after Retry-After",
}


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a query or header."""

    name: str
    place: str
    description: str
    type: str = "string"
    limits: dict[str, Any] = {}
    """Further words of JSON Schema for its value."""


class Endpoint(msgspec.Struct, frozen=True):
    """One method of one path."""

    name: str
    method: str
    path: str
    summary: str
    gives: dict[int, Shape]
    takes: Shape | None = None
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[int, ...] = ()
    guarded: bool = True
    """A bearer token is needed."""


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Torpor",
            "version": version,
            "description": "Agents that live long and mostly wait. Times are seconds since the epoch.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(endpoints),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    problems = (*endpoint.problems, *((401, 403) if endpoint.guarded else ()), 500, 503)
    answers = {status: _answer(status, shape) for status, shape in endpoint.gives.items()}
    answers |= {status: _answer(status, Failed) for status in sorted(set(problems))}
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "responses": {str(status): answer for status, answer in sorted(answers.items())},
    }
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", endpoint.path)]
    parameters += [_parameter(given) for given in endpoint.parameters]
    if parameters:
        found["parameters"] = parameters
    if endpoint.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(endpoint.takes)}
    if not endpoint.guarded:
        found["security"] = []
    return found


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameter(given: Parameter) -> dict[str, Any]:
    schema = {"type": given.type, **given.limits}
    return {"name": given.name, "in": given.place, "description": given.description, "schema": schema}


def _answer(status: int, shape: Shape) -> dict[str, Any]:
    found: dict[str, Any] = {"description": _MEANINGS[status]}
    if shape != NOTHING:
        found["content"] = _content(shape)
    return found


def _content(shape: Shape) -> dict[str, Any]:
    if shape == EVENT_STREAM:
        return {"text/event-stream": {"schema": {"type": "string"}}}
    if shape == PAGE:
        return {"text/html": {"schema": {"type": "string"}}}
    if isinstance(shape, str):
        return {"application/json": {"schema": {"type": "object"}}}
    return {"application/json": {"schema": {"$ref": _ref(shape)}}}


def _ref(shape: type) -> str:
    return f"#/components/schemas/{shape.__name__}"


def _schemas(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    shapes = [shape for endpoint in endpoints for shape in (*endpoint.gives.values(), endpoint.takes)]
    types = list(dict.fromkeys([shape for shape in shapes if isinstance(shape, type)]))
    _, taken = msgspec.json.schema_components([*types, Failed], ref_template="#/components/schemas/{name}")
    (message,), stored = msgspec.json.schema_components([Message], ref_template="#/components/schemas/{name}")
    found: dict[str, Any] = _renamed(taken | stored)
    found["Message"] = _renamed(message)
    found["Page"]["properties"]["messages"]["items"] = {"$ref": "#/components/schemas/Message"}
    for name in ("Said", "Turn", "Result", "Happened", "Reported", "Summary", "Noted"):
        found[name]["properties"] |= {"position": {"type": "integer"}, "text": {"type": "string"}}
        found[name]["required"] = ["position", *found[name]["required"]]
    return found


def _renamed(found: Any) -> Any:
    """The tags of stored shapes under the name that the API gives them."""
    if isinstance(found, list):
        return [_renamed(item) for item in found]
    if isinstance(found, dict):
        return {
            "type" if name in ("k", "n") else name: _tag(field) if _is_tag(name, field) else _renamed(field)
            for name, field in found.items()
        }
    return found


def _is_tag(name: str, field: Any) -> bool:
    return (name == "propertyName" and field in ("k", "n")) or name == "required"


def _tag(field: Any) -> Any:
    if isinstance(field, list):
        return ["type" if name in ("k", "n") else name for name in field]
    return "type"
