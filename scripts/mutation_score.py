"""The mutation score of core/: small changes that a test of tests/core notices, out of all of them.

Runs mutmut (set in pyproject.toml), names what survived, and exits 1 below the bar. A change that makes a
test hang counts as noticed; one that no test reaches counts as missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

BAR = 0.90
STATS = Path("mutants/mutmut-cicd-stats.json")
NOTICED = ("killed", "timeout", "suspicious", "segfault", "caught_by_type_check")


def mutmut(*arguments: str, quiet: bool = False) -> str:
    """Run one command of mutmut; gives what it printed if quiet. A failure ends this run."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    stdout = subprocess.PIPE if quiet else None
    return subprocess.run(command, check=True, stdout=stdout, text=True).stdout or ""


def missed() -> list[str]:
    """The mutants that were tried and not noticed, a line each."""
    rows = mutmut("results", quiet=True).splitlines()
    return [row for row in rows if row.endswith((": survived", ": no tests"))]


def score() -> tuple[float, int]:
    """The share that was noticed, and of how many: those that were tried."""
    mutmut("export-cicd-stats", quiet=True)
    counts: dict[str, int] = json.loads(STATS.read_text(encoding="utf-8"))
    noticed = sum(counts.get(kind, 0) for kind in NOTICED)
    tried = noticed + counts.get("survived", 0) + counts.get("no_tests", 0)
    return noticed / max(tried, 1), tried


def main() -> int:
    """Run it all; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these mutants, such as 'torpor.core.plan.*'")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    mutmut("run", "--max-children", str(arguments.jobs), *arguments.names)
    print(*missed(), sep="\n")
    share, tried = score()
    print(f"mutation score {share:.1%} of {tried}, the bar is {BAR:.0%}")
    return 0 if share >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
