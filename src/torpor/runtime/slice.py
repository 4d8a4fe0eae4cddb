"""One slice: the only place where the ten steps of a wake are spelled out.

Load, absorb, at most one completion, commit, dispatch, yield. What goes wrong has one action per class:
a model's failure is retried or parks the thread, a lost race forgets everything, and the rest is raised.
"""

import logging
from collections.abc import Sequence

import msgspec

from torpor.core.absorb import absorb
from torpor.core.codec import SHAPE, encode
from torpor.core.compaction import begin_asked_for, is_due, make_room, make_room_at_once
from torpor.core.errors import Conflict, ModelRefused, Refused, TorporError, Unavailable
from torpor.core.family import park
from torpor.core.messages import Born, Noted
from torpor.core.moves import AWAY
from torpor.core.plan import Complete, Exceeded, owes_now, plan
from torpor.core.record import SliceRecord
from torpor.core.retry import Again, Park, after_failure
from torpor.core.signals import AnySignal, BornSignal, Nudged, SaidSignal, StoppedSignal, is_urgent
from torpor.core.step import Step
from torpor.core.thread import Head
from torpor.ports import Commit, LiveEvent, OutboxRow, Row, Snapshot, StoredMessage, Version
from torpor.runtime.completion import ask, shown, take
from torpor.runtime.gates import gate_of
from torpor.runtime.hot import Warm, warm_up, weight
from torpor.runtime.posting import lineage_bytes
from torpor.runtime.state import Kit, Outcome, Running, Slice

log = logging.getLogger("torpor.slice")

FIRST = BornSignal | SaidSignal | Nudged
"""What is absorbed before a stop that came after it."""
MANY = 2_000
"""Signals that are looked through for one that ends a wait."""


async def run_slice(kit: Kit, running: Running) -> Outcome:
    """Run one slice of the leased thread; of one that was deleted, even meanwhile, nothing is left to do."""
    try:
        return await _slice(kit, running)
    except Refused:
        if await _gone(kit, running.lease.thread):
            return Outcome("gone")
        raise


async def _slice(kit: Kit, running: Running) -> Outcome:
    thread = running.lease.thread
    warm = kit.hot.get(thread)
    snapshot = await _load(kit, thread, warm)
    running.loaded = kit.clock.now()
    running.taken = snapshot.signals
    row = snapshot.row
    if row.state in AWAY:
        return Outcome(row.state)
    member = kit.roster.get(row.agent)
    if member is None:
        return _unknown(kit, row)
    if warm is None or warm.version != row.version:
        warm = await warm_up(kit.lineages, row, snapshot.history)
    slice = Slice(kit, running, snapshot, warm, member)
    if _resting(snapshot):
        await _resume(slice)
        return Outcome("failed", again_at=_soonest(row.not_before, snapshot.next_due))
    try:
        return await _run(slice)
    except Conflict:
        kit.hot.drop(thread)
        await kit.store.note(_record(slice, "conflict"))
        return Outcome("conflict", again_at=snapshot.now)


async def _gone(kit: Kit, thread: str) -> bool:
    """Whether the thread was deleted."""
    if await kit.store.row(thread) is not None:
        return False
    kit.hot.drop(thread)
    log.info("There is no thread %s any more", thread)
    return True


async def _load(kit: Kit, thread: str, warm: Warm | None) -> Snapshot:
    known = warm.version if warm else None
    snapshot = await kit.store.load(thread, known=known)
    if snapshot.more and _resting(snapshot):
        # What ends the waiting may stand behind all that came meanwhile.
        snapshot = await kit.store.load(thread, known=known, limit=MANY)
    return snapshot


def _resting(snapshot: Snapshot) -> bool:
    """A failed try waits for its time; only what ends the waiting is looked at before."""
    return snapshot.row.not_before > snapshot.now and not any(
        is_urgent(signal) for signal in snapshot.signals
    )


def _unknown(kit: Kit, row: Row) -> Outcome:
    known = ", ".join(kit.roster.names) or "none"
    text = (
        f"The thread {row.thread} waits for a worker that knows the agent {row.agent!r}. Known here: {known}."
    )
    log.warning("%s", text)
    return Outcome("unknown agent", error=text)


async def _run(slice: Slice) -> Outcome:
    step, kit = slice.step, slice.kit
    if step.head.length == 0 and not any(isinstance(one, BornSignal) for one in slice.snapshot.signals):
        step.add(Noted(step.now, Born(slice.snapshot.row.agent), step.trace))
    definition = await kit.equipment.definition(slice.member, step.thread, step.head)
    step.definition = definition
    for batch in _batches(slice.snapshot.signals):
        absorb(step, batch)
    if step.asked_for_summary:
        begin_asked_for(step, await shown(slice))
    planned = plan(step.head, definition.limits)
    signals, more = slice.snapshot.signals, slice.snapshot.more
    if isinstance(planned, Complete) and (more or any(is_urgent(signal) for signal in signals)):
        # All that has come is shown at once. And what a person wants ended, or begun anew, is so before the
        # model is asked, however that goes.
        return await _commit(slice, "")
    if isinstance(planned, Complete):
        return await _complete(slice)
    if isinstance(planned, Exceeded):
        park(step, planned.reason, "limit")
        return await _commit(slice, "parked")
    return await _commit(slice, planned.why)


def _batches(signals: Sequence[AnySignal]) -> list[Sequence[AnySignal]]:
    """Words and nudges that came before a stop are absorbed before it: only later ones resume the thread.

    A birth goes before all.
    """
    stops = [place for place, signal in enumerate(signals) if isinstance(signal, StoppedSignal)]
    if not stops:
        return [signals]
    before = signals[: stops[-1]]
    words = [signal for signal in before if isinstance(signal, FIRST)]
    others = [signal for signal in before if not isinstance(signal, FIRST)]
    return [words, [*others, *signals[stops[-1] :]]]


async def _complete(slice: Slice) -> Outcome:
    """Ask the model, and judge how that ended."""
    step, kit = slice.step, slice.kit
    held = await kit.equipment.equip(slice.member, step, slice.snapshot.row.user_id)
    if held:
        return await _equipping(slice, held)
    if slice.member.servers:
        step.definition = await kit.equipment.definition(slice.member, step.thread, step.head)
    gate = await kit.gates.until(gate_of(slice.member.model))
    if gate > step.now:
        return await _gated(slice, gate)
    if is_due(step.head, step.definition.window):
        make_room(step, await shown(slice))
    slice.mark = step.mark()
    try:
        completion = await ask(slice)
        await take(slice, completion)
    except Conflict:
        raise
    except TorporError as error:
        return await _failed(slice, error)
    finally:
        kit.live.ended(step.thread)
    return await _commit(slice, "")


async def _equipping(slice: Slice, held: float) -> Outcome:
    """A tool server is not there yet: until the next look at it nothing is to be done, but what is urgent."""
    slice.held = held
    outcome = await _commit(slice, "equipping")
    if not _is_news(slice.step):
        row = slice.snapshot.row
        await slice.kit.store.postpone(row.thread, row.version, row.attempt, held)
    return msgspec.structs.replace(outcome, again_at=_soonest(held, outcome.again_at))


async def _gated(slice: Slice, gate: float) -> Outcome:
    """The model's provider wants no request before an instant: nothing is committed but that."""
    row = slice.snapshot.row
    await slice.kit.store.postpone(row.thread, row.version, row.attempt, gate)
    await _resume(slice)
    return Outcome("gated", again_at=_soonest(gate, slice.snapshot.next_due))


async def _failed(slice: Slice, error: TorporError) -> Outcome:
    """A completion failed: nothing is committed but when to try again, or the thread is parked."""
    step, kit, row = slice.step, slice.kit, slice.snapshot.row
    now = await kit.store.now()
    judged = after_failure(error, row.attempt, now, step.definition.limits.tries, kit.ids.jitter())
    slice.record["error"] = str(error)
    if isinstance(error, ModelRefused) and error.kind == "context":
        return await _too_long(slice, error)
    if isinstance(error, Unavailable) and error.retry_after:
        slice.held = now + error.retry_after
        await kit.gates.shut(gate_of(slice.member.model), slice.held)
    if isinstance(judged, Park):
        slice.projection = None  # what this try was shown was never answered
        step.back(slice.mark)
        park(step, judged.reason, judged.kind, aside=judged.aside)
        return await _commit(slice, "parked")
    await _postpone(slice, judged, error)
    await _resume(slice)
    return Outcome("failed", again_at=_soonest(judged.at, slice.snapshot.next_due), error=str(error))


async def _too_long(slice: Slice, error: ModelRefused) -> Outcome:
    """The provider refused the request for its length: room is made, or the thread parked."""
    step, asked = slice.step, slice.projection or await shown(slice)
    slice.projection = None
    step.back(slice.mark)
    stuck = make_room_at_once(step, asked)
    if stuck is None:
        return await _commit(slice, "")
    park(step, f"{error} {stuck.reason}", error.kind, aside=stuck.aside)
    return await _commit(slice, "parked")


async def _postpone(slice: Slice, judged: Again, error: TorporError) -> None:
    kit, row = slice.kit, slice.snapshot.row
    await kit.store.postpone(row.thread, row.version, judged.attempt, judged.at)
    await kit.store.note(_record(slice, "failed"))
    kit.live.publish(row.thread, LiveEvent("dropped", str(error)))


async def _commit(slice: Slice, why: str) -> Outcome:
    """Write the slice, then let its effects go out."""
    step, kit, snapshot = slice.step, slice.kit, slice.snapshot
    yielded = why or _yielded(step)
    if _is_news(step):
        messages = _messages(slice)
        version = await _write(slice, messages, yielded)
        _keep(slice, version, messages)
        if step.effects:
            row = msgspec.structs.replace(snapshot.row, version=version)
            held = [OutboxRow(effect, 1) for effect in step.effects]
            kit.dispatch.start(row, held)
        if kit.live.watched(step.thread):
            kit.live.publish(step.thread, LiveEvent("committed", position=step.head.length))
    await _resume(slice, step.head)
    return Outcome(yielded, _next_look(slice, yielded))


def _is_news(step: Step) -> bool:
    """Whether there is something to write."""
    return bool(step.messages or step.outcomes or step.effects)


async def _resume(slice: Slice, head: Head | None = None) -> None:
    """Take up effects that nobody holds, as far as the committed head still wants them."""
    outbox = slice.snapshot.outbox
    if outbox:
        head = head or slice.warm.head
        await slice.kit.dispatch.resume(slice.snapshot.row, outbox, {**head.pending, **head.detached})


def _yielded(step: Step) -> str:
    planned = plan(step.head, step.definition.limits)
    return "owed" if isinstance(planned, Complete | Exceeded) else planned.why


def _next_look(slice: Slice, yielded: str) -> float:
    if slice.snapshot.more or yielded == "owed":
        return slice.snapshot.now
    if not slice.step.timers:
        return slice.snapshot.next_due
    return _soonest(slice.snapshot.next_due, *(timer.due for timer in slice.step.timers))


def _messages(slice: Slice) -> tuple[StoredMessage, ...]:
    first = slice.warm.head.length + 1
    return tuple([StoredMessage(i, encode(message)) for i, message in enumerate(slice.step.messages, first)])


async def _write(slice: Slice, messages: tuple[StoredMessage, ...], yielded: str) -> Version:
    step, kit, row = slice.step, slice.kit, slice.snapshot.row
    effects = tuple(step.effects)
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
            claimed_until=slice.now() + kit.claim if effects else 0.0,
            record=_record(slice, yielded),
        )
    )


def _row(slice: Slice) -> Row:
    step, row = slice.step, slice.snapshot.row
    head = step.head
    answered = head.ordinal > slice.warm.head.ordinal
    rested = answered or any(_ends_rest(signal) for signal in slice.snapshot.signals)
    return msgspec.structs.replace(
        row,
        purpose=head.purpose,
        parent=head.parent,
        lineage=lineage_bytes(head.lineage),
        title=head.title or row.title,
        state=head.state,
        owes=owes_now(head),
        waits=len(head.pending),
        attempt=0 if answered or head.state != "open" else row.attempt,
        not_before=slice.held or (0.0 if rested else row.not_before),
        updated=step.now,
        length=head.length,
        base=head.base,
        head=encode(head),
        shape=SHAPE,
    )


def _ends_rest(signal: AnySignal) -> bool:
    """A person ends the pause after a failure; what a provider named is kept by the gate."""
    return isinstance(signal, Nudged) or (isinstance(signal, SaidSignal) and signal.mode == "interrupt")


def _keep(slice: Slice, version: Version, messages: tuple[StoredMessage, ...]) -> None:
    """Remember the thread as committed, so that its next slice here decodes nothing."""
    step, projection = slice.step, slice.projection
    if step.head.base != slice.warm.head.base:
        slice.kit.hot.drop(step.thread)  # a summary stands for most of it
        return
    if projection is None:
        warm = slice.warm.grown(version, step.head, messages)
    else:
        for message in step.messages[projection.position - slice.warm.head.length :]:
            projection.add(message)
        size = max(slice.warm.size + weight(messages), projection.size)
        warm = Warm(version, step.head, projection, size)
    slice.kit.hot.put(step.thread, warm)


def _record(slice: Slice, yielded: str) -> SliceRecord:
    step = slice.step
    settled = [
        msgspec.structs.replace(wait, released=True) if i < slice.waits_before else wait
        for i, wait in enumerate(step.settled)
    ]
    return SliceRecord(
        **slice.record,
        woken_by=tuple(step.outcomes),
        committed_at=slice.kit.clock.now(),
        opened=tuple(step.opened),
        settled=tuple(settled),
        yielded=yielded,
    )


def _soonest(*instants: float) -> float:
    return min((instant for instant in instants if instant), default=0.0)
