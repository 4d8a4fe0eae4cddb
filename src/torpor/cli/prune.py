"""``torpor prune``: what is old is forgotten."""

from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, run, settings_of

if TYPE_CHECKING:
    from torpor.runtime.retention import Keep, Pruned
    from torpor.settings import Settings
    from torpor.wiring import Parts

Days = Annotated[
    float | None, typer.Option(metavar="DAYS", min=0.0, help="Days to keep; 0: for ever. Else the settings'.")
]


def prune(
    *,
    closed: Days = None,
    records: Days = None,
    ids: Days = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which threads would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Forget threads that are closed or have moved, records and ids of signals, once they are old enough."""
    asked = {"keep_closed_days": closed, "keep_records_days": records, "keep_ids_days": ids}
    run(_prune(settings_of(config, store, **asked), dry_run, yes, as_json))


async def _prune(settings: "Settings", dry_run: bool, yes: bool, as_json: bool) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import check_there
    from torpor.cli.sure import progress
    from torpor.runtime.retention import keep_of, prune
    from torpor.wiring import open_parts

    check_there(settings, make=False)
    async with open_parts(settings.store) as parts:
        keep = keep_of(settings)
        if not (dry_run or await _is_sure(parts, keep, yes=yes)):
            screen.err().print("nothing was forgotten")
            return 1
        with progress("forgot") as told:
            pruned = await prune(parts.backend, keep, dry_run=dry_run, told=told)
    if as_json:
        print(screen.as_json(pruned))  # noqa: T201 -- the command's output
    else:
        _show(pruned, dry_run)
    return 0


async def _is_sure(parts: "Parts", keep: "Keep", *, yes: bool) -> bool:
    """Ask where threads would go, and somebody is there; what the settings say needs no asking."""
    from torpor.cli.sure import make_sure
    from torpor.runtime.retention import prune

    if yes or not keep.closed:
        return True
    going = (await prune(parts.backend, keep, dry_run=True)).threads
    return not going or make_sure(f"Erase {_threads(going)} for good?", yes=yes, unasked=True)


def _threads(going: "tuple[str, ...]") -> str:
    return f"{len(going)} closed thread{'' if len(going) == 1 else 's'}"


def _show(pruned: "Pruned", dry_run: bool) -> None:
    from torpor.cli.screen import line, out
    from torpor.runtime.deletion import in_words

    console = out()
    if dry_run:
        for thread in pruned.threads:
            console.print(line(thread))
    verb = "would erase" if dry_run else "erased"
    console.print(line(f"{verb} {_threads(pruned.threads)}; {in_words(pruned.rows)}"))
