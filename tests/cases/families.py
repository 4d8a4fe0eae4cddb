"""The cases as data: one YAML file for each family, read once."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

HERE = Path(__file__).parent
STORES = ("memory", "sqlite", "postgres")
LEFT = "left.yaml"
"""Names every handed id, and those of them that are no case here."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One situation that broke a system, ours or another's, and what must come of it here.

    ``expect`` says it in prose, ``check`` and the ``check`` steps say it to the machine.
    """

    id: str
    situation: str
    expect: str
    steps: list[Any]
    source: str = ""
    """The public report; cases of our own have none."""
    kind: str = "issue"
    """Of the source: ``issue``, ``pr``, ``source``; ``own`` for cases of our own."""
    stores: tuple[str, ...] = STORES
    tools: dict[str, dict[str, Any]] = {}
    """Tools that are not plain ones of the tool server; see ``tools.py``."""
    agent: dict[str, Any] = {}
    cast: dict[str, list[Any]] = {}
    """Scripts of threads that are not the root, by their part."""
    check: dict[str, Any] = {}
    repeat: int = 1
    """So many runs, each with another interleaving of what is parallel."""
    xfail: str = ""
    """Why it does not hold yet."""
    notes: str = ""


class Left(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``ids``: all handed ids. ``left``: those without a case, each with the reason. ``elsewhere``: those
    that cannot be said in steps, each with the tests that hold it.
    """

    ids: list[str]
    left: dict[str, str]
    elsewhere: dict[str, list[str]]


def _read(path: Path) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text("utf-8"), Loader=loader)


@cache
def families() -> dict[str, list[Case]]:
    """All cases, by the file's name."""
    paths = sorted(path for path in HERE.glob("*.yaml") if path.name != LEFT)
    return {path.stem: msgspec.convert(_read(path), list[Case]) for path in paths}


@cache
def left() -> Left:
    """What is no case, and why."""
    return msgspec.convert(_read(HERE / LEFT), Left)


def cases() -> Iterator[Case]:
    """All of them."""
    for found in families().values():
        yield from found
