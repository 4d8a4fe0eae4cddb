"""Schemas of strangers that would keep a process busy for ever, in reading them or in using them."""

import json
from typing import Any

import pytest

from torpor.tools.effort import MOST_LOOKS_HERE, Effort
from torpor.tools.schema import check_schema, compile_schema

Schema = dict[str, Any]


def steps(combine: str, last: Schema, **more: Any) -> Schema:
    """Each of twelve steps asks for the next one ten times."""
    named = {f"d{step}": {combine: [{"$ref": f"#/$defs/d{step + 1}"}] * 10} for step in range(12)}
    return {"$ref": "#/$defs/d0", "$defs": named | {"d12": last}, **more}


BOMBS: dict[str, Schema] = {
    "all": steps("allOf", {"type": "object"}),
    "any": steps("anyOf", {"type": "array"}),
    "one": steps("oneOf", {"type": "array"}),
    "unevaluated": steps("allOf", {"type": "object"}, unevaluatedProperties=False),
    "inside": {"properties": {"a": {"items": steps("allOf", {})["$defs"]["d0"]}}, **steps("allOf", {})},
    "by anchor": {
        "allOf": [{"$ref": "#x0"}],
        "$defs": {
            f"d{step}": {"$anchor": f"x{step}", "allOf": [{"$ref": f"#x{step + 1}"}] * 10}
            for step in range(12)
        }
        | {"d12": {"$anchor": "x12"}},
    },
    "a circle": {"$ref": "#"},
    "two circles": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "a wide circle": {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"if": {"$ref": "#/$defs/a"}}}},
    "a long way": {
        "$ref": "#/$defs/0",
        "$defs": {f"{step}": {"$ref": f"#/$defs/{step + 1}"} for step in range(5_000)} | {"5000": {}},
    },
}

TWICE: Schema = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
"""Twice as much to do with each level of a value."""

ORDINARY: list[tuple[Schema, object]] = [
    ({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}, {"left": {"right": {"left": {}}}}),
    (
        {
            "$ref": "#/$defs/filter",
            "$defs": {
                "filter": {"anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in ("and", "or", "not", "is")]},
                "and": {"properties": {"and": {"items": {"$ref": "#/$defs/filter"}}}},
                "or": {"properties": {"or": {"items": {"$ref": "#/$defs/filter"}}}},
                "not": {"properties": {"not": {"$ref": "#/$defs/filter"}}},
                "is": {"properties": {"is": {"type": "string"}}},
            },
        },
        {"and": [{"or": [{"is": "x"}, {"not": {"is": "y"}}]}] * 20},
    ),
    ({"items": {"type": "array", "items": {"type": "integer"}}}, [[1] * 100] * 1_000),
]


@pytest.mark.parametrize("kind", BOMBS)
def test_schemas_that_never_end_are_refused(kind: str) -> None:
    assert check_schema(BOMBS[kind])
    with pytest.raises(ValueError, match="schema"):
        compile_schema(BOMBS[kind])


def test_values_that_a_schema_makes_too_much_of_are_refused() -> None:
    violations = compile_schema(TWICE)
    value: Schema = {}
    for _ in range(60):
        value = {"a": value}
    assert "nested" in violations(value)[0]
    assert "nested" in violations(json.dumps(value))[0]
    assert violations({"a": {"a": {"a": {}}}}) == []
    assert violations({"a": {"a": {}}}) == []


def test_large_values_of_wide_schemas_are_refused() -> None:
    violations = compile_schema({"items": {"allOf": [{"minimum": 0}] * 10_000}})
    assert violations([1] * 1_000) == []
    assert "large" in violations([1] * 10_000)[0]


@pytest.mark.parametrize(("schema", "value"), ORDINARY)
def test_ordinary_schemas_are_used(schema: Schema, value: object) -> None:
    assert check_schema(schema) == []
    assert compile_schema(schema)(value) == []


def test_the_effort_of_a_tree_is_its_height() -> None:
    effort = Effort({"properties": {"a": {"properties": {"b": {}}}, "c": {}}})
    assert [effort.looks(depth) for depth in range(4)] == [1, 2, 3, 3]
    assert not Effort({"allOf": [{}] * MOST_LOOKS_HERE}).is_bounded()
