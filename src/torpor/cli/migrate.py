"""``torpor migrate``: a tree goes to another store, with all that is open."""

from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, ThreadId, run, settings_of, with_agents

if TYPE_CHECKING:
    from torpor.settings import Settings
    from torpor.wiring import Parts


def migrate(
    thread: ThreadId,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DESTINATION", help="The store that it goes to, or was to go to.", show_default=False
        ),
    ] = "",
    *,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="A tool server's base URL, and the one it has there; repeatable.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="Seconds in which what runs may end.")
    ] = 60.0,
    create: Annotated[bool, typer.Option("--create", help="Make that store if there is none.")] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Give up a move that was interrupted; the tree stays.")
    ] = False,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Move a thread and all below it to another store. Asked again, an interrupted move is completed."""
    settings = with_agents(settings_of(config, store))
    if abort:
        run(_stay(settings, thread, destination))
    else:
        run(_migrate(settings, thread, destination, _pairs(server or []), (wait, create, as_json)))


def _pairs(servers: list[str]) -> dict[str, str]:
    from torpor.core.errors import Refused

    pairs = {}
    for text in servers:
        old, between, new = text.partition("=")
        if not (old and between and new):
            raise Refused(f"--server takes OLD=NEW, two base URLs, not {text!r}.")
        pairs[old] = new
    return pairs


async def _stay(settings: "Settings", thread: str, destination: str) -> int:
    from torpor.cli.desk import check_there
    from torpor.cli.screen import err, line
    from torpor.public import Runtime
    from torpor.runtime.moving_plan import plan_of

    check_there(settings, make=False)
    async with Runtime(settings.store, listen=None, workers=0) as runtime:
        plan = await plan_of(runtime.parts.side, thread)
        clean = await runtime.stay(thread, destination or None)
    err().print(line(("stays here", "dim")))
    if plan and not clean:
        text = (
            f"{plan.to} cannot be reached as it is named here, so copies may be left in it: "
            f"`torpor delete {thread} --store …` there takes them away."
        )
        err().print(line(("warning: ", "bold yellow"), text))
    return 0


async def _migrate(
    settings: "Settings",
    thread: str,
    destination: str,
    servers: dict[str, str],
    chosen: tuple[float, bool, bool],
) -> int:
    import msgspec

    from torpor.cli import screen
    from torpor.cli.desk import check_there
    from torpor.core.errors import Refused
    from torpor.runtime.moving import Mover
    from torpor.settings import check_store, shown_store
    from torpor.wiring import open_parts

    wait, create, as_json = chosen
    if not destination:
        raise Refused("Say which store it goes to, such as sqlite:///path, or postgresql://…")
    check_store(destination)
    check_there(settings, make=False)
    there_ = msgspec.structs.replace(settings, store=destination)
    check_there(there_, make=create, hint="say --create, and it is made.")
    async with open_parts(settings) as here, open_parts(destination) as there:
        moved = await Mover(here, there, here.messenger, here.clock, here.ids, wait).move(thread, servers)
        alone, place = await _alone(there, thread), shown_store(destination)
    if as_json:
        print(screen.as_json(moved))  # noqa: T201 -- the command's output
    count = f"{len(moved)} thread{'' if len(moved) == 1 else 's'}"
    screen.err().print(screen.line((f"moved {count} to {place}", "dim")))
    if alone:
        text = f"No worker runs {alone!r} there now: start one, `torpor worker --store {place}`."
        screen.err().print(screen.line(("warning: ", "bold yellow"), text))
    return 0


async def _alone(there: "Parts", thread: str) -> str:
    """The thread's agent, if nobody runs it there."""
    from torpor.runtime.presence import present

    row = await there.store.row(thread)
    workers = await present(there.side, await there.store.now())
    agent = row.agent if row else ""
    return "" if any(agent in worker.agents for worker in workers) else agent
