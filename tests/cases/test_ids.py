"""No handed case is forgotten, and no two cases have one id."""

import re
from collections import Counter
from pathlib import Path

from tests.cases.families import STORES, cases, families, left

ROOT = Path(__file__).parents[2]
OWN = re.compile(r"[A-Z]{3}-X\d\d")


def test_every_id_is_there_once() -> None:
    assert [id for id, number in Counter(case.id for case in cases()).items() if number > 1] == []


def test_every_handed_id_is_a_case_or_left_with_a_reason() -> None:
    told = left()
    known = [case.id for case in cases() if not OWN.fullmatch(case.id)]
    found = Counter([*known, *told.left, *told.elsewhere])
    assert found == Counter(told.ids)
    assert all(reason.strip() for reason in told.left.values())


def test_handed_cases_name_their_source_and_ours_none() -> None:
    for case in cases():
        assert bool(case.source) != bool(OWN.fullmatch(case.id)), case.id


def test_tests_that_are_named_are_there() -> None:
    for id, names in left().elsewhere.items():
        assert names, id
        for name in names:
            file, _, test = name.partition("::")
            assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{id}: no {name}"


def test_every_case_checks_something_on_known_stores() -> None:
    for name, found in families().items():
        assert found, name
        for case in found:
            checked = case.check or any("check" in step for step in case.steps if isinstance(step, dict))
            assert checked, case.id
            assert case.expect.strip(), case.id
            assert case.stores, case.id
            assert set(case.stores) <= set(STORES), case.id
