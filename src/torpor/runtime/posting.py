"""Births of threads and posts to them: from one thread to another they happen in the order of decision.

The outbox is the order. Whoever holds the first of those for a thread performs it; later ones wait for it, in
whatever process they are held. A birth goes before all that was decided after it, for whomever: nobody hears
of a thread that is not there. Each is acknowledged once it is durable where it belongs, and each may be
performed again: a thread is created once by id, a signal counts once by id.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

import msgspec

from torpor.core.codec import decode_message
from torpor.core.effects import Effect, Post, Spawn
from torpor.core.errors import Broken, TorporError, Unavailable
from torpor.core.messages import By, Happened, Link, Text
from torpor.core.retry import backoff
from torpor.core.signals import AnySignal, Told, is_urgent
from torpor.core.tiers import not_before, start_by
from torpor.ports import Clock, OutboxRow, Posted, Queue, Ring, Row, Store
from torpor.runtime.ids import Ids
from torpor.runtime.state import calls_off

log = logging.getLogger("torpor.posting")

TRIES = 8
"""How often something is posted to a thread that is not there (yet) in all: with backoff, about a minute."""
MANY = 200
"""Births and posts of a thread that are looked at together."""
TURN = 1.0
"""Seconds after which one who waits behind what another process holds looks again."""


def is_post(effect: Effect) -> bool:
    """Whether it is performed here."""
    return isinstance(effect, Spawn | Post)


class Posting:
    """Performs births and posts of one process, thread by thread."""

    def __init__(self, store: Store, queue: Queue, clock: Clock, ids: Ids, claim: float) -> None:
        self._store = store
        self._queue = queue
        self._clock = clock
        self._ids = ids
        self._claim = claim
        self._mine: dict[str, set[str]] = {}

    def held(self) -> dict[str, list[str]]:
        """The effects that this process holds, by thread."""
        return {thread: list(mine) for thread, mine in self._mine.items()}

    def lose(self, thread: str, effect: str) -> None:
        """Somebody else has an effect now."""
        self._mine.get(thread, set()).discard(effect)

    def begin(self, row: Row, effects: Iterable[str]) -> bool:
        """Take effects that were claimed; says whether ``run`` is needed, which takes the later ones too."""
        runs = row.thread in self._mine
        self._mine.setdefault(row.thread, set()).update(effects)
        return not runs

    async def run(self, row: Row) -> None:
        """Perform what is held of a thread until nothing is left or another has to go first."""
        mine, failures = self._mine[row.thread], 0
        try:
            while mine:
                try:
                    await self._next(row, mine)
                    failures = 0
                except Unavailable as error:
                    log.warning("Posts of %s wait for the store: %s", row.thread, error)
                    await self._clock.sleep(backoff(failures, self._ids.jitter(), 0.1, 10.0))
                    failures += 1
        except asyncio.CancelledError:
            await self._give_back(row, mine, 0.0)
            raise
        except TorporError as error:
            # The claims run out and the sweep finds the effects again: nothing is lost by letting go here.
            log.warning("Posts of %s were put off: %s", row.thread, error)
        except Exception:
            log.exception("Posts of %s failed in a way they should not", row.thread)
        finally:
            del self._mine[row.thread]

    async def _next(self, row: Row, mine: set[str]) -> None:
        """Perform what nothing has to go before, and what follows that, of all that is there now.

        The outbox is read once for all: what others have done meanwhile holds up at most what comes after it.
        """
        held = set(mine)
        left = [one for one in await self._store.outbox(row.thread) if is_post(one.effect)]
        mine -= held - {one.effect.id for one in left}
        now = await self._store.now()
        first = await self._first(row, left[:MANY], mine, now)
        if not first:
            await self._give_back(row, mine, now + TURN)
        while first:
            done = {one.effect.id for one in await self._perform(row, first, mine)}
            left = [one for one in left if one.effect.id not in done]
            first = await self._first(row, left[:MANY], mine, await self._store.now()) if mine else []

    async def _perform(self, row: Row, first: Sequence[OutboxRow], mine: set[str]) -> list[OutboxRow]:
        """Perform the first of these that are of one kind; gives which they were."""
        if isinstance(first[0].effect, Spawn):
            births = _alike(first, Spawn)
            await self._bear(row, births, mine)
            return births
        posts = _alike(first, Post)
        await self._post(row, posts, mine)
        return posts

    async def _first(
        self, row: Row, left: Sequence[OutboxRow], mine: set[str], now: float
    ) -> list[OutboxRow]:
        """Those that may be performed now, in order. What is free and stands before ours is taken."""
        first: list[OutboxRow] = []
        barred: set[str] = set()
        for one in left:
            id, to = one.effect.id, _target(one.effect)
            if to in barred:
                continue
            kept = [one] if id in mine else []
            if not kept and max(one.claimed_until, one.not_before) <= now:
                kept = await self._store.claim(row.thread, [id], now + self._claim)
                mine |= {one.effect.id for one in kept}
            first += kept
            if not kept and isinstance(one.effect, Spawn):
                break
            if not kept:
                barred.add(to)
        return first

    async def _bear(self, row: Row, births: Sequence[OutboxRow], mine: set[str]) -> None:
        """Create threads side by side; each has its first signal with it."""
        children = await asyncio.gather(*(self._child(row, one.effect) for one in births))
        now = await self._store.now()
        await self._queue.ring([_ring(child.thread, child, now) for child in children if child is not None])
        await self._done(row, [one.effect.id for one in births], mine)

    async def _child(self, row: Row, effect: Effect) -> Row | None:
        """Create a child; None: its parent is gone, or has had it born already."""
        assert isinstance(effect, Spawn)
        born, now = effect.born, await self._store.now()
        if effect.events:
            born = msgspec.structs.replace(born, events=await self._events(row.thread, effect.events))
        child = msgspec.structs.replace(
            Row(thread=born.thread, agent=row.agent),
            owner=row.owner,
            user_id=row.user_id,
            context=row.context,
            tier=born.tier or row.tier,
            purpose=born.purpose,
            root=row.root or row.thread,
            parent=row.thread,
            lineage=lineage_bytes(born.lineage),
            created=now,
            updated=now,
            title=born.title,
            trace=row.trace,
        )
        new = await self._store.create(child, [born], effect=effect.id)
        return child if new or await self._store.row(child.thread) is not None else None

    async def _events(self, thread: str, positions: Sequence[int]) -> tuple[Happened, ...]:
        """The events at some positions of a thread, as it has recorded them."""
        found: dict[int, Happened] = {}
        for first, last in _runs(positions):
            for stored in await self._store.read(thread, first - 1, last - first + 1):
                message = decode_message(stored.body)
                if isinstance(message, Happened):
                    found[stored.position] = message
        missing = [position for position in positions if position not in found]
        if missing:
            raise Broken(f"The thread {thread} has no events at {missing}, which a child is to be given.")
        return tuple(found[position] for position in positions)

    async def _post(self, row: Row, posts: Sequence[OutboxRow], mine: set[str]) -> None:
        signals = [one.effect.signal for one in posts if isinstance(one.effect, Post)]
        posted = await self._store.post(signals)
        now = await self._store.now()
        rings, there, nowhere = [], [], []
        for one, signal, told in zip(posts, signals, posted, strict=True):
            if told.outcome == "unknown":
                nowhere.append(one)
            else:
                there.append(one.effect.id)
                rings.append(_ring(signal.thread, told, now, signal))
        if there:
            await self._queue.ring(rings)
            await self._done(row, there, mine)
        for one in nowhere:
            await self._nowhere(row, one, mine)

    async def _nowhere(self, row: Row, one: OutboxRow, mine: set[str]) -> None:
        """Nobody of that id is there: its birth may still be under way, or it is gone."""
        effect = one.effect
        assert isinstance(effect, Post)
        now = await self._store.now()
        if one.attempt < TRIES:
            again = now + backoff(one.attempt - 1, self._ids.jitter(), 0.5)
            await self._store.release(row.thread, [effect.id], again)
            await self._own_ring(row, again)
            mine.discard(effect.id)
        elif effect.back:
            await self._store.finish(undelivered(row.thread, effect, now), effect.id)
            await self._own_ring(row, now)
            mine.discard(effect.id)
        else:
            log.warning(
                "%s of %s was for %s, which is not there", effect.id, row.thread, effect.signal.thread
            )
            await self._done(row, [effect.id], mine)

    async def _done(self, row: Row, effects: Sequence[str], mine: set[str]) -> None:
        await self._store.delivered(row.thread, effects)
        mine.difference_update(effects)

    async def _give_back(self, row: Row, mine: set[str], again: float) -> None:
        """Let others have what is not done yet, or ourselves once it is our turn."""
        held = list(mine)
        mine.clear()
        if held:
            await self._store.release(row.thread, held, again)
            await self._own_ring(row, again or await self._store.now())

    async def _own_ring(self, row: Row, at: float) -> None:
        ring = Ring(row.thread, start_by(row.tier, at), at, row.tier, row.owner, row.agent)
        await self._queue.ring([ring])


def undelivered(sender: str, effect: Post, now: float) -> Told:
    """Word to the sender that what it said did not arrive."""
    return Told(
        thread=sender,
        id=f"{effect.id}/undelivered",
        at=now,
        by=By("runtime"),
        sender=effect.signal.thread,
        what="undelivered",
        parts=(Text("There is no such thread any more."),),
    )


def _target(effect: Effect) -> str:
    if isinstance(effect, Post):
        return effect.signal.thread
    return effect.born.thread if isinstance(effect, Spawn) else ""


def lineage_bytes(lineage: tuple[Link, ...]) -> bytes:
    """A lineage as a thread's row keeps it."""
    return msgspec.msgpack.encode(lineage) if lineage else b""


def _alike(first: Sequence[OutboxRow], kind: type[Spawn] | type[Post]) -> list[OutboxRow]:
    """The beginning, as long as it is of one kind."""
    alike = []
    for one in first:
        if not isinstance(one.effect, kind):
            break
        alike.append(one)
    return alike


def _runs(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Positions as first and last of what follows without a gap."""
    runs: list[tuple[int, int]] = []
    for position in sorted(positions):
        if runs and runs[-1][1] == position - 1:
            runs[-1] = (runs[-1][0], position)
        else:
            runs.append((position, position))
    return runs


def _ring(thread: str, to: Row | Posted, now: float, signal: AnySignal | None = None) -> Ring:
    """Word to a thread that has got a signal; what a person wants ended ends at once."""
    asked = signal.start_by if signal else 0.0
    urgent = signal is not None and is_urgent(signal)
    tier = "realtime" if urgent else (signal.tier if signal and signal.tier else to.tier)
    by = start_by(tier, now, asked)
    cut = signal is not None and calls_off(signal)
    return Ring(thread, by, not_before(tier, by), tier, to.owner, to.agent, cut)
