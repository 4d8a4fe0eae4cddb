"""What --help says is told in the same way by all commands."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from torpor.cli.app import app

SHARED = {"config": "FILE", "store": "URL", "timeout": "SECONDS", "workers": "NUMBER", "tier": "TIER"}


def commands(group: Any, name: str = "torpor") -> Iterator[tuple[str, Any]]:
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_what_takes_a_value_names_it_in_capitals(name: str) -> None:
    for param in COMMANDS[name].params:
        assert param.help, f"{param.name} says nothing of itself"
        assert param.help.endswith((".", "…")), f"{param.name}: {param.help}"
        if getattr(param, "is_flag", False) or param.name == "help":
            continue
        shown = param.metavar or ""
        assert shown, f"{param.name} shows its type"
        assert shown == shown.upper(), f"{param.name} shows {shown}"
        assert not shown.endswith("..."), "dots are added to those that repeat"
        assert shown == SHARED.get(param.name, shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_it_is_for(name: str) -> None:
    assert (COMMANDS[name].help or "").strip().endswith(".")
