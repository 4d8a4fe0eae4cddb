"""Which store the runtime's tests run on."""

import os

import pytest

ELSEWHERE = {
    "test_a_disk_that_fails_while_threads_run_loses_nothing": "the disk of a file",
    "test_an_altered_row_is_not_run": "alters rows of a file",
    "test_what_is_not_altered_is_run": "alters rows of a file",
    "test_a_child_that_cannot_be_read_is_a_failure_at_once": "breaks rows in memory",
}
"""Tests of what only another store has."""

if os.environ.get("TORPOR_TEST_STORE") == "postgres":
    from tests.runtime.on_postgres import benches, on_postgres

    __all__ = ["benches", "on_postgres"]

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """What runs in memory and in a file would run twice in the same way."""
        names = {item.nodeid for item in items}
        for item in items:
            name = item.nodeid
            others = {name.replace("[memory", "[sqlite"), name.replace("_in_memory", "_on_sqlite")} - {name}
            if others & names:
                item.add_marker(pytest.mark.skip(reason="the same as on the other store"))
            for each, reason in ELSEWHERE.items():
                if each in name:
                    item.add_marker(pytest.mark.skip(reason=reason))
