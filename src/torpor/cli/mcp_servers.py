"""What ``torpor mcp check``, ``list`` and ``logout`` do with configured MCP servers."""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from torpor.cli.options import with_agents
from torpor.core.errors import Refused, TorporError

if TYPE_CHECKING:
    from torpor import McpServer
    from torpor.mcp.checking import Checked, Seen, Sign
    from torpor.settings import Settings
    from torpor.wiring import Parts

SHOWN = 60
"""Characters of a tool's description in a table."""


def configured(settings: "Settings") -> "Mapping[str, McpServer | Refused]":
    """All MCP servers by name: of the settings, and of the agents that these name; or why one cannot be."""
    from torpor.mcp.checking import of_agents, of_settings
    from torpor.wiring import load_agents

    found = dict(of_settings(settings.mcp, settings.mcp_servers, os.environ))
    for server in of_agents(load_agents(with_agents(settings).agents)):
        found.setdefault(server.name, server)
    return found


def chosen(settings: "Settings", names: list[str]) -> "dict[str, McpServer | Refused]":
    """Those of these names, or all. ``Refused`` if one is not configured, or there is none."""
    found = configured(settings)
    known = ", ".join(found) or "none"
    for name in names:
        if name not in found:
            raise Refused(f"No MCP server {name!r} is configured. Configured: {known}.")
    if not found:
        raise Refused(
            "No MCP server is configured. Add one to torpor.toml, such as [mcp.files] with "
            'command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."].'
        )
    return {name: found[name] for name in names or found}


async def check(settings: "Settings", names: list[str], user: str, as_json: bool) -> int:
    """Look into servers, and tell what was found; 1 if one does not work."""
    from torpor.cli.screen import as_json as shown
    from torpor.cli.screen import err, line, out
    from torpor.mcp.checking import Checked, check_all, clashes

    servers = chosen(settings, names)
    fit = [server for server in servers.values() if not isinstance(server, Refused)]
    async with _parts(settings) as parts:
        sign = _signing(parts, user) if parts is not None else None
        found = await check_all(fit, sign=sign, tell=lambda words: err().print(line((words, "dim"))))
    by_name = {one.name: one for one in found}
    for name, server in servers.items():
        if isinstance(server, Refused):
            by_name[name] = Checked(name=name, where="", works=False, problems=[str(server)])
    ordered = [by_name[name] for name in servers]
    if as_json:
        print(shown({"works": all(one.works for one in ordered), "servers": ordered}))  # noqa: T201
    else:
        for one in ordered:
            _tell(one)
        for clash in clashes(ordered):
            out().print(line(("! ", "yellow"), clash))
    return 0 if all(one.works for one in ordered) else 1


def _tell(one: "Checked") -> None:
    from torpor.cli.screen import line, out

    screen = out()
    sign = ("✓ ", "bold green") if one.works else ("✗ ", "bold red")
    facts = f"  {one.where}" if one.where else ""
    screen.print(line(sign, (one.name, "bold"), (facts, "dim")))
    if one.works:
        count = f"{len(one.tools)} {'tool' if len(one.tools) == 1 else 'tools'}"
        more = f", {', '.join(one.capabilities)}" if one.capabilities else ""
        screen.print(line((f"  {count}, protocol {one.protocol}, {one.seconds:.1f} s{more}", "dim")))
    for problem in one.problems:
        screen.print(line(("  ! ", "yellow"), problem))
    width = max((len(tool.name) for tool in one.tools), default=0)
    for tool in one.tools:
        screen.print(line(f"  {tool.name:<{width}}  {_marks(tool):<18}  ", (_cut(tool.description), "dim")))


def _marks(tool: "Seen") -> str:
    return ", ".join([tool.repeat, *(["approval"] if tool.asks else []), *(["task"] if tool.task else [])])


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def show_all(settings: "Settings", as_json: bool) -> int:
    """List the servers, without starting any."""
    from torpor.cli.screen import as_json as shown
    from torpor.cli.screen import line, out
    from torpor.mcp.checking import where

    found = configured(settings)
    rows = [
        {"name": name, "where": "", "problem": str(server)}
        if isinstance(server, Refused)
        else {"name": name, "where": where(server), "problem": ""}
        for name, server in found.items()
    ]
    if as_json:
        print(shown({"servers": rows}))  # noqa: T201 -- the command's output
        return 0
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        out().print(
            line((f"{row['name']:<{width}}", "bold"), f"  {row['where']}", (row["problem"], "yellow"))
        )
    if not rows:
        out().print(line(("no MCP server is configured", "dim")))
    return 0


async def logout(settings: "Settings", name: str, user: str) -> int:
    """Revoke and drop what a user has granted at a server."""
    from torpor.cli.desk import check_there
    from torpor.cli.screen import err, line

    server = chosen(settings, [name])[name]
    if isinstance(server, Refused):
        raise server
    check_there(settings, make=False)
    async with _parts(settings) as parts:
        assert parts is not None
        there = await (await parts.authorizations()).forget(server, user)
    who = f"the user {user!r}" if user else "threads without a user"
    told = "is dropped and revoked" if there else "was not there"
    err().print(line((f"The sign-in of {who} at {name} {told}.", "dim")))
    return 0


@contextlib.asynccontextmanager
async def _parts(settings: "Settings") -> "AsyncIterator[Parts | None]":
    """The store, if there is one already: what people have granted is in it."""
    from torpor.wiring import is_there, open_parts

    if settings.store == "memory:" or not is_there(settings.store):
        yield None
        return
    async with open_parts(settings.store) as parts:
        yield parts


def _signing(parts: "Parts", user: str) -> "Sign":
    async def sign(server: "McpServer") -> object:
        try:
            return (await parts.authorizations()).auth(server, user)
        except TorporError:
            return None

    return sign  # type: ignore[return-value]
