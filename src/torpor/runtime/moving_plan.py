"""What is written down of moves: the plan, in the store that is left; marks of copies; names of stores."""

from pathlib import Path

import msgspec

from torpor.core.moves import ARRIVING
from torpor.ports import Row, Side

MOVES = "moves"
"""Space of what moves: a plan by its root, and ``thread/state`` where a row's state is not its head's."""

WHOLE = "/whole"
"""How the version of a root's copy ends once all copies are there: from then on the other store may decide
that the tree lives here."""

_PLACES = ("host", "hostaddr", "port", "dbname")
"""Parameters of a PostgreSQL URL that say where it is."""
_PORT = "5432"


class Plan(msgspec.Struct, frozen=True):
    """What was begun: kept beside the root until another one takes its place."""

    to: str
    servers: dict[str, str] = {}
    moved: tuple[str, ...] = ()
    """Tool servers that have moved the session."""
    attempts: tuple[str, ...] = ()
    """The marks of the copies that were begun there; see ``Copies``."""
    copied: tuple[str, ...] = ()
    """The threads that were copied, once all of them are there."""
    done: bool = False


async def plan_of(side: Side, root: str) -> Plan | None:
    """What was begun for a tree."""
    kept = await side.get(MOVES, root)
    return msgspec.json.decode(kept, type=Plan) if kept else None


async def keep(side: Side, root: str, plan: Plan) -> Plan:
    """Write down what is begun; gives it."""
    await side.put(MOVES, root, msgspec.json.encode(plan))
    return plan


def mark_of(row: Row) -> str:
    """What tells the copies of one attempt to move a tree from those of another."""
    return row.version.commit_id.removesuffix(WHOLE)


def is_whole(row: Row) -> bool:
    """Whether a root is a copy that may be all there is of its tree, as far as can be told here."""
    return row.state == ARRIVING and row.version.commit_id.endswith(WHOLE)


def name_of(url: str) -> str:
    """A store's URL as it may be shown and kept: with who opens it, without their password."""
    scheme, between, rest = url.partition("://")
    if not scheme.startswith("postgres"):
        return url
    address, _, query = rest.partition("?")
    who, at, where = address.rpartition("@")
    places = [each for each in query.split("&") if each.partition("=")[0] in _PLACES]
    asked = f"?{'&'.join(places)}" if places else ""
    return f"{scheme}{between}{who.partition(':')[0]}{at}{where}{asked}"


def is_same(one: str, other: str) -> bool:
    """Whether two URLs name the same store, whoever opens it."""
    return _where(one) == _where(other)


def _where(url: str) -> str:
    scheme, _, rest = name_of(url).partition("://")
    if scheme == "sqlite":
        return str(Path(rest.removeprefix("/")).resolve())
    who, _, where = rest.rpartition("@")
    hosts, _, database = where.partition("/")
    named = ",".join(host.lower().removesuffix(f":{_PORT}") for host in hosts.split(","))
    return f"{scheme}://{named}/{database or who}"
