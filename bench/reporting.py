"""Figures in words: for the terminal, and for docs/performance.md."""

import re
from pathlib import Path

from comparing import Comparison
from measuring import Machine
from running import Figures

BEGIN, END = "<!-- figures: written by `make bench` -->", "<!-- end of figures -->"
_BLOCK = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


def told(figures: Figures) -> str:
    """One run, for people."""
    run = f"{figures.kind} over {_store(figures)}, {figures.agents} agents x {figures.turns} turns"
    each = f"{figures.cpu_us_per_completion:,.0f} us each"
    speed = f"{figures.completions_per_cpu_s:,.0f} completions per CPU second ({each})"
    return (
        f"{run}, waves of {figures.wave}, {figures.text} text, {figures.loop}\n"
        f"  {speed}, {figures.completions_per_s:,.0f} per second\n"
        f"  {figures.rss_bytes_per_agent:,} bytes of memory and {figures.disk_bytes_per_agent:,} of disk "
        f"per agent at rest\n  {where(figures.machine)}"
    )


def compared(comparison: Comparison) -> str:
    """All runs and ratios, for people."""
    lines = [where(comparison.runs[0].median.machine), ""]
    lines += _table(comparison)
    lines.append("")
    for ratio in comparison.ratios:
        lines.append(
            f"{ratio.store}: runtime / {ratio.beside} = {ratio.median:.2f} "
            f"[{ratio.least:.2f} to {ratio.most:.2f}] {ratio.verdict}".rstrip()
        )
    return "\n".join(lines)


def where(machine: Machine) -> str:
    """The machine in one line."""
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.system}, Python {machine.python}, "
        f"SQLite {machine.sqlite}"
    )


def write_page(page: Path, comparison: Comparison) -> None:
    """Put the figures into their block of the page; the rest of it is left alone."""
    text = page.read_text("utf-8")
    block = "\n".join([BEGIN, "", f"Machine: {where(comparison.runs[0].median.machine)}.", ""])
    tables = [*_table(comparison), "", *_ratios(comparison), ""]
    for store, shares in comparison.shares.items():
        tables += [*_shares(store, shares), ""]
    block += "\n" + "\n".join([*tables, END])
    page.write_text(_BLOCK.sub(lambda _: block, text), "utf-8")


def _store(figures: Figures) -> str:
    return f"{figures.store} {figures.synchronous}".strip()


def _table(comparison: Comparison) -> list[str]:
    speed = ["completions / CPU s", "us CPU each", "completions / s"]
    columns = ["run", "agents x turns, wave", *speed, "memory / agent", "disk / agent"]
    rows = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for runs in comparison.runs:
        one = runs.median
        rows.append(
            f"| {one.kind}, {_store(one)} | {one.agents} x {one.turns}, {one.wave} "
            f"| {one.completions_per_cpu_s:,.0f} [{runs.least:,.0f} to {runs.most:,.0f}] "
            f"| {one.cpu_us_per_completion:,.0f} | {one.completions_per_s:,.0f} "
            f"| {one.rss_bytes_per_agent:,} B | {one.disk_bytes_per_agent:,} B |"
        )
    return rows


def _shares(store: str, shares: list[tuple[str, float]]) -> list[str]:
    rows = [f"| part of a completion, {store} store | share of its CPU time |", "|---|---|"]
    return [*rows, *(f"| {part} | {share:.0%} |" for part, share in shares)]


def _ratios(comparison: Comparison) -> list[str]:
    rows = ["| store | beside | ratio per CPU second | |", "|---|---|---|---|"]
    rows += [
        f"| {ratio.store} | {ratio.beside} | {ratio.median:.2f} [{ratio.least:.2f} to {ratio.most:.2f}] "
        f"| {ratio.verdict} |"
        for ratio in comparison.ratios
    ]
    return rows
