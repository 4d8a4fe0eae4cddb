"""MCP servers from the configuration files of other clients, taken as they stand."""

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from torpor.core.errors import Refused
from torpor.core.text import clean
from torpor.tools.mcp.servers import NAME_LIMIT, McpServer, fit_name

TABLES = ("mcpServers", "servers", "context_servers", "mcp")
KNOWN = frozenset({
    "command", "args", "env", "cwd", "type", "transport", "transportType", "url", "serverUrl", "httpUrl",
    "headers", "disabled", "enabled", "timeout", "disabledTools", "excludeTools", "includeTools",
})  # fmt: skip
WITHOUT_EFFECT = frozenset({
    "alwaysAllow", "autoApprove", "description", "gallery", "icon", "name", "note", "source", "tags", "title",
    "trust", "version",
})  # fmt: skip
"""Keys of other clients that say nothing which we would do otherwise: approvals are settled by the agent."""
HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
FILE_LIMIT = 1024 * 1024
MILLISECONDS_FROM = 1000
"""A ``timeout`` from here on is of milliseconds; some clients write these, some seconds."""

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_OTHER = re.compile(r"\$\{([^}]*)\}")


@dataclasses.dataclass(frozen=True)
class Imported:
    """What a configuration file of another client holds."""

    servers: tuple[McpServer, ...]
    notes: tuple[str, ...]
    """What in it had no effect, in words: keys that nobody knows, servers that are switched off."""


def mcp_servers(
    source: str | Path | Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> list[McpServer]:
    """The servers of the ``mcpServers`` JSON that other clients use: a file's path, or what it holds.

    ``${NAME}``, ``${NAME:-default}`` and ``${env:NAME}`` are replaced from ``environ`` (by default the
    process's own). Servers that are switched off are left out. ``Refused`` names what cannot be used.
    """
    return list(read_servers(source, environ=environ).servers)


def read_servers(
    source: str | Path | Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> Imported:
    """``mcp_servers`` together with what was of no effect."""
    found, notes = read_each(source, environ=environ)
    servers = []
    for one in found.values():
        if isinstance(one, Refused):
            raise one
        servers.append(one)
    return Imported(tuple(servers), notes)


def read_each(
    source: str | Path | Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> tuple[dict[str, McpServer | Refused], tuple[str, ...]]:
    """Each server by its name, or why just that one cannot be used; and what was of no effect.

    ``Refused`` if the source as a whole cannot be read.
    """
    given = source if isinstance(source, Mapping) else _read(Path(source))
    table, notes = _table(given)
    found: dict[str, McpServer | Refused] = {}
    for name, entry in table.items():
        if isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False):
            notes.append(f"The MCP server {name!r} is switched off.")
            continue
        notes += _unknown(name, entry)
        short = _name(name)
        double = Refused(f"Two MCP servers are named {short!r} (other signs count as '_').")
        found[short] = (
            double if short in found else _one(name, entry, os.environ if environ is None else environ)
        )
    return found, tuple(notes)


def _name(name: str) -> str:
    return fit_name(clean(name))[:NAME_LIMIT]


def _unknown(name: str, entry: object) -> list[str]:
    known = KNOWN | WITHOUT_EFFECT
    unknown = sorted(str(key) for key in entry if key not in known) if isinstance(entry, Mapping) else []
    if not unknown:
        return []
    return [f"The MCP server {name!r} has settings that are not known here: {', '.join(unknown)}."]


def _one(name: str, entry: object, environ: Mapping[str, str]) -> McpServer | Refused:
    if not isinstance(entry, Mapping):
        return Refused(f"The MCP server {name!r} must be an object.")
    try:
        return _entry(name, entry, environ)
    except Refused as error:
        return error


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.expanduser().open("rb") as opened:
            body = opened.read(FILE_LIMIT + 1)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from None
    if len(body) > FILE_LIMIT:
        raise Refused(f"{path} has more than {FILE_LIMIT:,} bytes.")
    try:
        given = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is no valid JSON: {error}.") from None
    if not isinstance(given, dict):
        raise Refused(f"{path} must hold a JSON object with a member mcpServers.")
    return given


def _table(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The servers by name: from the member that holds them, or all if it is they themselves."""
    for key in TABLES:
        if isinstance(given.get(key), Mapping):
            others = sorted(str(name) for name in given if name != key)
            return given[key], [f"Left out, as it holds no servers: {', '.join(others)}."] if others else []
    if all(isinstance(entry, Mapping) and {"command", "url"} & set(entry) for entry in given.values()):
        return given, []
    raise Refused("There is no member mcpServers with the servers by their names.")


def _entry(name: str, entry: Mapping[str, Any], environ: Mapping[str, str]) -> McpServer:
    kind = entry.get("type", entry.get("transport", entry.get("transportType")))
    if kind == "sse":
        raise Refused(
            f"The MCP server {name!r} uses the old SSE transport, which is not supported. Most such servers "
            f"offer Streamable HTTP too, often at /mcp instead of /sse: give that URL with the type http."
        )
    if kind is not None and kind not in ("stdio", *HTTP):
        raise Refused(f"The MCP server {name!r} has the unknown type {kind!r}; known: stdio, http.")
    found = {key: _expanded(name, value, environ) for key, value in entry.items() if key in KNOWN}
    try:
        return McpServer(_name(name), **_fields(found), **_limits(found))
    except Refused as error:
        raise Refused(f"The MCP server {name!r}: {error}") from None


def _fields(found: Mapping[str, Any]) -> dict[str, Any]:
    url = found.get("httpUrl") or found.get("serverUrl") or found.get("url")
    if url:
        plain = isinstance(url, str) and urlsplit(url).scheme == "http"
        return {"url": url, "headers": found.get("headers") or {}, "allow_http": plain}
    args = found.get("args") or []
    command = found.get("command")
    if isinstance(command, str) and isinstance(args, list):
        command = [command, *args]
    if command is None:
        raise Refused("It needs a command or a url.")
    return {"command": command, "env": found.get("env") or {}, "cwd": found.get("cwd") or None}


def _limits(found: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "includeTools" in found:
        fields["allow"] = found["includeTools"]
    fields["deny"] = (*found.get("disabledTools", ()), *found.get("excludeTools", ()))
    timeout = found.get("timeout")
    if timeout is not None:
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        fields["idle_timeout"] = timeout / 1000 if is_number and timeout >= MILLISECONDS_FROM else timeout
    return fields


def _expanded(name: str, value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _expanded(name, one, environ) for key, one in value.items()}
    if isinstance(value, list):
        return [_expanded(name, one, environ) for one in value]
    return _replaced(name, value, environ) if isinstance(value, str) else value


def _replaced(name: str, text: str, environ: Mapping[str, str]) -> str:
    def found(match: re.Match[str]) -> str:
        value = environ.get(match[1], match[2])
        if match[2] is not None and not value:
            return match[2]
        if value is None:
            raise Refused(
                f"The MCP server {name!r} needs the environment variable {match[1]}, which is not set."
            )
        return value

    for other in _OTHER.finditer(text):
        if not _VARIABLE.fullmatch(other[0]):
            raise Refused(f"The MCP server {name!r} uses {other[0][:60]}, which cannot be replaced here.")
    return _VARIABLE.sub(found, text)
