"""Set-up of all tests."""

import gc

import pytest

# Python 3.11 can fail to compile a module when the garbage collector runs in the middle of it
# ("AST constructor recursion depth mismatch"); collecting tests compiles many.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests run with the garbage collector on."""
    gc.enable()
