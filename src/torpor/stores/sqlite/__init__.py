"""A SQLite file as store: several processes may use one file at once."""

from torpor.stores.sqlite.database import Database
from torpor.stores.sqlite.store import SqliteStore

__all__ = ["Database", "SqliteStore"]
