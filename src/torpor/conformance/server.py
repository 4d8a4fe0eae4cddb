"""All checks of one tool server, in an order that disturbs little, and the report."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial

import msgspec

from torpor.conformance import (
    asking,
    auditing,
    delivering,
    discovery,
    guarding,
    invoking,
    moving,
    notices,
    roles,
    statuses,
    subscribing,
)
from torpor.conformance.caller import Caller
from torpor.conformance.ledger import Ledger, Report, chosen_rows
from torpor.conformance.listening import Asked, stub_runtime
from torpor.conformance.probe import Call, Patience, Probe
from torpor.conformance.server_rows import ROWS

Check = Callable[[Probe], Coroutine[None, None, None]]

MOST_AT_ONCE = 12
LONGEST = 300.0
"""Seconds that all checks may take together."""

ALONE: tuple[tuple[Check, str], ...] = invoking.ALONE + notices.ALONE
"""Checks that measure time, one after the other."""
TOGETHER: tuple[tuple[Check, str], ...] = (
    *discovery.CHECKS,
    *invoking.CHECKS,
    *delivering.CHECKS,
    *statuses.CHECKS,
    *notices.CHECKS,
    *subscribing.CHECKS,
    *asking.CHECKS,
    *guarding.CHECKS,
    *moving.CHECKS,
)
"""Checks that mostly wait, side by side. Each names the rows that it may judge."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to check. ``calls`` says, by role, which tools are good for what (see ``probe.ROLES``).

    ``only`` names the rows to judge; empty: all. ``listen`` and ``public_url`` are those of the stub runtime.
    """

    token: str | None = None
    only: frozenset[str] = frozenset()
    calls: Mapping[str, Call] = {}
    patience: Patience = Patience()
    listen: str = "127.0.0.1:0"
    public_url: str = ""


USUAL = Options()


async def check_server(url: str, options: Options = USUAL) -> Report:
    """Drive the tool server at ``url`` through the protocol. It is told to end all that was begun.

    ``Refused`` for a URL, a row or an address to listen on that cannot be used.
    """
    rows = chosen_rows(ROWS, options.only)
    ledger = Ledger(options.token or "")
    async with (
        stub_runtime(options.listen, options.public_url) as stub,
        Caller(url, token=options.token, within=options.patience.answer) as caller,
    ):
        probe = Probe(caller, stub, ledger, options.patience)
        await discovery.discover(probe)
        if probe.endpoint and probe.tools:
            await _within_limits(probe, options)
        auditing.audit(probe)
    return Report(caller.url, ledger.findings(rows), tuple(ledger.notes))


async def _within_limits(probe: Probe, options: Options) -> None:
    try:
        async with asyncio.timeout(LONGEST):
            await _drive(probe, options)
    except TimeoutError:
        probe.ledger.notes.append(f"stopped after {LONGEST:g} s: the server is too slow")
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(options.patience.answer):
                await _tidy(probe)


async def _drive(probe: Probe, options: Options) -> None:
    await roles.learn(probe, options.calls)
    for check, may_judge in ALONE:
        if _wanted(may_judge, options.only):
            await _finished(probe, check)
    chosen = [check for check, may_judge in TOGETHER if _wanted(may_judge, options.only)]
    await _side_by_side([partial(_finished, probe, check) for check in chosen])


async def _finished(probe: Probe, check: Check) -> None:
    """One check; what goes wrong in it is a note, since a server may send what nobody thought of."""
    try:
        await check(probe)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are worth having
        told = f"{type(error).__name__}: {str(error)[:200]}"
        probe.ledger.notes.append(f"the check {check.__name__!r} could not be finished: {told}")


async def _side_by_side(works: Sequence[Callable[[], Awaitable[object]]]) -> None:
    gate = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(work: Callable[[], Awaitable[object]]) -> None:
        async with gate:
            await work()

    await asyncio.gather(*map(run, works))


def _wanted(may_judge: str, only: frozenset[str]) -> bool:
    return not only or not only.isdisjoint(f"TS-{number}" for number in may_judge.split())


async def _tidy(probe: Probe) -> None:
    """End what was begun: calls without a result, subscriptions, threads."""
    asked = probe.stub.asked
    left = [one for one in asked if not one.cancelled and _may_live(one)]
    await _side_by_side([partial(probe.cancel, one) for one in left])
    threads = dict.fromkeys(one.thread for one in asked)
    await _side_by_side([partial(probe.close, thread) for thread in threads])


def _may_live(asked: Asked) -> bool:
    return not asked.results or asked.result.get("subscription") is True
