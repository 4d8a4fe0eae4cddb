"""Every case over every store that it is for."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cases import checks
from tests.cases.families import Case, cases
from tests.cases.laws import check_laws
from tests.cases.places import Backends
from tests.cases.stage import PATIENCE
from tests.cases.steps import Play


class Errors(logging.Handler):
    """What is logged as an error: a runtime that does as it should has none to tell."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


async def play(case: Case, backends: Backends, seed: int = 0) -> None:
    """One run, and all that must hold after it."""
    run = Play(case, backends, seed)
    errors = Errors()
    logging.getLogger("torpor").addHandler(errors)
    try:
        async with asyncio.timeout(PATIENCE):
            await run.run()
            await checks.check(run, case.check)
            await check_laws(run.stage)
        assert errors.told == [], "something failed in a way it should not"
    finally:
        logging.getLogger("torpor").removeHandler(errors)
        await run.stage.backends[0].close()  # type: ignore[attr-defined]


def runs() -> Iterator[Any]:
    for case in cases():
        for store in case.stores:
            marks = [pytest.mark.xfail(reason=case.xfail, strict=True)] if case.xfail else []
            yield pytest.param(case, store, id=f"{case.id}-{store}", marks=marks)


@pytest.mark.parametrize(("case", "store"), list(runs()))
def test_case(case: Case, store: str, backends_of: Callable[[str], Backends]) -> None:
    backends = backends_of(store)
    for seed in range(1, case.repeat + 1):
        asyncio.run(play(case, backends, seed if case.repeat > 1 else 0))
