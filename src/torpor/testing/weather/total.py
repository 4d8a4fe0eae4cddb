"""What many runs came to, in one process or in several."""

import subprocess
import sys
import time
from collections import Counter

import msgspec

from torpor.testing.weather.faults import FAULTS
from torpor.testing.weather.running import Ended


class Total(msgspec.Struct):
    """Runs, with how often each fault struck and what was in the histories."""

    runs: int = 0
    steps: int = 0
    seconds: float = 0.0
    struck: dict[str, int] = {}
    happened: dict[str, int] = {}

    def add(self, ended: Ended) -> None:
        """One more run."""
        self.runs += 1
        self.steps += ended.steps
        self._count(ended.struck, ended.happened)

    def join(self, other: "Total") -> None:
        """What another process ran."""
        self.runs += other.runs
        self.steps += other.steps
        self.seconds = max(self.seconds, other.seconds)
        self._count(other.struck, other.happened)

    def _count(self, struck: dict[str, int], happened: dict[str, int]) -> None:
        for mine, more in ((self.struck, struck), (self.happened, happened)):
            for kind, count in more.items():
                mine[kind] = mine.get(kind, 0) + count

    def packed(self) -> str:
        """For another process."""
        return msgspec.json.encode(self).decode()

    def text(self) -> str:
        """For people."""
        rate = self.runs / self.seconds if self.seconds else 0.0
        first = f"{self.runs:,} runs, {self.steps:,} steps, {self.seconds:.0f} s ({rate:.0f} a second)"
        struck = Counter({kind: self.struck.get(kind, 0) for kind in FAULTS})
        lines = [f"{first}: no violation", f"{sum(struck.values()):,} faults struck:"]
        lines += [f"  {count:>12,}  {kind}" for kind, count in struck.items()]
        lines += ["In the histories:", *(f"  {n:>12,}  {kind}" for kind, n in sorted(self.happened.items()))]
        return "\n".join(lines)


def side_by_side(jobs: int, seed: int, runs: int, duration: str) -> int:
    """Run seeds in several processes, each its share of them; the first violation ends all."""
    each = -(-runs // jobs) if runs else 0
    command = [sys.executable, "-m", "torpor.testing.weather", "--json", "--stride", str(jobs)]
    command += ["--runs", str(each)] if each else []
    command += ["--time", duration] if duration else []
    running = [
        subprocess.Popen([*command, "--seed", str(seed + number)], stdout=subprocess.PIPE)  # noqa: S603 - ours
        for number in range(jobs)
    ]
    try:
        while all(one.poll() in (None, 0) for one in running):
            if all(one.poll() == 0 for one in running):
                return _joined(running)
            time.sleep(0.1)
        return 1
    finally:
        for one in running:
            one.kill()
            one.wait()


def _joined(ended: "list[subprocess.Popen[bytes]]") -> int:
    total = Total()
    for one in ended:
        told, _ = one.communicate()
        total.join(msgspec.json.decode(told, type=Total))
    print(total.text())
    return 0
