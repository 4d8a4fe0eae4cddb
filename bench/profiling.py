"""Where the time of a completion goes: one run in memory under Python's own profiler.

It charges calls of functions more than what they do in C, so the shares are rough.
"""

import asyncio
import cProfile
import pstats
from pathlib import Path
from typing import Any, Self

from measuring import Span
from running import Options, Run, through_runtime

PARTS = {
    "the stream: the model's own generator, gathering, live events": [("completion.py", "_stream")],
    "the request: projecting what is new, hashing it": [("completion.py", "_question")],
    "the turn: validation, the fate of its calls, folding into the head": [("completion.py", "take")],
    "absorbing signals": [("absorb.py", "absorb")],
    "the commit: encoding, row, record, store, remembering the thread, starting effects": [
        ("slice.py", "_commit")
    ],
    "the function's task: running it, posting its result, ringing": [("dispatch.py", "_perform")],
    "leases and loading": [("memory.py", "next"), ("memory.py", "done"), ("memory.py", "load")],
    "people speaking: posting, ringing": [("threads.py", "say"), ("threads.py", "start")],
}


class Profiled(Span):
    """A span that profiles what happens in it."""

    def __init__(self, profile: cProfile.Profile) -> None:
        super().__init__()
        self._profile = profile

    def __enter__(self) -> Self:
        super().__enter__()
        self._profile.enable()
        return self

    def __exit__(self, *raised: object) -> None:
        self._profile.disable()
        super().__exit__(*raised)


def shares() -> list[tuple[str, float]]:
    """Parts of a completion and their shares of the time, in order; the last is the rest."""
    run = Run(Options(agents=100, turns=20, wave=100))
    profile = cProfile.Profile()
    run.span = Profiled(profile)
    asyncio.run(through_runtime(run))
    stats: Any = pstats.Stats(profile)
    whole: float = stats.total_tt
    within = {(Path(path).name, name): spent for (path, _, name), (*_, spent, _) in stats.stats.items()}
    found = [(part, sum(within.get(one, 0.0) for one in ones) / whole) for part, ones in PARTS.items()]
    return [*found, ("the rest: the worker, tasks, the event loop", 1.0 - sum(share for _, share in found))]
