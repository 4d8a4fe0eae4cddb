"""Where the CPU time of a completion goes: a run whose event loop is looked at every other millisecond.

Looking adds a hundredth to the run and, unlike a profiler of calls, charges each part alike. What the loop's
thread did not use, by its own clock, the writer's thread did.
"""

import signal
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Self

from measuring import Span
from running import Options, run

EVERY = 0.002
"""Seconds between two looks."""
AGENTS = 300
WRITER = "the writer's thread: committing, with the kernel's part in it"
REST = "the rest: the worker, tasks, the event loop"

_SLICE = {
    "the stream: the model's own generator, gathering, live events": ["completion._stream"],
    "the request: projecting what is new, hashing it": ["completion._question"],
    "the turn: validation, the fate of its calls, folding into the head": ["completion.take"],
    "absorbing signals": ["absorb.absorb"],
    "the commit: encoding, row, record, remembering the thread, starting effects": ["slice._commit"],
    "the function's task: running it, its result": ["dispatch._perform"],
    "people speaking": ["threads.say", "threads.start", "running.send"],
}
_SQLITE = {
    "the store's statements that write": ["writes"],
    "the store's statements that read": ["reads", "kept", "store.load", "store.row", "database.look"],
    "the queue's statements": ["queues/sqlite.write"],
    "leases and rings, their statements apart": ["queues/sqlite", "together", "bell"],
    "gathering writes, telling who waits for them": ["writer", "database", "stores/sqlite/store"],
}
PARTS = {
    "memory": {**_SLICE, "store and queue": ["stores/memory", "queues/memory", "bell"]},
    "sqlite": {**_SLICE, **_SQLITE},
}
"""Parts by store, each with its modules or functions. The innermost that is known counts."""


class Looking(Span):
    """A span in which the stack of its thread is looked at."""

    def __init__(self, parts: dict[str, list[str]]) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.own = 0.0
        """CPU seconds of its thread."""
        self._parts = {place: part for part, places in parts.items() for place in places}
        self._known: dict[object, str | None] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        self.own -= time.thread_time()
        self._before = signal.signal(signal.SIGALRM, self._look)
        self._timer = signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
        return self

    def __exit__(self, *raised: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, *self._timer)
        signal.signal(signal.SIGALRM, self._before)
        self.own += time.thread_time()
        super().__exit__(*raised)

    def shares(self) -> list[tuple[str, float]]:
        """Parts and their shares of all CPU time, in order; what other threads used and the rest are last."""
        loop = self.own / self.cpu / self.seen.total()
        found = [(part, self.seen[part] * loop) for part in dict.fromkeys(self._parts.values())]
        others = [(WRITER, 1.0 - self.own / self.cpu)] if self.own < 0.98 * self.cpu else []
        return [*found, *others, (REST, 1.0 - sum(share for _, share in [*found, *others]))]

    def _look(self, _: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_name == "select":
            return  # it waits, and uses nothing
        part = None
        while frame is not None and part is None:
            part = self._part(frame)
            frame = frame.f_back
        self.seen[part or REST] += 1

    def _part(self, frame: FrameType) -> str | None:
        code = frame.f_code
        if code not in self._known:
            path = Path(code.co_filename)
            module = f"{path.parent.parent.name}/{path.parent.name}/{path.stem}"
            places = [f"{module}.{code.co_name}"[at:] for at in _starts(module)]
            places += [module[at:] for at in _starts(module)]
            self._known[code] = next((self._parts[place] for place in places if place in self._parts), None)
        return self._known[code]


def _starts(module: str) -> list[int]:
    """Where the name of a module may begin: at each of its folders."""
    return [0, *(place + 1 for place, letter in enumerate(module) if letter == "/")]


def shares(store: str) -> list[tuple[str, float]]:
    """Parts of a completion over a store and their shares of its CPU time, in order; the last is the rest."""
    looking = Looking(PARTS[store])
    run(Options(agents=AGENTS, turns=20, wave=AGENTS, store=f"{store}:"), looking)
    return looking.shares()
