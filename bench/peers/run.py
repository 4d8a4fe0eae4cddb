"""The agent_scale workload on the peers, side by side with Torpor: `python bench/peers/run.py --json`.

Each peer is a small file here, in the peer's own idiom, and runs in a process of its own, in turn, in an
environment that is made once (``requirements.txt``, under ``--cache``). The Rust runtime runs too where cargo
is. ``--write`` puts the figures into docs/performance.md and draws docs/peers.svg.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import msgspec  # noqa: E402
from drawing import drawn  # noqa: E402
from measuring import machine, slope  # noqa: E402
from placing import PAGE, placed, told_of  # noqa: E402
from workload import Texts  # noqa: E402

PEERS = {
    "with_langgraph": ("langgraph", "LangGraph, SQLite saver"),
    "with_pydantic_ai": ("pydantic-ai-slim", "Pydantic AI, stored history"),
    "with_openai_agents": ("openai-agents", "OpenAI Agents SDK, SQLite session"),
    "with_autogen": ("autogen-agentchat", "AutoGen, saved state"),
    "with_dbos": ("dbos", "DBOS, SQLite"),
}
REFERENCE = ("infinity-agent-core", "the Rust runtime, in memory")
OURS = {
    "memory": ("Torpor, in memory", ("--store", "memory:")),
    "sqlite": ("Torpor, SQLite", ("--store", "sqlite:", "--synchronous", "NORMAL")),
}
BARS = {"reference": ("memory", 1.5), "with_langgraph": ("sqlite", 40.0), "fastest": ("sqlite", 8.0)}
"""How many times as many completions per CPU second as which, and in which store."""
AGENTS = {"peers": 20, "ours": 600, "reference": 600}
"""A peer's runs are short, since they are slow; more agents do not make them faster."""
PATIENCE = 600.0
"""Seconds that one run may take."""


def main() -> None:
    options = parsed()
    told = compared(options)
    if options.write:
        written(told)
    print(json.dumps(told, indent=1) if options.json else "\n".join(table(told)))


def compared(options: argparse.Namespace) -> dict[str, Any]:
    """All in turn, as often as asked, each in a process of its own."""
    python = environment(options.cache)
    harness = built(options)
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.repeat):
        for name in options.only:
            found.setdefault(name, []).append(peer(python, name, options))
        if harness:
            found.setdefault("reference", []).append(reference(harness, options))
        for name, (_label, words) in OURS.items():
            found.setdefault(name, []).append(ours(words, options))
    rows = {name: median(runs) for name, runs in found.items()}
    return {
        "rows": rows,
        "ratios": ratios(rows),
        "versions": versions(),
        "text": options.text,
        "turns": options.turns,
        "machine": msgspec.to_builtins(machine()),
        "busy": round(os.getloadavg()[0], 1),
    }


def environment(cache: str) -> Path:
    """The interpreter that has the peers, made if it is not there or was made of other requirements."""
    folder, wanted = Path(cache) / "peers", HERE / "requirements.txt"
    python, made = folder / "bin" / "python", folder / "made-from.txt"
    if not made.exists() or made.read_text("utf-8") != wanted.read_text("utf-8"):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        quiet = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([str(python), *quiet, "-r", str(wanted)], check=True)
        made.write_text(wanted.read_text("utf-8"), "utf-8")
    return python


def built(options: argparse.Namespace) -> Path | None:
    """The harness of the Rust runtime; None without cargo or where it is not wanted."""
    if options.no_reference or shutil.which("cargo") is None:
        return None
    target = Path(os.environ.get("CARGO_TARGET_DIR") or Path(options.cache) / "reference")
    words = ("cargo", "build", "--release", "--quiet", "--manifest-path", "reference/Cargo.toml")
    environ = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run(words, cwd=HERE, env=environ, check=False)
    if done.returncode:
        print("the Rust runtime could not be built and is left out", file=sys.stderr)
        return None
    return target / "release" / "reference-harness"


def peer(python: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run of a peer."""
    return run_of([str(python), str(HERE / f"{name}.py")], options.agents or AGENTS["peers"], options)


def reference(harness: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One run of the Rust runtime."""
    return run_of([str(harness)], options.agents or AGENTS["reference"], options)


def run_of(command: list[str], agents: int, options: argparse.Namespace) -> dict[str, Any]:
    """Give the work to a command; gives its figures."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        path = Path(folder) / "work.json"
        path.write_text(json.dumps(work(agents, options)), "utf-8")
        done = subprocess.run(
            [*command, str(path)], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
        got = json.loads(done.stdout.splitlines()[-1])
    return {
        "per_cpu_s": got["completions"] / max(got["cpu_seconds"], 0.001),
        "per_s": got["completions"] / got["seconds"],
        "rss_bytes": round(slope([tuple(point) for point in got["rss_bytes"]])),
        "disk_bytes": round(got.get("disk_bytes", 0) / agents),
        "agents": agents,
    }


def work(agents: int, options: argparse.Namespace) -> dict[str, Any]:
    """The work, as a peer reads it: the very texts of ``workload.py``."""
    texts, mark = Texts(options.text), 7
    said = texts.said(mark, mark).replace(f"agent-{mark}", "{agent}").replace(f"Turn {mark}", "Turn {turn}")
    variants = range(499 if options.text == "varied" else 1)
    return {
        "agents": agents,
        "turns": options.turns,
        "wave": max(1, agents // 4),
        "said": said,
        "pieces": [list(texts.pieces("agent-0", ordinal)) for ordinal in variants],
        "outputs": [texts.output(str(call)) for call in variants],
    }


def ours(words: tuple[str, ...], options: argparse.Namespace) -> dict[str, Any]:
    """One run of Torpor: ``agent_scale.py``, as anybody would run it."""
    agents = options.agents or AGENTS["ours"]
    sizes = ("--agents", str(agents), "--turns", str(options.turns), "--wave", str(max(1, agents // 4)))
    command = [sys.executable, str(HERE.parent / "agent_scale.py"), *words, *sizes, "--text", options.text]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.returncode:
        raise SystemExit(f"agent_scale failed:\n{done.stderr}")
    got = json.loads(done.stdout)
    return {
        "per_cpu_s": got["completions_per_cpu_s"],
        "per_s": got["completions_per_s"],
        "rss_bytes": got["rss_bytes_per_agent"],
        "disk_bytes": got["disk_bytes_per_agent"],
        "agents": agents,
    }


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run in the middle, by completions per CPU second, with the least and the most of that."""
    by_speed = sorted(runs, key=lambda one: one["per_cpu_s"])
    middle = by_speed[len(by_speed) // 2]
    return {**middle, "least": by_speed[0]["per_cpu_s"], "most": by_speed[-1]["per_cpu_s"]}


def ratios(rows: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Ours by theirs, and the bar if there is one."""
    names = [name for name in rows if name not in OURS]
    speeds = {name: rows[name]["per_cpu_s"] for name in names if name in PEERS}
    fastest = max(speeds, key=lambda name: speeds[name], default="")
    found = []
    for name in names:
        marks = [mark for mark in (name, "fastest" if name == fastest else "") if mark in BARS]
        store = BARS[marks[0]][0] if marks else "sqlite"
        times = rows[store]["per_cpu_s"] / rows[name]["per_cpu_s"]
        bar = max([0.0, *(BARS[mark][1] for mark in marks)])
        found.append({"store": store, "beside": name, "times": round(times, 2), "bar": bar})
    return found


def versions() -> dict[str, str]:
    """What is pinned, by distribution."""
    wanted = (HERE / "requirements.txt").read_text("utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", wanted, re.MULTILINE))
    manifest = (HERE / "reference" / "Cargo.toml").read_text("utf-8")
    crate = re.search(r'^infinity-agent-core = "=(.*)"', manifest, re.MULTILINE)
    return {**pinned, REFERENCE[0]: crate.group(1) if crate else ""}


def named(told: dict[str, Any], name: str) -> str:
    """What is shown for a row."""
    if name in OURS:
        return OURS[name][0]
    distribution, label = REFERENCE if name == "reference" else PEERS[name]
    return f"{label} ({told['versions'][distribution]})"


def table(told: dict[str, Any]) -> list[str]:
    """The figures and ratios as tables."""
    columns = ["", "completions / CPU s", "completions / s", "memory / agent", "disk / agent", "Torpor is"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    times = {one["beside"]: one for one in told["ratios"]}
    for name, row in sorted(told["rows"].items(), key=lambda item: -item[1]["per_cpu_s"]):
        speed = f"{row['per_cpu_s']:,.0f} [{row['least']:,.0f} to {row['most']:,.0f}]"
        lines.append(
            f"| {named(told, name)} | {speed} | {row['per_s']:,.0f} "
            f"| {row['rss_bytes'] / 1e3:,.0f} KB | {row['disk_bytes'] / 1e3:,.0f} KB "
            f"| {_verdict(times.get(name))} |"
        )
    return lines


def _verdict(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    reached = "reached" if one["times"] >= one["bar"] else "NOT reached"
    bar = f", bar {one['bar']:g}: {reached}" if one["bar"] else ""
    return f"{one['times']:.1f} x as fast ({one['store']}){bar}"


def written(told: dict[str, Any]) -> None:
    """Put the table into the page, and draw the chart beside it."""
    placed(PAGE, "peers", [told_of(told["machine"]), "", *table(told)])
    bars = [(named(told, name), row["per_cpu_s"], name in OURS) for name, row in told["rows"].items()]
    PAGE.with_name("peers.svg").write_text(drawn("Completions per CPU second, same work", bars), "utf-8")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torpor-bench"
    add("--agents", type=int, default=0, help="of each (20 for peers, 600 for the others)")
    add("--turns", type=int, default=20)
    add("--text", choices=("same", "varied"), default="varied")
    add("--repeat", type=int, default=3, help="runs of each, in turn")
    add("--only", nargs="*", choices=tuple(PEERS), default=list(PEERS), help="these peers")
    add("--no-reference", action="store_true", help="without the Rust runtime")
    add("--cache", default=str(cache), help="where environments are made")
    add("--write", action="store_true", help="into docs/performance.md and docs/peers.svg")
    add("--json", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
