"""``torpor threads``: all threads, and what each waits for; with ``--tree``, each below its parent."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, run, settings_of

if TYPE_CHECKING:
    from rich.table import Table

    from torpor.cli.desk import Desk
    from torpor.ports import Asked
    from torpor.settings import Settings
    from torpor.web.shapes import Found, ThreadView


WHOLE = 1_000
"""Threads of one tree that are shown at most."""
WIDEST = 1_000
"""Columns where nobody looks at a terminal."""
GAP = 2
TITLE = 40
"""Characters of a title that are shown, if there is room."""
COLUMNS = ("thread", "agent", "state", "waits for", "since", "next wake")


def threads(
    *,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Only threads of this agent.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="OWNER", help="Only threads of this owner.")] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="open, parked, stopped, closed; moving, arriving or moved."),
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option(metavar="PURPOSE", help="root, child, event or compaction; else all but the last."),
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Roots, and below each all its children.")] = False,
    limit: Annotated[int, typer.Option(metavar="NUMBER", min=1, max=1_000, help="At most so many.")] = 50,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """List threads, and what each waits for."""
    asked: Asked = {"agent": agent, "owner": owner, "state": state, "purpose": purpose}
    run(_threads(settings_of(config, store), asked, tree, limit, as_json))


async def _threads(settings: "Settings", asked: "Asked", tree: bool, limit: int, as_json: bool) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import opened

    async with opened(settings) as there:
        rows = await (_trees(there.desk, asked, limit) if tree else there.desk.find(limit=limit, **asked))
        found = [await there.desk.get(row.id) for row in rows]
    if as_json:
        print(screen.as_json(found))  # noqa: T201 -- the command's output
    elif found:
        console = screen.out()
        room = console.width if console.is_terminal else WIDEST
        console.width = WIDEST  # each thread is one line, whatever looks at it
        console.print(_table(found, time.time(), room, tree=tree), crop=False)
    else:
        screen.err().print(screen.line("No threads."))
    return 0


async def _trees(desk: "Desk", asked: "Asked", limit: int) -> "list[ThreadView]":
    """Roots, each followed by all below it."""
    rows: list[ThreadView] = []
    roots: Asked = {**asked, "parent": ""}
    for root in await desk.find(limit=limit, **roots):
        below = await desk.find(root=root.id, limit=WHOLE)
        rows += _below(root, below)
    return rows


def _below(parent: "ThreadView", rows: "list[ThreadView]") -> "list[ThreadView]":
    """A thread and all below it, children by age."""
    found = [parent]
    for row in sorted(rows, key=lambda row: (row.created, row.id)):
        if row.parent == parent.id:
            found += _below(row, rows)
    return found


def _table(found: "list[Found]", now: float, room: int, *, tree: bool = False) -> "Table":
    from rich.table import Table

    from torpor.cli.screen import line
    from torpor.cli.visible import one_line

    rows = [
        ("  " * len(one.ancestors) * tree + one.id, one.agent, one.state, *_waits(one, now)) for one in found
    ]
    wide = [max(len(name), *(len(row[at]) for row in rows)) for at, name in enumerate(COLUMNS)]
    left = room - sum(wide) - GAP * len(wide)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for name in (*COLUMNS, "about"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for one, cells in zip(found, rows, strict=True):
        title = one_line(one.title, min(TITLE, max(8, left)))
        table.add_row(*(line(cell) for cell in (*cells, title)))
    return table


def _waits(one: "Found", now: float) -> tuple[str, str, str]:
    from torpor.cli.screen import duration

    waits = one.explanation.waits
    if not waits:
        return one.explanation.reason or "-", "-", "-"
    names = ", ".join(f"{wait.kind} {wait.name}" for wait in waits[:3])
    more = f" and {len(waits) - 3} more" if len(waits) > 3 else ""
    ends = [wait.until for wait in waits if wait.until]
    next_wake = f"in {duration(min(ends) - now)}" if ends else "-"
    return names + more, duration(now - min(wait.since for wait in waits)), next_wake
