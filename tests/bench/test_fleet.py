"""The benchmark of fleets runs; what it says of round trips and of a fleet at rest holds on any machine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import required
from torpor.testing.postgres import Missing, programs

BENCH = Path(__file__).parent.parent.parent / "bench"
SMALL = ("--workers", "1", "2", "--threads", "20", "--completions", "5", "--repeat", "1", "--seconds", "6")


@pytest.fixture
def server_programs() -> None:
    try:
        programs()
    except Missing as reason:
        if required():
            raise
        pytest.skip(str(reason))


@pytest.mark.usefixtures("server_programs")
def test_a_slice_takes_few_round_trips_and_a_fleet_at_rest_asks_for_next_to_nothing() -> None:
    command = [sys.executable, str(BENCH / "fleet.py"), *SMALL, "--sleeping", "1000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    told: dict[str, Any] = json.loads(done.stdout)
    sqlite, one, two = told["chains"]
    assert (sqlite["store"], one["workers"], two["workers"]) == ("sqlite", 1, 2)
    assert all(run["completions"] == 100 and run["conflicts"] == 0 for run in (sqlite, one, two))
    assert 2.0 < one["trips"] < 5.0
    assert 1_000 < one["wal_bytes"] < 20_000
    assert told["wakes"]["wakes"] > 0
    assert 0 < told["wakes"]["p50_ms"] <= told["wakes"]["p99_ms"]
    assert told["rest"]["queries_per_s"] < 5.0
