"""``torpor threads``: all threads, and what each waits for."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, run, settings_of

if TYPE_CHECKING:
    from rich.table import Table

    from torpor.settings import Settings
    from torpor.web.shapes import Found


WIDEST = 1_000
"""Columns where nobody looks at a terminal."""
GAP = 2
TITLE = 40
"""Characters of a title that are shown, if there is room."""
COLUMNS = ("thread", "agent", "state", "waits for", "since", "next wake")


def threads(
    *,
    agent: Annotated[str | None, typer.Option(help="Only threads of this agent.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only threads of this owner.")] = None,
    state: Annotated[str | None, typer.Option(help="open, parked, stopped or closed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most so many.")] = 50,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """List threads, and what each waits for."""
    run(_threads(settings_of(config, store), agent, owner, state, limit, as_json))


async def _threads(
    settings: "Settings", agent: str | None, owner: str | None, state: str | None, limit: int, as_json: bool
) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import opened

    async with opened(settings) as there:
        rows = await there.desk.find(agent=agent, owner=owner, state=state, limit=limit)
        found = [await there.desk.get(row.id) for row in rows]
    if as_json:
        print(screen.as_json(found))  # noqa: T201 -- the command's output
    elif found:
        console = screen.out()
        room = console.width if console.is_terminal else WIDEST
        console.width = WIDEST  # each thread is one line, whatever looks at it
        console.print(_table(found, time.time(), room), crop=False)
    else:
        screen.err().print(screen.line("No threads."))
    return 0


def _table(found: "list[Found]", now: float, room: int) -> "Table":
    from rich.table import Table

    from torpor.cli.screen import line
    from torpor.cli.visible import one_line

    rows = [(one.id, one.agent, one.state, *_waits(one, now)) for one in found]
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
