"""Which store the runtime's tests run on."""

import os
import re

import pytest

if os.environ.get("TORPOR_TEST_STORE") == "postgres":
    from tests.runtime.on_postgres import benches, on_postgres

    __all__ = ["benches", "on_postgres"]

    STORE = re.compile(r"(?<=[\[-])(?:memory|sqlite|postgres)(?=:?[\]-])|_in_memory\b|_on_sqlite\b")
    """Where the name of a test says its store."""
    FEWER = ("test_every_death_ends_in_a_move_or_in_none[sqlite]",)
    """Tests that try less on a file than in memory."""
    OTHERS = (
        "test_a_long_history_is_shown_the_same_whether_it_was_at_hand_or_is_read[sqlite:]",
        "test_a_slice_that_asks_no_model_reads_no_history",
        "test_rings_for_nobody_go_after_a_day_where_the_queue_is_in_the_store",
    )
    """Tests of what the other stores do in their own way, or that open PostgreSQL by themselves."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        """Of tests that differ by their store alone one is left: here they all have the same."""
        kept: dict[str, pytest.Item] = {}
        for item in sorted(items, key=_rank):
            kept.setdefault(STORE.sub("*", item.nodeid), item)
        left = {item.nodeid for item in kept.values() if not item.nodeid.endswith(OTHERS)}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in left])
        items[:] = [item for item in items if item.nodeid in left]

    def _rank(item: pytest.Item) -> int:
        """Files first: a path stands for one database, as it does elsewhere."""
        if item.nodeid.endswith(FEWER):
            return 2
        return 0 if "sqlite" in item.nodeid else 1
