"""Hold the size limits, the banned words and the purity of core.

Run from the top of the repository; prints one line a finding and exits 1 if there is any.

An executable line is a line on which a statement starts; docstrings and comments count for nothing.
A limit is raised for one file or one function by an entry of limits.toml, which must give a reason; an
entry that is no longer needed is a finding too.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path("src/torpor")
CORE = SOURCE / "core"
NAMED = ("src", "tests", "bench", "examples", "scripts")
LIMITS = Path("limits.toml")

CORE_FILE_LINES = 300
FILE_LINES = 400
FUNCTION_LINES = 40
MEDIAN_BELOW = 8
BANNED = frozenset({"manager", "handler", "processor", "helper", "util", "common", "base", "data", "info"})
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Raised:
    """One entry of limits.toml: `function` is a dotted name inside the file, or empty for the file."""

    path: str
    function: str
    limit: int
    reason: str


@dataclass
class Findings:
    """What is wrong so far, the limits raised, and which of them were needed."""

    raised: dict[tuple[str, str], Raised] = field(default_factory=dict)
    needed: set[tuple[str, str]] = field(default_factory=set)
    rows: list[str] = field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        self.rows.append(f"{where}: {what}")

    def measure(self, where: str, size: int, limit: int, *, path: str, function: str = "") -> None:
        """Note a size over its limit, raised or not."""
        if size <= limit:
            return
        entry = self.raised.get((path, function))
        if entry is not None:
            self.needed.add((path, function))
            limit = entry.limit
        if size > limit:
            what = "executable lines" if function else "lines"
            self.add(where, f"{size} {what}, the limit is {limit}")


def read_limits(path: Path, findings: Findings) -> None:
    """Read the raised limits; a malformed entry, or one without a reason, is a finding."""
    if not path.exists():
        return
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    for entry in content.get("raise", []):
        raised = Raised(
            path=str(entry.get("path", "")),
            function=str(entry.get("function", "")),
            limit=int(entry.get("limit", 0)),
            reason=str(entry.get("reason", "")).strip(),
        )
        if not raised.path or not raised.limit:
            findings.add(path.name, f"an entry needs a path and a limit: {entry}")
        elif len(raised.reason) < len("a real reason"):
            findings.add(
                path.name, f"the limit of {raised.path} {raised.function} is raised without a reason"
            )
        findings.raised[raised.path, raised.function] = raised


def is_text(node: ast.AST) -> bool:
    """Whether a statement is nothing but a string: a docstring, here or after an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def executable_lines(function: Function) -> int:
    """Lines of a function on which a statement starts, its own `def` and nested functions included."""
    return len({n.lineno for n in ast.walk(function) if isinstance(n, ast.stmt) and not is_text(n)})


def functions_of(node: ast.AST, inside: str = "") -> Iterator[tuple[str, Function]]:
    """All functions below a node with their dotted names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{inside}.{child.name}" if inside else child.name
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from functions_of(child, name)
        else:
            yield from functions_of(child, inside)


def banned_words(name: str) -> list[str]:
    """The banned words in a file or class name, plurals included; `Database` is a word of its own."""
    words = [word.lower() for word in WORDS.findall(name)]
    return [word for word in words if word in BANNED or word.removesuffix("s") in BANNED]


def check_names(top: Path, findings: Findings) -> None:
    """No banned word in the name of a file, folder or class."""
    for path in python_files(*(top / folder for folder in NAMED)):
        where = path.relative_to(top).as_posix()
        for word in banned_words(where.removesuffix(".py")):
            findings.add(where, f"'{word}' in a file or folder name: what is it, really?")
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                for word in banned_words(node.name):
                    findings.add(
                        f"{where}:{node.lineno}", f"'{word}' in class {node.name}: what is it, really?"
                    )


def check_sizes(top: Path, findings: Findings) -> None:
    """Files, functions, and the median function of the package."""
    sizes: list[int] = []
    for path in python_files(top / SOURCE):
        where = path.relative_to(top).as_posix()
        limit = CORE_FILE_LINES if path.is_relative_to(top / CORE) else FILE_LINES
        findings.measure(where, len(path.read_text(encoding="utf-8").splitlines()), limit, path=where)
        for name, function in functions_of(parse(path)):
            size = executable_lines(function)
            sizes.append(size)
            findings.measure(
                f"{where}:{function.lineno} {name}", size, FUNCTION_LINES, path=where, function=name
            )
    if sizes and statistics.median(sizes) >= MEDIAN_BELOW:
        findings.add(
            SOURCE.as_posix(), f"the median function has {statistics.median(sizes)} executable lines"
        )


def check_purity(top: Path, findings: Findings) -> None:
    """Nothing in core waits."""
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for path in python_files(top / CORE):
        where = path.relative_to(top).as_posix()
        for node in ast.walk(parse(path)):
            if isinstance(node, waiting):
                findings.add(f"{where}:{node.lineno}", "core decides and never waits: no async, no await")


def check_unfinished(top: Path, findings: Findings) -> None:
    """No note to finish something later in what is shipped, SQL included."""
    for path in sorted([*python_files(top / SOURCE), *(top / SOURCE).rglob("*.sql")]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if found := UNFINISHED.search(line):
                findings.add(f"{path.relative_to(top).as_posix()}:{number}", f"{found[0]} in shipped code")


def check_raises(findings: Findings) -> None:
    """A raised limit that nothing needs is removed."""
    for path, function in sorted(set(findings.raised) - findings.needed):
        findings.add(LIMITS.name, f"the raised limit of {path} {function}".rstrip() + " is not needed")


def python_files(*folders: Path) -> list[Path]:
    """All Python files below the folders that exist, sorted."""
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def parse(path: Path) -> ast.Module:
    """The syntax tree of one file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def check(top: Path) -> list[str]:
    """Check the repository at `top`; returns the findings, one line each."""
    findings = Findings()
    read_limits(top / LIMITS, findings)
    for look in (check_sizes, check_names, check_purity, check_unfinished):
        look(top, findings)
    check_raises(findings)
    return findings.rows


def main() -> int:
    """Check the current folder; returns the exit code."""
    rows = check(Path.cwd())
    print("\n".join(rows) if rows else "sizes and names: within limits")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
