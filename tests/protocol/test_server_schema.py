"""Schemas from functions, and checks from schemas."""

import enum
import functools
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict

import jsonschema_rs
import msgspec
import pytest

from torpor.tools.schema import check_schema, compile_schema, describe


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.5


class Line(msgspec.Struct):
    start: Point
    end: Point


class Options(TypedDict, total=False):
    fast: bool


class Context:
    """Stands for what is passed in by the caller."""


def everything(  # noqa: PLR0917
    context: Context,
    count: int,
    line: Line,
    colour: Colour = Colour.BLUE,
    how: Literal["up", "down"] = "up",
    tags: list[str] = ["a"],  # noqa: B006
    options: Optional[Options] = None,  # noqa: UP045
    table: dict[str, float] | None = None,
    note: Annotated[str, "free text"] = "",
    limited: Annotated[int, msgspec.Meta(ge=1, le=9), "one to nine"] = 5,
    *,
    anything: object = None,
) -> None:
    """Do everything
    at once.

    This is more than a model needs.

    Args:
        count: how many
            of them
        line (Line): where: from and to
        note: not this text

    Returns:
        count: nothing
    """


def test_a_function_becomes_a_schema() -> None:
    described = describe(everything, skip=[Context])
    assert described.name == "everything"
    assert described.description == "Do everything at once."
    assert described.context == "context"
    schema = described.schema
    assert jsonschema_rs.meta.is_valid(schema)
    assert schema["type"] == "object"
    assert schema["required"] == ["count", "line"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert list(properties) == [
        *("count", "line", "colour", "how", "tags", "options", "table", "note", "limited", "anything"),
    ]
    assert properties["count"] == {"type": "integer", "description": "how many of them"}
    assert properties["line"] == {"$ref": "#/$defs/Line", "description": "where: from and to"}
    assert properties["how"] == {"enum": ["down", "up"], "default": "up"}
    assert properties["colour"]["default"] == "blue"
    assert properties["note"] == {"type": "string", "description": "free text", "default": ""}
    assert properties["limited"]["maximum"] == 9
    assert properties["limited"]["description"] == "one to nine"
    assert schema["$defs"]["Point"]["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema


def test_arguments_become_typed_values() -> None:
    described = describe(everything, skip=[Context])
    point = {"x": 1.0, "y": 2}
    bound = described.bind({"count": 3.0, "line": {"start": point, "end": point}, "colour": "red"})
    assert bound["count"] == 3
    assert type(bound["count"]) is int
    assert bound["line"] == Line(Point(1, 2.0), Point(1, 2.0))
    assert bound["colour"] is Colour.RED
    assert bound["tags"] == ["a"]
    assert "context" not in bound
    bound["tags"].append("b")
    assert described.bind({"count": 1, "line": {"start": point, "end": point}})["tags"] == ["a"]
    with pytest.raises(ValueError, match=r"\$\.count"):
        described.bind({"count": "3", "line": {"start": point, "end": point}})
    with pytest.raises(ValueError, match="extra"):
        described.bind({"count": 1, "line": {"start": point, "end": point}, "extra": 1})


def test_a_default_without_json_form_stays_out_of_the_schema() -> None:
    nothing = object()

    def tool(value: object = nothing) -> None:
        """Take anything."""

    described = describe(tool)
    assert described.schema["properties"] == {"value": {}}
    assert described.bind({})["value"] is nothing


def test_types_of_the_surrounding_function_are_found() -> None:
    @dataclass
    class Local:
        name: str

    def tool(value: "Local") -> None:
        """Take a local one."""

    assert describe(tool).bind({"value": {"name": "x"}}) == {"value": Local("x")}


def test_methods_and_optional_contexts_are_understood() -> None:
    class Tools:
        def look(self, where: str, context: Context | None = None) -> None:
            """Look."""

    described = describe(Tools().look, skip=[Context])
    assert (described.name, described.context) == ("look", "context")
    assert list(described.schema["properties"]) == ["where"]


def test_without_a_docstring_the_name_speaks() -> None:
    def count_all_parts() -> None: ...

    described = describe(count_all_parts)
    assert described.description == "count all parts"
    assert described.schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def starred(*parts: int) -> None: ...
def keywords(**parts: int) -> None: ...
def positional(part: int, /) -> None: ...
def bare(part) -> None: ...  # type: ignore[no-untyped-def]
def unknown(part: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def foreign(part: complex) -> None: ...
def ambiguous(part: Point | Line) -> None: ...
def twice(one: Context, two: Context) -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (starred, r"\*parts"),
        (keywords, r"\*parts"),
        (positional, "positional-only"),
        (bare, "part needs a type annotation"),
        (unknown, "Nowhere"),
        (foreign, r"foreign: the type of parameter part \(complex\) cannot be put in a JSON Schema; use str"),
        (ambiguous, r"ambiguous: the type of parameter part \(.*Point \| .*Line\) cannot be put"),
        (twice, "one and two"),
        (lambda: None, "named function"),
        (functools.partial(starred), "named function"),
    ],
)
def test_signatures_that_no_json_object_can_call_are_refused(function: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        describe(function, skip=[Context])


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        True,
        None,
        [],
        "object",
        {"type": "nothing"},
        {"$ref": "https://example.test/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"$schema": "https://example.test/dialect"},
        {"pattern": "("},
        {"required": "a"},
        nested(5000),
    ],
)
def test_unusable_schemas_are_found(schema: Any) -> None:
    problems = check_schema(schema)
    assert len(problems) == 1
    assert len(problems[0]) <= 300
    if isinstance(schema, dict):
        with pytest.raises(ValueError, match="unusable schema"):
            compile_schema(schema)


def test_other_drafts_and_inner_references_are_fine() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"name": {"type": "string"}},
        "properties": {"a": {"$ref": "#/definitions/name"}},
    }
    assert check_schema(schema) == []
    check = compile_schema(schema)
    assert check({"a": "x"}) == []
    assert check({"a": 1}) == ['at a: 1 is not of type "string"']


def test_violations_are_readable_and_bounded() -> None:
    check = compile_schema(describe(everything, skip=[Context]).schema)
    point = {"x": 1, "y": 2}
    good = {"count": 1, "line": {"start": point, "end": point}}
    assert check(good) == check(json.dumps(good)) == check(json.dumps(good).encode()) == []
    assert check({**good, "tags": ["x" * 10_000_000, 1, 2]}) == [
        'at tags/1: 1 is not of type "string"',
        'at tags/2: 2 is not of type "string"',
    ]
    many = check({**good, "tags": list(range(1000))})
    assert len(many) == 11
    assert many[-1] == "and more"
    (long,) = check({**good, "count": "x" * 10_000})
    assert len(long) == 300
    for broken in ("{", b"\xff", '{"count": NaN}'):
        (problem,) = check(broken)
        assert problem.startswith("not usable as JSON")


def test_a_pattern_cannot_take_for_ever() -> None:
    check = compile_schema({"type": "string", "pattern": "^(a|a)+\\1$"})
    assert check(json.dumps("a" * 40 + "!")) != []
