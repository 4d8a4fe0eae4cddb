"""Moving a session: to a pretended instance that takes everything, to one that refuses, and to nobody."""

from torpor.conformance.caller import Answer
from torpor.conformance.listening import Instance
from torpor.conformance.probe import MIGRATE, Probe

ROWS = ("TS-06", "TS-121", "TS-122", "TS-123", "TS-124")
NOBODY = "http://127.0.0.1:9"
HOLD = 0.6
"""Seconds for which the pretended instance keeps each part of a session waiting for its answer."""


async def migration(probe: Probe) -> None:
    """A server that declares ``needsMigration`` moves what it has, refuses what cannot be, and says so."""
    if probe.manifest.get("needsMigration") is not True:
        for row in ROWS:
            probe.ledger.unseen(row, "it does not declare needsMigration")
        return
    empty = await probe.caller.post(MIGRATE, {"session_id": await _session(probe)})
    there = empty.status not in (0, 404, 405, 501)
    probe.ledger.judge("TS-06", there, f"asked to migrate, {empty.told}", empty.exchange)
    if not there:
        return
    refused = 400 <= empty.status < 600
    probe.ledger.judge("TS-122", refused, f"asked to migrate nowhere, {empty.told}", empty.exchange)
    moves = await _to_an_instance(probe)
    await _to_nobody(probe, moves=moves)
    if moves:
        await _to_who_refuses(probe)


async def _session(probe: Probe) -> str:
    """A session for which a server may keep something."""
    session = probe.stub.thread()
    if "quick" in probe.calls:
        asked = await probe.ask("quick", thread=session)
        await asked.settled(probe.patience.result)
    return session


async def _ask(probe: Probe, session: str, url: str) -> Answer:
    return await probe.caller.post(MIGRATE, {"session_id": session, "destination_url": url})


async def _to_an_instance(probe: Probe) -> bool:
    """To one that takes all, slowly; says whether anything came there."""
    instance, session = _instance(probe), await _session(probe)
    instance.hold = HOLD
    answer = await _ask(probe, session, instance.url)
    if not instance.parts:
        for row in ("TS-121", "TS-124"):
            probe.ledger.unseen(row, "nothing that it moves goes to the destination's own base URL")
        return False
    shown = (answer.exchange, *(part.exchange for part in instance.parts[:2]))
    if answer.status == 200:
        whole = all(part.answered and part.answered <= answer.ended for part in instance.parts)
        probe.ledger.judge("TS-121", whole, "it answered 200 before all was taken", *shown)
    else:
        probe.ledger.unseen("TS-121", f"moving to a pretended instance, {answer.told}")
    _carries_no_credential(probe, instance)
    return True


def _instance(probe: Probe) -> Instance:
    discovered = probe.discovered
    return probe.stub.instance(discovered.body if discovered else b"{}")


def _carries_no_credential(probe: Probe, instance: Instance) -> None:
    token = probe.caller.token
    if not token:
        probe.ledger.unseen("TS-124", "no credential of its is known")
        return
    carried = [part for part in instance.parts if token.encode() in part.raw]
    why = "its own credential is in what it moves"
    probe.ledger.judge("TS-124", not carried, why, *(part.exchange for part in carried))


async def _to_nobody(probe: Probe, *, moves: bool) -> None:
    """To a dead destination. Whoever has nothing to move may answer 200."""
    dead = await _ask(probe, await _session(probe), NOBODY)
    if dead.status == 200 and not moves:
        probe.ledger.unseen("TS-123", "it answered 200 for a dead destination; there may be nothing to move")
    else:
        why = f"asked to migrate to a dead destination, {dead.told}"
        probe.ledger.judge("TS-123", 400 <= dead.status < 600, why, dead.exchange)


async def _to_who_refuses(probe: Probe) -> None:
    """To one that takes nothing."""
    instance = _instance(probe)
    instance.status = 507
    answer = await _ask(probe, await _session(probe), instance.url)
    if instance.parts:
        why = f"the destination refused what was moved, and {answer.told}"
        shown = (answer.exchange, instance.parts[0].exchange)
        probe.ledger.judge("TS-122", 400 <= answer.status < 600, why, *shown)


CHECKS = ((migration, "06 121 122 123 124"),)
