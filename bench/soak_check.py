"""Whether threads of a soak did what they decided, no more and no less: read from their histories."""

from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Call, Message, Result, Turn
from torpor.core.thread import fold
from torpor.ports import Backend, Row

OUTSIDE = frozenset({"weigh", "lift", "book", "mail", "pack", "pay", "ask", "linger"})
"""Tools that leave a trace in the world."""
ONCE = frozenset({"mail"})
"""Tools that are not run again, whatever happens."""


class Checked(msgspec.Struct):
    """What was found so far."""

    faults: list[str] = []
    roots: int = 0
    threads: int = 0
    turns: int = 0
    calls: int = 0
    effects: int = 0
    repeats: int = 0
    """Effects that were performed again, under the id that they had."""
    errors: dict[str, int] = {}
    """Calls that ended with an error, by tool."""


class Traces:
    """The effects that happened, as files tell it; what was looked at is forgotten."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: Counter[str] = Counter()
        self._seen: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)

    def refresh(self) -> None:
        """Read on."""
        for file in self._folder.iterdir():
            with file.open("rb") as lines:
                lines.seek(self._read[file.name])
                said = lines.read()
            whole = said[: said.rfind(b"\n") + 1]
            self._read[file.name] += len(whole)
            for line in whole.decode().splitlines():
                thread, call = line.split()
                self._seen[thread][file.name, call] += 1

    def take(self, thread: str) -> Counter[tuple[str, str]]:
        """How often each effect (tool, call) of a thread happened."""
        return self._seen.pop(thread, Counter())


async def check(backend: Backend, root: str, traces: Traces, found: Checked) -> None:
    """Read a root that has finished, with all below it."""
    traces.refresh()
    found.roots += 1
    for one in await family(backend, root):
        row, messages = await _whole(backend, one)
        found.threads += 1
        told = _faults(row, messages) + _effects(messages, traces.take(row.thread), found)
        found.faults += [f"{row.agent} {row.thread}: {fault}" for fault in told]


async def _whole(backend: Backend, row: Row) -> tuple[Row, list[Message]]:
    """A row with the messages of the same version: a late result may come just now."""
    while True:
        messages = [decode_message(one.body) for one in await backend.read(row.thread, limit=100_000)]
        after = await backend.row(row.thread)
        if after is None or after.version == row.version:
            return row, messages
        row = after


async def family(backend: Backend, root: str) -> list[Row]:
    """All threads of a root's tree, those that only write summaries too."""
    rows: list[Row] = []
    for purpose in (None, "compaction"):
        rows += await backend.threads(root=root, purpose=purpose, limit=1_000)
    return rows


def _faults(row: Row, messages: list[Message]) -> list[str]:
    faults = []
    if decode_head(row.head, row.shape) != fold(messages):
        faults.append("its head is not what its messages say")
    signals = Counter(signal for message in messages if (signal := getattr(message, "signal", "")))
    faults += [f"{signal} was absorbed {times} times" for signal, times in signals.items() if times > 1]
    calls = {call.id for call in _calls(messages)}
    results = Counter(message.call for message in messages if isinstance(message, Result))
    faults += [f"{call} has {times} results" for call, times in results.items() if times > 1]
    faults += [f"{call} was settled and never made" for call in results.keys() - calls]
    if row.purpose == "root":
        faults += [f"{call} was never settled" for call in calls - results.keys()]
    return faults


def _effects(messages: list[Message], happened: Counter[tuple[str, str]], found: Checked) -> list[str]:
    decided = {(call.name, call.id) for call in _calls(messages) if call.name in OUTSIDE}
    results = {message.call: message for message in messages if isinstance(message, Result)}
    faults = [f"{name} happened and was never decided: {id}" for name, id in happened.keys() - decided]
    for name, id in decided:
        result = results.get(id)
        if result is not None and result.is_error:
            found.errors[name] = found.errors.get(name, 0) + 1
        elif result is not None and not result.cause and (name, id) not in happened:
            faults.append(f"{name} is said to have happened and did not: {id}")
        if name in ONCE and happened[name, id] > 1:
            faults.append(f"{name} happened {happened[name, id]} times: {id}")
    found.turns += sum(isinstance(message, Turn) for message in messages)
    found.calls += len(_calls(messages))
    found.effects += len(happened)
    found.repeats += happened.total() - len(happened)
    return faults


def _calls(messages: list[Message]) -> list[Call]:
    turns = [message for message in messages if isinstance(message, Turn)]
    return [part for turn in turns for part in turn.parts if isinstance(part, Call)]
