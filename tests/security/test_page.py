"""The page about security: each line of what holds names tests, and each test named is there."""

import ast
import re

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "security.md"
LINK = re.compile(r"\[(test_\w+)\]\(([^()\s]+)\)")


def lines() -> list[str]:
    """The rows of the tables of what holds."""
    rows, inside = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| what holds |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            rows.append(line)
    return rows


def names_in(path: str) -> set[str]:
    """The names of all tests of a file, by its path from the page."""
    tree = ast.parse((PAGE.parent / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_are_lines() -> None:
    assert len(lines()) > 40


@pytest.mark.parametrize("line", lines(), ids=lambda line: line[2:50])
def test_each_line_is_checked_by_tests_that_there_are(line: str) -> None:
    links = LINK.findall(line)
    assert links, "no test is named"
    for name, path in links:
        assert name in names_in(path), f"{path} has no {name}"
