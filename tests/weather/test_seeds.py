"""Weather over some dozens of seeds, over those that found faults, and twice over the same one."""

import os
import subprocess
import sys

import pytest

from torpor.testing.weather import run

FOUND: tuple[int, ...] = (238, 1146, 3052, 10282, 12693, 13601)
"""Seeds that found a fault of the runtime, or of the simulator, once."""

SEEDS = range(36)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", [*SEEDS, *FOUND])
def test_a_seed_holds(seed: int) -> None:
    assert run(seed).steps > 0


def _traced(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "torpor.testing.weather", "--trace", "--seed", str(seed)]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    return ended.stdout


@pytest.mark.parametrize("seed", [3, 14, 27, 40])
def test_one_seed_is_one_order_of_all_that_happens(seed: int) -> None:
    assert _traced(seed, "1") == _traced(seed, "2")
