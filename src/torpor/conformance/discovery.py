"""The manifest: fetched, and judged row by row."""

import asyncio
import re
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from torpor.conformance.caller import Answer
from torpor.conformance.exchange import Exchange
from torpor.conformance.probe import Call, Probe, Tool
from torpor.conformance.sampling import defect
from torpor.core.errors import Refused
from torpor.tools.addresses import check_url, host_of, is_loopback
from torpor.tools.strict import Malformed, parse_object, repeated

MANIFEST = "/.well-known/rap-toolset"
NAME_LIMIT = 128
MOST_TOOLS = 500
"""Tools of one manifest that are looked at."""
LATEST = "https://json-schema.org/draft/2020-12/schema"

_DEFINED = frozenset({"requiresAuth", "readOnly", "destructive", "idempotent", "longRunning"})
_NAMESPACED = re.compile(r"x-[a-z0-9]+-.+|[^\s]+[./:].+", re.IGNORECASE)
_UGLY = re.compile(r"[\s!-,./:-@\[-^`{-~\x00-\x1f\x7f-\x9f]")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


async def discover(probe: Probe) -> None:
    """Fetch the manifest, judge it, and keep what the other checks need."""
    answer = await probe.caller.get(MANIFEST)
    probe.discovered = answer
    members = _object(probe, answer)
    if members is None:
        return
    probe.manifest = members
    again = await probe.caller.get(MANIFEST)
    steady = again.status == 200 and _same(again, answer)
    why = "two fetches, one after the other, gave two manifests"
    probe.ledger.judge("TS-03", steady, why, answer.exchange, again.exchange)
    await asyncio.to_thread(judge, probe, answer.exchange)


def _object(probe: Probe, answer: Answer) -> dict[str, Any] | None:
    if not probe.ledger.judge_all(
        ("TS-01", "TS-03"), answer.status == 200, f"asked for its manifest, {answer.told}", answer.exchange
    ):
        return None
    try:
        return parse_object(answer.body)
    except Malformed as error:
        probe.ledger.broken("TS-03", f"its manifest cannot be read: {error}", answer.exchange)
        probe.ledger.broken("TS-07", f"its manifest cannot be read: {error}", answer.exchange)
        return None


def _same(one: Answer, other: Answer) -> bool:
    try:
        return one.body == other.body or parse_object(one.body) == parse_object(other.body)
    except Malformed:
        return False


def judge(probe: Probe, exchange: Exchange) -> None:
    """Judge the manifest's members, then its tools, and keep what the other checks need of it."""
    members = probe.manifest
    defects = [f"'{name}' comes more than once" for name in sorted(repeated(members))]
    name = members.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT:
        defects.append("'name' must have 1 to 128 characters")
    for member, kind in (("description", str), ("needsMigration", bool)):
        if not isinstance(members.get(member), kind | None):
            defects.append(f"'{member}' must be a {'text' if kind is str else 'boolean'}")
    endpoint = members.get("endpoint")
    problem = _endpoint_problem(endpoint)
    if problem:
        defects.append(problem)
    else:
        probe.endpoint = str(endpoint)
    listed = members.get("tools")
    if not isinstance(listed, list) or not listed:
        defects.append("'tools' must be an array of at least one tool")
    tools = listed[:MOST_TOOLS] if isinstance(listed, list) else []
    for number, tool in enumerate(tools, 1):
        defects += _tool_defects(tool, f"tool {number}")
    probe.ledger.judge("TS-07", not defects, "; ".join(defects[:5]), exchange)
    probe.tools = tuple(_tool(tool) for tool in tools if isinstance(tool, dict) and _named(tool))
    _names(probe, tools, exchange)
    _schemas(probe, exchange)
    _annotations(probe, exchange)


def _endpoint_problem(endpoint: object) -> str:
    if not isinstance(endpoint, str):
        return "'endpoint' must be a URL"
    try:
        check_url(endpoint, allow_http=True, what="'endpoint'")
    except Refused as error:
        return str(error).rstrip(".")
    return ""


def _tool_defects(tool: object, where: str) -> list[str]:
    if not isinstance(tool, dict):
        return [f"{where} is not an object"]
    defects = [f"'{name}' of {where} comes more than once" for name in sorted(repeated(tool))]
    texts = [name for name in ("name", "description") if not isinstance(tool.get(name), str)]
    defects += [f"'{name}' of {where} must be a text" for name in texts]
    if not isinstance(tool.get("inputSchema"), dict):
        defects.append(f"'inputSchema' of {where} must be an object")
    if not isinstance(tool.get("annotations"), dict | None):
        defects.append(f"'annotations' of {where} must be an object")
    if not isinstance(tool.get("displayScript"), str | None):
        defects.append(f"'displayScript' of {where} must be a text")
    return defects


def _named(tool: dict[str, Any]) -> bool:
    return isinstance(tool.get("name"), str) and bool(tool["name"])


def _tool(tool: dict[str, Any]) -> Tool:
    schema, annotations = tool.get("inputSchema"), tool.get("annotations")
    return Tool(
        tool["name"],
        schema if isinstance(schema, dict) else {},
        annotations if isinstance(annotations, dict) else {},
    )


def _names(probe: Probe, tools: list[Any], exchange: Exchange) -> None:
    names = [tool["name"] for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    ledger = probe.ledger
    doubles = [name for name, count in Counter(names).items() if count > 1]
    long = [name for name in names if not 0 < len(name) <= NAME_LIMIT]
    told = "; ".join(
        [f"there are several tools {name!r}" for name in doubles[:5]]
        + [f"a tool name has {len(name)} characters" for name in long[:5]]
    )
    ledger.judge("TS-08", not told, told, exchange)
    ugly = [name[:NAME_LIMIT] for name in names if _UGLY.search(name)]
    ledger.judge("TS-09", not ugly, f"tool names with special characters: {ugly[:5]}", exchange)
    if not all(_PLAIN.fullmatch(name) for name in names if name not in ugly):
        ledger.broken("TS-10", "a tool name has letters outside of ASCII", exchange)


def _schemas(probe: Probe, exchange: Exchange) -> None:
    ledger = probe.ledger
    for tool in probe.tools:
        problem = defect(tool.schema)
        told = f"the schema of {tool.name!r} cannot be used: {problem}"
        if not ledger.judge("TS-11", not problem, told, exchange):
            continue
        draft = tool.schema.get("$schema", LATEST)
        recent = isinstance(draft, str) and draft.rstrip("#") == LATEST
        problem = defect(tool.schema, latest=True) if recent else f"it names {str(draft)[:100]}"
        ledger.judge("TS-12", not problem, f"the schema of {tool.name!r}: {problem}", exchange)
        _emptiness(probe, tool, exchange)


def _emptiness(probe: Probe, tool: Tool, exchange: Exchange) -> None:
    if tool.schema.get("properties"):
        probe.ledger.unseen("TS-13", "each tool takes something")
    elif not any(name in tool.schema for name in ("$ref", "anyOf", "oneOf", "allOf", "patternProperties")):
        closed = tool.schema.get("additionalProperties") is False
        why = f"{tool.name!r} takes nothing, and its schema allows anything"
        probe.ledger.judge("TS-13", closed, why, exchange)


def _annotations(probe: Probe, exchange: Exchange) -> None:
    own = [name for tool in probe.tools for name in tool.annotations if name not in _DEFINED]
    if own:
        bare = [name[:NAME_LIMIT] for name in own if not _NAMESPACED.fullmatch(name)]
        told = f"annotations without a namespace: {bare[:5]}"
        probe.ledger.judge("TS-14", not bare, told, exchange)
    else:
        probe.ledger.unseen("TS-14", "there are no annotations of its own")


# ---------------------------------------------------------------- later looks at what was declared


async def case(probe: Probe) -> None:
    """A name in the wrong case is an unknown operation."""
    quick = probe.calls.get("quick")
    known = {tool.name for tool in probe.tools}
    other = quick.name.swapcase() if quick else ""
    if quick is None or other in known:
        probe.ledger.unseen("TS-10", "no tool is known that answers quickly")
        return
    asked = await probe.ask(Call(other, quick.arguments))
    await asked.settled(probe.patience.result)
    right = await probe.ask("quick")
    await right.settled(probe.patience.result)
    same = bool(asked.result) and asked.result.get("text") == right.result.get("text")
    why = f"{other!r} was taken for {quick.name!r}"
    probe.ledger.judge("TS-10", not (same and "text" in right.result), why, *asked.shown)


def is_local(url: str) -> bool:
    """Whether a URL leads to this machine."""
    return is_loopback(host_of(url))


def is_https(url: str) -> bool:
    """Whether a URL is https."""
    return urlsplit(url).scheme.lower() == "https"


CHECKS = ((case, "10"),)
