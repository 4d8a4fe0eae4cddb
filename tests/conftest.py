"""Set-up of all tests."""

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.postgres import Cluster

# Python 3.11 can fail to compile a module when the garbage collector runs in the middle of it
# ("AST constructor recursion depth mismatch"); collecting tests compiles many.
gc.disable()


LONG = (
    "tests/attacks/",
    "tests/bench/",
    "tests/cases/test_cases.py",
    "tests/cli/test_answer.py",
    "tests/cli/test_commands.py",
    "tests/cli/test_rap.py::test_a_runtime_is_checked_too",
    "tests/cli/test_mcp.py",
    "tests/cli/test_retention.py",
    "tests/cli/test_compact.py",
    "tests/cli/test_doctor_",
    "tests/cli/test_keys.py",
    "tests/cli/test_demo_fleet.py",
    "tests/cli/test_migrate.py",
    "tests/conformance/test_",
    "tests/contract/test_postgres",
    "tests/contract/test_sqlite_",
    "tests/contract/test_stores.py::TestSqlite::test_interleaved",
    "tests/contract/test_stores.py::TestSqliteInline",
    "tests/core/test_codec.py",
    "tests/core/test_families.py",
    "tests/core/test_histories.py",
    "tests/core/test_lineages.py",
    "tests/core/test_prefix_bytes.py",
    "tests/mcp/test_listing.py::test_pages_are_weighed",
    "tests/docs/test_blocks.py",
    "tests/docs/test_commands.py",
    "tests/docs/test_fleet.py",
    "tests/end_to_end/",
    "tests/faults/",
    "tests/fuzz/",
    "tests/mcp/test_authorization_",
    "tests/mcp/test_content.py",
    "tests/mcp/test_hostile.py",
    "tests/mcp/test_http.py",
    "tests/mcp/test_lines.py",
    "tests/mcp/test_official.py",
    "tests/mcp/test_calls",
    "tests/mcp/test_out_",
    "tests/mcp/test_vault.py",
    "tests/mcp/test_sessions.py",
    "tests/mcp/test_stdio.py",
    "tests/models/",
    "tests/protocol/test_callbacks_bodies.py",
    "tests/protocol/test_callbacks_flow.py::test_a_thousand_callbacks_posted",
    "tests/protocol/test_moving_flow.py",
    "tests/protocol/test_peers.py",
    "tests/protocol/test_server_",
    "tests/runtime/test_races.py::test_competing_processes",
    "tests/runtime/test_bad_input.py",
    "tests/runtime/test_bridged_calls.py::test_every_death",
    "tests/runtime/test_compaction.py",
    "tests/runtime/test_crash_points.py",
    "tests/runtime/test_deletion_deaths.py",
    "tests/runtime/test_event_threads.py::test_a_thousand_events_in_a_second[sqlite",
    "tests/runtime/test_family_deaths.py",
    "tests/runtime/test_idle.py::test_ten_thousand",
    "tests/runtime/test_moving_deaths.py",
    "tests/runtime/test_places_below.py",
    "tests/runtime/test_random_lives.py",
    # Two of the eight parts are enough to see everything happen, and half of the time of `make test`.
    *(
        f"tests/runtime/test_random_trees.py::test_random_trees_obey_every_law[{part}]"
        for part in range(2, 8)
    ),
    "tests/runtime/test_retention.py",
    "tests/runtime/test_same_everywhere.py",
    "tests/runtime/test_stepping",
    "tests/runtime/test_stopping.py",
    "tests/runtime/test_store_away.py",
    "tests/runtime/test_waits.py::test_every_death",
    "tests/security/test_addresses.py",
    "tests/security/test_callbacks.py",
    "tests/security/test_providers.py",
    "tests/security/test_requests.py",
    "tests/security/test_rows.py",
    "tests/security/test_secrets.py",
    "tests/security/test_streams.py",
    "tests/security/test_tenants.py",
    "tests/security/test_words.py",
    "tests/tooling/test_start_cost.py",
    "tests/weather/test_seeds.py",
    "tests/web/test_callbacks.py",
    "tests/web/test_events.py",
    "tests/web/test_reached.py",
)
"""Tests that `make test-long` runs, so that `make test` stays under a minute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long."""
    for item in items:
        if item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.long)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests run with the garbage collector on."""
    gc.enable()


@pytest.fixture(scope="session")
def postgres_cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """A PostgreSQL server, shared by all workers of a run."""
    from tests import postgres

    with postgres.found_or_skipped(tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres_cluster: "Cluster") -> Iterator[str]:
    """A database without rows; its tables may be there already."""
    with postgres_cluster.database() as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_cluster: "Cluster") -> Iterator[str]:
    """A database without tables."""
    with postgres_cluster.empty_database() as url:
        yield url
