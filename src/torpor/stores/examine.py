"""A look at the store of a URL, whichever kind it is."""

from pathlib import Path

from torpor.core.errors import Refused
from torpor.ports.checkup import Checkup, Finding

_SQLITE = "sqlite:///"


def examine(url: str) -> Checkup:
    """What there is to say of a store without changing it."""
    if url.startswith(_SQLITE):
        from torpor.stores.sqlite.checkup import checkup as looked_at

        return looked_at(Path(url.removeprefix(_SQLITE)))
    if url == "memory:":
        told = "memory: keeps nothing; each process has its own"
        return Checkup((Finding("fine", "store", told),))
    try:
        from torpor.stores.postgres.checkup import checkup
    except ModuleNotFoundError as error:
        needed = f"{error.name} is needed: pip install 'torpor[postgres]'"
        return Checkup((Finding("wrong", "store", needed),))
    return checkup(url)


def is_there(url: str) -> bool:
    """Whether there is a store of ours at a URL, or an older one; nothing is changed.

    ``Refused`` or ``Unavailable`` says why that cannot be told.
    """
    if url.startswith(_SQLITE):
        return Path(url.removeprefix(_SQLITE)).exists()
    if url == "memory:":
        return True
    try:
        from torpor.stores.postgres.checkup import is_there as found
    except ModuleNotFoundError as error:
        raise Refused(f"A PostgreSQL store needs {error.name}: pip install 'torpor[postgres]'.") from error
    return found(url)
