"""The benchmark runs, tells what it promises, and does not pass where work was skipped."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from torpor.core.messages import Text
from torpor.wiring import open_parts

BENCH = Path(__file__).parent.parent.parent / "bench"
KEYS = {
    "agents",
    "completions",
    "completions_per_cpu_s",
    "completions_per_s",
    "cpu_seconds",
    "disk_bytes_per_agent",
    "machine",
    "python",
    "rss_bytes_per_agent",
    "seconds",
    "store",
    "text",
    "turns",
    "wave",
}


def bench(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(BENCH / "agent_scale.py"), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(
    ("store", "text"), [("memory:", "same"), ("memory:", "varied"), ("sqlite:", "varied")]
)
def test_one_run_in_figures(store: str, text: str) -> None:
    told = bench("--agents", "6", "--turns", "3", "--wave", "4", "--store", store, "--text", text)
    assert set(told) >= KEYS
    assert told["completions"] == 6 * 3 * 2
    assert (told["agents"], told["turns"], told["wave"], told["text"]) == (6, 3, 4, text)
    assert told["completions_per_cpu_s"] > 0
    assert told["completions_per_s"] > 0
    assert [agents for agents, _ in told["rss_bytes"]] == [0, 4, 6]
    # 12 pieces and a beginning for each completion, a call in each second one, and a commit.
    assert told["events"] >= told["completions"] * 14
    assert (told["disk_bytes_per_agent"] > 3 * 2 * 12 * 94) == (store == "sqlite:")


def test_beside_the_lean_loop() -> None:
    told = bench("--agents", "4", "--turns", "2", "--store", "sqlite:", "--lean", "--repeat", "1")
    assert set(told) >= KEYS
    assert [runs["kind"] for runs in told["runs"]] == ["runtime", "lean group", "lean one"]
    assert {runs["median"]["completions"] for runs in told["runs"]} == {16}
    assert [ratio["bar"] for ratio in told["ratios"]] == [0.25, 0.0]
    assert all(ratio["median"] > 0 for ratio in told["ratios"])


def test_a_lean_loop_without_a_bar_runs_once() -> None:
    told = bench("--agents", "2", "--turns", "1", "--store", "sqlite:", "--lean", "--repeat", "2")
    runtime, group, one = told["runs"]
    assert runtime["least"] < runtime["most"]
    assert group["least"] < group["most"]
    assert one["least"] == one["most"]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_shares_make_a_whole(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    profiling = import_module("profiling")

    monkeypatch.setattr(profiling, "AGENTS", 20)
    shares = dict(profiling.shares(store))
    assert set(shares) > set(profiling.PARTS[store])
    assert sum(shares.values()) == pytest.approx(1.0)
    assert (profiling.WRITER in shares) == (store == "sqlite")
    assert 0 < shares[profiling.REST] < 0.5


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    told = bench("--agents", "2", "--turns", "1", "--store", f"sqlite:///{path}")
    assert 0.5 * path.stat().st_size <= 2 * told["disk_bytes_per_agent"] <= path.stat().st_size + 1


async def test_histories_are_those_of_the_ordinary_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    scripted, workload = import_module("scripted"), import_module("workload")
    measured = f"sqlite:///{tmp_path / 'measured.db'}"
    bench("--agents", "2", "--turns", "2", "--store", measured)
    texts = workload.Texts()
    async with open_parts(f"sqlite:///{tmp_path / 'usual.db'}", [scripted.bencher(texts)]) as parts:
        async with parts.working(4):
            for turn in range(2):
                words = (Text(texts.said(1, turn)),)
                if turn:
                    await parts.threads.say("agent-1", words)
                else:
                    await parts.threads.start("bencher", words, thread="agent-1")
                await parts.threads.reply("agent-1", to=None, timeout=120)
        usual = [masked(to_builtins(entry.message)) for entry in await parts.threads.history("agent-1")]
    async with open_parts(measured, [scripted.bencher(texts)]) as parts:
        found = [masked(to_builtins(entry.message)) for entry in await parts.threads.history("agent-1")]
    assert len(usual) == 9
    assert found == usual


def masked(value: Any) -> Any:
    """A value without what differs from run to run: instants and random names."""
    if isinstance(value, dict):
        names = ("at", "seconds", "signal", "id", "call", "provider_id", "trace")
        return {name: "" if name in names else masked(one) for name, one in value.items()}
    return [masked(one) for one in value] if isinstance(value, list | tuple) else value


def test_the_workload_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    workload = import_module("workload")

    for kind in ("same", "varied"):
        texts = workload.Texts(kind)
        assert len(texts.said(0, 0)) == 111
        assert len(texts.said(12_345, 10)) == 116
        assert [len(piece.encode()) for piece in texts.pieces("agent-7", 3)] == [94] * 12
        assert len(texts.output("call").encode()) == 340
    assert workload.Texts("varied").pieces("agent-7", 3) == workload.Texts("varied").pieces("agent-7", 3)


def test_skipped_work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    lean, verifying, workload = map(import_module, ("lean", "verifying", "workload"))

    texts = workload.Texts()
    text = "".join(texts.pieces("agent-0", 0))
    whole = [
        lean.Said(0.0, texts.said(0, 0)),
        lean.Turn(0.0, text, "c", "run_command", workload.ARGUMENTS),
        lean.Result(0.0, "c", texts.output("c")),
        lean.Turn(0.0, text),
    ]
    verifying.verify_lean({0: whole}, texts, 1)
    for history in (whole[:3], [*whole[:3], lean.Turn(0.0, text[1:])], [*whole[:2], whole[0], whole[3]]):
        with pytest.raises(verifying.Skipped):
            verifying.verify_lean({0: history}, texts, 1)
