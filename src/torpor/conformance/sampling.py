"""Arguments made from a schema: some that conform, and some that do not."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

DEEPEST = 6
MOST_ITEMS = 8
BACKTRACK_LIMIT = 100_000

_NOTHING = object()
_WRONG = {"string": {"not": "a text"}, "object": "not an object"}
"""By type, a value that is none; for all other types a text is."""


def sample(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments that conform to a tool's schema; None if none could be made."""
    value = _value(schema, schema, 0)
    return value if isinstance(value, dict) and conforms(schema, value) else None


def violations(schema: dict[str, Any], good: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Arguments that do not conform, each with what is wrong with it."""
    return [(told, bad) for told, bad in _spoiled(schema, good) if conforms(schema, bad) is False]


def defect(schema: object, *, latest: bool = False) -> str:
    """What is wrong with a schema; empty: nothing. ``latest``: judged as draft 2020-12."""
    if not isinstance(schema, dict):
        return "it is no JSON object"
    try:
        if latest:
            jsonschema_rs.Draft202012Validator(schema, offline=True, pattern_options=_patterns())
        else:
            _validator(schema)
    except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
        return str(error).split("\n", 1)[0][:300] or "it cannot be used"
    return ""


def conforms(schema: dict[str, Any], value: object) -> bool | None:
    """Whether a value conforms; None if the schema does not allow to tell."""
    try:
        return bool(_validator(schema).is_valid(value))
    except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError):
        return None


def _validator(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_patterns())


def _patterns() -> jsonschema_rs.FancyRegexOptions:
    return jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT)


def _spoiled(schema: dict[str, Any], good: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    properties = schema.get("properties")
    for name, told in properties.items() if isinstance(properties, dict) else ():
        kind = told.get("type") if isinstance(told, dict) else None
        wrong = _WRONG.get(kind, "not this type") if isinstance(kind, str) else {"not": ["this", "type"]}
        yield f"{name!r} of another type", {**good, name: wrong}
    for name in good:
        yield f"without {name!r}", {other: value for other, value in good.items() if other != name}
    yield "with a member that is not in the schema", {**good, "x-never-heard-of": 1}


def _value(schema: Any, root: dict[str, Any], depth: int) -> Any:
    if not isinstance(schema, dict) or depth > DEEPEST:
        return _NOTHING if schema is False else "x"
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    for name in ("enum", "examples"):
        if isinstance(schema.get(name), list) and schema[name]:
            return schema[name][0]
    if isinstance(schema.get("$ref"), str):
        return _value(_referred(schema["$ref"], root), root, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(name), list) and schema[name]:
            return _value(schema[name][0], root, depth + 1)
    return _by_type(schema, root, depth)


def _by_type(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema or depth == 0 else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            count = min(_number(schema, "minItems", 0), MOST_ITEMS)
            return [_value(schema.get("items", {}), root, depth + 1) for _ in range(int(count))]
        case "integer" | "number":
            return int(_number(schema, "minimum", _number(schema, "exclusiveMinimum", -1) + 1))
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "x" * int(min(_number(schema, "minLength", 1), 1_000)) or "x"


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {name: _value(known.get(name, {}), root, depth + 1) for name in names[:MOST_ITEMS]}


def _number(schema: dict[str, Any], name: str, otherwise: float) -> float:
    value = schema.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
    return value if usable and isinstance(value, int | float) else otherwise


def _referred(reference: str, root: dict[str, Any]) -> Any:
    """What a reference within the schema stands for."""
    found: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, dict) and step else found
    return found if isinstance(found, dict) else {}
