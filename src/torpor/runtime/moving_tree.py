"""The tree that moves, in the store that it leaves: held still as a whole, or let go again.

Each thread is held by a commit, so that a slice under way anywhere comes too late; and its effects are
claimed, so that nobody else begins one. What others have begun is waited for.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from torpor.core.codec import decode_head, encode
from torpor.core.effects import Invoke
from torpor.core.errors import Broken, Conflict, Unavailable
from torpor.core.messages import By, Message
from torpor.core.moves import HUSKS, MOVED, MOVING
from torpor.core.signals import Finished
from torpor.core.tiers import start_by
from torpor.ports import (
    Backend,
    Clock,
    Commit,
    OutboxRow,
    Queue,
    Ring,
    Row,
    Side,
    Store,
    StoredMessage,
)
from torpor.runtime.about_calls import unknown
from torpor.runtime.ids import Ids
from torpor.runtime.moving_plan import MOVES
from torpor.runtime.trees import family

HELD = 10 * 366 * 86_400.0
"""Seconds for which effects are claimed: until they are given back, or taken along."""
LOOK = 0.1
"""Seconds between looks at what others still perform."""
NAMED = 5
"""Effects that are named when they do not end."""
TRIES = 20
"""How often a commit is tried again that lost a race."""


class Place(Protocol):
    """A store and its queue, as one process has them open."""

    url: str
    backend: Backend
    store: Store
    side: Side
    queue: Queue

    async def callback_url(self, thread: str, call: str, server: str = "", *, signs: bool = False) -> str:
        """Where a tool server posts what comes of a call. ``Unavailable`` if there is no such place."""


class Change(msgspec.Struct, frozen=True):
    """What is written to one thread."""

    row: Row
    message: Message | None = None
    absorbed: Mapping[str, str] = {}


async def change(store: Store, thread: str, ids: Ids, edit: Callable[[Row], Change | None]) -> Row:
    """Write what ``edit`` makes of a thread's row as it is now; None: nothing. Gives the row after that."""
    for _ in range(TRIES):
        row = await store.row(thread)
        if row is None:
            raise Broken(f"The thread {thread} is gone while it moves.")
        wanted = edit(row)
        if wanted is None:
            return row
        try:
            version = await store.commit(_commit(row, wanted, ids))
        except Conflict:
            continue
        return msgspec.structs.replace(wanted.row, version=version)
    raise Unavailable(f"The thread {thread} is busy. Try again.")


def _commit(row: Row, wanted: Change, ids: Ids) -> Commit:
    message = wanted.message
    added = () if message is None else (StoredMessage(row.length + 1, encode(message)),)
    return Commit(
        thread=row.thread,
        base=row.version,
        commit_id=ids.text(12),
        row=wanted.row,
        messages=added,
        absorbed=wanted.absorbed,
    )


async def ring(place: Place, row: Row) -> None:
    """Have a thread looked at."""
    now = await place.store.now()
    by = start_by(row.tier, now)
    await place.queue.ring([Ring(row.thread, by, 0.0, row.tier, row.owner, row.agent)])


class Tree:
    """All threads of one root, at the place that they leave."""

    def __init__(self, place: Place, root: str, clock: Clock, ids: Ids) -> None:
        self._place = place
        self._store = place.store
        self.root = root
        self._clock = clock
        self._ids = ids

    @property
    def _holder(self) -> str:
        """Who claims the effects: the same in every process, so that each can give them back."""
        return f"move/{self.root}"

    async def rows(self) -> list[Row]:
        """Its threads, those that write summaries too: the root first."""
        rows = await family(self._store, self.root)
        return sorted(rows, key=lambda row: (row.thread != self.root, row.created, row.thread))

    async def _alive(self) -> list[Row]:
        return [row for row in await self.rows() if row.state not in HUSKS]

    async def hold(self, patience: float) -> list[Row]:
        """Hold all of it; ``Unavailable`` if others do not end in time what they have begun.

        Each thread gets a new version, also one that is held already: whoever holds it comes too late with
        what is made of the version before. ``Conflict`` if the tree has left.
        """
        end, held = self._clock.now() + patience, set[str]()
        while True:
            rows = await self._alive()
            new = [row for row in rows if row.thread not in held]
            for row in new:
                await self._freeze(row)
            held |= {row.thread for row in new}
            busy = [one for row in rows for one in await self._claim(row.thread)]
            if not busy and not new:
                return await self._all_held()
            if busy and self._clock.now() >= end:
                raise Unavailable(
                    f"After {patience:g} s this is still being done: {', '.join(busy[:NAMED])}. "
                    "Nothing was moved; try again later, or give it more time."
                )
            if busy:
                await self._clock.sleep(LOOK)

    async def _all_held(self) -> list[Row]:
        rows = await self._alive()
        if not rows or rows[0].thread != self.root:
            raise Conflict(f"The thread {self.root} has left already.")
        return rows

    async def _freeze(self, row: Row) -> None:
        if row.state not in (MOVING, decode_head(row.head, row.shape).state):
            await self._place.side.put(MOVES, _state_of(row.thread), row.state.encode())
        await change(self._store, row.thread, self._ids, _frozen)

    async def _claim(self, thread: str) -> list[str]:
        """Claim its effects; gives those that others perform, in words."""
        outbox, now = await self._store.outbox(thread), await self._store.now()
        if not outbox:
            return []
        for one in outbox:
            if _is_lost(one, now):
                await self._give_up(thread, one, now)
        wanted = [one.effect.id for one in outbox]
        held = await self._store.claim(thread, wanted, now + HELD, holder=self._holder)
        mine = {one.effect.id for one in held}
        others = [one for one in outbox if one.claimed_until > now and one.effect.id not in mine]
        return [f"{one.effect.id} of {thread}" for one in others]

    async def _give_up(self, thread: str, one: OutboxRow, now: float) -> None:
        """A run began and its process vanished: nobody can tell what became of it, neither here nor there."""
        effect = one.effect
        assert isinstance(effect, Invoke)
        told = unknown(effect)
        signal = Finished(
            thread,
            f"{effect.call}/{told.cause}",
            now,
            By("runtime"),
            trace=effect.trace,
            call=effect.call,
            parts=told.parts,
            is_error=True,
            cause=told.cause,
        )
        await self._store.finish(signal, effect.id)

    async def claimed(self, thread: str) -> frozenset[str]:
        """The effects of a thread that are claimed for the move."""
        until, outbox = await self._store.now() + HELD / 2, await self._store.outbox(thread)
        return frozenset(one.effect.id for one in outbox if one.claimed_until > until)

    async def was(self, row: Row) -> str:
        """The state that a thread's row had before it was held."""
        kept = await self._place.side.get(MOVES, _state_of(row.thread))
        return kept.decode() if kept else decode_head(row.head, row.shape).state

    async def let_go(self) -> bool:
        """Have all of it go on here, the root first; False if that has left already."""
        for row in await self.rows():
            if row.thread == self.root and row.state == MOVED:
                return False
            mine = await self.claimed(row.thread)
            if mine:
                await self._store.release(row.thread, sorted(mine), 0.0, holder=self._holder)
            free = await change(self._store, row.thread, self._ids, _freed(await self.was(row)))
            if free.thread == self.root and free.state == MOVED:
                return False
            await self._place.side.put(MOVES, _state_of(row.thread), b"")
            await ring(self._place, free)
        return True


def _state_of(thread: str) -> str:
    return f"{thread}/state"


def _frozen(row: Row) -> Change | None:
    return None if row.state == MOVED else Change(msgspec.structs.replace(row, state=MOVING))


def _freed(state: str) -> Callable[[Row], Change | None]:
    def edit(row: Row) -> Change | None:
        return Change(msgspec.structs.replace(row, state=state)) if row.state == MOVING else None

    return edit


def _is_lost(one: OutboxRow, now: float) -> bool:
    """Whether a run that may not be repeated was begun by somebody who is gone."""
    effect = one.effect
    unsafe = isinstance(effect, Invoke) and effect.repeat not in ("safe", "keyed")
    return unsafe and 0 < one.claimed_until <= now
