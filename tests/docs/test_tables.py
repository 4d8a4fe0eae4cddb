"""The tables of settings, limits, options and paths are those of the code."""

from tests.docs import tables
from tests.docs.pages import page


def test_the_tables_are_those_of_the_code() -> None:
    for name in tables.PAGES:
        text = page(name).text
        assert tables.filled(text) == text, f"{name}: run `python -m tests.docs.tables`"
