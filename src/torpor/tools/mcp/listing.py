"""What an MCP server lists, as a manifest that the catalogue takes like that of any tool server.

Names get only letters, digits, ``_`` and ``-``, at most 64 of them, always the same ones for the same tool
of the same server, and lead back to the server's own. What a server says of its tools in ``annotations`` is
taken for what costs nothing if it is wrong: ``readOnlyHint`` makes a tool ``safe`` and ``idempotentHint``
makes it ``keyed`` to call again after a call of unknown outcome. ``destructiveHint`` makes it one that
waits for approval, but only where it is *true*: the protocol takes a tool that says nothing for destructive,
and few servers say anything, so people would be asked about every call and soon approve without reading.
The server's configuration (``repeat``, ``needs_approval``) wins over all of them.

A tool that cannot be used is left out alone, and named as a problem.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from torpor.core.builtins import BUILTINS
from torpor.core.request import INJECTED
from torpor.core.text import clean, cleaned
from torpor.tools.bridged import NAME_LIMIT, McpServer, digest, fit_name, short_name
from torpor.tools.schema import check_schema

RESERVED = frozenset({INJECTED, "read_result", *(tool.name for tool in BUILTINS)})
"""Names that the runtime's own tools have."""

MOST_TOOLS = 512
MOST_LISTED = 5_000
"""Tools that are looked at; those of a wrapped server may be as many."""
MOST_LISTED_BYTES = 32 * 2**20
"""Of all pages of a list, with ``VALUE`` more for each value in them."""
VALUE = 16
"""Bytes at least that a value takes beyond its own: a list of empty lists is larger than it looks."""
MOST_BYTES = 1_900_000
"""Of a manifest; the catalogue takes a little more."""
SCHEMA_BYTES = 128 * 1024
DESCRIPTION_KEPT = 8_000
PROBLEMS_KEPT = 50
OWN_NAME_LIMIT = 1_000

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


@dataclasses.dataclass(frozen=True)
class Offered:
    """A tool as it is offered to models, and what it stands for."""

    shown: str
    """Its name in the manifest."""
    name: str
    """The server's name for it; empty for what this package adds."""
    kind: str = "tool"
    """``tool``, or of what is added: ``list_tools``, ``invoke_tool``, ``list_resources``, ``read_resource``,
    ``list_prompts``, ``get_prompt`` or ``sign_in``."""
    repeat: str = "unsafe"
    """``safe``, ``keyed`` or ``unsafe`` to call again."""
    tasks: str = "forbidden"
    """Whether it may, or must, be called as a task (by a server of 2025): ``forbidden``, ``optional`` or
    ``required``."""


@dataclasses.dataclass(frozen=True)
class Listing:
    """What a server offers at one time."""

    manifest: bytes
    hash: str
    offered: Mapping[str, Offered]
    """By the name in the manifest; of a wrapped server, its own tools too, by their names."""
    problems: tuple[str, ...] = ()
    wires: tuple[dict[str, Any], ...] = ()
    """The server's tools as the manifest has them, or would have if they were not wrapped."""


def make_listing(
    server: McpServer,
    listed: Sequence[object],
    *,
    resources: bool = False,
    prompts: bool = False,
    tasks: bool = False,
    problems: Iterable[str] = (),
) -> Listing:
    """A manifest of what ``tools/list`` gave; ``resources`` and such: what the server can do."""
    found = list(problems)
    kept = _kept(server, listed, found)
    names = _shown_names(server, [tool["name"] for tool in kept])
    wires, offered = [], []
    for tool in kept:
        wire = _wire(server, tool, names[tool["name"]])
        wires.append(wire)
        offered.append(_offered(tool, wire, tasks=tasks))
    own = _own(server, wires, resources=resources and server.resources, prompts=prompts and server.prompts)
    order = sorted(range(len(wires)), key=lambda place: wires[place]["name"])
    shown = [wire for wire, _ in own]
    shown += [] if server.wrapped else _few([wires[place] for place in order], found, len(own))
    taken = {wire["name"] for wire in shown}
    by_name = {one.shown: one for one in offered if server.wrapped or one.shown in taken}
    by_name.update({one.shown: one for _, one in own})
    body = _manifest(server, shown)
    problems = tuple(one[:500] for one in found[:PROBLEMS_KEPT])
    return Listing(body, _hash(body), by_name, problems, tuple(wires[place] for place in order))


def weight(listed: object) -> int:
    """Bytes of a page of a list, its values weighed too; of one that cannot be weighed, half of the limit."""
    try:
        body = msgspec.json.encode(listed)
        return len(body) + VALUE * sum(map(body.count, (b",", b"{", b"[")))
    except (RecursionError, msgspec.MsgspecError, TypeError, ValueError, OverflowError):
        return MOST_LISTED_BYTES // 2


def sign_in_listing(server: McpServer) -> Listing:
    """What is offered of a server that nobody has signed in at: a tool that does just that."""
    shown = own_name(server, "sign_in")
    words = f"Sign in at {server.name}, so that its tools can be used. They are offered afterwards."
    body = _manifest(server, [{"name": shown, "description": words, "inputSchema": OBJECT}])
    return Listing(body, _hash(body), {shown: Offered(shown, "", "sign_in", "safe")})


def own_name(server: McpServer, what: str) -> str:
    """The name of a tool that this package adds for a server."""
    name = fit_name(f"{server.name}_{what}")
    return name if len(name) <= NAME_LIMIT else f"{digest(server.name)}_{what}"


def fingerprint(server: McpServer) -> str:
    """Tells servers of one name apart, and the settings that a manifest depends on."""
    told = (
        server.command, server.cwd, server.url, server.allow, server.deny, server.prefix, server.wrapped,
        sorted(server.repeat.items()), server.needs_approval, server.resources, server.prompts,
    )  # fmt: skip
    return hashlib.sha256(repr(told).encode("utf-8", "replace")).hexdigest()[:16]


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _manifest(server: McpServer, tools: list[dict[str, Any]]) -> bytes:
    whole = {
        "name": server.name,
        "description": f"The MCP server {server.name}.",
        "endpoint": server.address,
        "tools": tools,
    }
    return msgspec.json.encode(whole, order="deterministic")


# ------------------------------------------------------------------ what may stay


def _kept(server: McpServer, listed: Sequence[object], problems: list[str]) -> list[dict[str, Any]]:
    """The tools that are allowed and can be used, each with a usable ``inputSchema``."""
    kept: dict[str, dict[str, Any]] = {}
    for number, given in enumerate(listed[:MOST_LISTED], 1):
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(name, str) or not 0 < len(name) <= OWN_NAME_LIMIT:
            problems.append(f"Tool {number} is left out: it has no name that can be used.")
        elif name in kept:
            problems.append(f"Tool {name[:80]!r} is listed twice; the first one counts.")
        elif server.offers(name):
            schema, defect = _schema(given.get("inputSchema"))
            if defect:
                problems.append(f"Tool {name[:80]!r} is left out: its inputSchema cannot be used: {defect}")
            else:
                kept[name] = {**given, "inputSchema": schema}
    if len(listed) > MOST_LISTED:
        problems.append(f"Of {len(listed)} tools, only the first {MOST_LISTED} are looked at.")
    problems += _strangers(server, {tool.get("name") for tool in listed if isinstance(tool, dict)})
    return list(kept.values())


def _strangers(server: McpServer, names: set[Any]) -> list[str]:
    """Names in the configuration that no tool has."""
    known = {form for name in names if isinstance(name, str) for form in (name, fit_name(name))}
    known |= {f"{server.prefix}{name}" for name in known}
    given = {"allow": server.allow or (), "repeat": server.repeat, "needs_approval": server.needs_approval}
    return [
        f"{setting} names {name[:80]!r}, but the server has no such tool."
        for setting, listed in given.items()
        for name in listed
        if name not in known
    ]


def _schema(given: object) -> tuple[dict[str, Any], str]:
    """A schema that can be used, repaired where it is clear what was meant; or what is wrong with it."""
    if given is None:
        return OBJECT, ""
    if not isinstance(given, dict):
        return {}, "it is no object"
    try:
        schema = _repaired(cleaned(given))
        if len(msgspec.json.encode(schema)) > SCHEMA_BYTES:
            return {}, f"it has more than {SCHEMA_BYTES:,} bytes"
        defects = check_schema(schema)
        if defects and "$schema" in schema:
            schema = {name: value for name, value in schema.items() if name != "$schema"}
            defects = check_schema(schema)
    except (RecursionError, msgspec.MsgspecError, TypeError, ValueError, OverflowError):
        return {}, "it is nested too deeply, or is not JSON"
    if defects:
        return {}, defects[0]
    return (schema, "") if schema["type"] == "object" else ({}, "it is not the schema of an object")


def _repaired(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if kind is None or (isinstance(kind, list) and "object" in kind):
        schema = {**schema, "type": "object"}
    if not isinstance(schema.get("properties", {}), dict):
        schema = {**schema, "properties": {}}
    if not isinstance(schema.get("required", []), list):
        schema = {name: value for name, value in schema.items() if name != "required"}
    return schema


# ------------------------------------------------------------------ names and marks


def _shown_names(server: McpServer, names: list[str]) -> dict[str, str]:
    """By the server's name the one that is shown: fitting, not reserved, and no two the same."""
    fitted = {name: short_name(server.prefix + fit_name(clean(name))) for name in names}
    counts = Counter(fitted.values())
    shown = {}
    for name, fit in fitted.items():
        is_changed = counts[fit] > 1 and fit != server.prefix + name
        own = f"{fit[: NAME_LIMIT - 9]}_{digest(name)}" if is_changed else fit
        shown[name] = server.prefixed(own) if own in RESERVED else own
    return shown


def _wire(server: McpServer, tool: dict[str, Any], shown: str) -> dict[str, Any]:
    """A tool as the manifest has it."""
    description = tool.get("description")
    text = clean(description) if isinstance(description, str) else ""
    if len(text) > DESCRIPTION_KEPT:
        text = f"{text[:DESCRIPTION_KEPT]} … (cut)"
    wire = {"name": shown, "description": text, "inputSchema": tool["inputSchema"]}
    marks = _marks(server, tool, shown)
    return {**wire, "annotations": marks} if marks else wire


def _marks(server: McpServer, tool: dict[str, Any], shown: str) -> dict[str, bool]:
    told = tool.get("annotations")
    hints = told if isinstance(told, dict) else {}
    reads = hints.get("readOnlyHint") is True
    names = (tool["name"], shown, fit_name(tool["name"]))
    repeat = next((server.repeat[name] for name in names if name in server.repeat), "")
    marks = {
        "readOnly": repeat == "safe" if repeat else reads,
        "idempotent": repeat == "keyed" if repeat else hints.get("idempotentHint") is True,
        "destructive": hints.get("destructiveHint") is True and not reads,
    }
    if any(name in server.needs_approval for name in names):
        marks["destructive"] = True
    return {name: True for name, mark in marks.items() if mark}


def _offered(tool: dict[str, Any], wire: dict[str, Any], *, tasks: bool) -> Offered:
    marks = wire.get("annotations", {})
    repeat = "safe" if marks.get("readOnly") else "keyed" if marks.get("idempotent") else "unsafe"
    execution = tool.get("execution")
    support = execution.get("taskSupport") if isinstance(execution, dict) and tasks else None
    told = support if support in ("optional", "required") else "forbidden"
    return Offered(wire["name"], tool["name"], repeat=repeat, tasks=told)


def _few(wires: list[dict[str, Any]], problems: list[str], own: int) -> list[dict[str, Any]]:
    """As many as fit into a manifest."""
    size = 0
    few: list[dict[str, Any]] = []
    for wire in wires:
        size += len(msgspec.json.encode(wire)) + 1
        if size > MOST_BYTES or len(few) + own >= MOST_TOOLS:
            left = len(wires) - len(few)
            problems.insert(0, f"{left} tools do not fit: name those to allow, or set wrapped.")
            break
        few.append(wire)
    return few


# ------------------------------------------------------------------ what is added


def _own(
    server: McpServer, wires: list[dict[str, Any]], *, resources: bool, prompts: bool
) -> list[tuple[dict[str, Any], Offered]]:
    """The tools that this package adds."""
    added = []
    if server.wrapped:
        harms = any(wire.get("annotations", {}).get("destructive") for wire in wires)
        added += [_added(server, "list_tools"), _added(server, "invoke_tool", harms=harms)]
    if resources:
        added += [_added(server, "list_resources"), _added(server, "read_resource")]
    if prompts:
        added += [_added(server, "list_prompts"), _added(server, "get_prompt")]
    return added


def _added(server: McpServer, kind: str, *, harms: bool = False) -> tuple[dict[str, Any], Offered]:
    words, properties, required = ADDED[kind]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    reads = kind != "invoke_tool"
    wire: dict[str, Any] = {
        "name": own_name(server, kind),
        "description": words % server.name,
        "inputSchema": schema,
    }
    if reads or harms:
        wire["annotations"] = {"readOnly": True} if reads else {"destructive": True}
    return wire, Offered(own_name(server, kind), "", kind, "safe" if reads else "unsafe")


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_CURSOR = {"cursor": _text("Where an earlier list was cut: what it gave as the next cursor.")}

ADDED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "list_tools": (
        "List the tools of the MCP server %s, with what each takes.",
        {"query": _text("Only tools with this text in their name or description.")},
        [],
    ),
    "invoke_tool": (
        "Call a tool of the MCP server %s by its name, as the list of its tools gives it.",
        {
            "tool_name": _text("The tool's name."),
            "arguments": {"type": "object", "description": "What the tool takes."},
        },
        ["tool_name"],
    ),
    "list_resources": (
        "List the resources of the MCP server %s (files, records and such), and the patterns of their URIs.",
        _CURSOR,
        [],
    ),
    "read_resource": (
        "Read a resource of the MCP server %s.",
        {"uri": _text("The resource's URI.")},
        ["uri"],
    ),
    "list_prompts": ("List the prompts that the MCP server %s has, and what each takes.", _CURSOR, []),
    "get_prompt": (
        "Fill in a prompt of the MCP server %s and give its text.",
        {
            "name": _text("The prompt's name."),
            "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        ["name"],
    ),
}
"""By kind: a description, the properties of what it takes, and which of them are required."""
