"""The chart and the table of peers, and the work that peers are given, without the peers."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

BENCH = Path(__file__).parent.parent.parent / "bench"
SVG = "{http://www.w3.org/2000/svg}"
ROWS = {
    "memory": {"per_cpu_s": 900.0},
    "sqlite": {"per_cpu_s": 500.0},
    "reference": {"per_cpu_s": 300.0},
    "with_langgraph": {"per_cpu_s": 10.0},
    "with_autogen": {"per_cpu_s": 100.0},
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.syspath_prepend(str(BENCH / "peers"))
    return import_module("run")


def test_ratios_and_bars(run: ModuleType) -> None:
    found = {one["beside"]: one for one in run.ratios(ROWS)}
    assert found["reference"] == {"store": "memory", "beside": "reference", "times": 3.0, "bar": 1.5}
    assert found["with_langgraph"] == {
        "store": "sqlite",
        "beside": "with_langgraph",
        "times": 50.0,
        "bar": 40,
    }
    assert found["with_autogen"] == {"store": "sqlite", "beside": "with_autogen", "times": 5.0, "bar": 8}


def test_the_table_names_versions_and_missed_bars(run: ModuleType) -> None:
    rest = {"least": 1.0, "most": 2.0, "per_s": 3.0, "rss_bytes": 4_000, "disk_bytes": 5_000}
    rows = {name: row | rest for name, row in ROWS.items()}
    lines = run.table({"rows": rows, "ratios": run.ratios(ROWS), "versions": run.versions()})
    assert len(lines) == 2 + len(ROWS)
    [autogen] = [line for line in lines if "AutoGen" in line]
    assert "bar 8: NOT reached" in autogen
    assert run.versions()["autogen-agentchat"] in autogen
    assert lines[2].startswith("| Torpor, in memory |")


def test_peers_get_the_very_texts(run: ModuleType) -> None:
    options = run.parsed(["--text", "varied"])
    work = run.work(8, options)
    texts = run.Texts("varied")
    said = work["said"].replace("{turn}", "3").replace("{agent}", "agent-12345")
    assert said == texts.said(12_345, 3)
    assert all(len(pieces) == 12 for pieces in work["pieces"])
    assert {len(piece.encode()) for pieces in work["pieces"] for piece in pieces} == {94}
    assert {len(output.encode()) for output in work["outputs"]} == {340}


def test_the_chart_shows_every_bar_in_order(run: ModuleType) -> None:
    drawn = run.drawn(
        "Speed", [("slow & sure", 10.0, False), ("ours", 1_000.0, True), ("fast", 100.0, False)]
    )
    root = ET.fromstring(drawn)
    bars = list(root.iter(f"{SVG}rect"))
    assert [one.get("class") for one in bars] == ["ours", "bar", "bar"]
    wide = [float(one.get("width", "0")) for one in bars]
    assert wide[0] > wide[1] > wide[2] > 0
    assert {"slow & sure", "ours", "fast", "1,000"} <= {text.text for text in root.iter(f"{SVG}text")}
    assert "prefers-color-scheme: dark" in drawn
