"""What many workers do over one PostgreSQL: `python bench/fleet.py`, `--json`, or `--write` for the page.

Completions a second with 1, 2 and 4 worker processes beside one over SQLite, the round trips and the WAL
of each; how soon a callback wakes its thread at half of the most that is possible; and what a fleet at rest
asks. Of several runs of a kind the median counts.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psycopg
from fleet_chain import Chain, chain
from fleet_rest import Rest, rest
from fleet_wakes import Wakes, wakes
from measuring import Machine, machine
from placing import PAGE, placed, told_of

from torpor.testing.postgres import Missing, Server, server

P50, P99, QUERIES = 10.0, 50.0, 5.0
"""Bars: milliseconds of a wake, queries a second at rest."""


class Fleet(msgspec.Struct, frozen=True):
    """All figures. ``load``: how many processes wanted to run on the machine before."""

    chains: list[Chain]
    wakes: Wakes | None
    rest: Rest | None
    postgres: str
    machine: Machine
    load: float


def main() -> int:
    """The command."""
    given = _arguments().parse_args()
    try:
        with server({"wal_level": "replica", "log_min_messages": "fatal"}) as running:
            figures = _measured(running, given)
    except Missing as reason:
        print(f"fleet: {reason}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(msgspec.to_builtins(figures), indent=1))
        return 0
    print("\n".join(_told(figures)))
    if given.write:
        placed(PAGE, "fleet", _told(figures))
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fleet", description=__doc__)
    add = parser.add_argument
    add("--workers", type=int, nargs="*", default=[1, 2, 4], help="worker processes of each run")
    add("--threads", type=int, default=300)
    add("--completions", type=int, default=10, help="of each thread")
    add("--repeat", type=int, default=3, help="runs of each number of workers")
    add("--slots", type=int, default=32, help="slices side by side in each process")
    add("--wakers", type=int, default=2, help="workers of the run with wakes; 0: none")
    add("--seconds", type=float, default=15.0, help="of each measurement of wakes, and of rest")
    add("--sleeping", type=int, default=100_000, help="threads that sleep; 0: no run at rest")
    add("--write", action="store_true", help="into docs/performance.md")
    add("--json", action="store_true", help="one JSON object on the standard output")
    return parser


def _measured(running: Server, given: argparse.Namespace) -> Fleet:
    before = os.getloadavg()[0]
    size = (given.slots, given.threads, given.completions)
    chains = []
    if given.workers:
        chains.append(_median([_on_sqlite(*size) for _ in range(given.repeat)]))
    chains += [
        _median([_on_postgres(running, workers, *size) for _ in range(given.repeat)])
        for workers in given.workers
    ]
    woken = resting = None
    if given.wakers:
        with _database(running) as store:
            woken = asyncio.run(wakes(store, given.wakers, given.slots, given.threads, given.seconds))
    if given.sleeping:
        with _database(running) as store:
            resting = asyncio.run(rest(store, 4, 8, given.sleeping, given.seconds))
    with psycopg.connect(running.url()) as connection:
        version = connection.info.server_version // 10_000
    return Fleet(chains, woken, resting, str(version), machine(), round(before, 1))


def _median(runs: list[Chain]) -> Chain:
    return sorted(runs, key=lambda run: run.completions_per_s)[len(runs) // 2]


def _on_sqlite(*size: int) -> Chain:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(chain(f"sqlite:///{folder}/fleet.db", 1, *size))


def _on_postgres(running: Server, workers: int, *size: int) -> Chain:
    with _database(running) as store:
        return asyncio.run(chain(store, workers, *size))


@contextmanager
def _database(running: Server) -> Iterator[str]:
    with psycopg.connect(running.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE fleet")
        yield running.url("fleet")
        connection.execute("DROP DATABASE fleet WITH (FORCE)")


def _told(figures: Fleet) -> list[str]:
    lines = [told_of(msgspec.to_builtins(figures.machine))]
    lines += [
        f"PostgreSQL {figures.postgres} runs on it too, and so does what speaks to agents and calls back."
    ]
    lines += [f"Load before all of this: {figures.load}.", ""]
    lines += _chains(figures.chains)
    if figures.wakes is not None:
        lines += ["", *_wakes(figures.wakes)]
    if figures.rest is not None:
        lines += ["", *_rest(figures.rest)]
    return lines


def _chains(chains: list[Chain]) -> list[str]:
    columns = [
        "store",
        "workers",
        "completions / s",
        "CPU ms of workers each",
        "round trips each",
        "WAL bytes each",
    ]
    rows = ["| " + " | ".join([*columns, "conflicts"]) + " |", "|---" * (len(columns) + 1) + "|"]
    for one in chains:
        server = f"{one.trips:.2f} | {one.wal_bytes:,.0f}" if one.store == "postgresql" else "- | -"
        rows.append(
            f"| {one.store} | {one.workers} | {one.completions_per_s:,.0f} | {one.worker_cpu_ms:.2f} "
            f"| {server} | {one.conflicts} |"
        )
    return rows


def _wakes(one: Wakes) -> list[str]:
    return [
        f"| wakes: {one.workers} workers, a receiver, {one.threads} threads | |",
        "|---|---|",
        f"| most wakes / s | {one.most_per_s:,.0f} |",
        f"| at {one.rate:,.0f} / s: p50 | {one.p50_ms} ms, bar {P50:.0f}: {_verdict(one.p50_ms < P50)} |",
        f"| p90 | {one.p90_ms} ms |",
        f"| p99 | {one.p99_ms} ms, bar {P99:.0f}: {_verdict(one.p99_ms < P99)} |",
    ]


def _rest(one: Rest) -> list[str]:
    verdict = _verdict(one.queries_per_s < QUERIES)
    return [
        f"At rest, {one.workers} workers and {one.sleeping:,} sleeping threads: {one.queries_per_s} queries "
        f"a second in all, bar {QUERIES:.0f}: {verdict}."
    ]


def _verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


if __name__ == "__main__":
    sys.exit(main())
