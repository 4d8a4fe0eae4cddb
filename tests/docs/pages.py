"""The documents as tests see them: their code blocks, links and commands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

_FENCE = re.compile(r"^```(\w*)[ \t]*(.*)$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$")
_MARK = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Block:
    """One fenced block. ``note`` is what follows the language on the opening fence."""

    page: str
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """One Markdown file, by its path below the repository."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        return ROOT / self.name

    def blocks(self, *languages: str) -> list[Block]:
        """Its fenced blocks of these languages, in order."""
        return [block for block in _blocks(self) if block.language in languages]

    def prose(self) -> list[str]:
        """Its lines outside of fenced blocks."""
        kept, inside = [], False
        for line in self.text.split("\n"):
            if line.startswith("```"):
                inside = not inside
            elif not inside:
                kept.append(line)
        return kept

    def links(self) -> list[str]:
        """The targets of its links and pictures."""
        return _LINK.findall("\n".join(self.prose()))

    def anchors(self) -> set[str]:
        """What a link may name after ``#``."""
        headings = (_HEADING.match(line) for line in self.prose())
        return {_MARK.sub("", found[1].lower()).strip().replace(" ", "-") for found in headings if found}


def page(name: str) -> Page:
    """One page."""
    return Page(name, (ROOT / name).read_text(encoding="utf-8"))


def pages() -> list[Page]:
    """The README, the other pages at the top, the list of examples, and all below ``docs/``."""
    files = [*sorted(ROOT.glob("*.md")), EXAMPLES / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page(str(file.relative_to(ROOT))) for file in files]


def _blocks(page: Page) -> Iterator[Block]:
    opened: tuple[int, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.text.split("\n"), 1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            opened, lines = (number, fence[1], fence[2].strip()), []
        elif opened is not None and line.strip() == "```":
            yield Block(page.name, *opened, "\n".join(lines) + "\n")
            opened = None
        else:
            lines.append(line)
    assert opened is None, f"{page.name}: the block of line {opened[0]} is never closed"
