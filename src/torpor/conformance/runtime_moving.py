"""Moving a session of a runtime: who is told, in what order, and what a failure leaves."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from torpor.conformance.exchange import Exchange
from torpor.conformance.probe import MIGRATE
from torpor.conformance.stage import Stage, Trial, staged
from torpor.conformance.tool_stub import CLOSE, Request, Script, ToolStub, tool, tool_stubs

MOVING = 0.8
"""Seconds that a server takes to move a session."""
DURING = "CAME-DURING-THE-MOVE"
AFTER = "CAME-AFTER-THE-MOVE"
PAUSE = 0.1


@asynccontextmanager
async def _two(trial: Trial) -> AsyncIterator[tuple[Stage, tuple[ToolStub, ...], Mapping[str, str]]]:
    """A runtime with two servers that keep state and one that keeps none; and where the two go."""
    async with tool_stubs("one", "two", "plain", "one", "two") as stubs:
        one, two, plain, first, second = stubs
        for stub in (one, two, first, second):
            stub.keeps_state, stub.tools = True, [tool(stub.name)]
        plain.tools = [tool("plain")]
        one.script[MIGRATE] = [Script(after=MOVING)]
        async with staged(trial, (one, two, plain)) as stage:
            yield stage, stubs, {one.url: first.url, two.url: second.url}


async def moving(trial: Trial) -> None:
    """A session moves: servers that keep state are told first, and nothing goes on before they are done."""
    ledger = trial.ledger
    async with _two(trial) as (stage, stubs, servers):
        one, two, plain, first, second = stubs
        call = await stage.one(one, "one")
        thread = call.body["group_id"]
        move = asyncio.create_task(stage.running.move(thread, servers))
        began = await one.until(lambda: one.at(MIGRATE), trial.pace.within)
        asked = len(stage.brain.shown)
        taken = await one.settle(call, DURING) if began else 0
        await asyncio.sleep(MOVING / 2)
        rests = len(stage.brain.shown) == asked and not (first.calls or second.calls)
        await move
        _told(stage, thread, (one, two), servers)
        plain_told = [*plain.at(MIGRATE), *first.at(MIGRATE), *second.at(MIGRATE)]
        ledger.judge("RT-118", not plain_told, "a server that declares nothing was told to migrate")
        ledger.judge("RT-119", rests, "the session went on while its servers moved", call.exchange)
        ledger.judge("RT-120", rests, "it did not wait for the 200 of a server that moves", call.exchange)
        _closed(stage, (one, two))
        await _goes_on(stage, one, first, call, thread, DURING if taken == 200 else AFTER)


def _told(stage: Stage, thread: str, stubs: tuple[ToolStub, ...], servers: Mapping[str, str]) -> None:
    for stub in stubs:
        told = stub.at(MIGRATE)
        if not stage.ledger.judge("RT-117", len(told) > 0, f"server {stub.name!r} was not told to migrate"):
            continue
        body = {"session_id": thread, "destination_url": servers[stub.url]}
        right = told[0].method == "POST" and told[0].body == body
        stage.ledger.judge("RT-117", right, f"the request is not {body}", told[0].exchange)


def _closed(stage: Stage, stubs: tuple[ToolStub, ...]) -> None:
    """Whoever cleans up by a closure does so once all have moved."""
    last = max((one.at for stub in stubs for one in stub.at(MIGRATE)), default=0.0)
    closures = [one for stub in stubs for one in stub.at(CLOSE)]
    early = [one for one in closures if one.at < last]
    stage.ledger.judge("RT-119", not early, "a session was closed before it had moved", *_shown(early))
    if closures and not early:
        stage.ledger.kept("RT-122")
    elif not closures:
        stage.ledger.unseen("RT-122", "it sends no closure; a permission, not a duty")


def _shown(requests: list[Request]) -> list[Exchange]:
    return [one.exchange for one in requests[:1]]


async def _goes_on(stage: Stage, old: ToolStub, new: ToolStub, call: Request, thread: str, text: str) -> None:
    """The call that was open gets its result, and further calls go to where the server is now."""
    if text == AFTER:
        await old.settle(call, AFTER)
    seen = await stage.brain.saw(text)
    why = "the result of a call that was open is not shown after the move"
    stage.ledger.judge("RT-119", seen is not None, why, call.exchange)
    try:
        await stage.one(new, "one", thread=thread)
        arrives = True
    except TimeoutError:
        arrives = False
    why = "a call after the move does not go to the server's new place"
    stage.ledger.judge("RT-119", arrives, why, call.exchange)


async def failing(trial: Trial) -> None:
    """A server that cannot move: nothing moves, and the session works where it was."""
    async with _two(trial) as (stage, stubs, servers):
        _, two, _, first, second = stubs
        two.script[MIGRATE] = [Script(500)]
        call = await stage.one(two, "two")
        refused = await _is_refused(stage, call, servers)
        why = "a server answered 500, and the migration was not given up"
        trial.ledger.judge("RT-121", refused, why, call.exchange)
        await two.settle(call, AFTER)
        works = await stage.brain.saw(AFTER) is not None and not (first.calls or second.calls)
        why = "after a migration that failed, the session does not work where it was"
        trial.ledger.judge("RT-121", works, why, call.exchange)
        again = await stage.call(two, ("two", {}), thread=call.body["group_id"])
        trial.ledger.judge("RT-121", bool(again), "a call does not go to its server any more", call.exchange)
        closed = bool(two.at(CLOSE))
        trial.ledger.judge("RT-121", not closed, "a session that stays was closed at its server")


async def accepted_only(trial: Trial) -> None:
    """A server that has only accepted to move a session (202) has not moved it."""
    async with _two(trial) as (stage, stubs, servers):
        _, two, *_ = stubs
        two.script[MIGRATE] = [Script(202)]
        call = await stage.one(two, "two")
        refused = await _is_refused(stage, call, servers)
        trial.ledger.judge("RT-120", refused, "it took a 202 for a migration that is done", call.exchange)


async def _is_refused(stage: Stage, call: Request, servers: Mapping[str, str]) -> bool:
    """Whether the runtime reports that a session did not move."""
    try:
        async with asyncio.timeout(stage.pace.within + MOVING):
            await stage.running.move(call.body["group_id"], servers)
    except Exception:  # noqa: BLE001 - however the harness tells it
        return True
    return False


async def checked(trial: Trial) -> None:
    """All of it, if the runtime can move sessions."""
    if "migration" not in trial.runtime.built:
        return
    for check in (moving, failing, accepted_only):
        await check(trial)


CHECKS = ((checked, "117 118 119 120 121 122"),)
