"""Which store the runtime's tests run on."""

import os

if os.environ.get("TORPOR_TEST_STORE") == "postgres":
    from tests.runtime.on_postgres import benches, on_postgres

    __all__ = ["benches", "on_postgres"]
