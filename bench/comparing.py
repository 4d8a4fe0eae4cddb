"""Runs side by side: each in a process of its own, in turn, so that all meet the same weather."""

import subprocess
import sys
from pathlib import Path

import msgspec
from running import Figures, Options
from verifying import Skipped

COMMAND = Path(__file__).with_name("agent_scale.py")
BARS = {"memory": ("lean one", 0.3), "sqlite": ("lean group", 0.25)}
"""What the runtime must reach per CPU second, as a part of which lean loop."""


class Runs(msgspec.Struct, frozen=True):
    """The runs of one kind. The median is by completions per CPU second."""

    kind: str
    store: str
    median: Figures
    least: float
    most: float


class Ratio(msgspec.Struct, frozen=True):
    """The runtime's completions per CPU second as a part of a lean loop's, run in turn with it."""

    store: str
    beside: str
    median: float
    least: float
    most: float
    bar: float = 0.0
    """What must be reached; 0: nothing."""

    @property
    def verdict(self) -> str:
        """Whether the bar is reached, in words."""
        if not self.bar:
            return ""
        return f"bar {self.bar:g}: {'reached' if self.median >= self.bar else 'NOT reached'}"


class Comparison(msgspec.Struct, frozen=True):
    """All runs and their ratios."""

    runs: list[Runs]
    ratios: list[Ratio]
    shares: dict[str, list[tuple[str, float]]] = {}
    """Where the CPU time of a completion goes, by store."""


def compare_all(options: list[Options], repeat: int) -> Comparison:
    """Each of the given runs beside its lean loops; one without a bar runs in the first round only."""
    runs: list[Runs] = []
    ratios: list[Ratio] = []
    for one in options:
        kinds = [one, *(msgspec.structs.replace(one, lean=lean) for lean in _leans(one))]
        rounds = [[_alone(kind) for kind in (kinds[:2] if turn else kinds)] for turn in range(repeat)]
        runs += [_gathered([figures[i] for figures in rounds if i < len(figures)]) for i in range(len(kinds))]
        ratios += [_ratio(one, rounds, i) for i in range(1, len(kinds))]
    return Comparison(runs, ratios)


def compare(options: list[Options], repeat: int) -> list[Runs]:
    """The same runs again and again."""
    return [_gathered([_alone(one) for _ in range(repeat)]) for one in options]


def _leans(options: Options) -> tuple[str, ...]:
    """The one with a bar first."""
    return ("one",) if options.backend == "memory" else ("group", "one")


def _alone(options: Options) -> Figures:
    given = msgspec.json.encode(options).decode()
    done = subprocess.run(
        [sys.executable, str(COMMAND), "--alone", given], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Skipped(f"a run of {options} failed: {done.stderr.strip()}")
    return msgspec.json.decode(done.stdout, type=Figures)


def _gathered(figures: list[Figures]) -> Runs:
    by_speed = sorted(figures, key=lambda one: one.completions_per_cpu_s)
    median = by_speed[len(by_speed) // 2]
    return Runs(
        median.kind,
        median.store,
        median,
        by_speed[0].completions_per_cpu_s,
        by_speed[-1].completions_per_cpu_s,
    )


def _ratio(options: Options, rounds: list[list[Figures]], place: int) -> Ratio:
    rounds = [one for one in rounds if place < len(one)]
    parts = sorted(one[0].completions_per_cpu_s / one[place].completions_per_cpu_s for one in rounds)
    beside = rounds[0][place].kind
    against, bar = BARS[options.backend]
    return Ratio(
        options.backend,
        beside,
        round(parts[len(parts) // 2], 3),
        round(parts[0], 3),
        round(parts[-1], 3),
        bar if beside == against else 0.0,
    )
