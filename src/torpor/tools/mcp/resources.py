"""The tools that this package adds to a server's own: its list of tools, its resources and its prompts."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp_types import CallToolResult, ContentBlock

from torpor.core.text import clean
from torpor.tools.mcp.content import block, said
from torpor.tools.mcp.faults import Declined
from torpor.tools.mcp.listing import Listing, Offered, own_name

LISTED = 200
"""Entries of one page of a list that are shown."""
WORDS = 500
"""Characters of one entry's description that are shown."""
NOT_FOUND = -32601

Ask = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request to the server, gives its result."""


async def answer(
    offered: Offered, arguments: Mapping[str, Any], listing: Listing, ask: Ask
) -> CallToolResult:
    """Answer a call to an added tool. Errors of the server are results."""
    try:
        match offered.kind:
            case "list_tools":
                return said(tools_text(listing, _word(arguments, "query")))
            case "list_resources":
                return said(await _resources(ask, _word(arguments, "cursor")))
            case "read_resource":
                return await _read(ask, _word(arguments, "uri"))
            case "list_prompts":
                return said(await _prompts(ask, _word(arguments, "cursor")))
            case "get_prompt":
                return await _prompt(ask, arguments)
            case _:
                return said("Signed in. The server's tools are offered from the next exchange on.")
    except Declined as error:
        if error.code == NOT_FOUND:
            return said("The server has nothing of this kind.", is_error=True)
        return said(str(error), is_error=True)


def tools_text(listing: Listing, query: str = "") -> str:
    """The tools of a wrapped server in words, with what each takes."""
    wanted = query.casefold()
    found = [wire for wire in listing.wires if wanted in f"{wire['name']}\n{wire['description']}".casefold()]
    if not found:
        return "No tool matches." if query else "The server has no tools."
    rows = [f"{len(found)} tools:"]
    for wire in found:
        schema = json.dumps(wire["inputSchema"], ensure_ascii=False)
        rows.append(
            f"\n**{wire['name']}**: {wire['description'] or '(no description)'}\nParameters: {schema}"
        )
    return clean("\n".join(rows))


def missing(listing: Listing, server: Any, name: str) -> CallToolResult:
    """What is said of a tool that a wrapped server does not have."""
    near = [one.shown for one in listing.offered.values() if one.kind == "tool" and name[:4] in one.shown][:5]
    hint = f" Near: {', '.join(near)}." if near else ""
    lister = own_name(server, "list_tools")
    return said(f"There is no tool {name[:80]!r}.{hint} {lister} lists all of them.", is_error=True)


async def _resources(ask: Ask, cursor: str) -> str:
    page = await ask("resources/list", _paged(cursor))
    rows = [_entry(one, "uri") for one in _entries(page, "resources")]
    if not cursor:
        rows += await _templates(ask)
    return _list_text(rows, page, "resources")


async def _templates(ask: Ask) -> list[str]:
    try:
        page = await ask("resources/templates/list", {})
    except Declined:
        return []
    return [f"{_entry(one, 'uriTemplate')} (a pattern)" for one in _entries(page, "resourceTemplates")]


async def _read(ask: Ask, uri: str) -> CallToolResult:
    result = await ask("resources/read", {"uri": uri})
    held = _entries(result, "contents")
    blocks = [block({"type": "resource", "resource": one}) for one in held]
    return CallToolResult(content=blocks) if blocks else said(f"The resource {uri[:200]} is empty.")


async def _prompts(ask: Ask, cursor: str) -> str:
    page = await ask("prompts/list", _paged(cursor))
    rows = []
    for one in _entries(page, "prompts"):
        takes = [
            f"{arg.get('name')}{'' if arg.get('required') else ' (optional)'}"
            for arg in _entries(one, "arguments")
        ]
        rows.append(_entry(one, "name") + (f" Takes: {', '.join(takes)}." if takes else ""))
    return _list_text(rows, page, "prompts")


async def _prompt(ask: Ask, arguments: Mapping[str, Any]) -> CallToolResult:
    given = arguments.get("arguments")
    texts = {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
    result = await ask("prompts/get", {"name": _word(arguments, "name"), "arguments": texts})
    blocks: list[ContentBlock] = []
    for one in _entries(result, "messages"):
        held = one.get("content")
        blocks.append(block({"type": "text", "text": f"{one.get('role', 'user')}:"}))
        blocks += [block(piece) for piece in (held if isinstance(held, list) else [held])]
    return CallToolResult(content=blocks) if blocks else said("The prompt is empty.")


def _paged(cursor: str) -> dict[str, Any]:
    return {"cursor": cursor} if cursor else {}


def _word(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def _entries(page: Mapping[str, Any], name: str) -> Sequence[dict[str, Any]]:
    listed = page.get(name)
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _entry(one: Mapping[str, Any], key: str) -> str:
    name = one.get("title") or one.get("name")
    named = f" {name}" if name and key != "name" else ""
    kind = f" ({one['mimeType']})" if one.get("mimeType") else ""
    words = str(one.get("description") or "")[:WORDS]
    return f"- {one.get(key, '?')}{named}{kind}{': ' + words if words else ''}"


def _list_text(rows: list[str], page: Mapping[str, Any], what: str) -> str:
    if not rows:
        return f"The server has no {what}."
    text = "\n".join(rows[:LISTED])
    if len(rows) > LISTED:
        text += f"\n… and {len(rows) - LISTED} more on this page"
    cursor = page.get("nextCursor")
    return clean(text + (f"\nNext cursor: {cursor}" if isinstance(cursor, str) and cursor else ""))
