"""Step mode: news is handed over, worked on within a deadline, and nothing is left running.

For platforms that schedule by themselves: each call gets signals or thread ids, and says for each what became
of it and when the thread is to be looked at again. Whatever is not done by then is in the store: what was not
begun is begun by another step, what was cut short is tried again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from torpor.core.codec import decode_head
from torpor.core.effects import Invoke
from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.core.moves import AWAY
from torpor.core.signals import AnySignal, kind_of
from torpor.core.tiers import TIERS
from torpor.ports import Lease, OutboxRow, Ring, Row
from torpor.runtime.aside import set_aside
from torpor.runtime.dispatch import Dispatcher
from torpor.runtime.slice import run_slice
from torpor.runtime.state import Kit, Outcome, Running, calls_off
from torpor.runtime.stepped import Stepped, StepResult, check, thread_of

log = logging.getLogger("torpor.step")

DEADLINE = 25.0
"""Seconds for a step, where none are given: gateways wait for half a minute."""
SIDE_BY_SIDE = 8
BEGINS = 0.5
"""The share of a step's time in which completions and functions are begun: each then has as much at least."""
WINDS_UP = 0.2
"""The share, but two seconds at most, in which what still runs is cut and given back."""
SETTLES = 1.0
"""Real seconds, at least, that what was cut has for writing down that it was."""
HOLD = 15.0
"""Seconds for which a thread is held before the hold is renewed."""
TICK = 0.25
MOST_SLICES = 100
"""Slices of one thread in one step."""
MOST_CONFLICTS = 3
LOOKED_AT = 32
"""Threads that are looked at side by side at the end."""
PUT_OFF = frozenset({"failed", "gated", "equipping", "unavailable", "broken"})
"""How a slice ends that is to be tried again later, whatever comes meanwhile."""


class _Known(msgspec.Struct):
    """What a step knows of a thread."""

    given: bool = False
    slices: int = 0
    conflicts: int = 0
    error: str = ""
    failed: bool = False
    until: float = 0.0
    """Above 0: somebody else works on it until then."""
    not_before: float = 0.0
    """It was rung for this instant, or failed until then."""


async def step(
    kit: Kit,
    dispatcher: Dispatcher,
    news: Sequence[AnySignal | str],
    *,
    deadline: float = DEADLINE,
    side_by_side: int = SIDE_BY_SIDE,
) -> StepResult:
    """Take news in, and work on its threads until nothing is left to do now, or the deadline comes.

    The signals are durable, each once by its id, before anything is worked on. Raises only what keeps all of
    it from being taken: the store is away, or the caller is wrong.
    """
    if not deadline > 0 or side_by_side < 1:
        raise Refused("A step needs a deadline above 0 seconds, and at least one thread at a time.")
    walk = _Walk(kit, dispatcher, deadline, side_by_side)
    refused = await walk.take(news)
    await walk.run()
    found = await walk.standings()
    items = [refused.get(place) or found[thread_of(one)] for place, one in enumerate(news)]
    others = [one for thread, one in found.items() if not walk.known[thread].given and one.state]
    return StepResult(tuple(items), tuple(others))


class _Walk:
    """One step under way."""

    def __init__(self, kit: Kit, dispatcher: Dispatcher, deadline: float, side_by_side: int) -> None:
        self._effects = dispatcher.over(self)  # type: ignore[arg-type]
        self._kit: Kit = msgspec.structs.replace(kit, dispatch=self)
        self._side_by_side = side_by_side
        self._me = f"{kit.worker}/{kit.ids.text(12)}"
        began = kit.clock.now()
        self._begins_until = began + deadline * BEGINS
        self._winds_up = min(2.0, deadline * WINDS_UP)
        self._works_until = began + deadline - self._winds_up
        self._ahead = 0.0
        self._due: dict[str, None] = {}
        self._running: dict[str, tuple[Running, asyncio.Task[None]]] = {}
        self._held: set[str] = set()
        self._renewals: dict[str, asyncio.Task[None]] = {}
        self._releases: set[asyncio.Task[Any]] = set()
        self._rung = asyncio.Event()
        self.known: dict[str, _Known] = {}

    async def take(self, news: Sequence[AnySignal | str]) -> dict[int, Stepped]:
        """Store the signals and note the threads; gives those places that could not be taken."""
        self._ahead = await self._kit.store.now() - self._kit.clock.now()
        refused: dict[int, Stepped] = {}
        signals: dict[int, AnySignal] = {}
        for place, one in enumerate(news):
            try:
                check(one)
            except Refused as error:
                refused[place] = Stepped(thread_of(one), "failed", error=str(error))
                continue
            if not isinstance(one, str):
                signals[place] = one if one.at else msgspec.structs.replace(one, at=self._now())
            known = self.known.setdefault(thread_of(one), _Known())
            known.given = True
        if signals:
            await self._kit.store.post(list(signals.values()))
        self._due = dict.fromkeys(self.known)
        return refused

    def _now(self) -> float:
        """The store's time, as far as can be told without asking."""
        return self._kit.clock.now() + self._ahead

    @property
    def _may_begin(self) -> bool:
        return self._kit.clock.now() < self._begins_until

    async def run(self) -> None:
        """Work until nothing is left to be done now, or time is up; then nothing runs any more."""
        watching = asyncio.create_task(self._watch(), name="torpor-step-watch")
        try:
            while (self._start() or self._tasks()) and self._kit.clock.now() < self._works_until:
                await self._wait()
        finally:
            watching.cancel()
            await self._wind_up()
            await asyncio.gather(watching, *self._releases, return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*(task for _, task in self._running.values()), *self._effects.tasks]

    def _start(self) -> bool:
        """Begin with threads that are due, as far as there is room and time."""
        free = [thread for thread in self._due if thread not in self._running]
        for thread in free[: self._side_by_side - len(self._running)] if self._may_begin else ():
            del self._due[thread]
            running = Running(Lease(thread, self._me, self._now() + HOLD))
            task = asyncio.create_task(self._work(running), name=f"torpor-step-{thread}")
            self._running[thread] = (running, task)
            task.add_done_callback(partial(self._ended, thread))
        return bool(self._running)

    def _ended(self, thread: str, _: "asyncio.Task[None]") -> None:
        self._running.pop(thread, None)
        self._rung.set()

    async def _wait(self) -> None:
        """Until something ends or rings, or time is up."""
        self._rung.clear()
        beside = [asyncio.create_task(self._rung.wait()), asyncio.create_task(self._time_is_up())]
        try:
            await asyncio.wait([*self._tasks(), *beside], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in beside:
                one.cancel()

    async def _time_is_up(self) -> None:
        await self._kit.clock.sleep(self._works_until - self._kit.clock.now())

    async def ring(self, rings: Iterable[Ring]) -> None:
        """Hear of threads that have work: of those given now, of others when their tier wants it."""
        for ring in rings:
            known = self.known.setdefault(ring.thread, _Known())
            news_at = ring.start_by - TIERS[ring.tier].start_within
            at = news_at if known.given else ring.not_before
            if at > self._now():
                known.not_before = min(known.not_before or at, at)
                continue
            self._due[ring.thread] = None
            self._rung.set()

    def start(self, row: Row, effects: list[OutboxRow]) -> None:
        """Perform effects; functions only while there is time for them."""
        begun = [one for one in effects if self._may_begin or not _is_long(one)]
        if begun:
            self._effects.start(row, begun)
        left = [one.effect.id for one in effects if one not in begun]
        if left:
            release = asyncio.create_task(self._kit.store.release(row.thread, left, 0.0, begun=False))
            self._releases.add(release)

    async def resume(self, row: Row, leftovers: tuple[OutboxRow, ...], wanted: Mapping[str, Any]) -> None:
        """Take up effects that nobody holds."""
        begun = tuple(one for one in leftovers if self._may_begin or not _is_long(one))
        await self._effects.resume(row, begun, wanted)

    async def _work(self, running: Running) -> None:
        """Run slices of one thread while they follow at once."""
        thread, store = running.lease.thread, self._kit.store
        known = self.known[thread]
        try:
            try:
                known.until = await store.hold(thread, self._me, self._now() + HOLD)
                if not known.until:
                    self._held.add(thread)
                while not known.until and self._may_begin and await self._goes_on(running, known):
                    pass
            finally:
                await self._let_go(thread)
        except TorporError as error:
            known.error, known.failed = str(error), True
        except Exception as error:
            log.exception("The step of %s failed in a way it should not", thread)
            known.error, known.failed = str(error), True

    async def _let_go(self, thread: str) -> None:
        """Hold a thread no longer, also where time is up: others would wait for nobody."""
        self._held.discard(thread)
        release = asyncio.create_task(self._release(thread))
        self._releases.add(release)
        await asyncio.shield(release)

    async def _release(self, thread: str) -> None:
        renewal = self._renewals.pop(thread, None)
        if renewal is not None:  # it would hold the thread again, were it the later of the two
            await asyncio.gather(renewal, return_exceptions=True)
        await self._kit.store.hold(thread, self._me, 0.0)

    async def _goes_on(self, running: Running, known: _Known) -> bool:
        """Run one slice; says whether another follows at once."""
        running.since, running.overdue, running.cut = self._kit.clock.now(), False, False
        known.failed, known.error, known.not_before = False, "", 0.0
        outcome = await self._slice(running, known)
        known.slices += 1
        known.error = known.error or outcome.error
        known.failed = known.failed or outcome.yielded == "unknown agent"
        if outcome.yielded == "conflict":
            known.conflicts += 1
            if known.conflicts >= MOST_CONFLICTS:  # who is so busy with it may do all of it
                known.not_before = self._now() + 1.0
                return False
        if known.failed or running.lost or known.slices >= MOST_SLICES or outcome.yielded == "gone":
            return False
        return outcome.yielded == "owed" or await self._has_more(running, known, outcome)

    async def _has_more(self, running: Running, known: _Known, outcome: Outcome) -> bool:
        """Whether something is due: what the slice left, or what came while it ran."""
        now, again_at = self._now(), outcome.again_at
        if again_at > now and outcome.yielded in PUT_OFF:
            known.not_before = again_at
            return False
        if 0 < again_at <= now:
            return True
        inbox = await self._kit.store.inbox(running.lease.thread)
        return any(signal.due <= now for signal in inbox)

    async def _slice(self, running: Running, known: _Known) -> Outcome:
        thread = running.lease.thread
        try:
            return await run_slice(self._kit, running)
        except Unavailable as error:
            return Outcome("unavailable", self._now() + max(1.0, error.retry_after or 0.0), str(error))
        except Refused as error:
            known.failed = True
            return Outcome("refused", error=str(error))
        except Exception as error:
            log.exception("A slice of %s failed in a way it should not", thread)
            known.failed = True
            return Outcome("broken", await set_aside(self._kit, thread, error, self.ring), str(error))

    async def _watch(self) -> None:
        """Renew what is held, and cut what a person wants ended."""
        while True:
            await self._kit.clock.sleep(TICK)
            for running, task in list(self._running.values()):
                try:
                    await self._look(running, task)
                except TorporError as error:
                    log.warning("The thread %s could not be looked after: %s", running.lease.thread, error)

    async def _look(self, running: Running, task: "asyncio.Task[None]") -> None:
        thread, now = running.lease.thread, self._now()
        if thread in self._held and running.lease.until - now < HOLD / 2:
            renewal = self._renewals[thread] = asyncio.create_task(self._renew(running, now + HOLD))
            await asyncio.shield(renewal)
        if running.asking:
            seen = {signal.id for signal in running.taken}
            try:
                inbox = await self._kit.store.inbox(thread)
            except Refused:  # it was deleted
                inbox, running.lost = [], True
            running.cut = any(calls_off(signal) and signal.id not in seen for signal in inbox)
            _end(running, task)

    async def _renew(self, running: Running, until: float) -> None:
        running.lost = await self._kit.store.hold(running.lease.thread, self._me, until) > 0
        running.lease = msgspec.structs.replace(running.lease, until=until)

    async def _wind_up(self) -> None:
        """Time is up: completions are cut, to be tried again; functions are given back, if they may be."""
        tasks = [task for _, task in self._running.values()]
        for running, task in self._running.values():
            running.overdue = True
            _end(running, task)
        if tasks:
            await asyncio.wait(tasks, timeout=max(SETTLES, self._winds_up))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._effects.drain(0.0)

    async def standings(self) -> dict[str, Stepped]:
        """How each thread stands at the end, as the store says."""
        now, places = await self._kit.store.now(), asyncio.Semaphore(LOOKED_AT)

        async def of(thread: str) -> Stepped:
            async with places:
                try:
                    row = await self._kit.store.row(thread)
                    return await self._standing(row, now) if row else _nobody(thread)
                except Refused:  # it was deleted just now
                    return _nobody(thread)

        threads = list(self.known)
        return dict(zip(threads, await asyncio.gather(*map(of, threads)), strict=True))

    async def _standing(self, row: Row, now: float) -> Stepped:
        thread = row.thread
        store, known = self._kit.store, self.known[thread]
        if row.state in AWAY:
            return Stepped(thread, "failed", error=f"The thread is {row.state}.", state=row.state)
        inbox, outbox = await store.inbox(thread), await store.outbox(thread)
        todo = [max(one.not_before, one.claimed_until, now) for one in outbox]
        if row.owes or any(signal.due <= now and _is_told(row, signal) for signal in inbox):
            todo.append(max(now, row.not_before, known.not_before, known.until))
        timers = [signal.due for signal in inbox if signal.due > now and row.state != "closed"]
        outcome = "failed" if known.failed else "again" if todo else "done"
        again_at = min([*todo, *timers], default=0.0)
        return Stepped(thread, outcome, again_at, known.error or _reason(row), row.state, known.slices)


def _nobody(thread: str) -> Stepped:
    return Stepped(thread, "failed", error=f"There is no thread {thread!r}.")


def _is_long(held: OutboxRow) -> bool:
    """A function, or a call to a server that we carry on by ourselves: it may take its time."""
    return isinstance(held.effect, Invoke) and not held.effect.server.startswith(("http:", "https:"))


def _end(running: Running, task: "asyncio.Task[None]") -> None:
    """Cut a completion short, if it is to end now."""
    if running.asking and (running.cut or running.overdue or running.lost):
        running.asking = False
        task.cancel()


def _is_told(row: Row, signal: AnySignal) -> bool:
    return row.state != "closed" or kind_of(signal) in ("born", "reported")


def _reason(row: Row) -> str:
    """Why a thread is parked."""
    if row.state != "parked":
        return ""
    try:
        return decode_head(row.head, row.shape).reason
    except TorporError:
        return ""
