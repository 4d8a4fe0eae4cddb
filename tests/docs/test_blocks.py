"""Every Python block of every page runs as it stands.

The blocks of one page share their names, as a reader's session would. After the language a block may say:
``asks a model``: a provider on loopback answers; ``file NAME``: it is written to a file, and run unless it is
a test; ``compiled: WHY``: it is only compiled.
"""

import ast
import asyncio
import codeop
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Block, Page, pages
from tests.docs.provider import answering

COMPILED = "compiled: "
ASKS = "asks a model"
FILE = "file "

PAGES = [page for page in pages() if page.blocks("python")]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
@pytest.mark.slow
def test_the_python_of_a_page_runs(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block in page.blocks("python"):
            if block.note.startswith(FILE):
                Path(block.note.removeprefix(FILE)).write_text(block.text, encoding="utf-8")
            if _runs(block):
                _run(block, names, runner, monkeypatch)


def test_the_blocks_of_the_first_page_can_be_pasted_into_a_prompt() -> None:
    """Line by line, as ``python -m asyncio`` takes them: a blank line ends what is indented."""
    for block in next(page for page in PAGES if page.name.endswith("python.md")).blocks("python"):
        prompt = codeop.CommandCompiler()
        prompt.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        typed: list[str] = []
        for line in (*block.text.splitlines(), ""):
            typed.append(line)
            if prompt("\n".join(typed)) is not None:
                typed.clear()
        assert not any(typed), f"{block}: it does not end"


def test_what_stands_behind_the_language_is_known() -> None:
    for page in pages():
        for block in page.blocks("python"):
            known = block.note in ("", ASKS) or block.note.startswith((COMPILED, FILE))
            assert known, f"{block}: {block.note!r}"
            assert block.note != COMPILED.strip(), f"{block}: say why it is only compiled"


@pytest.mark.slow
def test_the_tests_of_the_pages_pass(tmp_path: Path) -> None:
    """Blocks that are test files are run by pytest, as a reader would."""
    blocks = [block for page in pages() for block in page.blocks("python") if _is_test(block)]
    assert blocks
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # no settings of folders above
    for block in blocks:
        (tmp_path / block.note.removeprefix(FILE)).write_text(block.text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "."]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _is_test(block: Block) -> bool:
    return block.note.startswith(f"{FILE}test_")


def _runs(block: Block) -> bool:
    code = _compiled(block)
    return code is not None and not block.note.startswith(COMPILED) and not _is_test(block)


def _compiled(block: Block) -> Any:
    """The block's code, its lines numbered as on the page. A bare ``await`` is allowed."""
    text = "\n" * block.line + block.text
    return compile(text, str(ROOT / block.page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _run(
    block: Block, names: dict[str, Any], runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block.note == ASKS:
        with answering() as url:
            monkeypatch.setenv("OPENAI_BASE_URL", url)
            _step(block, names, runner)
    else:
        _step(block, names, runner)


def _step(block: Block, names: dict[str, Any], runner: asyncio.Runner) -> None:
    outcome = eval(_compiled(block), names)
    if inspect.iscoroutine(outcome):
        runner.run(outcome)
