"""``torpor delete``: a tree of threads is erased for good, and the proof of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, ThreadId, run, settings_of

if TYPE_CHECKING:
    from torpor.runtime.deletion import Deleted
    from torpor.settings import Settings
    from torpor.wiring import Parts


def delete(
    thread: ThreadId,
    *,
    with_forks: Annotated[
        bool, typer.Option("--with-forks", help="With the forks that continue its history.")
    ] = False,
    moving: Annotated[
        bool,
        typer.Option(
            "--moving",
            help="Also what a move left that was never completed: say so if the thread lives in the other "
            "store, or is to be gone.",
        ),
    ] = False,
    scrub: Annotated[
        bool,
        typer.Option(
            "--scrub", help="Then write the store's file anew: nothing is left in its unused space."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Erase a thread and all below it for good, open or not, and show that nothing is left."""
    run(_delete(settings_of(config, store), thread, (with_forks, moving, scrub, yes, as_json)))


async def _delete(settings: "Settings", thread: str, chosen: tuple[bool, bool, bool, bool, bool]) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import check_there
    from torpor.cli.sure import progress
    from torpor.core.text import clean
    from torpor.runtime.deletion import delete
    from torpor.wiring import open_parts

    with_forks, moving, scrub, yes, as_json = chosen
    check_there(settings, make=False)
    async with open_parts(settings.store) as parts:
        thread = clean(thread)
        if not await _is_sure(parts, thread, yes=yes):
            screen.err().print("nothing was deleted")
            return 1
        with progress("erased") as told:
            gone = await delete(
                parts.backend, parts.queue, thread, forks=with_forks, moving=moving, told=told
            )
        if scrub:
            await parts.backend.scrub()
    if as_json:
        print(screen.as_json(gone))  # noqa: T201 -- the command's output
    else:
        _show(gone)
    return 1 if gone.left else 0


async def _is_sure(parts: "Parts", thread: str, *, yes: bool) -> bool:
    from torpor.cli.sure import make_sure
    from torpor.cli.visible import one_line
    from torpor.runtime.trees import family

    row = await parts.backend.row(thread)
    if row is None or yes:
        return True  # what was begun is ended, or it is refused for what it is
    below = len(await family(parts.backend, thread)) - 1
    also = f" and {below} below it" if below > 0 else ""
    question = f"Erase {thread} ({row.agent}, {row.state}: {one_line(row.title, 60)}){also} for good?"
    return make_sure(question, yes=yes, unasked=False)


def _show(gone: "Deleted") -> None:
    from torpor.cli.screen import line, out
    from torpor.runtime.deletion import in_words

    console = out()
    many = f"{gone.threads} thread{'' if gone.threads == 1 else 's'}"
    forks = f", with {len(gone.forks)} of forks" if gone.forks else ""
    console.print(line(f"erased {many}{forks}: {in_words(gone.rows)}"))
    if gone.left:
        console.print(line((f"left: {in_words(gone.left)}; run it again", "bold red")))
    else:
        console.print(line("a search for its ids found nothing more"))
    if gone.named_by:
        console.print(line(f"the history of {gone.named_by}, which it continued, still names its id"))
