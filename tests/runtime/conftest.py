"""Which store the runtime's tests run on."""

import os

import pytest

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
