"""All checks of one runtime, and the report."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from importlib import import_module

from torpor.conformance import (
    runtime_moving,
    runtime_people,
    runtime_returning,
    runtime_sending,
    runtime_subscribing,
    runtime_taking,
    runtime_telling,
)
from torpor.conformance.harness import RuntimeUnderTest
from torpor.conformance.ledger import Ledger, Report, chosen_rows
from torpor.conformance.runtime_rows import ROWS
from torpor.conformance.stage import Pace, Trial
from torpor.core.errors import Refused

Check = Callable[[Trial], Awaitable[None]]

MOST_AT_ONCE = 8
LONGEST = 90.0
"""Seconds that one check may take."""
USUAL = Pace()
OURS = "torpor.conformance.ours:OurRuntime"

CHECKS: tuple[tuple[Check, str], ...] = (
    *runtime_sending.CHECKS,
    *runtime_taking.CHECKS,
    *runtime_subscribing.CHECKS,
    *runtime_telling.CHECKS,
    *runtime_people.CHECKS,
    *runtime_returning.CHECKS,
    *runtime_moving.CHECKS,
)


async def check_runtime(runtime: RuntimeUnderTest, *, only: Iterable[str] = (), pace: Pace = USUAL) -> Report:
    """Drive a runtime through its harness, with stub tool servers. ``Refused`` for an unknown row."""
    wanted = frozenset(only)
    rows = chosen_rows(ROWS, wanted)
    trial = Trial(Ledger(), runtime, pace)
    gate = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(check: Check) -> None:
        async with gate:
            await _bounded(check, trial)

    chosen = [check for check, may_judge in CHECKS if not wanted or not wanted.isdisjoint(_rows(may_judge))]
    await asyncio.gather(*(run(check) for check in chosen))
    return Report(runtime.name, trial.ledger.findings(rows, runtime.built), tuple(trial.ledger.notes))


def load_harness(ref: str = "") -> RuntimeUnderTest:
    """A harness by reference, ``package.module:name`` of a class or an object; empty: ours."""
    module, _, name = (ref or OURS).partition(":")
    try:
        found = getattr(import_module(module), name)
        harness: RuntimeUnderTest = found() if isinstance(found, type) else found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise Refused(f"The harness {ref!r} cannot be loaded: {error}.") from error
    return harness


async def _bounded(check: Check, trial: Trial) -> None:
    """One check; what fails in the harness or does not come about is a note, and its rows stay unseen."""
    what = (check.__doc__ or "").split("\n", 1)[0]
    try:
        async with asyncio.timeout(LONGEST):
            await check(trial)
    except Exception as error:  # noqa: BLE001 - the harness of a stranger may fail in any way
        told = str(error)[:300] or type(error).__name__
        trial.ledger.notes.append(f"a check could not be finished ({what}): {told}")


def _rows(may_judge: str) -> frozenset[str]:
    return frozenset(f"RT-{number}" for number in may_judge.split())
