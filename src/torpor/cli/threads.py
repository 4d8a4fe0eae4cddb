"""``torpor threads``: all threads, and what each waits for."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, run, settings_of

if TYPE_CHECKING:
    from rich.table import Table

    from torpor.settings import Settings
    from torpor.web.shapes import Found


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
        screen.out().print(_table(found, time.time()))
    else:
        screen.err().print(screen.line("No threads."))
    return 0


def _table(found: "list[Found]", now: float) -> "Table":
    from rich import box
    from rich.table import Table

    from torpor.cli.screen import line
    from torpor.cli.visible import one_line

    table = Table(box=box.SIMPLE)
    for name in ("thread", "agent", "state", "waits for", "since", "next wake", "about"):
        table.add_column(name, no_wrap=name == "thread", overflow="fold")
    for one in found:
        cells = (one.id, one.agent, one.state, *_waits(one, now), one_line(one.title, 40))
        table.add_row(*(line(cell) for cell in cells))
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
