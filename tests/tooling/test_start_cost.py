"""What it costs to start: CPU seconds, and which libraries are loaded before anybody needs them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = 5
TORPOR = str(Path(sys.executable).with_name("torpor"))
LATE = ("anthropic", "openai", "pydantic", "starlette")


def cpu_seconds(*command: str) -> float:
    """CPU of one process from start to end, with its children."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "limit"),
    [((sys.executable, "-c", "import torpor"), 0.3), ((TORPOR, "--help"), 0.6)],
    ids=["import", "help"],
)
def test_starting_is_cheap(command: tuple[str, ...], limit: float) -> None:
    costs = [cpu_seconds(*command) for _ in range(RUNS)]
    assert statistics.median(costs) < limit, costs


def test_an_import_loads_no_sdk_and_no_web_framework() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import torpor, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not set(LATE).intersection(loaded)
