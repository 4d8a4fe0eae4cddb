"""Which store the runtime's tests run on."""

import os

import pytest

if os.environ.get("TORPOR_TEST_STORE") == "postgres":
    from tests.runtime.on_postgres import benches, on_postgres

    __all__ = ["benches", "on_postgres"]

    FEWER = ("test_every_death_ends_in_a_move_or_in_none[sqlite]",)
    """Tests that try less on a file than in memory."""

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """What runs in memory and in a file would run twice in the same way."""
        names = {item.nodeid for item in items}
        for item in items:
            if item.nodeid.endswith(FEWER) or _others(item.nodeid) & names:
                item.add_marker(pytest.mark.skip(reason="the same as on the other store"))

    def _others(name: str) -> set[str]:
        """What the same test is called on a file."""
        found = {name.replace("[memory", "[sqlite"), name.replace("_in_memory", "_on_sqlite")}
        return {other for other in found - {name} if not other.endswith(FEWER)}
