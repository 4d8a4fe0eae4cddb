"""A doorbell in the PostgreSQL database that also holds the threads; any number of processes ring it."""

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from torpor.core.errors import TorporError, Unavailable
from torpor.ports import Clock, Lease, Ring
from torpor.queues.bell import NEVER, Bell
from torpor.queues.hints import Hints
from torpor.queues.ranks import TIER_NAMES, fixed, mask, rank
from torpor.queues.together import Together

log = logging.getLogger("torpor.postgres")

Row = tuple[Any, ...]

LEAST_PAUSE = 0.005
"""Seconds after which work that somebody else was just taking is looked for again."""
QUICK, SLOW, SELDOM = 0.05, 2.5, 10.0
"""Seconds between looks at the database while somebody waits here: at first, after nothing has happened for a
while, and where word of others' rings is heard."""
GROWTH = 1.5
BUSY = 0.1
"""Seconds for which an owner counts as without room after the server has said so."""
CROWDED = 0.5
"""Seconds between looks while work waits for its owner to have room."""
GATHERING = 4
"""Turns of the event loop for which rings wait for a claim to go with."""
MARK = "\x1f"
"""Stands between owners."""
AT_ONCE = 1_000
"""Rings that are told in one statement."""
KEPT = 100_000
"""Rings that are kept while the server is away; the sweep finds what more were for."""
RETRY = 1.0


class SharedDatabase(Protocol):
    """What the queue needs of the ``Database`` that it shares with the store."""

    clock: Clock | None
    place: Any
    """Where it is; ``conninfo`` is what a session of its own is made from."""

    @property
    def given_now(self) -> float | None:
        """The time, where it is not the server's."""

    def statements(self, package: str, path: str) -> dict[str, str]:
        """Named statements of a package's .sql file."""

    def ask(
        self, statement: str, given: Mapping[str, Any] | None = None, *, once: bool = False
    ) -> Coroutine[Any, Any, list[Row]]:
        """Run one statement as a transaction of its own, and give its rows."""


class Wanted(msgspec.Struct, frozen=True):
    """Who asks for leases, and of which threads."""

    worker: str
    agents: tuple[str, ...] | None
    tiers: tuple[str, ...] | None
    cap: int = 0

    @property
    def given(self) -> dict[str, Any]:
        """What the statements take for this choice."""
        agents = None if self.agents is None else list(self.agents)
        return {"wanted": agents, "mask": mask(self.tiers), "cap": self.cap}


class Word(msgspec.Struct, frozen=True):
    """What the database is still to be told of one thread."""

    kind: str
    thread: str
    token: str = ""
    agent: str = ""
    owner: str = ""
    tier: str = TIER_NAMES[0]
    start_by: float = 0.0
    not_before: float = 0.0
    cut: bool = False
    tell: bool = True
    """Nobody here takes it up: other processes are to be told."""
    at: float = 0.0
    """When it was rung, by our clock."""


WORDS = ("kind", "thread", "token", "agent", "owner", "start_by", "not_before", "cut", "tell")
"""What of a word the statement takes as it is."""


class PostgresQueue:
    """The ``Queue`` port in a PostgreSQL database. ``lease``: seconds for which a thread is leased.

    What is rung or given back is told soon, in order and many at once, together with the next claim where
    there is one; nobody waits for the server's disk. Instants are the server's: no other clock is looked at.
    Closing the queue leaves the database to its owner.
    """

    def __init__(self, database: SharedDatabase, *, lease: float = 15.0) -> None:
        self._database = database
        self._sql = database.statements(__package__, "postgres.sql")
        self._bell = Bell(database.clock)
        self._seconds = lease
        self._words: list[Word] = []
        self._turn = asyncio.Lock()
        self._telling: asyncio.Task[None] | None = None
        self._together = Together(self._take, self._put_back, self._turn)
        self._hints = Hints(
            database.place.conninfo, self._sql["listen"], self._knock, self._told, self._missed
        )
        self._ahead = 0.0
        """Seconds by which the server's clock is ahead of ours."""
        self._next: dict[Wanted, float] = {}
        """When to look again for a choice of threads, by our clock."""
        self._crowded = False
        """Work waits for its owner to have room."""
        self._busy: frozenset[str] = frozenset()
        """Owners without room, as the server said ``_busy_at``."""
        self._busy_at = NEVER
        self._poll: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._pace = QUICK
        self._closed = False

    async def ring(self, rings: Sequence[Ring]) -> None:
        for ring in rings:
            rank(ring.tier)
        now = self._bell.now()
        self._tell([_rung(ring, now, tell=self._is_for_others(ring, now)) for ring in rings])

    def _is_for_others(self, ring: Ring, now: float) -> bool:
        """Whether other processes are to be told of it. Who is woken here takes it along with a claim."""
        if ring.owner in self._busy and 0 <= now - self._busy_at < BUSY:
            self._crowded = True
            return False
        return not self._bell.strike(ring.agent, ring.tier, ring.not_before - self._ahead)

    async def next(
        self,
        worker: str,
        *,
        wait: float = 0.0,
        agents: Sequence[str] | None = None,
        tiers: Sequence[str] | None = None,
        limit: int = 1,
        owner_cap: int = 0,
    ) -> list[Lease]:
        wanted = _wanted(worker, fixed(agents), fixed(tiers), owner_cap)
        deadline = self._bell.now() + wait
        leases = await self._together.ask(wanted, limit)
        while not leases and self._bell.now() < deadline and not self._closed:
            self._hints.start()
            self._keep_looking()
            until = max(self._next.get(wanted, 0.0), self._bell.now() + LEAST_PAUSE)
            await self._bell.wait(min(deadline, until), agents, tiers)
            leases = await self._together.ask(wanted, limit)
        return leases

    async def extend(self, leases: Sequence[Lease]) -> tuple[list[Lease], set[str]]:
        await self._settle()
        given = {
            "now": self._database.given_now,
            "seconds": self._seconds,
            "threads": [lease.thread for lease in leases],
            "tokens": [lease.token for lease in leases],
        }
        rows = {(row[0], row[1]): row for row in await self._database.ask(self._sql["extend"], given)}
        held = [(lease, rows[mark]) for lease in leases if (mark := (lease.thread, lease.token)) in rows]
        extended = [msgspec.structs.replace(lease, until=row[2]) for lease, row in held]
        return extended, {lease.thread for lease, row in held if row[3]}

    async def done(self, lease: Lease, *, again_at: float = 0.0) -> None:
        self._tell([_back("done", lease, again_at, again_at)])

    async def retry(self, lease: Lease, at: float) -> None:
        self._tell([_back("retry", lease, lease.start_by, at)])

    async def size(self) -> int:
        await self._settle()
        ((size,),) = await self._database.ask(self._sql["size"])
        return int(size)

    async def next_at(self, agents: Sequence[str] | None = None) -> float:
        await self._settle()
        wanted = None if agents is None else list(agents)
        ((at,),) = await self._database.ask(self._sql["next_at"], {"wanted": wanted})
        return at or 0.0

    async def close(self) -> None:
        self._closed = True
        self._bell.close()
        if self._poll is not None:
            self._poll.cancel()
        for task in (self._looking, self._telling):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._hints.close()
        try:
            await self._settle()
        except TorporError as error:
            log.warning("%d rings were not told: %s", len(self._words), error)
            self._words = []

    def _put_back(self, leases: Sequence[Lease]) -> None:
        """Nobody got to know that these were leased."""
        self._tell([_back("put_back", lease, 0.0, 0.0) for lease in leases])

    def _tell(self, words: Sequence[Word]) -> None:
        if len(self._words) > KEPT:
            words = [word for word in words if word.kind != "ring"]
        self._words += words
        if words and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_soon(), name="torpor-rings")

    async def _tell_soon(self) -> None:
        """Tell what is there after some turns of the loop: often it goes along with a claim before that."""
        try:
            for _ in range(GATHERING):
                await asyncio.sleep(0)
            while self._words:
                try:
                    await self._settle()
                except TorporError as error:
                    log.warning("What was rung is told later: %s", error)
                    await asyncio.sleep(RETRY)
                except Exception:
                    log.exception("What was rung cannot be told")
                    self._words = []
        finally:
            self._telling = None

    async def _settle(self) -> None:
        """Tell the database all that it is still to be told."""
        while self._words or self._turn.locked():
            async with self._turn:
                await self._tell_some()

    async def _tell_some(self) -> None:
        words = self._words[:AT_ONCE]
        if words:
            (row,) = await self._database.ask(self._sql["note"], self._given(words))
            self._was_told(words, row, alone=True)

    async def _take(self, wanted: Wanted, limit: int) -> list[Lease]:
        """Claim, in this process' turn, and tell what is to be told before."""
        while len(self._words) > AT_ONCE:
            await self._tell_some()
        token, words = f"{wanted.worker}/{secrets.token_urlsafe(9)}", list(self._words)
        given = self._given(words) if words else {"now": self._database.given_now}
        given |= {"token": token, "seconds": self._seconds, "limit": limit, **wanted.given}
        rows = await self._database.ask(self._sql["note_and_claim" if words else "claim"], given)
        if words:
            self._was_told(words, rows[0], alone=False)
            rows = [row[3:] for row in rows if row[4] is not None]
        return self._leased(wanted, token, rows)

    def _leased(self, wanted: Wanted, token: str, rows: list[Row]) -> list[Lease]:
        until = self._bell.now() + self._ahead + self._seconds
        leases = []
        for thread, ring_at, start_by, tier, owner, agent, attempt in rows:
            if thread is None:
                self._saw(wanted, ring_at, start_by)
                self._crowded, self._busy = bool(attempt), frozenset(owner.split(MARK)) - {""}
                self._busy_at = self._bell.now()
            else:
                name = TIER_NAMES[tier]
                leases.append(Lease(thread, token, until, ring_at, start_by, name, owner, agent, attempt))
        if leases:
            self._pace = QUICK
        return sorted(leases, key=lambda lease: (rank(lease.tier), lease.start_by))

    def _saw(self, wanted: Wanted, moment: float, next_at: float | None) -> None:
        """The server has no more for this choice: its time now, and from when on there is something."""
        self._ahead = moment - self._bell.now()
        self._next[wanted] = NEVER if next_at is None else next_at - self._ahead

    def _given(self, words: Sequence[Word]) -> dict[str, Any]:
        """What the statement takes for these words: by thread, so that no two lock each other out."""
        ordered = sorted(words, key=lambda word: word.thread)
        now = self._bell.now()
        columns = {f"{name}s": [getattr(word, name) for word in ordered] for name in WORDS}
        return {
            "now": self._database.given_now,
            **columns,
            "tiers": [rank(word.tier) for word in ordered],
            "ages": [max(0.0, now - word.at) for word in ordered],
        }

    def _was_told(self, words: Sequence[Word], back: Row, *, alone: bool) -> None:
        """Wake those here whom it concerns. ``alone``: no claim that came with it has looked already."""
        self._words = self._words[len(words) :]
        if back[0] is not None:
            for agent, tier, at in zip(*back[:3], strict=True):
                self._bell.strike(agent, TIER_NAMES[tier], at - self._ahead)
        if alone and self._crowded and any(word.kind != "ring" for word in words):
            self._bell.strike_all()  # an owner has room now

    async def _knock(self, word: str) -> None:
        await self._database.ask(self._sql["knock"], {"word": word})

    def _told(self, word: str) -> None:
        """Another process has rung."""
        tier, at, agent = word.split(" ", 2)
        self._bell.strike(agent, TIER_NAMES[int(tier)], float(at) - self._ahead)

    def _keep_looking(self) -> None:
        if self._poll is None and self._looking is None and not self._closed:
            self._poll = asyncio.get_running_loop().call_later(self._pause(), self._look_soon)

    def _pause(self) -> float:
        """Seconds until the next look."""
        if self._crowded:
            return CROWDED
        if self._hints.works:
            return SELDOM
        pause = min(self._pace, SLOW)
        self._pace = pause * GROWTH
        return pause

    def _missed(self) -> None:
        """Something may have been told that was not heard."""
        self._pace = QUICK
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None
        self._look_soon()

    def _look_soon(self) -> None:
        self._poll = None
        if self._bell.waiting and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="torpor-look")

    async def _look(self) -> None:
        """Look whether another process has rung."""
        try:
            ((moment, ready, later),) = await self._database.ask(
                self._sql["look"], {"now": self._database.given_now}
            )
            self._ahead = moment - self._bell.now()
            self._bell.strike_all(0.0 if ready else NEVER if later is None else later - self._ahead)
        except Unavailable:
            self._bell.strike_all()  # those who wait will meet the same error, and report it
        finally:
            self._looking = None
        if self._bell.waiting:
            self._keep_looking()


@lru_cache
def _wanted(worker: str, agents: tuple[str, ...] | None, tiers: tuple[str, ...] | None, cap: int) -> Wanted:
    return Wanted(worker, agents, tiers, cap)


def _rung(ring: Ring, now: float, *, tell: bool) -> Word:
    times = {"start_by": ring.start_by, "not_before": ring.not_before, "at": now}
    return Word("ring", ring.thread, "", ring.agent, ring.owner, ring.tier, cut=ring.cut, tell=tell, **times)


def _back(kind: str, lease: Lease, start_by: float, at: float) -> Word:
    return Word(kind, lease.thread, lease.token, start_by=start_by, not_before=at)
