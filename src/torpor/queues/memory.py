"""A doorbell in this process's memory."""

import heapq
import itertools
from collections.abc import Collection, Sequence

import msgspec

from torpor.ports import Clock, Lease, Ring
from torpor.queues.bell import NEVER, Bell
from torpor.queues.ranks import TIER_NAMES, rank

_Heap = list[tuple[float, int, "_Entry"]]


class _Entry:
    """A thread that is rung or leased. ``place`` is the number of its one valid item in a heap."""

    __slots__ = (
        "agent",
        "attempt",
        "cut",
        "not_before",
        "owner",
        "place",
        "ring_at",
        "rung",
        "start_by",
        "thread",
        "tier",
        "token",
        "until",
    )

    def __init__(self, ring: Ring, ring_at: float) -> None:
        self.thread = ring.thread
        self.agent = ring.agent
        self.owner = ring.owner
        self.place = 0
        self.token = ""
        self.until = 0.0
        self.attempt = 0
        self.cut = False
        self.set(ring, ring_at)

    def set(self, ring: Ring, ring_at: float) -> None:
        """It is rung, and was not before."""
        self.rung = True
        self.ring_at = ring_at
        self.start_by = ring.start_by
        self.not_before = ring.not_before
        self.tier = ring.tier

    def merge(self, ring: Ring, ring_at: float) -> bool:
        """The earliest of each time and the more urgent tier; False if nothing changes."""
        sooner = ring.start_by < self.start_by or ring.not_before < self.not_before
        sooner = sooner or rank(ring.tier) < rank(self.tier)
        if sooner:
            self.start_by = min(self.start_by, ring.start_by)
            self.not_before = min(self.not_before, ring.not_before)
            self.tier = min(self.tier, ring.tier, key=rank)
        self.ring_at = min(self.ring_at, ring_at)
        return sooner


class MemoryQueue:
    """The ``Queue`` port in memory. ``lease``: seconds for which a thread is leased."""

    def __init__(self, clock: Clock | None = None, *, lease: float = 15.0) -> None:
        self._bell = Bell(clock)
        self._now = self._bell.now
        self._seconds = lease
        self._entries: dict[str, _Entry] = {}
        self._leased: dict[str, _Entry] = {}
        """In the order in which the leases end."""
        self._later: _Heap = []
        self._ready: dict[str, dict[str, _Heap]] = {tier: {} for tier in TIER_NAMES}
        self._aside: dict[str, dict[tuple[str, str], _Heap]] = {}
        """Ready threads of owners at their cap, by tier and agent."""
        self._cap = 0
        self._numbers = itertools.count(1)

    async def ring(self, rings: Sequence[Ring]) -> None:
        now = self._now()
        for ring in rings:
            rank(ring.tier)
        for ring in rings:
            self._ring(ring, now)

    def _ring(self, ring: Ring, now: float) -> None:
        ring_at = max(now, ring.not_before)
        entry = self._entries.get(ring.thread)
        if entry is None:
            entry = self._entries[ring.thread] = _Entry(ring, ring_at)
            self._place(entry, now)
            return
        entry.agent = ring.agent or entry.agent
        entry.owner = ring.owner or entry.owner
        if not entry.rung:
            entry.set(ring, ring_at)
        elif entry.merge(ring, ring_at) and not entry.token:
            self._place(entry, now)
        if entry.token and ring.cut:
            entry.cut = True

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
        leases = self._take(worker, agents, tiers, limit, owner_cap)
        deadline = self._now() + wait
        while not leases and self._now() < deadline:
            await self._bell.wait(min(deadline, self._next_change()), agents, tiers)
            leases = self._take(worker, agents, tiers, limit, owner_cap)
        return leases

    async def extend(self, leases: Sequence[Lease]) -> tuple[list[Lease], set[str]]:
        until = self._now() + self._seconds
        held: list[Lease] = []
        cut: set[str] = set()
        for lease in leases:
            entry = self._held(lease)
            if entry is None:
                continue
            self._leased.pop(entry.thread, None)
            self._hold(entry, until)
            held.append(msgspec.structs.replace(lease, until=until))
            if entry.cut:
                entry.cut = False
                cut.add(entry.thread)
        return held, cut

    async def done(self, lease: Lease, *, again_at: float = 0.0) -> None:
        entry = self._held(lease)
        if entry is not None:
            entry.attempt = 0
            self._give_back(entry, again_at, again_at)

    async def retry(self, lease: Lease, at: float) -> None:
        entry = self._held(lease)
        if entry is not None:
            self._give_back(entry, lease.start_by, at)

    def _give_back(self, entry: _Entry, start_by: float, at: float) -> None:
        now = self._now()
        self._leased.pop(entry.thread, None)
        entry.token, entry.cut, entry.place = "", False, 0
        if at > 0:
            ring = Ring(entry.thread, start_by, at, entry.tier)
            if entry.rung:
                entry.merge(ring, max(now, at))
            else:
                entry.set(ring, max(now, at))
        if entry.rung:
            self._place(entry, now)
        else:
            del self._entries[entry.thread]
        if entry.owner in self._aside:
            self._bell.strike_all()

    async def size(self) -> int:
        return len(self._entries)

    async def next_at(self, agents: Sequence[str] | None = None) -> float:
        known = (entry for entry in self._entries.values() if agents is None or entry.agent in agents)
        return min((entry.until if entry.token else entry.ring_at for entry in known), default=0.0)

    async def close(self) -> None:
        self._bell.close()

    def _held(self, lease: Lease) -> _Entry | None:
        entry = self._entries.get(lease.thread)
        return entry if entry is not None and entry.token == lease.token else None

    def _place(self, entry: _Entry, now: float) -> None:
        """Put a rung thread where it waits for its time or for a worker."""
        entry.place = next(self._numbers)
        if entry.not_before > now:
            self._push(self._later, entry.not_before, entry)
        else:
            self._make_ready(entry)
        self._bell.strike(entry.agent, entry.tier, entry.not_before)

    def _make_ready(self, entry: _Entry) -> None:
        heaps = self._ready[entry.tier]
        heap = heaps.get(entry.agent)
        if heap is None:
            heap = heaps[entry.agent] = []
        self._push(heap, entry.start_by, entry)

    def _push(self, heap: _Heap, at: float, entry: _Entry) -> None:
        heapq.heappush(heap, (at, entry.place, entry))
        if len(heap) > 64 and len(heap) > 2 * len(self._entries):
            heap[:] = [item for item in heap if item[2].place == item[1]]
            heapq.heapify(heap)

    def _promote(self, now: float) -> None:
        """Make ready what has come due, and what was leased too long."""
        later = self._later
        while later and later[0][0] <= now:
            _, number, entry = heapq.heappop(later)
            if entry.place == number:
                self._make_ready(entry)
        while (first := next(iter(self._leased.values()), None)) is not None and first.until <= now:
            del self._leased[first.thread]
            first.place = next(self._numbers)
            self._make_ready(first)

    def _next_change(self) -> float:
        """When a thread becomes ready by itself."""
        _drop_stale(self._later)
        due = self._later[0][0] if self._later else NEVER
        first = next(iter(self._leased.values()), None)
        return due if first is None else min(due, first.until)

    def _take(
        self,
        worker: str,
        agents: Collection[str] | None,
        tiers: Collection[str] | None,
        limit: int,
        cap: int,
    ) -> list[Lease]:
        now = self._now()
        self._promote(now)
        running: dict[str, int] = {}
        for held in self._leased.values() if cap else ():
            if held.owner:
                running[held.owner] = running.get(held.owner, 0) + 1
        self._bring_back(running, cap)
        leases: list[Lease] = []
        for tier, heaps in self._ready.items():
            if heaps and (tiers is None or tier in tiers):
                while len(leases) < limit and (entry := _most_urgent(heaps, agents)) is not None:
                    if entry.owner:
                        count = running.get(entry.owner, 0)
                        if 0 < cap <= count:
                            self._put_aside(entry)
                            continue
                        running[entry.owner] = count + 1
                    leases.append(self._lease(entry, worker, now))
        return leases

    def _put_aside(self, entry: _Entry) -> None:
        """Its owner has as many leases as it may: each thread goes here once, however often work is taken."""
        heap = self._aside.setdefault(entry.owner, {}).setdefault((entry.tier, entry.agent), [])
        self._push(heap, entry.start_by, entry)

    def _bring_back(self, running: dict[str, int], cap: int) -> None:
        """As many threads that were put aside as their owners may run now."""
        lifted = cap != self._cap
        self._cap = cap
        for owner in tuple(self._aside):
            heaps = self._aside[owner]
            for key in tuple(heaps):
                room = len(heaps[key]) if lifted else cap - running.get(owner, 0)
                self._bring_back_some(heaps[key], room)
                if not heaps[key]:
                    del heaps[key]
            if not heaps:
                del self._aside[owner]

    def _bring_back_some(self, heap: _Heap, room: int) -> None:
        while room > 0 and heap:
            _, number, entry = heapq.heappop(heap)
            if entry.place == number:
                self._make_ready(entry)
                room -= 1

    def _lease(self, entry: _Entry, worker: str, now: float) -> Lease:
        if entry.token:
            entry.attempt += 1
        entry.token = f"{worker}/{next(self._numbers)}"
        entry.rung = entry.cut = False
        self._hold(entry, now + self._seconds)
        return Lease(
            entry.thread,
            entry.token,
            entry.until,
            entry.ring_at,
            entry.start_by,
            entry.tier,
            entry.owner,
            entry.agent,
            entry.attempt,
        )

    def _hold(self, entry: _Entry, until: float) -> None:
        entry.place = 0
        entry.until = until
        self._leased[entry.thread] = entry


def _drop_stale(heap: _Heap) -> None:
    while heap and heap[0][2].place != heap[0][1]:
        heapq.heappop(heap)


def _most_urgent(heaps: dict[str, _Heap], agents: Collection[str] | None) -> _Entry | None:
    """Take the most urgent thread of some agents out of the heaps."""
    first: _Heap | None = None
    for agent in tuple(heaps) if agents is None else agents:
        heap = heaps.get(agent)
        if heap is None:
            continue
        _drop_stale(heap)
        if not heap:
            del heaps[agent]
        elif first is None or heap[0] < first[0]:
            first = heap
    return None if first is None else heapq.heappop(first)[2]
