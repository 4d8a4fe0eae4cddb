"""Tables of the documents that are made of the code. ``python -m tests.docs.tables`` writes them anew."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from textwrap import dedent
from typing import Any

from tests.docs.pages import ROOT, page
from torpor.core.definition import Limits
from torpor.mcp import limits as limits_of_mcp
from torpor.queues import postgres
from torpor.runtime import presence, sweep
from torpor.runtime.dispatch import BRIDGED
from torpor.settings import CONFIG, IN_ENVIRONMENT, PREFIX, Settings
from torpor.stores.postgres import checkup, database, place
from torpor.tools.bridged import McpServer
from torpor.tools.catalog import RapServer
from torpor.tools.mcp.asking import AT_ONCE, FORM_LIMIT
from torpor.tools.mcp.listing import DESCRIPTION_KEPT, MOST_TOOLS, SCHEMA_BYTES
from torpor.tools.mcp.sessions import FIRST_WAIT, LONGEST_BACKOFF
from torpor.web.routes import ROUTES

PAGES = ("docs/operations.md", "docs/fleet.md", "docs/tools.md", "docs/http.md", "docs/mcp.md")

_REGION = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings() -> Iterator[tuple[str, ...]]:
    """All settings."""
    yield "key", "environment", "default", "meaning"
    told = _told(Settings)
    for name in Settings.__struct_fields__:
        variable = f"`{PREFIX}{name.upper()}`" if name in IN_ENVIRONMENT else ""
        yield f"`{name}`", variable, _shown(getattr(Settings(), name)), told[name]
    yield "", f"`{CONFIG}`", "`torpor.toml`", "The file that the keys are read from."


def limits() -> Iterator[tuple[str, ...]]:
    """All limits of an agent."""
    yield "limit", "default", "what is counted"
    told = {"completions": "Completions.", "tokens": "Tokens of all classes.", **_told(Limits)}
    for name in Limits.__struct_fields__:
        yield f"`{name}`", _shown(getattr(Limits(), name)), told[name]


def servers() -> Iterator[tuple[str, ...]]:
    """All options of a tool server."""
    yield "option", "default", "meaning"
    told = _told(RapServer)
    for field in fields(RapServer):
        if field.name in told:
            yield f"`{field.name}`", _shown(field.default), told[field.name]


def mcp_servers() -> Iterator[tuple[str, ...]]:
    """All options of an MCP server."""
    yield "option", "default", "meaning"
    told = {"cwd": "The folder it runs in.", "url": "", **_told(McpServer)}
    for field in fields(McpServer):
        if field.name in told and field.name != "name":
            shown = _shown(field.default if field.default is not MISSING else None)
            yield f"`{field.name}`", "none" if shown in ("`None`", "`()`") else shown, told[field.name]


def mcp_in() -> Iterator[tuple[str, ...]]:
    """Bounds of MCP servers that are no options."""
    yield "bound", "value"
    yield "calls under way at once in one process", _shown(BRIDGED)
    yield "seconds that a first request waits for a server of which nothing is known yet", _shown(FIRST_WAIT)
    yield "longest time between two starts of a server that keeps failing", f"{_shown(LONGEST_BACKOFF)} s"
    yield "tools of one server (a wrapped one: 5,000)", _shown(MOST_TOOLS)
    yield "bytes of one tool's schema", _shown(SCHEMA_BYTES)
    yield "characters of one tool's description", _shown(DESCRIPTION_KEPT)
    yield "questions of one call that are open at once", _shown(AT_ONCE)
    yield "bytes of the schema of a form", _shown(FORM_LIMIT)


def mcp_out() -> Iterator[tuple[str, ...]]:
    """Bounds of what is served to MCP clients."""
    yield "bound", "default", "meaning"
    source = inspect.getsource(limits_of_mcp)
    found = re.findall(r'^([A-Z_]+) = [^\n]*\n"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    for name, told in found:
        yield f"`{name}`", _shown(getattr(limits_of_mcp, name)), " ".join(told.split())


def routes() -> Iterator[tuple[str, ...]]:
    """All paths of the API."""
    yield "request", "what it does", "answers"
    for endpoint in ROUTES:
        answers = ", ".join(str(status) for status in sorted({*endpoint.gives, *endpoint.problems}))
        yield f"`{endpoint.method} {endpoint.path}`", endpoint.summary, answers


def fleet() -> Iterator[tuple[str, ...]]:
    """Bounds of a fleet that are no settings."""
    yield "bound", "value"
    yield "connections of one process's pool (`?pool=` in the URL)", _shown(place.POOL)
    yield "connections of a process beside its pool, to listen", _shown(checkup.LISTENING)
    yield "seconds that a verb waits for a connection", _shown(database.PATIENCE)
    yield "seconds after which a statement is given up", _shown(place.STATEMENT_SECONDS)
    yield "seconds after which waiting for a lock is given up", _shown(place.LOCK_SECONDS)
    yield "tries of a statement that lost a race or its connection", _shown(database.TRIES)
    yield "seconds after which a connection that nobody used is replaced", _shown(database.STALE)
    yield "seconds between looks for others' news, where `NOTIFY` is heard", _shown(postgres.SELDOM)
    yield "the same where it is not, at most", _shown(postgres.SLOW)
    yield "seconds between sweeps of the whole fleet", _shown(sweep.EVERY)
    yield "seconds after which a killed worker is no longer counted", _shown(presence.GOOD_FOR)


TABLES: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "settings": settings,
    "limits": limits,
    "fleet": fleet,
    "servers": servers,
    "mcp_servers": mcp_servers,
    "mcp_in": mcp_in,
    "mcp_out": mcp_out,
    "routes": routes,
}


def filled(text: str) -> str:
    """A page's text with each marked table as the code has it."""
    return _REGION.sub(lambda found: found[1] + _table(list(TABLES[found[2]]())) + found[3], text)


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *rest = rows
    lines = [head, tuple("---" for _ in head), *rest]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines)


def _told(kind: type[Any]) -> dict[str, str]:
    """What a class says below each of its fields, in Markdown."""
    (body,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    told: dict[str, str] = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = getattr(getattr(after, "value", None), "value", None)
            if isinstance(text, str) and isinstance(after, ast.Expr):
                told[field.target.id] = " ".join(text.replace("``", "`").split())
    return told


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return f"`{value}`"
    if isinstance(value, int | float):
        return f"{value:,g}" if value < 1e6 else f"{value:,.0f}"
    return f"`{value}`" if value else "none"


if __name__ == "__main__":
    for name in PAGES:
        (ROOT / name).write_text(filled(page(name).text), encoding="utf-8")
