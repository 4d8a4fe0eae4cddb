"""The size check finds what it should, on a small repository made for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_sizes import banned_words, check


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "src/torpor/core").mkdir(parents=True)
    return tmp_path


def write(top: Path, path: str, text: str) -> None:
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_text(text, encoding="utf-8")


def function(statements: int, name: str = "long") -> str:
    """A function of that many executable lines, its own `def` included, between text that counts not."""
    body = "".join(f"    # why {n}\n\n    value = (\n        {n}\n    )\n" for n in range(statements - 1))
    return f'def {name}():\n    """Says\n\n    at length.\n    """\n{body}'


def short(count: int) -> str:
    return "".join(f"def short{n}():\n    return {n}\n" for n in range(count))


def test_a_clean_repository_has_no_findings(top: Path) -> None:
    write(top, "src/torpor/database.py", function(40) + short(3))
    assert check(top) == []


def test_a_file_over_its_limit_is_found_and_core_has_the_lower_one(top: Path) -> None:
    write(top, "src/torpor/worker.py", "\n" * 401)
    write(top, "src/torpor/core/plan.py", "\n" * 301)
    assert check(top) == [
        "src/torpor/core/plan.py: 301 lines, the limit is 300",
        "src/torpor/worker.py: 401 lines, the limit is 400",
    ]


def test_files_at_their_limits_pass(top: Path) -> None:
    write(top, "src/torpor/worker.py", "\n" * 400)
    write(top, "src/torpor/core/plan.py", "\n" * 300)
    assert check(top) == []


def test_a_long_function_is_found_with_its_dotted_name(top: Path) -> None:
    indented = function(41).replace("\n", "\n    ")
    write(top, "src/torpor/worker.py", f"class Worker:\n    {indented}\n\n{short(3)}")
    assert check(top) == ["src/torpor/worker.py:2 Worker.long: 41 executable lines, the limit is 40"]


def test_nested_functions_count_for_the_outer_one(top: Path) -> None:
    inner = function(39, "inner").replace("\n", "\n    ")
    write(top, "src/torpor/worker.py", f"def outer():\n    {inner}\n    return inner\n\n{short(4)}")
    assert check(top) == ["src/torpor/worker.py:1 outer: 41 executable lines, the limit is 40"]


def test_the_median_function_stays_below_eight_lines(top: Path) -> None:
    write(top, "src/torpor/worker.py", function(8))
    assert check(top) == ["src/torpor: the median function has 8 executable lines"]


def test_a_limit_is_raised_with_a_reason(top: Path) -> None:
    write(top, "src/torpor/worker.py", function(41) + short(3))
    entry = '[[raise]]\npath = "src/torpor/worker.py"\nfunction = "long"\nlimit = 41\n'
    write(top, "limits.toml", entry + 'reason = "one table of cases"\n')
    assert check(top) == []
    write(top, "limits.toml", entry)
    assert check(top) == ["limits.toml: the limit of src/torpor/worker.py long is raised without a reason"]


def test_a_raised_limit_holds_and_goes_when_it_is_not_needed(top: Path) -> None:
    entry = '[[raise]]\npath = "src/torpor/worker.py"\nlimit = 402\nreason = "one table of cases"\n'
    write(top, "limits.toml", entry)
    write(top, "src/torpor/worker.py", "\n" * 403)
    assert check(top) == ["src/torpor/worker.py: 403 lines, the limit is 402"]
    write(top, "src/torpor/worker.py", "\n" * 400)
    assert check(top) == ["limits.toml: the raised limit of src/torpor/worker.py is not needed"]


@pytest.mark.parametrize(
    "name", ["ThreadManager", "http_utils", "Handlers", "DataSource", "JSONHelper", "base"]
)
def test_banned_words_are_found_in_any_case_and_number(name: str) -> None:
    assert len(banned_words(name)) == 1


@pytest.mark.parametrize(
    "name", ["Database", "Dataset", "handle", "process", "basement", "Commons_", "inform"]
)
def test_words_that_only_contain_a_banned_one_pass(name: str) -> None:
    assert banned_words(name.replace("Commons_", "Commonplace")) == []


def test_names_of_files_folders_and_classes_are_looked_at_everywhere(top: Path) -> None:
    write(top, "src/torpor/utils/text.py", "")
    write(top, "tests/core/test_plan.py", "class PlanHelper: ...\n")
    assert check(top) == [
        "src/torpor/utils/text.py: 'utils' in a file or folder name: what is it, really?",
        "tests/core/test_plan.py:1: 'helper' in class PlanHelper: what is it, really?",
    ]


def test_core_never_waits(top: Path) -> None:
    write(top, "src/torpor/core/plan.py", "async def plan():\n    await later()\n")
    write(top, "src/torpor/worker.py", "async def work():\n    await later()\n")
    assert [row.split(": ")[0] for row in check(top)] == [
        "src/torpor/core/plan.py:1",
        "src/torpor/core/plan.py:2",
    ]


def test_unfinished_work_is_found_in_sql_too(top: Path) -> None:
    mark = "TO" + "DO"
    write(top, "src/torpor/stores/sqlite/schema.sql", f"-- {mark}: an index\n")
    assert check(top) == [f"src/torpor/stores/sqlite/schema.sql:1: {mark} in shipped code"]
