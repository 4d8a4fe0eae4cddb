"""``torpor fork``: another thread that continues one's history."""

from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, ThreadId, run, settings_of

if TYPE_CHECKING:
    from torpor.settings import Settings


def fork(
    thread: ThreadId,
    *,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="POSITION", min=1, help="The position of the last message that is taken over; else all."
        ),
    ] = None,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Start a thread that continues another one's history; prints its id. Say something to it next."""
    run(_fork(settings_of(config, store), thread, at, as_json))


async def _fork(settings: "Settings", thread: str, at: int | None, as_json: bool) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import opened

    async with opened(settings) as there:
        started = await there.desk.fork(thread, at)
    print(screen.as_json(started) if as_json else started.id)  # noqa: T201 -- the command's output
    return 0
