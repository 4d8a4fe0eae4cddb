"""PostgreSQL as store: any number of processes on any number of machines may use one database at once."""

from torpor.stores.postgres.database import Database
from torpor.stores.postgres.store import PostgresStore

__all__ = ["Database", "PostgresStore"]
