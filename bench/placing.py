"""Blocks of docs/performance.md that benchmarks write: found by their marks, replaced whole."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from measuring import Machine
from reporting import where

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def told_of(machine: Mapping[str, Any]) -> str:
    """Where and when something was measured, and how busy the machine was."""
    day, load = time.strftime("%Y-%m-%d", time.gmtime()), os.getloadavg()[1]
    return f"Machine: {where(msgspec.convert(machine, Machine))}; {day}, load {load:.1f}."


def placed(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines between a block's marks. ``ValueError`` if the page has no such block."""
    begin, end = f"<!-- {name}: written by `make bench-all` -->", f"<!-- end of {name} -->"
    text = page.read_text("utf-8")
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not block.search(text):
        raise ValueError(f"{page.name} has no block {name!r}")
    new = "\n".join([begin, "", *lines, "", end])
    page.write_text(block.sub(lambda _: new, text), "utf-8")
