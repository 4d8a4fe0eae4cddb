"""``torpor keys``: the keys that sign callbacks, and new ones in their place."""

from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Config, Json, Store, run, settings_of

if TYPE_CHECKING:
    from torpor.settings import Settings

keys = typer.Typer(no_args_is_help=True, help="The keys that sign callbacks.")


@keys.callback()
def _keys() -> None:
    """The keys that sign callbacks."""


@keys.command("list")
def list_(*, as_json: Json = False, config: Config = None, store: Store = None) -> None:
    """List the keys, oldest first, by name; what they are is not shown."""
    run(_list(settings_of(config, store), as_json))


@keys.command("rotate")
def rotate(*, config: Config = None, store: Store = None) -> None:
    """Sign new callbacks with a new key; callbacks signed before are still taken."""
    run(_rotate(settings_of(config, store)))


@keys.command("retire")
def retire(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's name; see `torpor keys list`.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: Config = None,
    store: Store = None,
) -> None:
    """Drop an old key: callbacks that it signed are refused from then on."""
    run(_retire(settings_of(config, store), key, yes))


async def _list(settings: "Settings", as_json: bool) -> int:
    from torpor.cli import screen
    from torpor.cli.desk import check_there
    from torpor.wiring import open_parts

    check_there(settings, make=False)
    async with open_parts(settings.store) as parts:
        ids = parts.keys.ids
    if as_json:
        print(screen.as_json({"keys": ids, "signs": ids[-1]}))  # noqa: T201 -- the command's output
    else:
        for id in ids:
            screen.out().print(screen.line(id, ("  signs", "dim") if id == ids[-1] else ""))
    return 0


async def _rotate(settings: "Settings") -> int:
    from torpor.cli.desk import check_there
    from torpor.cli.screen import line, out
    from torpor.wiring import open_parts

    check_there(settings, make=False)
    async with open_parts(settings.store) as parts:
        newest = await parts.keys.rotate()
        *older, _ = parts.keys.ids
    out().print(line(f"{newest} signs from now on; still taken: {', '.join(older)}"))
    return 0


async def _retire(settings: "Settings", key: str, yes: bool) -> int:
    from torpor.cli.desk import check_there
    from torpor.cli.screen import err, line, out
    from torpor.cli.sure import make_sure
    from torpor.wiring import open_parts

    check_there(settings, make=False)
    async with open_parts(settings.store) as parts:
        question = f"Refuse callbacks of all calls and subscriptions that {key} signed, also open ones?"
        if not make_sure(question, yes=yes, unasked=False):
            err().print(line("nothing was changed"))
            return 1
        await parts.keys.retire(key)
        left = ", ".join(parts.keys.ids)
    out().print(line(f"{key} is retired; left: {left}. Servers that run may take it for 30 s more"))
    return 0
