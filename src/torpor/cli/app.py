"""The table of commands."""

from importlib import import_module

import typer

from torpor.cli.keys import keys
from torpor.cli.mcp import mcp
from torpor.cli.rap import rap

COMMANDS = (
    "serve",
    "worker",
    "new",
    "say",
    "answer",
    "show",
    "threads",
    "explain",
    "fork",
    "stop",
    "nudge",
    "close",
    "delete",
    "prune",
    "compact",
    "migrate",
    "doctor",
)

app = typer.Typer(
    name="torpor",
    help="Agents that live long and mostly wait.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from torpor import __version__

        typer.echo(f"torpor {__version__}")
        raise typer.Exit


@app.callback()
def torpor(
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    ),
) -> None:
    """Agents that live long and mostly wait."""


for _name in COMMANDS:
    app.command(_name)(getattr(import_module(f"torpor.cli.{_name}"), _name))


@app.command("demo")
def demo(
    fleet: bool = typer.Option(
        False, "--fleet", help="Two hundred agents on PostgreSQL, whose workers are killed."
    ),
) -> None:
    """See an agent sleep while its tools work, and survive kill -9."""
    from torpor.cli import demo as shown
    from torpor.cli import demo_fleet

    if fleet:
        demo_fleet.demo_fleet()
    else:
        shown.demo()


app.add_typer(keys, name="keys")
app.add_typer(mcp, name="mcp")
app.add_typer(rap, name="rap")
