"""One slice: the only place where the ten steps of a wake are spelled out.

Load, absorb, at most one completion, commit, dispatch, yield. What goes wrong has one action per class:
a model's failure is retried or parks the thread, a lost race forgets everything, and the rest is raised.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol, cast

import msgspec

from torpor.core.absorb import absorb
from torpor.core.answer import Asked, Inline, answer, answer_cut, finish_turn, settle_inline
from torpor.core.chunks import Stop
from torpor.core.codec import SHAPE, encode
from torpor.core.definition import Definition
from torpor.core.effects import Effect
from torpor.core.errors import Broken, Conflict, TorporError, Unavailable
from torpor.core.messages import Born, Noted, Parked, Result, Text, Turn
from torpor.core.plan import Complete, Exceeded, owes_now, plan
from torpor.core.prompt import Projection, request
from torpor.core.record import SliceRecord
from torpor.core.request import Attempt, Request
from torpor.core.retry import Again, Park, after_failure
from torpor.core.signals import ClosedSignal, Nudged, SaidSignal, StoppedSignal
from torpor.core.step import Step
from torpor.core.turn import Gathering
from torpor.ports import (
    Clock,
    Commit,
    Lease,
    LiveEvent,
    OutboxRow,
    Row,
    Side,
    Snapshot,
    Store,
    StoredMessage,
    Version,
)
from torpor.runtime.equip import Equipment
from torpor.runtime.gates import Gates
from torpor.runtime.hot import Hot, Warm, warm_up
from torpor.runtime.ids import Ids
from torpor.runtime.live import LocalLive
from torpor.runtime.roster import CallContext, Member, Outfit, Roster

INLINE_SECONDS = 5.0
CLAIM_SECONDS = 30.0


class Dispatch(Protocol):
    """Performs effects after the commit."""

    def start(self, row: Row, effects: list[OutboxRow]) -> None:
        """Begin to perform effects that this process has claimed."""

    async def resume(self, row: Row, leftovers: tuple[OutboxRow, ...], wanted: Mapping[str, Any]) -> None:
        """Take up effects that nobody holds."""


class Kit(msgspec.Struct, frozen=True, eq=False):
    """What slices work with in one process."""

    store: Store
    side: Side
    clock: Clock
    roster: Roster
    live: LocalLive
    equipment: Equipment
    gates: Gates
    hot: Hot
    ids: Ids
    dispatch: Dispatch
    worker: str = "worker"


class Running(msgspec.Struct, eq=False):
    """A slice under way, as its worker sees it."""

    lease: Lease
    asking: bool = False
    """A completion is being streamed: it may be cut."""
    cut: bool = False
    overdue: bool = False
    lost: bool = False
    """Somebody else has the lease now."""
    since: float = 0.0


class Outcome(msgspec.Struct, frozen=True):
    """How a slice ended. ``again_at`` above 0: when the thread should be looked at next."""

    yielded: str
    again_at: float = 0.0
    error: str = ""


class Completion(msgspec.Struct, frozen=True, eq=False):
    """What a completion brought: a gathering that stopped, or one that a person cut."""

    gathering: Gathering
    cut: bool = False


class _Slice:
    """The state of one slice while it runs."""

    __slots__ = ("kit", "member", "outfit", "projection", "record", "running", "snapshot", "step", "warm")

    def __init__(self, kit: Kit, running: Running, snapshot: Snapshot, warm: Warm, member: Member) -> None:
        self.kit = kit
        self.running = running
        self.snapshot = snapshot
        self.warm = warm
        self.member = member
        row, lease = snapshot.row, running.lease
        self.step = Step(row.thread, warm.head, snapshot.now, Definition(row.agent), row.trace)
        self.outfit: Outfit | None = None
        self.projection: Projection | None = None
        self.record: dict[str, Any] = {
            "thread": row.thread,
            "version": row.version.counter,
            "worker": kit.worker,
            "ring_at": lease.ring_at,
            "leased_at": running.since,
            "loaded_at": snapshot.now,
            "attempt": row.attempt,
        }


async def run_slice(kit: Kit, running: Running) -> Outcome:
    """Run one slice of the leased thread."""
    thread = running.lease.thread
    warm = kit.hot.get(thread)
    snapshot = await kit.store.load(thread, known=warm.version if warm else None)
    row = snapshot.row
    member = kit.roster.get(row.agent)
    if member is None:
        return Outcome("unknown agent", error=f"No agent {row.agent!r} is known here: {kit.roster.names}.")
    if _resting(snapshot):
        return Outcome("failed", again_at=_soonest(row.not_before, snapshot.next_due))
    if warm is None or snapshot.history is not None:
        warm = warm_up(row, snapshot.history or ())
    slice = _Slice(kit, running, snapshot, warm, member)
    try:
        return await _run(slice)
    except Conflict:
        kit.hot.drop(thread)
        await kit.store.note(_record(slice, "conflict"))
        return Outcome("conflict", again_at=snapshot.now)


def _resting(snapshot: Snapshot) -> bool:
    """A failed try waits for its time; only what ends the waiting is looked at before."""
    return snapshot.row.not_before > snapshot.now and not any(
        isinstance(signal, StoppedSignal | ClosedSignal | Nudged)
        or (isinstance(signal, SaidSignal) and signal.mode == "interrupt")
        for signal in snapshot.signals
    )


async def _run(slice: _Slice) -> Outcome:
    step, kit = slice.step, slice.kit
    if step.head.length == 0:
        step.add(Noted(step.now, Born(slice.snapshot.row.agent), step.trace))
    definition = await kit.equipment.definition(slice.member, step.thread, step.head)
    step.definition = definition
    absorb(step, slice.snapshot.signals)
    planned = plan(step.head, definition.limits)
    if isinstance(planned, Complete):
        return await _complete(slice)
    if isinstance(planned, Exceeded):
        step.add(Noted(step.now, Parked(planned.reason, "limit"), step.trace))
        return await _commit(slice, "parked")
    return await _commit(slice, planned.why)


async def _complete(slice: _Slice) -> Outcome:
    """Ask the model, and judge how that ended."""
    step, kit = slice.step, slice.kit
    held = await kit.equipment.equip(slice.member, step)
    if held:
        outcome = await _commit(slice, "equipping")
        return msgspec.structs.replace(outcome, again_at=_soonest(held, outcome.again_at))
    step.definition = await kit.equipment.definition(slice.member, step.thread, step.head)
    gate = await kit.gates.until(slice.member.model.name)
    if gate > step.now:
        return Outcome("gated", again_at=_soonest(gate, slice.snapshot.next_due))
    try:
        completion = await _ask(slice)
        await _answer(slice, completion)
    except Conflict:
        raise
    except TorporError as error:
        return await _failed(slice, error)
    finally:
        kit.live.ended(step.thread)
    return await _commit(slice, "")


async def _ask(slice: _Slice) -> Completion:
    step, kit, running = slice.step, slice.kit, slice.running
    question = _question(slice)
    limits = step.definition.limits
    attempt = Attempt(step.thread, step.head.ordinal, slice.snapshot.row.attempt, limits.seconds)
    slice.record |= {
        "ordinal": attempt.ordinal,
        "request_hash": question.hash,
        "model": slice.member.model.name,
        "model_from": kit.clock.now(),
    }
    gathering = Gathering()
    kit.live.started(step.thread, gathering)
    running.asking = True
    try:
        await _stream(slice, question, attempt, gathering)
    except asyncio.CancelledError:
        _forgive(running)
        if running.cut:
            return Completion(gathering, cut=True)
        if running.lost:
            raise Conflict("The lease went to another worker.") from None
        raise Unavailable("The completion took longer than a slice may last.") from None
    except TorporError:
        raise
    except Exception as error:
        raise Broken(f"The model failed in a way it should not: {type(error).__name__}: {error}") from error
    finally:
        running.asking = False
        slice.record["model_to"] = kit.clock.now()
    return Completion(gathering)


def _forgive(running: Running) -> None:
    """Go on after a cancellation that was meant for the completion alone; any other is passed on."""
    task = asyncio.current_task()
    if task is None or not (running.cut or running.overdue or running.lost):
        raise asyncio.CancelledError
    task.uncancel()


async def _stream(slice: _Slice, question: Request, attempt: Attempt, gathering: Gathering) -> None:
    live, thread = slice.kit.live, slice.step.thread
    stream = slice.member.model.stream(question, attempt)
    try:
        async for chunk in stream:
            if not gathering.begun:
                slice.record["first_byte"] = slice.kit.clock.now()
            gathering.add(chunk)
            if live.watched(thread):
                live.publish(thread, LiveEvent(type(chunk).__name__, getattr(chunk, "text", "")))
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await cast("AsyncGenerator[Any, None]", stream).aclose()


def _question(slice: _Slice) -> Request:
    outfit = slice.kit.roster.outfit(slice.step.definition)
    projection = slice.projection = slice.warm.projection.fork()
    for message in slice.step.messages:
        projection.add(message)
    projection.show()
    return request(outfit.definition, projection, outfit.fixed)


async def _answer(slice: _Slice, completion: Completion) -> None:
    step, record = slice.step, slice.record
    seconds = max(0.0, record["model_to"] - record["model_from"])
    asked = Asked(step.head.length, slice.kit.ids.token(), slice.member.model.name, seconds)
    if completion.cut:
        answer_cut(step, completion.gathering.cut(), asked)
        return
    parts = completion.gathering.parts()
    stop = completion.gathering.stop or Stop()
    record |= {
        "usage": stop.usage,
        "product": stop.product,
        "provider_ids": stop.provider_ids,
        "model": stop.model or slice.member.model.name,
    }
    for inline in answer(step, parts, stop, asked):
        settle_inline(step, await _run_inline(slice, inline))
    finish_turn(step)


async def _run_inline(slice: _Slice, inline: Inline) -> Result:
    step, row = slice.step, slice.snapshot.row
    function = slice.member.functions[inline.spec.name]
    context = CallContext(step.thread, inline.call, row.agent, row.user_id, row.context)
    try:
        async with asyncio.timeout(inline.spec.timeout or INLINE_SECONDS):
            got = await function.run(context, inline.arguments)
    except TimeoutError:
        text = Text("Error: the tool ran out of time.")
        return Result(step.now, inline.call, (text,), is_error=True, cause="timeout")
    return Result(step.now, inline.call, got.parts, got.is_error, "", got.handle, got.size)


async def _failed(slice: _Slice, error: TorporError) -> Outcome:
    """A completion failed: nothing is committed but when to try again, or the thread is parked."""
    step, kit, row = slice.step, slice.kit, slice.snapshot.row
    now = await kit.store.now()
    judged = after_failure(error, row.attempt, now, step.definition.limits.tries, kit.ids.jitter())
    slice.record["error"] = str(error)
    if isinstance(judged, Park):
        step.add(Noted(step.now, Parked(judged.reason, judged.kind, judged.aside), step.trace))
        return await _commit(slice, "parked")
    await _postpone(slice, judged, error)
    return Outcome("failed", again_at=_soonest(judged.at, slice.snapshot.next_due), error=str(error))


async def _postpone(slice: _Slice, judged: Again, error: TorporError) -> None:
    kit, row = slice.kit, slice.snapshot.row
    if isinstance(error, Unavailable) and error.retry_after:
        await kit.gates.shut(slice.member.model.name, judged.at)
    await kit.store.postpone(row.thread, row.version, judged.attempt, judged.at)
    await kit.store.note(_record(slice, "failed"))
    kit.live.publish(row.thread, LiveEvent("dropped", str(error)))


async def _commit(slice: _Slice, why: str) -> Outcome:
    """Write the slice, then let its effects go out."""
    step, kit, snapshot = slice.step, slice.kit, slice.snapshot
    yielded = why or _yielded(step)
    if step.messages or step.outcomes or step.effects:
        version = await _write(slice, yielded)
        row = msgspec.structs.replace(snapshot.row, version=version)
        _keep(slice, version)
        if step.effects:
            held = [OutboxRow(effect, 1) for effect in step.effects]
            kit.dispatch.start(row, held)
        if kit.live.watched(step.thread):
            kit.live.publish(step.thread, LiveEvent("committed", position=step.head.length))
    if snapshot.outbox:
        wanted = {**step.head.pending, **step.head.detached}
        await kit.dispatch.resume(snapshot.row, snapshot.outbox, wanted)
    return Outcome(yielded, _next_look(slice, yielded))


def _yielded(step: Step) -> str:
    planned = plan(step.head, step.definition.limits)
    return "owed" if isinstance(planned, Complete | Exceeded) else planned.why


def _next_look(slice: _Slice, yielded: str) -> float:
    if slice.snapshot.more or yielded == "owed":
        return slice.snapshot.now
    return _soonest(slice.snapshot.next_due, *(timer.due for timer in slice.step.timers))


async def _write(slice: _Slice, yielded: str) -> Version:
    step, kit, row = slice.step, slice.kit, slice.snapshot.row
    first = slice.warm.head.length + 1
    messages = tuple(StoredMessage(first + i, encode(message)) for i, message in enumerate(step.messages))
    effects: tuple[Effect, ...] = tuple(step.effects)
    return await kit.store.commit(
        Commit(
            thread=step.thread,
            base=row.version,
            commit_id=kit.ids.text(12),
            row=_row(slice),
            messages=messages,
            absorbed=step.outcomes,
            timers=tuple(step.timers),
            cancelled=tuple(step.cancelled),
            effects=effects,
            claimed_until=step.now + CLAIM_SECONDS if effects else 0.0,
            record=_record(slice, yielded),
        )
    )


def _row(slice: _Slice) -> Row:
    step, row = slice.step, slice.snapshot.row
    head = step.head
    answered = any(isinstance(message, Turn) for message in step.messages)
    fresh = answered or head.state != "open" or any(isinstance(s, Nudged) for s in slice.snapshot.signals)
    return msgspec.structs.replace(
        row,
        state=head.state,
        owes=owes_now(head),
        waits=len(head.pending),
        attempt=0 if fresh else row.attempt,
        not_before=0.0 if fresh else row.not_before,
        updated=step.now,
        length=head.length,
        head=encode(head),
        shape=SHAPE,
    )


def _keep(slice: _Slice, version: Version) -> None:
    """Remember the thread as committed, so that its next slice here decodes nothing."""
    step = slice.step
    projection = slice.projection
    if projection is None:
        projection = slice.warm.projection.fork()
    for message in step.messages[projection.position - slice.warm.head.length :]:
        projection.add(message)
    grown = slice.warm.size + sum(_weight(message) for message in step.messages)
    slice.kit.hot.put(step.thread, Warm(version, step.head, projection, grown))


def _weight(message: object) -> int:
    """About the bytes a message stands for, without encoding it again."""
    parts = getattr(message, "parts", ())
    return 200 + sum(len(getattr(part, "text", "")) + len(getattr(part, "data", "")) for part in parts)


def _record(slice: _Slice, yielded: str) -> SliceRecord:
    step = slice.step
    released = "model_from" in slice.record
    return SliceRecord(
        **slice.record,
        woken_by=tuple(step.outcomes),
        committed_at=slice.kit.clock.now(),
        opened=tuple(step.opened),
        settled=tuple(msgspec.structs.replace(wait, released=released) for wait in step.settled),
        yielded=yielded,
    )


def _soonest(*instants: float) -> float:
    return min((instant for instant in instants if instant), default=0.0)
