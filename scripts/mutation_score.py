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
NOTICED = ("killed", "timeout", "suspicious", "caught_by_type_check")


def mutmut(*arguments: str) -> None:
    """Run one command of mutmut with its own output; a failure ends this run."""
    subprocess.run([sys.executable, "-m", "mutmut", *arguments], check=True)


def score() -> tuple[float, dict[str, int]]:
    """The share that was noticed, with the counts that mutmut wrote."""
    counts: dict[str, int] = json.loads(STATS.read_text(encoding="utf-8"))
    noticed = sum(counts.get(kind, 0) for kind in NOTICED)
    return noticed / max(counts["total"] - counts.get("skipped", 0), 1), counts


def main() -> int:
    """Run it all; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these mutants, such as 'torpor.core.plan.*'")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    mutmut("run", "--max-children", str(arguments.jobs), *arguments.names)
    mutmut("results")
    mutmut("export-cicd-stats")
    share, counts = score()
    print(f"mutation score {share:.1%} of {counts['total']}, the bar is {BAR:.0%}")
    return 0 if share >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
