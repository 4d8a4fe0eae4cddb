"""Which threads a client may address: those of the agents that are served, with this server's owner."""

from collections.abc import Sequence

from torpor.core.errors import Refused
from torpor.mcp.limits import LISTED_FROM
from torpor.ports import Row
from torpor.runtime.questions import thread_of
from torpor.runtime.receipts import UnknownThread
from torpor.runtime.threads import Threads


class Reach:
    """What is said of a thread out of reach is what is said of one that does not exist."""

    def __init__(self, threads: Threads, agents: Sequence[str], owner: str = "") -> None:
        self._threads = threads
        self.agents = tuple(agents)
        self.owner = owner

    async def row(self, thread: str, agent: str = "") -> Row:
        """A thread within reach. ``agent``: whose it must be. Raises ``Refused``."""
        row = await self._threads.row(thread)
        if not self._holds(row):
            raise UnknownThread(f"There is no thread {thread!a:.130}.")
        if agent and row.agent != agent:
            raise Refused(f"The thread {thread} is one of {row.agent!r}, not of {agent!r}: use its tools.")
        return row

    async def of_wait(self, wait: str) -> Row:
        """The thread of a wait, which may be a descendant of one within reach."""
        row = await self._threads.row(thread_of(wait))
        top = await self._threads.row(row.root or row.thread)
        if not (self._holds(row) or self._holds(top)):
            raise UnknownThread(f"There is no wait {wait!a:.130}.")
        return row

    async def listed(self, agent: str, limit: int) -> list[Row]:
        """Root threads within reach, the one last changed first."""
        chosen = [agent] if agent else list(self.agents)
        found = [row for one in chosen for row in await self._of(one)]
        return sorted(found, key=lambda row: (-row.updated, row.thread))[:limit]

    async def _of(self, agent: str) -> list[Row]:
        rows: list[Row] = []
        while len(rows) < LISTED_FROM and (
            page := await self._threads.store.threads(
                agent=agent, owner=self.owner, parent="", after=rows[-1].thread if rows else ""
            )
        ):
            rows += page
        return rows

    def _holds(self, row: Row) -> bool:
        return row.agent in self.agents and row.owner == self.owner
