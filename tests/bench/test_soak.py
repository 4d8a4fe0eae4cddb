"""The soak itself, for half a minute; and the slopes by which it judges."""

import importlib
import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def module(name: str) -> Any:
    if str(BENCH) not in sys.path:
        sys.path.append(str(BENCH))
    return importlib.import_module(name)


def points(an_hour: float, noise: float, seconds: int = 3_600) -> list[tuple[float, float]]:
    chance = random.Random(7)
    return [(at, 50 + an_hour * at / 3_600 + chance.gauss(0, noise)) for at in range(0, seconds, 10)]


def soak(*words: str) -> "subprocess.CompletedProcess[str]":
    program = [sys.executable, str(BENCH / "soak.py"), *words]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=500)


def judged(an_hour: float, noise: float, *, bound: float = 1.0, seconds: int = 3_600) -> Any:
    return module("soak_slopes").slope("x", "rows", bound, points(an_hour, noise, seconds))


def test_what_grows_is_told_from_what_only_wavers() -> None:
    assert judged(5.0, 1.0).verdict == "GROWS"
    assert judged(0.0, 30.0).verdict == "flat"
    assert judged(-5.0, 0.1).verdict == "flat"
    assert judged(0.5, 0.01).verdict == "flat", "it grows for sure, and by less than the bound"
    assert judged(5.0, 1.0).an_hour == pytest.approx(5.0, abs=4 * judged(5.0, 1.0).error)


def test_a_short_time_tells_nothing() -> None:
    short = judged(1_000.0, 0.0, seconds=600)
    assert (short.verdict, short.flat) == ("too short to tell", True)
    assert math.isinf(short.error)


def test_times_are_read_as_people_write_them() -> None:
    seconds = module("soak").seconds
    assert [seconds(text) for text in ("90", "90s", "20m", "1.5h")] == [90.0, 90.0, 1_200.0, 5_400.0]
    with pytest.raises(ValueError, match="soon"):
        seconds("soon")


def test_half_a_minute_of_it_loses_nothing(tmp_path: Path) -> None:
    saved = tmp_path / "soak.json"
    words = ["--time", "25s", "--rate", "1", "--every", "3", "--save", str(saved)]
    done = soak(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(saved.read_text())
    assert told["found"]["faults"] == told["stuck"] == []
    assert told["found"]["roots"] == sum(told["done"].values()) >= 5
    assert told["found"]["effects"] > 0
    assert sum(told["struck"].values()) >= 1
    assert {"MiB", "handles", "threads", "tasks", "rows", "MiB on disk"} <= told["samples"][-1][
        "values"
    ].keys()
    assert "nothing was lost" in done.stdout
    assert soak("--saved", str(saved)).stdout == done.stdout
