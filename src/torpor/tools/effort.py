"""How much work a JSON Schema can make of a value, told before the check, which nothing can interrupt.

References let a short schema ask for the same place of a value again and again, ten times as often with each
step. How often one place can be looked at, times the number of places, bounds the work.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

MOST_LOOKS = 20_000_000
"""Looks at places of a value that one check may take: some seconds."""

MOST_LOOKS_HERE = 50_000
"""Looks at one place alone."""

_LISTS_HERE = ("allOf", "anyOf", "oneOf")
_HERE = ("not", "if", "then", "else")
_NAMED_HERE = ("dependentSchemas", "dependencies")
_LISTS_BELOW = ("properties", "prefixItems")
_BELOW = (
    "additionalItems", "additionalProperties", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$anchor", "$dynamicAnchor", "$id", "id")


class Effort:
    """The effort that one schema makes: an upper bound, infinite where it goes in circles at one place."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._named: dict[str, list[object]] = {}
        self._known: dict[tuple[int, int], float] = {}
        self._parts: list[object] = []
        self._plain = True
        """Without references, so that nothing in it is looked at twice."""
        self._size = self._read(schema)

    def looks(self, depth: int) -> float:
        """How often, at most, a place no deeper than this inside a value is looked at."""
        try:
            return self._count(self._schema, depth)
        except RecursionError:
            return math.inf

    def is_bounded(self) -> bool:
        """Whether no part of the schema looks at one place too often by itself."""
        try:
            return all(self._count(part, 0) <= MOST_LOOKS_HERE for part in self._parts)
        except RecursionError:
            return False

    def fits(self, value: object, size: float = math.inf) -> bool:
        """Whether a value, of so many bytes as JSON, can be checked in reasonable time."""
        if self._plain and size * self._size <= MOST_LOOKS:
            return True
        depth, places = _extent(value)
        return places * self.looks(depth) <= MOST_LOOKS

    def _read(self, schema: object) -> int:
        """Find all that has a name; gives the number of values inside."""
        size, stack = 0, [schema]
        while stack:
            one = stack.pop()
            size += 1
            stack += _inside(one)
            if isinstance(one, dict):
                self._parts.append(one)
                self._plain = self._plain and not any(key in one for key in _REFERENCES)
                for name in (one[key] for key in _NAMES if isinstance(one.get(key), str)):
                    self._named.setdefault(name, []).append(one)
        return size

    def _count(self, schema: object, depth: int) -> float:
        if not isinstance(schema, dict):
            return 1.0
        key = id(schema), depth
        known = self._known.get(key)
        if known is None:
            self._known[key] = math.inf  # until it is known: whoever comes back here goes in a circle
            looks = 1.0 + sum(self._count(one, depth) for one in self._here(schema))
            if depth:
                looks += self._counted_below(schema, depth - 1)
            self._known[key] = known = looks
        return known

    def _counted_below(self, schema: dict[str, Any], depth: int) -> float:
        """A member or an item meets one of the schemas that are listed by name or place, and all others."""
        lists = (_inside(schema.get(key)) for key in _LISTS_BELOW)
        looks = sum(max((self._count(one, depth) for one in some), default=0.0) for some in lists)
        items = schema.get("items")
        others = [schema[key] for key in _BELOW if key in schema]
        others += items if isinstance(items, list) else [] if items is None else [items]
        others += _inside(schema.get("patternProperties"))
        return looks + sum(self._count(one, depth) for one in others)

    def _here(self, schema: dict[str, Any]) -> Iterator[object]:
        """What else is asked of the same place."""
        for key in (*_LISTS_HERE, *_NAMED_HERE):
            yield from _inside(schema.get(key))
        yield from (schema[key] for key in _HERE if key in schema)
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                yield from self._targets(schema[key])

    def _targets(self, reference: str) -> Iterable[object]:
        """Whatever a reference may mean. Where it means nothing, the schema was refused before."""
        base, _, fragment = reference.partition("#")
        resources = self._named.get(base, [self._schema])
        if not fragment:
            return resources
        if fragment.startswith("/"):
            every = [self._schema, *(one for several in self._named.values() for one in several)]
            return [found for one in every if (found := _at(one, fragment)) is not None]
        return self._named.get(fragment, ())


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _extent(value: object) -> tuple[int, int]:
    """How deep a value is, and how many values are in it."""
    depth, places, level = 0, 1, [value]
    while level := [inner for one in level for inner in _inside(one)]:
        depth += 1
        places += len(level)
    return depth, places


def _at(found: object, pointer: str) -> object:
    for step in unquote(pointer).split("/")[1:]:
        if isinstance(found, list) and step.isdecimal() and int(step[:9]) < len(found):
            found = found[int(step[:9])]
        elif isinstance(found, dict):
            found = found.get(step.replace("~1", "/").replace("~0", "~"))
        else:
            return None
    return found
