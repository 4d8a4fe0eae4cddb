"""Runs the calls that were accepted, each to its one result."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torpor.tools.server import wire
from torpor.tools.server.call import ToolCall
from torpor.tools.server.calls import Kept
from torpor.tools.server.content import ToolError, error_text, render, text_of
from torpor.tools.server.courier import Courier
from torpor.tools.server.limit import Limit
from torpor.tools.server.offer import Offer
from torpor.tools.server.outbox import Outbox
from torpor.tools.server.progress import Progress
from torpor.tools.server.questions import Questions

log = logging.getLogger("torpor.tools.server")

RESTARTED = "the tool server restarted while this call ran; its outcome is unknown"
STOPPED = "the tool server stopped while this call ran; its outcome is unknown"
SUBSCRIPTION_LOST = (
    "the tool server restarted and this subscription has ended. Subscribe again if it is needed"
)
DEADLINE_MARGIN = 1.0
KEEP_TRYING = 5.0

Begin = Callable[[], None]


class Busy(Exception):
    """There is no room for another call now."""


class _Cancelled(ToolError):
    """The function was stopped before it had anything to say."""


@dataclass(slots=True)
class _Run:
    kept: Kept
    call: ToolCall
    limit: Limit
    progress: Progress
    restarted: bool
    stopping: bool = False
    task: asyncio.Task[None] | None = None

    def must_stop(self) -> bool:
        """Say whether the server is about to stop."""
        return self.stopping


class Work:
    """The calls at work. What it accepts is durable before it says so and starts when `begin` is called."""

    def __init__(
        self,
        offers: Mapping[str, Offer],
        outbox: Outbox,
        courier: Courier,
        *,
        grace: float,
        most_running: int,
    ) -> None:
        self._offers = offers
        self._outbox = outbox
        self._courier = courier
        self.questions = Questions(outbox, courier.ring)
        courier.ended = lambda seq: self._stop_runs([seq])
        courier.unasked = self.questions.look_again
        self._grace = grace
        self._most_running = most_running
        self._runs: dict[int, _Run] = {}
        self._chores: set[asyncio.Task[None]] = set()

    async def recover(self) -> None:
        """Take up, or end with an error, what was at work when the server last stopped."""
        for kept in await self._outbox.live():
            self._start(kept, restarted=kept.state != "accepted")

    async def accept(self, invocation: wire.Invocation, *, private: bool) -> Begin:
        """Record a call; it begins when the returned function is called. Raises Busy or sqlite3.Error."""
        if sum(not run.call.subscribed for run in self._runs.values()) >= self._most_running:
            raise Busy
        seq, taken = await self._outbox.accept(invocation, private=private)
        if taken == "new" and seq is not None:
            kept = Kept(seq, invocation, "accepted", cancelled=False, memory=None)
            return lambda: self._start(kept, restarted=False)
        if seq is not None:
            return lambda: self._chore(self._outbox.again(seq))
        return lambda: self._chore(self._outbox.clash(invocation, private=private))

    async def cancel(self, thread: str, ident: str) -> Begin:
        """Mark a call as cancelled; its work is stopped when the returned function is called."""
        seqs = await self._outbox.cancel(thread, ident)
        return lambda: self._stop_runs(seqs)

    async def close(self, thread: str, clean_up: Callable[[], Any] | None) -> Begin:
        """Cancel all calls of a thread and then, in the background, run `clean_up`."""
        seqs = await self._outbox.close(thread)

        async def tidy() -> None:
            ending = [task for seq in seqs if (task := self._task_of(seq)) is not None]
            if ending:
                await asyncio.wait(ending)
            if clean_up is not None:
                await clean_up()

        def begin() -> None:
            self._stop_runs(seqs)
            self._chore(tidy())

        return begin

    def waiting(self, state: str) -> ToolCall | None:
        """The call at work that waits for the authorization with this state."""
        seq = self.questions.call_of(state)
        return self._runs[seq].call if seq is not None and seq in self._runs else None

    async def authorized(self, call: ToolCall | str, problem: str) -> bool:
        """Let a call go on that waits for authorization; False if it does not."""
        if isinstance(call, str):
            return await self.questions.authorized(call, problem)
        seqs = [seq for seq, run in self._runs.items() if run.call is call]
        token = self.questions.token_of(seqs[0]) if seqs else ""
        return await self.questions.authorized(token, problem)

    async def alive(self, thread: str, ident: str) -> bool:
        """Say whether callbacks of this call are still to be expected."""
        return await self._outbox.alive(thread, ident)

    async def stop(self) -> None:
        """Stop all work. What may run again stays recorded; the rest ends with an error result."""
        for run in self._runs.values():
            run.stopping = True
            run.call.cancelled.set()
        tasks = [run.task for run in self._runs.values() if run.task is not None] + list(self._chores)
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace + 1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop_runs(self, seqs: list[int]) -> None:
        for seq in seqs:
            if seq in self._runs:
                self._runs[seq].call.cancelled.set()

    def _task_of(self, seq: int) -> asyncio.Task[None] | None:
        return self._runs[seq].task if seq in self._runs else None

    def _chore(self, doing: Any) -> None:
        async def do() -> None:
            try:
                await doing
            except Exception:
                log.exception("background work failed")
            self._courier.ring()

        task = asyncio.create_task(do())
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def _start(self, kept: Kept, *, restarted: bool) -> None:
        ring = self._courier.ring
        limit, progress = Limit(), Progress(kept.seq, self._outbox, ring)
        call = ToolCall(
            kept,
            outbox=self._outbox,
            questions=self.questions,
            limit=limit,
            progress=progress,
            ring=ring,
            restarted=restarted,
        )
        run = self._runs[kept.seq] = _Run(kept, call, limit, progress, restarted)
        run.task = asyncio.create_task(self._serve(run))
        run.task.add_done_callback(lambda _: self._runs.pop(kept.seq, None))

    async def _serve(self, run: _Run) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            offer, arguments = self._prepared(run)
            if run.must_stop():
                return
            if run.kept.state == "accepted" and not await self._outbox.begin(run.kept.seq):
                raise _Cancelled("cancelled")
            value, error = await self._outcome(offer, run, arguments)
            if run.must_stop() and offer.restartable and (run.call.subscribed or error is not None):
                return
            if run.must_stop() and isinstance(error, _Cancelled):
                error = ToolError(STOPPED)
        except Exception as failure:  # noqa: BLE001 -- whatever it is, the call needs its result
            error = failure
        await self._conclude(run, value, error)

    def _prepared(self, run: _Run) -> tuple[Offer, dict[str, Any]]:
        invocation = run.kept.invocation
        if invocation.refusal is not None:
            raise ToolError(invocation.refusal)
        offer = self._offers.get(invocation.operation)
        if offer is None:
            known = ", ".join(self._offers)
            raise ToolError(f"unknown operation {invocation.operation[:128]!r}. Known: {known}")
        if run.kept.cancelled:
            raise _Cancelled("cancelled")
        if run.restarted and not offer.restartable:
            raise ToolError(SUBSCRIPTION_LOST if run.call.subscribed else RESTARTED)
        return offer, offer.bind(invocation.arguments)

    async def _outcome(
        self, offer: Offer, run: _Run, arguments: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        """Run the function until it ends, is cancelled, or has had its time; gives its value or its error."""
        call = run.call
        deadline = _until_deadline(call)
        limit = offer.timeout if deadline is None else min(offer.timeout, deadline)
        run.limit.start(offer.timeout, deadline)
        work = asyncio.create_task(offer.run(call, arguments))
        cancelled = asyncio.create_task(call.cancelled.wait())
        over = asyncio.create_task(run.limit.over.wait())
        try:
            await asyncio.wait({work, cancelled, over}, return_when=asyncio.FIRST_COMPLETED)
            if call.subscribed and not cancelled.done():
                await asyncio.wait({work, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return _ended(work, ToolError("the tool gave up"))
            why = _Cancelled("cancelled") if cancelled.done() else ToolError(_timed_out(limit))
            call.cancelled.set()
            work.cancel()
            await asyncio.wait({work}, timeout=self._grace)
            if not work.done():
                work.add_done_callback(_forgotten)
                return None, why
            value, error = _ended(work, why)
            return value, (why if value is None and error is None else error)
        finally:
            for task in (cancelled, over, work):
                task.cancel()
            run.limit.stop()

    async def _conclude(self, run: _Run, value: Any, error: BaseException | None) -> None:
        """Send the one result, or the last event of a subscription that did not end itself."""
        if error is not None and not isinstance(error, ToolError):
            log.error("tool %s failed", run.call.operation, exc_info=error)
        try:
            rendered = {"text": error_text(error)} if error is not None else render(value)
        except ToolError as unusable:
            rendered, error = {"text": error_text(unusable)}, unusable
        await run.progress.clear()
        failed = error is not None or str(rendered.get("text", "")).startswith("Error: ")
        while True:
            try:
                await self._record(run, rendered, failed=failed)
            except sqlite3.Error as full:
                log.error("a result could not be kept (%s); trying again", full)  # noqa: TRY400
                await asyncio.sleep(KEEP_TRYING)
            else:
                break
        self._courier.ring()

    async def _record(self, run: _Run, rendered: dict[str, Any], *, failed: bool) -> None:
        if not run.call.subscribed:
            members = wire.result_members(rendered, failed=failed, subscription=False)
            await self._outbox.settle(run.kept.seq, members)
        elif not run.call.finished:
            text = text_of(rendered)
            last = wire.event_members(text, final=True, associative=True, occurred_at=None)
            await self._outbox.event(run.kept.seq, last)


def _until_deadline(call: ToolCall) -> float | None:
    if call.deadline is None:
        return None
    return max(call.deadline.timestamp() - time.time() - DEADLINE_MARGIN, 0.0)


def _timed_out(limit: float) -> str:
    return f"timed out after {limit:g} s. Ask for less at once, or try again later"


def _ended(work: asyncio.Task[Any], why: ToolError) -> tuple[Any, BaseException | None]:
    if work.cancelled():
        return None, why
    error = work.exception()
    return (None, error) if error is not None else (work.result(), None)


def _forgotten(work: asyncio.Task[Any]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        work.exception()
