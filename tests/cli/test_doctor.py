"""How the doctor judges what it sees: work that is under way is fine, and only what nobody cures is wrong."""

from typing import Any

import msgspec
import pytest

from torpor.cli.doctor_fleet import BEHIND, STUCK, UNSWEPT, clock, fleet
from torpor.ports.checkup import Due, Finding, Survey
from torpor.runtime.presence import BEATS, EVERY, Here

NOW = 1_900_000_000.0

QUIET = Survey(
    now=NOW, newest=NOW, parked=0, agents=("echo",), due=(), leased=0, ready=0, ready_since=0.0,
    effects=0, left=0, left_since=0.0,
)  # fmt: skip


def survey(**given: Any) -> Survey:
    return msgspec.structs.replace(QUIET, **given)


def worker(name: str = "host/1", *agents: str, ago: float = 1.0, **given: Any) -> Here:
    """A worker that last spoke ``ago`` seconds ago."""
    return Here(name, agents or ("echo",), NOW - ago + BEATS * given.get("every", EVERY), **given)


def found(survey: Survey, *workers: Here, named: tuple[str, ...] = ()) -> dict[str, Finding]:
    """The last finding of each kind."""
    return {finding.about: finding for finding in fleet(survey, workers, named)}


def due(waited: float, *, tier: str = "realtime", held: int = 0, agent: str = "echo") -> tuple[Due, ...]:
    return (Due(agent, tier, 3, NOW - waited, held),)


def test_a_quiet_store_is_well() -> None:
    assert {one.level for one in found(QUIET, worker(swept=NOW - 12)).values()} == {"fine"}


@pytest.mark.parametrize(
    ("waited", "leased", "tier", "level", "says"),
    [
        (BEHIND - 1, 0, "realtime", "fine", "workers take them up"),
        (BEHIND + 1, 0, "realtime", "note", "none is under way"),
        (STUCK + 1, 0, "realtime", "wrong", "none takes them up"),
        (STUCK + 1, 8, "realtime", "note", "while 8 are under way: start more workers"),
        (3_600.0, 0, "batch", "fine", "workers take them up"),
        (80.0, 0, "async", "fine", "workers take them up"),
        (60 + STUCK + 1, 0, "async", "wrong", "none takes them up"),
    ],
)
def test_work_that_waits_is_judged_by_when_it_had_to_begin(
    waited: float, leased: int, tier: str, level: str, says: str
) -> None:
    one = found(survey(due=due(waited, tier=tier), leased=leased), worker())["threads"]
    assert (one.level, says in one.found) == (level, True), one.found


def test_work_that_somebody_holds_is_under_way_however_long() -> None:
    held = (Due("echo", "realtime", 0, 0.0, 5),)
    one = found(survey(due=held, leased=5), worker())["threads"]
    assert one == Finding("fine", "threads", "none waits for a worker; 5 under way")


def test_an_agent_that_nobody_runs_is_wrong_at_once_where_work_is_due() -> None:
    alone = found(survey(due=due(0.5)))["threads"]
    assert (alone.level, "start a worker for echo" in alone.found) == ("wrong", True)
    other = found(survey(due=due(0.5)), worker("host/1", "other"))
    assert other["threads"].level == "wrong"
    assert other["agents"] == Finding(
        "note", "agents", "no worker runs 'echo', which has threads that will wait"
    )
    later = found(survey(due=due(0.5, tier="batch")))["threads"]
    assert later.level == "note"


def test_a_worker_that_has_not_spoken_is_doubted_before_it_is_given_up() -> None:
    silent = worker(ago=2 * EVERY)
    seen = found(survey(due=due(600.0)), silent)
    assert seen["workers"].level == seen["threads"].level == "note"
    assert "counts as there for 30 s" in seen["workers"].found
    assert "if they were killed, start one" in seen["threads"].found


def test_workers_of_two_releases_and_agents_of_the_settings_get_a_word() -> None:
    old, new = worker("a/1", release="1.0"), worker("b/1", release="1.1")
    seen = found(survey(agents=()), old, new, named=("echo", "clerk"))
    assert seen["workers"] == Finding(
        "note", "workers", "of several releases run: 1.0, 1.1. Finish the restart of the older ones"
    )
    assert seen["agents"] == Finding("note", "agents", "no worker runs 'clerk', which is in the settings")


def test_a_sweep_that_does_not_come_through() -> None:
    limit = UNSWEPT + 2 * EVERY
    assert "sweep" not in found(QUIET, worker())
    assert found(QUIET, worker(swept=NOW - limit + 1))["sweep"].level == "fine"
    late = found(QUIET, worker("a", swept=NOW - limit - 1), worker("b", swept=NOW - limit - 9))["sweep"]
    assert (late.level, "torpor.sweep" in late.found) == ("wrong", True)
    assert found(QUIET, worker("a", swept=NOW - limit - 1), worker("b", swept=NOW))["sweep"].level == "fine"


@pytest.mark.parametrize(
    ("ago", "leased", "level"),
    [(BEHIND - 1, 0, "fine"), (BEHIND + 1, 0, "note"), (STUCK + 1, 3, "note"), (STUCK + 1, 0, "wrong")],
)
def test_effects_whose_claims_ran_out(ago: float, leased: int, level: str) -> None:
    one = found(survey(effects=4, left=2, left_since=NOW - ago, leased=leased), worker())["effects"]
    assert (one.level, one.found.startswith("2 were left")) == (level, True)


def test_connections_are_counted_for_all_workers() -> None:
    many = [worker(f"h/{number}") for number in range(10)]
    assert "postgres" not in found(survey(per_process=10, connections=100), *many)
    over = found(survey(per_process=10, connections=97), *many)["postgres"]
    assert (over.level, "may open 100 connections" in over.found) == ("note", True)


def test_parked_threads_are_named_and_nothing_else() -> None:
    one = found(survey(parked=1), worker())["parked"]
    assert one == Finding("note", "parked", "1 thread is parked: `torpor threads --state parked` says why")


@pytest.mark.parametrize(
    ("given", "level"),
    [({}, "fine"), ({"ahead": -5.0}, "note"), ({"newest": NOW + 61}, "wrong"), ({"now": 1e9}, "wrong")],
)
def test_clocks(given: dict[str, float], level: str) -> None:
    assert clock(survey(**given)).level == level
