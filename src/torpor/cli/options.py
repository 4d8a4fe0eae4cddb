"""Options that commands share, and the settings they lead to."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torpor.settings import Settings

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The settings file, instead of torpor.toml here."),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="The store: sqlite:///path or postgresql://… Overrides the settings."
    ),
]
ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id; see `torpor threads`.")]
AgentRefs = Annotated[
    list[str] | None,
    typer.Argument(metavar="AGENT", help="Agents as package.module:name, instead of the settings'."),
]
Tier = Annotated[str, typer.Option(metavar="TIER", help="realtime, async or batch.")]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait for the reply and print it.")]
Timeout = Annotated[float | None, typer.Option(metavar="SECONDS", min=0.0, help="Seconds to wait at most.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def settings_of(config: Path | None, store: str | None, **overrides: Any) -> "Settings":
    """The settings of a command."""
    from torpor.settings import load

    return load(config, environ=os.environ, overrides={"store": store, **overrides})


def with_agents(settings: "Settings") -> "Settings":
    """The same settings; agents of the current folder can be imported from now on."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return settings


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command's work; its number is the exit code."""
    code = asyncio.run(work)
    if code:
        raise typer.Exit(code)
