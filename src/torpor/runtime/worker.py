"""Takes leases and runs slices: bounded concurrency, renewal, cutting, and a stop that keeps its bound."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.core.retry import backoff
from torpor.ports import Clock, Lease, Queue
from torpor.runtime.aside import set_aside
from torpor.runtime.presence import Company
from torpor.runtime.slice import run_slice
from torpor.runtime.state import Kit, Outcome, Running, calls_off

log = logging.getLogger("torpor.worker")

TICK = 0.25
"""Seconds between looks at what runs: renewal of leases, cuts, deadlines."""
SLICES_PER_LEASE = 16
SLICE_SECONDS = 3_600.0
"""Seconds a slice may last: as long as an exchange may spend in its model, where its agent says nothing."""
LONGEST_WAIT = 30.0
RESERVED = 1
"""Slots that do realtime work only, by default."""
URGENT = ("realtime",)
LAST_WORDS = 1.0
"""Seconds for what was cancelled to give back what it holds."""


class Worker:
    """Runs slices of the agents its kit knows, ``slots`` at a time.

    ``reserved`` of the slots do realtime work only; one slot at least does any work. ``owner_cap``: slices of
    one owner at once, in all processes; 0: half of all slots, of which ``company`` tells.
    """

    def __init__(
        self,
        kit: Kit,
        queue: Queue,
        clock: Clock,
        *,
        slots: int = 8,
        reserved: int = RESERVED,
        owner_cap: int = 0,
        company: Company | None = None,
        slice_seconds: float = SLICE_SECONDS,
    ) -> None:
        self._kit = kit
        self._queue = queue
        self._clock = clock
        self._slots = slots
        self._reserved = min(reserved, slots - 1)
        self._cap = owner_cap
        self._company = company or Company(slots)
        self._slice_seconds = slice_seconds
        self._running: dict[str, tuple[Running, asyncio.Task[Outcome | None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._begun = asyncio.Event()
        """Something runs, or did a tick ago."""
        self._cut: set[asyncio.Task[Any] | None] = set()
        """Slots whose completion was cut, as far as they may not have noticed yet."""
        self.slices = 0
        """Slices run so far."""

    @property
    def busy(self) -> int:
        """Slices under way."""
        return len(self._running)

    @property
    def owner_cap(self) -> int:
        """How many slices of one owner may run at once, in all processes."""
        return self._cap or (self._company.slots + 1) // 2

    def start(self) -> None:
        """Begin to take leases."""
        self._tasks = [
            asyncio.create_task(self._serve(URGENT if i < self._reserved else None), name=f"torpor-slot-{i}")
            for i in range(self._slots)
        ]
        self._tasks.append(asyncio.create_task(self._watch(), name="torpor-watch"))

    async def stop(self, seconds: float) -> None:
        """Take no more leases; let slices end for a while, then give them back unfinished."""
        self._stopping = True
        tasks = [task for _, task in self._running.values()]
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, stubborn = await asyncio.wait(self._tasks, timeout=LAST_WORDS)
            for task in stubborn:
                log.error(
                    "%s does not end; what it held is taken up when its lease runs out", task.get_name()
                )

    async def run_once(self) -> bool:
        """Take one lease, if there is one now, and run its slices. Says whether there was one."""
        leases = await self._queue.next(self._kit.worker, agents=self._kit.roster.names)
        for lease in leases:
            await self._run(lease, asyncio.current_task())
        return bool(leases)

    async def _serve(self, tiers: Sequence[str] | None) -> None:
        failures, task, names = 0, asyncio.current_task(), self._kit.roster.names
        while not self._stopping:
            try:
                leases = await self._queue.next(
                    self._kit.worker, wait=LONGEST_WAIT, agents=names, tiers=tiers, owner_cap=self.owner_cap
                )
                for lease in leases:
                    await self._run(lease, task)
                failures = 0
            except asyncio.CancelledError:
                # A cut that came too late for its completion must not cost this slot.
                if not self._forgiven():
                    raise
            except Exception as error:  # noqa: BLE001 - a slot outlives whatever happens to it
                await self._wait_out(error, failures)
                failures += 1

    async def _wait_out(self, error: Exception, failures: int) -> None:
        """The store or queue failed; whatever it was, it may be over by the next time."""
        if isinstance(error, TorporError):
            log.warning("The store or queue is away: %s", error)
        else:
            log.error("The store or queue failed in a way it should not", exc_info=error)
        await self._clock.sleep(backoff(failures, self._kit.ids.jitter(), 0.1, 10.0))

    def _forgiven(self) -> bool:
        """Whether it was this worker that cancelled the task, and nobody else wants it to end."""
        task = asyncio.current_task()
        if self._stopping or task is None or task not in self._cut:
            return False
        self._cut.discard(task)
        return task.uncancel() == 0

    async def _run(self, lease: Lease, task: "asyncio.Task[Any] | None") -> None:
        """Run slices of one thread while they follow at once, then give the lease back."""
        running = Running(lease)
        self._running[lease.thread] = (running, task)  # type: ignore[assignment]
        self._begun.set()
        again_at = 0.0
        try:
            for _ in range(SLICES_PER_LEASE):
                outcome = await self._slice(running)
                again_at = outcome.again_at
                if not self._goes_on(running, outcome):
                    break
        except asyncio.CancelledError:
            await self._queue.retry(lease, lease.ring_at or self._clock.now())
            raise
        finally:
            self._running.pop(lease.thread, None)
            if task is not None and not task.cancelling():
                self._cut.discard(task)
        await self._queue.done(lease, again_at=again_at)

    def _goes_on(self, running: Running, outcome: Outcome) -> bool:
        return outcome.yielded == "owed" and not (running.cut or self._stopping)

    async def _slice(self, running: Running) -> Outcome:
        running.since = self._clock.now()
        running.overdue = False
        self.slices += 1
        try:
            return await run_slice(self._kit, running)
        except Unavailable as error:
            log.warning("A slice of %s was put off: %s", running.lease.thread, error)
            return Outcome("unavailable", again_at=await self._later(running.lease, error))
        except Refused as error:
            log.error("A slice of %s failed: %s", running.lease.thread, error)  # noqa: TRY400 - one of ours
            return Outcome("refused", error=str(error))
        except Exception as error:
            log.exception("A slice of %s failed in a way it should not", running.lease.thread)
            return await self._set_aside(running.lease, error)

    async def _set_aside(self, lease: Lease, error: Exception) -> Outcome:
        """What is stored cannot be used, or we are wrong: look again now and then."""
        later = await self._later(lease, None)
        again_at = await set_aside(self._kit, lease.thread, error, self._queue.ring)
        return Outcome("broken", again_at=again_at or later, error=str(error))

    async def _later(self, lease: Lease, error: TorporError | None) -> float:
        wait = backoff(min(lease.attempt + 2, 8), self._kit.ids.jitter())
        return await self._now() + max(wait, getattr(error, "retry_after", None) or 0.0)

    async def _now(self) -> float:
        """The store's time, by which the queue goes as well; this process' own while the store is away."""
        try:
            return await self._kit.store.now()
        except TorporError:
            return self._clock.now()

    async def _watch(self) -> None:
        while True:
            await self._begun.wait()  # an idle process does not even tick
            await self._clock.sleep(TICK)
            try:
                if self._running:
                    await self._look()
                else:
                    self._begun.clear()
            except Exception:
                log.exception("Looking after what runs failed in a way it should not")

    async def _look(self) -> None:
        leases = [running.lease for running, _ in self._running.values()]
        try:
            held, cuts = await self._queue.extend(leases)
        except TorporError as error:
            log.warning("Leases could not be renewed: %s", error)
            return
        kept = {(lease.thread, lease.token) for lease in held}
        now = self._clock.now()
        for running, task in list(self._running.values()):
            running.cut = running.cut or running.lease.thread in cuts
            running.overdue = running.overdue or now - running.since > self._slice_seconds
            lease = running.lease
            lost = (lease.thread, lease.token) not in kept and lease in leases
            running.lost = running.lost or lost
            await self._end(running, task)

    async def _end(self, running: Running, task: "asyncio.Task[Outcome | None]") -> None:
        """Cut a completion short, if it is to end now."""
        if running.asking and running.cut and not (running.overdue or running.lost):
            running.cut = await self._is_called_off(running)
        if running.asking and (running.cut or running.overdue or running.lost):
            running.asking = False
            self._cut.add(task)
            task.cancel()

    async def _is_called_off(self, running: Running) -> bool:
        """Something that the slice has not seen says so; what it has loaded, its completion answers."""
        try:
            inbox = await self._kit.store.inbox(running.lease.thread)
        except TorporError:
            return True
        seen = {signal.id for signal in running.taken}
        return any(calls_off(signal) and signal.id not in seen for signal in inbox)
