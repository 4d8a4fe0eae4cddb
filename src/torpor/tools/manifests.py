"""Manifests of tool servers: their members and types. What they mean is for the catalogue to judge."""

from typing import Any

import msgspec

from torpor.core.text import clean
from torpor.tools.strict import parse_object, repeated, repeats_within


class WireTool(msgspec.Struct, frozen=True):
    """A tool as a manifest defines it; ``schema`` may still be anything."""

    name: str
    description: str
    schema: Any
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False


class WireManifest(msgspec.Struct, frozen=True):
    """A manifest's members, of the right types; what they mean is for the catalogue to judge."""

    name: str
    endpoint: str
    tools: tuple[WireTool, ...]
    features: tuple[str, ...]
    needs_migration: bool
    """It keeps state of sessions, which it must be told to move."""
    defects: tuple[str, ...]
    """What is wrong with the shape, member by member; the manifest is unusable if there is any."""


def parse_manifest(body: bytes) -> WireManifest:
    """A manifest from its bytes, with all defects of shape. ``Malformed`` if it is no JSON object."""
    members = parse_object(body)
    defects: list[str] = [f"'{name}' comes more than once" for name in repeated(members) & _MANIFEST]
    name = _string(members, "name", "the toolset", defects)
    if name and len(name) > 128:
        defects.append("'name' of the toolset has more than 128 characters")
    _string(members, "description", "the toolset", defects, needed=False)
    if not isinstance(members.get("needsMigration"), bool | None):
        defects.append("'needsMigration' must be true or false")
    listed = members.get("tools")
    if not isinstance(listed, list) or not listed:
        defects.append("'tools' must be an array of at least one tool")
        listed = []
    features = members.get("features")
    return WireManifest(
        name=name,
        endpoint=_string(members, "endpoint", "the toolset", defects),
        tools=tuple(_wire_tool(tool, number, defects) for number, tool in enumerate(listed, 1)),
        features=tuple(f for f in features if isinstance(f, str)) if isinstance(features, list) else (),
        needs_migration=members.get("needsMigration") is True,
        defects=tuple(defects),
    )


_MANIFEST = frozenset({"name", "description", "endpoint", "tools", "needsMigration"})
_TOOL = frozenset({"name", "description", "inputSchema", "annotations", "displayScript"})


def _wire_tool(tool: object, number: int, defects: list[str]) -> WireTool:
    if not isinstance(tool, dict):
        defects.append(f"tool {number} is not an object")
        return WireTool("", "", {})
    where = f"tool {number}"
    defects += [f"'{name}' of {where} comes more than once" for name in repeated(tool) & _TOOL]
    name = _string(tool, "name", where, defects)
    where = f"tool {name[:128]!r}" if name else where
    description = _string(tool, "description", where, defects, empty=True)
    _string(tool, "displayScript", where, defects, needed=False)
    annotations = tool.get("annotations")
    if annotations is not None and not isinstance(annotations, dict):
        defects.append(f"'annotations' of {where} must be an object")
        annotations = None
    if "inputSchema" not in tool:
        defects.append(f"'inputSchema' of {where} is missing")
    elif repeats_within(tool["inputSchema"]):
        defects.append(f"a member within 'inputSchema' of {where} comes more than once")
    told = annotations or {}
    marks = [told.get(mark) is True for mark in ("readOnly", "idempotent", "destructive")]
    return WireTool(name, description, tool.get("inputSchema", {}), *marks)


def _string(
    members: dict[str, Any],
    name: str,
    where: str,
    defects: list[str],
    *,
    needed: bool = True,
    empty: bool = False,
) -> str:
    value = members.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str):
        defects.append(f"'{name}' of {where} must be a string")
        return ""
    if not value and needed and not empty:
        defects.append(f"'{name}' of {where} is empty")
    return clean(value)
