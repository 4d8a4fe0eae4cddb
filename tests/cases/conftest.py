"""Stores for cases."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cases import places
from tests.inline_postgres import Bench
from tests.postgres import Cluster


@pytest.fixture(scope="session")
def case_bench(postgres_cluster: Cluster) -> Iterator[Bench]:
    """One PostgreSQL database for all cases of a worker."""
    bench = Bench(postgres_cluster)
    yield bench
    bench.close()


@pytest.fixture
def backends_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], places.Backends]:
    """Makes a store and a queue on a clock, by the store's name; each time new ones."""

    def of(store: str) -> places.Backends:
        if store == "postgres":
            return places.postgres(request.getfixturevalue("case_bench"))
        return places.memory if store == "memory" else places.sqlite(tmp_path)

    return of
