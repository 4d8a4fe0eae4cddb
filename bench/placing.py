"""Blocks of docs/performance.md that benchmarks write: found by their marks, replaced whole."""

import re
from collections.abc import Sequence
from pathlib import Path


def placed(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines between a block's marks. ``ValueError`` if the page has no such block."""
    begin, end = f"<!-- {name}: written by `make bench-all` -->", f"<!-- end of {name} -->"
    text = page.read_text("utf-8")
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not block.search(text):
        raise ValueError(f"{page.name} has no block {name!r}")
    new = "\n".join([begin, "", *lines, "", end])
    page.write_text(block.sub(lambda _: new, text), "utf-8")
