"""The command: many seeds, one after the other or side by side; the first that fails is shown."""

import argparse
import gc
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence

from torpor.testing.weather.running import Violation, quietly, run, trace_hash
from torpor.testing.weather.shrink import fewer
from torpor.testing.weather.total import Total, side_by_side

TOGETHER = 50
"""Runs after which memory is tidied."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; 0 if all held, 1 with the seed if one did not."""
    asked = _parser().parse_args(arguments)
    warnings.simplefilter("ignore", RuntimeWarning)
    if asked.jobs > 1:
        return side_by_side(asked.jobs, asked.seed, asked.runs, asked.time)
    with quietly():
        return _show(asked.seed, asked.without) if asked.trace else _many(asked)


def _many(asked: argparse.Namespace) -> int:
    began, total = time.monotonic(), Total()
    try:
        for seed in _seeds(asked, began):
            total.add(run(seed, asked.without))
            if total.runs % TOGETHER == 0:
                gc.collect()
    except Violation as violation:
        _tell(violation)
        return 1
    total.seconds = time.monotonic() - began
    print(total.packed() if asked.json else total.text())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m torpor.testing.weather", description=__doc__)
    parser.add_argument("--runs", type=int, default=0, help="how many seeds; 0: as many as the time allows")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--time", default="", help="how long, such as 90s, 5m or 2h")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--stride", type=int, default=1, help="run every so-manieth seed")
    parser.add_argument(
        "--without", action="append", default=[], help="a kind of fault that shall not strike"
    )
    parser.add_argument("--trace", action="store_true", help="show what happens in the one seed")
    parser.add_argument("--json", action="store_true", help="print the totals for other programs")
    return parser


def _seconds(told: str) -> float:
    unit = {"s": 1, "m": 60, "h": 3_600}.get(told[-1:], 0)
    return float(told[:-1]) * unit if unit else float(told or 0)


def _seeds(asked: argparse.Namespace, began: float) -> Iterator[int]:
    seconds, ran = _seconds(asked.time), 0
    most = asked.runs or (sys.maxsize if seconds else 1)
    while ran < most and (not seconds or time.monotonic() - began < seconds):
        yield asked.seed + ran * asked.stride
        ran += 1


def _show(seed: int, without: Sequence[str]) -> int:
    try:
        ended = run(seed, without)
    except Violation as violation:
        _print_events(violation)
        _tell(violation)
        left = fewer(seed, without)
        print(f"It fails as well with these faults alone: {', '.join(left) or 'none'}", file=sys.stderr)
        return 1
    print(f"seed {seed}: held, in {ended.steps:,} steps; trace {ended.hash}")
    return 0


def _print_events(violation: Violation) -> None:
    for at, *what in violation.weather.events:
        print(f"{at:>12.3f}  {'  '.join(str(one) for one in what)}")


def _tell(violation: Violation) -> None:
    print(f"VIOLATION {violation}", file=sys.stderr)
    print(f"trace {trace_hash(violation.weather)}; {violation.weather.loop.steps:,} steps", file=sys.stderr)
    if violation.__cause__ is not None and os.environ.get("TORPOR_WEATHER_TRACEBACK"):
        traceback.print_exception(violation.__cause__)
    print(f"Again, with all that happened: make weather SEED={violation.seed}", file=sys.stderr)
