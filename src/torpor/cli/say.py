"""``torpor say``: speak to a thread."""

import io
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, ThreadId, Tier, Timeout, Wait, run, settings_of
from torpor.core.text import clean

if TYPE_CHECKING:
    from torpor.cli.desk import Opened
    from torpor.settings import Settings
    from torpor.web.shapes import Saying


def say(
    thread: ThreadId,
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="What to say; - reads it from the input.")
    ],
    *,
    mode: Annotated[str, typer.Option(metavar="MODE", help="steer, queue or interrupt.")] = "steer",
    tier: Tier = "",
    key: Annotated[
        str, typer.Option(metavar="KEY", help="The same key with the same words counts once.")
    ] = "",
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Speak to a thread; stored when this returns."""
    from torpor.web.shapes import Saying

    saying = Saying(text=words_of(text), mode=mode, tier=tier)
    run(_say(settings_of(config, store), thread, saying, key, wait, timeout, as_json))


async def _say(
    settings: "Settings",
    thread: str,
    saying: "Saying",
    key: str,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import opened
    from torpor.cli.waiting import wait_for_reply

    async with opened(settings) as there:
        found = await there.desk.get(thread)
        receipt = await there.desk.say(thread, saying, key)
        if as_json:
            print(screen.as_json(receipt), flush=True)  # noqa: T201 -- the command's output
        else:
            again = ", which was there already" if receipt.repeat else ""
            screen.err().print(screen.line((f"received ({receipt.mode}){again}", "dim")))
        warn_if_alone(there, found.agent)
        if wait:
            after = 0 if receipt.repeat else found.length
            return await wait_for_reply(there.desk, thread, receipt.signal, after, timeout)
    return 0


def words_of(text: list[str]) -> str:
    """The words given, or those of standard input for a single ``-``."""
    if text == ["-"]:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        return clean(sys.stdin.read())
    return clean(" ".join(text))


def warn_if_alone(there: "Opened", agent: str) -> None:
    """Tell who speaks if nobody runs the agent now."""
    from torpor.cli.screen import err, line

    ours = [here for here in there.workers if agent in here.agents]
    if there.server and ours:
        return
    if not ours:
        who = "a worker that knows" if there.workers else "a worker for"
        text = (
            f"No worker runs {agent!r} on this store now: it is kept until `torpor worker` starts {who} it."
        )
    elif all(here.is_overdue(there.now) for here in ours):
        latest = there.now - max(here.seen for here in ours)
        text = f"The worker for {agent!r} was last seen {latest:.0f} s ago: if it is gone, start another one."
    else:
        return
    err().print(line(("warning: ", "bold yellow"), text))
