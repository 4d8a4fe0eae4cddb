"""The tables, as numbered migrations, and how a file is brought up to date."""

import re
import sqlite3
from importlib import resources

from torpor.core.errors import Refused

APPLICATION_ID = 0x546F7270
"""Marks a file as ours: the letters ``Torp``."""

_NUMBERED = re.compile(r"^(\d{4})_\w+\.sql$")


def migrations() -> list[tuple[int, str]]:
    """Number and text of every migration, in order."""
    files = resources.files(__package__).joinpath("migrations").iterdir()
    return sorted(
        (int(match[1]), file.read_text(encoding="utf-8"))
        for file in files
        if (match := _NUMBERED.match(file.name))
    )


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file up to date inside the caller's write transaction.

    ``Refused`` for a file of a newer release, or one that belongs to another program.
    """
    steps = migrations()
    version = _version(connection, path)
    if version > steps[-1][0]:
        raise Refused(
            f"The store {path} was written by a newer release (schema {version}; this one knows up to "
            f"{steps[-1][0]}). Upgrade torpor; the file was left as it is."
        )
    for number, text in steps:
        if number > version:
            _apply(connection, number, text)


def _version(connection: sqlite3.Connection, path: str) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if owner != APPLICATION_ID and (owner or version or tables):
        raise Refused(
            f"{path} is a database of another program. Name another file; this one was left as it is."
        )
    return version


def _apply(connection: sqlite3.Connection, number: int, text: str) -> None:
    for statement in _split(text):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    connection.execute(f"PRAGMA user_version = {number:d}")


def _split(text: str) -> list[str]:
    """The single statements of a script (``executescript`` would commit by itself)."""
    whole: list[str] = []
    begun = ""
    for line in text.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            whole.append(begun)
            begun = ""
    return whole
