"""Effects after the commit: performed while claimed, acknowledged when done, repeated after a crash.

Functions run in tasks outside any slice, with a cap of their own; so do invocations over the network. Nothing
here waits for a tool server's answer: that comes as a callback.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol

import msgspec

from torpor.core.effects import Cancel, Check, Choose, Invoke, Notify
from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.core.messages import By
from torpor.core.retry import backoff
from torpor.core.signals import Finished
from torpor.core.thread import OpenCall
from torpor.core.tiers import not_before, start_by
from torpor.ports import Clock, Later, OutboxRow, Queue, Ring, Row, Store
from torpor.runtime.about_calls import context_of, undelivered, unknown
from torpor.runtime.asking import Asking, Asks
from torpor.runtime.consents import Consents
from torpor.runtime.ids import Ids
from torpor.runtime.posting import Posting, is_post
from torpor.runtime.roster import Bridge, CallContext, FunctionResult, Roster

log = logging.getLogger("torpor.dispatch")

RUNS = 5
"""How often a function that is safe or keyed is started in all."""
SENDINGS = 8
"""How often an invocation is sent in all: with backoff, about a minute."""
FUNCTIONS = 32
BRIDGED = 512
"""Calls to bridged servers under way at once."""
SENDERS = 64
NOTICES = 16
CLAIM_SECONDS = 30.0
"""How long an effect stays with a process that says nothing more."""


REFUSALS = 30
"""How often a write is tried again that the store does not say to be passing: some minutes."""
LAST_WORDS = 1.0
"""Seconds for what was cancelled to give back what it holds."""


class Courier(Asks, Protocol):
    """The way to tool servers for one call at a time."""

    async def invoke(self, row: Row, effect: Invoke) -> None:
        """Hand a call over once. ``Refused`` and ``Unavailable`` as the transport says."""

    async def closed(self, row: Row, servers: tuple[str, ...]) -> None:
        """Tell servers that a thread is closed; best effort."""


class Dispatcher:
    """Performs the effects of one process."""

    def __init__(
        self,
        store: Store,
        queue: Queue,
        roster: Roster,
        courier: Courier,
        clock: Clock,
        ids: Ids,
        claim: float = CLAIM_SECONDS,
        *,
        consents: Consents,
    ) -> None:
        self._store = store
        self._queue = queue
        self._roster = roster
        self._courier = courier
        self._consents = consents
        self._clock = clock
        self._ids = ids
        self._claim = claim
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, tuple[str, str]] = {}
        self._functions = asyncio.Semaphore(FUNCTIONS)
        self._senders = asyncio.Semaphore(SENDERS)
        self._bridged = asyncio.Semaphore(BRIDGED)
        self._notices = asyncio.Semaphore(NOTICES)
        self._renewal: asyncio.Task[None] | None = None
        self._posting = Posting(store, queue, clock, ids, claim)
        self.asking = Asking(store, courier, ids, self._ring, self._tasks)

    def over(self, queue: Queue) -> "Dispatcher":
        """Another one of the same make, with effects of its own, which rings elsewhere."""
        return Dispatcher(
            self._store, queue, self._roster, self._courier, self._clock, self._ids, self._claim,
            consents=self._consents,
        )  # fmt: skip

    @property
    def busy(self) -> int:
        """How many effects are being performed."""
        return len(self._tasks)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What performs them."""
        return list(self._tasks.values())

    def start(self, row: Row, effects: list[OutboxRow], vanished: Collection[str] = ()) -> None:
        """Begin to perform effects that this process has claimed.

        ``vanished``: those whose earlier claim ran out, so that nobody knows how far they got.
        """
        posts = [held.effect.id for held in effects if is_post(held.effect)]
        if posts and self._posting.begin(row, posts):
            self._run(f"{row.thread}/posts", self._posting.run(row))
        for held in effects:
            if not is_post(held.effect):
                self._begin(row, held, held.effect.id in vanished)
        if self._tasks and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.create_task(self._renew())

    async def resume(
        self, row: Row, leftovers: tuple[OutboxRow, ...], wanted: Mapping[str, OpenCall]
    ) -> None:
        """Take up effects that nobody holds; what is no longer wanted is acknowledged unsent."""
        unwanted = [left.effect.id for left in leftovers if not _is_wanted(left, wanted)]
        if unwanted:
            await self._store.delivered(row.thread, unwanted)
        ids = [left.effect.id for left in leftovers if left.effect.id not in unwanted]
        vanished = {left.effect.id for left in leftovers if left.claimed_until}
        if ids:
            until = await self._store.now() + self._claim
            self.start(row, await self._store.claim(row.thread, ids, until), vanished)

    async def drain(self, seconds: float) -> None:
        """Let what runs come to its end for a while; then cancel it and give it back."""
        if self._tasks and seconds > 0:
            await asyncio.wait(self.tasks, timeout=seconds)
        ending = self.tasks
        if self._renewal is not None:
            ending.append(self._renewal)
            self._renewal = None
        for task in ending:
            task.cancel()
        if ending:
            _, stubborn = await asyncio.wait(ending, timeout=LAST_WORDS)
            if stubborn:
                log.error("%d effects do not end; their claims run out by themselves", len(stubborn))

    def _begin(self, row: Row, held: OutboxRow, vanished: bool) -> None:
        id = f"{row.thread}/{held.effect.id}"
        if id in self._tasks:
            return
        self._held[id] = (row.thread, held.effect.id)
        self._run(id, self._perform(row, held, vanished))

    def _run(self, id: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[id] = asyncio.create_task(work, name=f"torpor-effect-{id}")
        task.add_done_callback(lambda _: self._ended(id))

    def _ended(self, id: str) -> None:
        self._tasks.pop(id, None)
        self._held.pop(id, None)

    async def _perform(self, row: Row, held: OutboxRow, vanished: bool) -> None:
        effect = held.effect
        try:
            if isinstance(effect, Invoke):
                await self._invoke(row, effect, held.attempt, vanished)
            elif isinstance(effect, Cancel | Notify):
                await self._tell(row, effect)
            elif isinstance(effect, Choose | Check):
                await self.asking.perform(row, effect, held.attempt, self._servers(row.agent))
        except TorporError as error:
            # The claim runs out and the sweep finds the effect again: nothing is lost by letting go here.
            log.warning("The effect %s of %s was put off: %s", effect.id, row.thread, error)
        except Exception:
            log.exception("The effect %s of %s failed in a way it should not", effect.id, row.thread)

    async def _tell(self, row: Row, effect: Cancel | Notify) -> None:
        servers = self._servers(row.agent)
        if isinstance(effect, Notify):
            async with self._notices:
                await self._courier.closed(row, servers)
            await self._store.delivered(row.thread, [effect.id])
            return
        await self._store.delivered(row.thread, [f"{effect.call}/invoke"])
        running = self._tasks.get(f"{row.thread}/{effect.call}/invoke")
        if running is not None:
            running.cancel()
        async with self._notices:
            await self._courier.cancel(row, effect.call, servers)
        await self._store.delivered(row.thread, [effect.id])

    def _servers(self, agent: str) -> tuple[str, ...]:
        member = self._roster.get(agent)
        return member.servers if member else ()

    async def _invoke(self, row: Row, effect: Invoke, attempt: int, vanished: bool) -> None:
        bridge = self._bridge_of(row, effect)
        once = effect.repeat not in ("safe", "keyed")
        if bridge is None and ((vanished and once) or (not effect.server and attempt > RUNS)):
            await self._finish(row, effect, unknown(effect))
            return
        context = context_of(row, effect, attempt, vanished=vanished)
        begun = bridge is not None and attempt > 1 and await bridge.has_begun(context)
        refusal = None if begun else await self._consents.refusal(row, effect)
        if refusal is not None:
            await self._finish(row, effect, refusal)
            return
        places = self._bridged if bridge else self._senders if effect.server else self._functions
        waits = places.locked()
        if not await self._place(row, effect, places):
            return
        result = None
        try:
            if waits and not await self._still_held(row, effect):
                return
            if bridge is not None:
                result = await self._carry_on(bridge, context, row, effect)
            elif effect.server:
                await self._send(row, effect, attempt)
            else:
                result = await self._call(row, effect, context)
        finally:
            places.release()
        if result is not None:  # its place is free already: writing waits for the store, not for functions
            await self._finish(row, effect, result)
            if bridge is not None:
                await bridge.forget(row.thread, effect.call)

    def _bridge_of(self, row: Row, effect: Invoke) -> Bridge | None:
        member = self._roster.get(row.agent)
        return member.bridge if member and effect.server in member.bridged else None

    async def _carry_on(
        self, bridge: Bridge, context: CallContext, row: Row, effect: Invoke
    ) -> FunctionResult | None:
        """Work on a bridged call; None: it goes on later, here or elsewhere."""
        try:
            outcome = await bridge.run(context, msgspec.json.decode(effect.arguments))
        except asyncio.CancelledError:
            await self._put_off(row, effect, 0.0)
            raise
        if not isinstance(outcome, Later):
            return outcome
        await self._put_off(row, effect, outcome.at)
        return None

    async def _put_off(self, row: Row, effect: Invoke, at: float, *, begun: bool = True) -> None:
        await self._store.release(row.thread, [effect.id], at, begun=begun)
        await self._ring(row, at)

    async def hasten(self, thread: str, call: str) -> None:
        """What a call waited for has come: it is looked at now, not when it meant to be."""
        row = await self._store.row(thread)
        if row is not None:
            await self._store.hasten(thread, [f"{call}/invoke"])
            await self._ring(row, 0.0)

    async def _place(self, row: Row, effect: Invoke, places: asyncio.Semaphore) -> bool:
        """Wait for a place. If this process goes down meanwhile, the effect goes back: it was never begun."""
        try:
            return await places.acquire()
        except asyncio.CancelledError:
            await self._put_off(row, effect, 0.0, begun=False)
            raise

    async def _still_held(self, row: Row, effect: Invoke) -> bool:
        """Whether nobody gave the call up while it waited for a place."""
        until = await self._store.now() + self._claim
        return bool(await self._store.claim(row.thread, [effect.id], until))

    async def _call(self, row: Row, effect: Invoke, context: CallContext) -> FunctionResult | None:
        member = self._roster.get(row.agent)
        function = member.functions.get(effect.name) if member else None
        if function is None:
            later = await self._store.now() + self._claim
            await self._store.release(row.thread, [effect.id], later, begun=False)
            return None
        try:
            return await function.run(context, msgspec.json.decode(effect.arguments))
        except asyncio.CancelledError:
            await self._give_back(row, effect)
            raise

    async def _give_back(self, row: Row, effect: Invoke) -> None:
        """This process is going down or the call was given up: another run may start at once, if any may."""
        if effect.repeat in ("safe", "keyed"):
            await self._put_off(row, effect, 0.0)
        else:
            await self._finish(row, effect, unknown(effect))

    async def _send(self, row: Row, effect: Invoke, attempt: int) -> None:
        try:
            await self._courier.invoke(row, effect)
        except asyncio.CancelledError:
            await self._give_back(row, effect)
            raise
        except Refused as error:
            await self._finish(row, effect, undelivered(effect, str(error)))
        except Unavailable as error:
            await self._unsent(row, effect, attempt, error)
        else:
            await self._store.delivered(row.thread, [effect.id])

    async def _unsent(self, row: Row, effect: Invoke, attempt: int, error: Unavailable) -> None:
        if getattr(error, "ambiguous", False) and effect.repeat not in ("safe", "keyed"):
            await self._finish(row, effect, unknown(effect))
        elif attempt >= SENDINGS:
            await self._finish(row, effect, undelivered(effect, str(error)))
        else:
            wait = max(backoff(attempt - 1, self._ids.jitter(), 0.5, 60.0), error.retry_after or 0.0)
            await self._put_off(row, effect, await self._store.now() + wait)

    async def _finish(self, row: Row, effect: Invoke, result: FunctionResult) -> None:
        # From here on nobody else may make this result void: it is posted however long the store is away.
        self._held.pop(f"{row.thread}/{effect.id}", None)
        try:
            await self._insist(lambda: self._post(row, effect, result))
        finally:  # where the call is cancelled meanwhile, it may be written all the same
            with contextlib.suppress(TorporError):
                await self._ring(row, 0.0)

    async def _post(self, row: Row, effect: Invoke, result: FunctionResult) -> None:
        cause = result.cause
        signal = Finished(
            thread=row.thread,
            id=f"{effect.call}/{cause or 'result'}",
            at=await self._store.now(),
            by=By("runtime") if cause else By("tool", effect.name, "process"),
            trace=effect.trace,
            call=effect.call,
            parts=result.parts,
            is_error=result.is_error,
            cause=cause,
            handle=result.handle,
            size=result.size,
        )
        await self._store.finish(signal, effect.id)

    async def _insist(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write once the store takes it; a file may be read-only, or a disk full, for a while."""
        failures = 0
        while True:
            try:
                await write()
            except TorporError as error:
                if failures >= REFUSALS and not isinstance(error, Unavailable):
                    raise
                log.warning("A result waits for the store: %s", error)
                await self._clock.sleep(backoff(failures, self._ids.jitter(), 0.1, 10.0))
                failures += 1
            else:
                return

    async def _ring(self, row: Row, at: float) -> None:
        """Ring for an instant; 0: as soon as the tier wants it."""
        by = start_by(row.tier, at or await self._store.now())
        first = at or not_before(row.tier, by)
        await self._queue.ring([Ring(row.thread, by, first, row.tier, row.owner, row.agent)])

    async def _renew(self) -> None:
        """Renew the claims of all that runs; what is no longer ours to do is cancelled."""
        while self._tasks:
            await self._clock.sleep(self._claim / 3)
            by_thread = self._posting.held()
            for thread, effect in self._held.values():
                by_thread.setdefault(thread, []).append(effect)
            for thread, effects in by_thread.items():
                await self._renew_thread(thread, effects)
        self._renewal = None

    async def _renew_thread(self, thread: str, effects: list[str]) -> None:
        try:
            kept = await self._store.claim(thread, effects, await self._store.now() + self._claim)
        except Refused:
            kept = []  # the thread was deleted
        except TorporError as error:
            log.warning("Claims could not be renewed: %s", error)
            return
        mine = {row.effect.id for row in kept}
        for effect in [effect for effect in effects if effect not in mine]:
            id = f"{thread}/{effect}"
            if id in self._held:
                self._tasks[id].cancel()
            self._posting.lose(thread, effect)


def _is_wanted(left: OutboxRow, wanted: Mapping[str, OpenCall]) -> bool:
    if not isinstance(left.effect, Invoke):
        return True
    call = wanted.get(left.effect.call)
    return call is not None and not call.given_up
