"""``torpor answer``: choose, fill in, authorize, approve."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli.options import Config, Json, Store, run, settings_of

if TYPE_CHECKING:
    from torpor.runtime.questions import Value
    from torpor.settings import Settings

PLACES = 4
"""Digits of a place."""


def answer(
    wait: Annotated[str, typer.Argument(metavar="WAIT", help="The wait's id; see `torpor explain THREAD`.")],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            help="approve or deny; a choice's place (from 0) or text, or dismiss; a form's JSON object, or "
            "decline or dismiss; done or dismiss.",
        ),
    ],
    *,
    comment: Annotated[
        str, typer.Option(metavar="TEXT", help="What is said with it; a denial's is told to the model.")
    ] = "",
    as_json: Json = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Answer what a thread asks people: a choice, a form, an authorization, an approval."""
    run(_answer(settings_of(config, store), wait, value, comment, as_json))


async def _answer(settings: "Settings", wait: str, value: str, comment: str, as_json: bool) -> int:
    from torpor.cli.desk import opened
    from torpor.cli.say import warn_if_alone
    from torpor.cli.screen import as_json as shown
    from torpor.cli.screen import err, line

    async with opened(settings) as there:
        settled = await there.desk.answer(wait, _value(wait, value), comment)
        if as_json:
            print(shown(settled))  # noqa: T201 -- the command's output
        if not settled.taken:
            err().print(line(f"It is over already: {settled.outcome}. Nothing was changed."))
            return 1
        err().print(line((f"received ({value})", "dim")))
        warn_if_alone(there, (await there.desk.get(wait.partition(".")[0])).agent)
    return 0


def _value(wait: str, given: str) -> "Value":
    if wait.split(".")[2:3] == ["form"] and given.lstrip().startswith("{"):
        return _object(given)
    # Digits are a place, as the command that is shown says: choices may be called by numbers, too.
    is_place = given.isascii() and given.isdecimal() and len(given) <= PLACES
    return int(given) if is_place else given


def _object(text: str) -> dict[str, Any]:
    import msgspec

    from torpor.core.errors import Refused

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Refused(f"What is filled in is no JSON object: {error}.") from None
