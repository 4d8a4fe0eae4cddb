"""Fuzz all targets for a while: ``make fuzz TIME=10m``.

Each target runs in a process of its own (atheris, that is libFuzzer over Python's bytecode), from the kept
corpus and its seeds on. What is found is printed with the input that shows it, and kept in ``build/fuzz``.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tests.fuzz.bounds import LARGEST
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
WORK = Path("build/fuzz")
UNITS = {"s": 1, "m": 60, "h": 3_600, "": 1}
MEMORY_MB = 1_024
INPUT_SECONDS = 60
"""Seconds by the clock after which one input hangs; what it may take of the processor is far less."""
MOST_FINDINGS = 5
KEPT, SMALL = 24, 1_500
"""Inputs of one target that are kept, and their bytes at most."""


@dataclass
class Tried:
    """What came of one target."""

    name: str
    inputs: int = 0
    edges: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def seconds_of(told: str) -> float:
    """A time such as ``90``, ``90s``, ``10m`` or ``2h``."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smh]?)", told)
    if found is None:
        raise SystemExit(f"{told!r} is no time: write 90s, 10m or 2h.")
    return float(found[1]) * UNITS[found[2]]


def main() -> int:
    """Fuzz; the exit code is 1 if anything was found."""
    told = argparse.ArgumentParser(prog="make fuzz")
    told.add_argument("--time", default="10m")
    told.add_argument("--keep", action="store_true", help="put what is interesting into the kept corpus")
    told.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    given = told.parse_args()
    names = given.targets or list(TARGETS)
    share = seconds_of(given.time) / len(names)
    done = []
    for name in names:
        done.append(_fuzzed(name, share))
        _tell(done[-1])
        if given.keep:
            _keep(name)
    _sum(done)
    return int(any(one.findings for one in done))


def _fuzzed(name: str, seconds: float) -> Tried:
    found, began = Tried(name), time.monotonic()
    folder = _prepared(name)
    while (left := seconds - (time.monotonic() - began)) >= 1 and len(found.findings) < MOST_FINDINGS:
        run = _libfuzzer(
            name, [f"-max_total_time={max(1, int(left))}", f"-artifact_prefix={WORK}/{name}.", str(folder)]
        )
        said = run.stdout
        runs = re.findall(r"^#(\d+)\s", said, re.MULTILINE)
        found.inputs += int(runs[-1]) if runs else 0
        found.edges = max([found.edges, *map(int, re.findall(r"cov: (\d+)", said))])
        if run.returncode:
            found.findings.append(_finding(said))
    found.seconds = time.monotonic() - began
    return found


def _prepared(name: str) -> Path:
    """The working corpus, with seeds and kept inputs in it."""
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    for seed in TARGETS[name].seeds:
        (folder / sha256(seed).hexdigest()[:20]).write_bytes(seed)
    for kept in (CORPUS / name).glob("*"):
        shutil.copy(kept, folder / kept.name)
    return folder


def _libfuzzer(name: str, flags: list[str]) -> "subprocess.CompletedProcess[str]":
    bounds = [f"-max_len={LARGEST}", f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MB}"]
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.one", name, *bounds, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _finding(said: str) -> str:
    """What libFuzzer says of the input, and the end of the traceback."""
    kept = re.findall(r"Test unit written to (\S+)", said)
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith(("#", "INFO", "\t"))]
    at = next((n for n, line in enumerate(lines) if "Uncaught Python exception" in line), len(lines) - 12)
    return "\n".join([f"input: {kept[-1] if kept else 'none was kept'}", *lines[at : at + 40]])


def _keep(name: str) -> None:
    """Some of the inputs that reached something new, small ones, and all that found something."""
    found = sorted((one.stat().st_size, one.name, one) for one in (WORK / name).iterdir())
    small = [one for size, _, one in found if size <= SMALL]
    kept = CORPUS / name
    kept.mkdir(parents=True, exist_ok=True)
    for old in kept.glob("[0-9a-f]*"):
        old.unlink()
    for one in small[:: max(1, -(-len(small) // KEPT))]:
        shutil.copy(one, kept / one.name[:20])
    for one in WORK.glob(f"{name}.*-*"):
        shutil.copy(one, kept / f"found-{one.name.rpartition('-')[2][:20]}")


def _tell(one: Tried) -> None:
    rate = one.inputs / one.seconds if one.seconds else 0
    print(
        f"{one.name:<12} {one.inputs:>10,} inputs  {rate:>8,.0f}/s  {one.edges:>6,} edges  "
        f"{len(one.findings)} findings",
        flush=True,
    )
    for finding in one.findings:
        print("  " + finding.replace("\n", "\n  "), flush=True)


def _sum(done: list[Tried]) -> None:
    seconds = sum(one.seconds for one in done)
    print(
        f"{len(done)} targets, {seconds / 60:.1f} minutes, {sum(one.inputs for one in done):,} inputs, "
        f"{sum(len(one.findings) for one in done)} findings"
    )


if __name__ == "__main__":
    raise SystemExit(main())
