"""Every command that the pages show works, one after the other, and prints what they say."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page, pages
from tests.docs.session import Session

FOLLOWED = [page for page in pages() if page.blocks("console") and page.name != "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", FOLLOWED, ids=[page.name for page in FOLLOWED])
@pytest.mark.slow
def test_the_commands_of_a_page_work(page: Page, tmp_path: Path) -> None:
    at = str(Path(page.name).parent)
    with Session(tmp_path, at) as session:
        for block in page.blocks("console"):
            session.follow(block)


def test_every_command_is_in_the_operations_page() -> None:
    from torpor.cli.app import COMMANDS

    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for command in (*COMMANDS, "demo"):
        assert re.search(rf"`{command}\b", text), command


def test_every_verb_that_a_page_names_is_there() -> None:
    verbs = set(
        re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for page in pages():
        for named in re.findall(r"`make ([a-z-]+)", page.text):
            assert named in verbs, f"{page.name}: make {named}"


def test_the_table_of_examples_is_whole() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    missing = [file.name for file in (ROOT / "examples").glob("*.py") if f"({file.name})" not in text]
    assert missing == []
