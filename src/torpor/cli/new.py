"""``torpor new``: start a thread."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli.options import Config, Json, Store, Tier, Timeout, Wait, run, settings_of, with_agents

if TYPE_CHECKING:
    from torpor.settings import Settings
    from torpor.web.shapes import NewThread


def new(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Its first words; - reads them.")
    ] = None,
    *,
    thread: Annotated[str, typer.Option(metavar="THREAD", help="The thread's id; made up if left out.")] = "",
    owner: Annotated[str, typer.Option(metavar="OWNER", help="Whose thread it is.")] = "",
    user_id: Annotated[str, typer.Option(metavar="USER", help="The user whom its tools are told of.")] = "",
    context: Annotated[str, typer.Option(metavar="JSON", help="JSON that its tools are given.")] = "",
    tier: Tier = "",
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Start a thread of an agent; prints its id."""
    from torpor.cli.say import words_of
    from torpor.web.shapes import NewThread

    said = words_of(text) if text else None
    wanted = NewThread(
        agent=agent,
        text=said,
        thread=thread,
        owner=owner,
        user_id=user_id,
        context=_context(context),
        tier=tier,
    )
    if wait and said is None:
        raise typer.BadParameter("--wait needs first words.")
    run(_new(settings_of(config, store), wanted, wait, timeout, as_json))


async def _new(
    settings: "Settings", wanted: "NewThread", wait: bool, timeout: float | None, as_json: bool
) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import opened
    from torpor.cli.say import warn_if_alone
    from torpor.cli.waiting import wait_for_reply

    async with opened(with_agents(settings), agents=True, make=True) as there:
        started = await there.desk.start(wanted)
        print(screen.as_json(started) if as_json else started.id, flush=True)  # noqa: T201 -- the command's output
        if started.receipt is not None:
            warn_if_alone(there, started.agent)
        if wait and started.receipt is not None:
            return await wait_for_reply(there.desk, started.id, started.receipt.signal, 0, timeout)
    return 0


def _context(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError as error:
        raise typer.BadParameter(f"--context is no JSON: {error}.") from None
