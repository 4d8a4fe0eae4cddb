"""The tables, as numbered migrations, and how a database is brought up to date.

Migrations go forwards only, while processes of older releases are at work: each is one short transaction that
waits for no lock long. The first line of each, ``-- serves: N``, says from which schema on code can work with
the result.
"""

import re
import time
from importlib import resources
from typing import Any

import msgspec
import psycopg

from torpor.core.errors import Refused
from torpor.stores.statements import statements

LOCK = 0x546F7270
"""Key of the advisory lock under which one process at a time migrates: the letters ``Torp``."""

TRIES = 40
PAUSE = 0.25
"""Tries, and seconds between two, of a migration for whose locks running statements leave no gap."""

_NUMBERED = re.compile(r"^(\d{4})_\w+\.sql$")
_SERVES = re.compile(r"\A-- serves: (\d+)\n")
_SQL = statements(__package__, "ledger.sql")


class Migration(msgspec.Struct, frozen=True):
    """One step; ``serves``: the oldest schema whose code can work with what it leaves."""

    number: int
    serves: int
    text: str


def migrations() -> list[Migration]:
    """Every migration, in order."""
    files = resources.files(__package__).joinpath("migrations").iterdir()
    texts = [
        (int(match[1]), file.read_text(encoding="utf-8"))
        for file in files
        if (match := _NUMBERED.match(file.name))
    ]
    return [Migration(number, _serves(text), text) for number, text in sorted(texts)]


def _serves(text: str) -> int:
    found = _SERVES.match(text)
    assert found is not None
    return int(found[1])


def migrate(connection: psycopg.Connection[Any], place: object, steps: list[Migration] | None = None) -> None:
    """Bring a database up to date. ``connection`` commits by itself.

    ``Refused`` for a database that only newer releases can work with.
    """
    steps = migrations() if steps is None else steps
    version, serves = applied(connection)
    if serves > steps[-1].number:
        raise Refused(
            f"The store {place} was migrated by a newer release (schema {version}, for releases that know "
            f"{serves} or later; this one knows {steps[-1].number}). Upgrade torpor; it was left as it is."
        )
    for step in steps:
        if step.number > version:
            _apply(connection, step)


def applied(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """The number of the last migration that was run, and from which schema on code can work with it."""
    if not _one(connection, _SQL["there"])[0]:
        return 0, 0
    version, serves = _one(connection, _SQL["last"])
    return version, serves


def _one(connection: psycopg.Connection[Any], sql: str) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = connection.execute(sql.encode()).fetchone()
    assert found is not None
    return found


def _apply(connection: psycopg.Connection[Any], step: Migration) -> None:
    for left in reversed(range(TRIES)):
        try:
            with connection.transaction():
                _apply_alone(connection, step)
        except psycopg.errors.LockNotAvailable:
            if not left:
                raise
            time.sleep(PAUSE)
        else:
            return


def _apply_alone(connection: psycopg.Connection[Any], step: Migration) -> None:
    """Run one step, unless another process has done so while this one waited."""
    connection.execute(_SQL["begin"].encode())
    connection.execute(_SQL["lock"].encode(), (LOCK,))
    connection.execute(_SQL["ledger"].encode())
    if applied(connection)[0] < step.number:
        connection.execute(step.text.encode())
        connection.execute(_SQL["note"].encode(), (step.number, step.serves))
