"""Whether threads did all that they decided, once: read from their histories and from what happened."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Call, Message, Result, Turn
from torpor.core.thread import fold
from torpor.ports import Row, Store

PAGE = 1_000


class Audit(msgspec.Struct):
    """What was found. Nothing is wrong where ``faults`` is empty."""

    faults: list[str] = []
    threads: int = 0
    turns: int = 0
    decided: dict[str, set[str]] = {}
    """Ids of calls, by tool."""
    repeats: int = 0
    """Effects that were performed again, under the id that they had."""
    slices: Counter[str] = msgspec.field(default_factory=Counter)
    """Slices by worker."""
    ends: Counter[str] = msgspec.field(default_factory=Counter)
    """Slices by how they ended."""


async def audit(store: Store, threads: Sequence[str], performed: Mapping[str, Counter[str]]) -> Audit:
    """Read all of these threads. ``performed``: by tool, how often each call's effect happened."""
    found = Audit()
    for thread in threads:
        row = await store.row(thread)
        if row is None:
            found.faults.append(f"{thread} is not there")
            continue
        await _thread(store, row, found)
    for name, effects in performed.items():
        _effects(name, effects, found)
    held = await store.stranded(PAGE)
    found.faults += [f"{row.thread} holds work that nobody does" for row, _ in held]
    return found


async def _thread(store: Store, row: Row, found: Audit) -> None:
    messages = [decode_message(stored.body) for stored in await store.read(row.thread, limit=100 * PAGE)]
    found.threads += 1
    found.faults += [f"{row.thread}: {fault}" for fault in _faults(row, messages)]
    for message in messages:
        if isinstance(message, Turn):
            found.turns += 1
            for part in message.parts:
                if isinstance(part, Call):
                    found.decided.setdefault(part.name, set()).add(part.id)
    for record in await store.records(row.thread, limit=100 * PAGE):
        found.slices[record.worker] += 1
        found.ends[record.yielded] += 1


def _faults(row: Row, messages: Sequence[Message]) -> list[str]:
    faults = []
    head = decode_head(row.head, row.shape)
    if head != fold(list(messages)):
        faults.append("its head is not what its messages say")
    signals = Counter(signal for message in messages if (signal := getattr(message, "signal", "")))
    faults += [f"{signal} was absorbed {times} times" for signal, times in signals.items() if times > 1]
    turns = [message for message in messages if isinstance(message, Turn)]
    calls = {part.id for turn in turns for part in turn.parts if isinstance(part, Call)}
    results = Counter(message.call for message in messages if isinstance(message, Result))
    if results != Counter(calls):
        faults.append(f"{len(calls)} calls, {results.total()} results")
    failed = [message for message in messages if isinstance(message, Result) and message.is_error]
    faults += [f"a call failed: {message.parts}" for message in failed]
    if row.state != "open" or row.owes or head.pending or head.exchange.open:
        faults.append(f"it has not finished: {row.state}, {len(head.pending)} calls are pending")
    elif not turns or not turns[-1].end:
        faults.append("it did not end with an answer")
    return faults


def _effects(name: str, performed: Counter[str], found: Audit) -> None:
    decided = found.decided.get(name, set())
    undone, unasked = decided - set(performed), set(performed) - decided
    if undone:
        found.faults.append(f"{len(undone)} calls of {name} have no effect")
    if unasked:
        found.faults.append(f"{len(unasked)} effects of {name} were never decided")
    found.repeats += performed.total() - len(performed)
