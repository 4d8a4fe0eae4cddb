"""Set-up of all tests."""

import gc

import pytest

# Python 3.11 can fail to compile a module when the garbage collector runs in the middle of it
# ("AST constructor recursion depth mismatch"); collecting tests compiles many.
gc.disable()


LONG = (
    "tests/bench/",
    "tests/conformance/test_",
    "tests/docs/test_commands.py",
    "tests/protocol/test_peers.py",
    "tests/runtime/test_idle.py::test_ten_thousand",
    "tests/runtime/test_crash_points.py::test_two_deaths",
    "tests/runtime/test_crash_points.py::test_every_death_ends_in_the_undisturbed_history_on_sqlite",
    "tests/contract/test_sqlite_processes.py",
    "tests/models/test_contract.py::TestOpenAIByteByByte",
    "tests/models/test_contract.py::TestAnthropicByteByByte",
    "tests/models/test_whole_thread.py::test_one_id_for_every_call",
    "tests/models/test_openai_stream.py::test_an_end_at_each_byte",
    "tests/runtime/test_random_lives.py",
    "tests/runtime/test_family_deaths.py::test_two_deaths",
    "tests/runtime/test_family_deaths.py::test_every_death_on_sqlite",
    "tests/runtime/test_family_deaths.py::test_every_death_ends_as_if_nothing_had_happened[a subtree",
    "tests/runtime/test_family_deaths.py::test_every_death_ends_as_if_nothing_had_happened[a tree",
    "tests/runtime/test_family_deaths.py::test_every_death_ends_as_if_nothing_had_happened[an orphan",
    "tests/cli/test_commands.py",
    "tests/cli/test_answer.py",
    "tests/runtime/test_waits.py::test_every_death_ends_in_the_undisturbed_history[stop",
    "tests/runtime/test_waits.py::test_every_death_ends_in_the_undisturbed_history[beside",
    "tests/runtime/test_waits.py::test_every_death_ends_in_the_undisturbed_history[authorization",
    "tests/end_to_end/test_kill",
    "tests/models/test_prefix.py",
    "tests/web/test_callbacks.py::test_a_thousand",
    "tests/web/test_reached.py",
    "tests/runtime/test_store_away.py",
    "tests/protocol/test_server_restart.py",
    "tests/docs/test_blocks.py",
    "tests/models/test_projected.py",
    "tests/runtime/test_bad_input.py::test_a_callback_of_fifty_megabytes",
    "tests/runtime/test_compaction.py::test_a_tree_is_not_loaded_to_sum_up_its_root[999",
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
