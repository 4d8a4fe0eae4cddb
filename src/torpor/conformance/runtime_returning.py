"""A runtime that comes back: it asks about what was open; and events with threads of their own."""

import asyncio
import time
from typing import Any

from torpor.conformance.probe import STATUS
from torpor.conformance.stage import Stage, Trial, staged
from torpor.conformance.tool_stub import Request, Script, ToolStub, event, result, tool, tool_stubs

ALIVE = b'{"alive": true}'
DEAD = b'{"alive": false}'
LATE = "MUST-NOT-BE-SEEN"
DEATHS = (
    Script(200, DEAD),
    Script(200, b"OK"),
    Script(200, b"{}"),
    Script(200, b'{"alive":"yes"}'),
)
DOUBTS = (Script(500), Script(503), Script(0))


async def asked_again(trial: Trial) -> None:
    """After a restart each server is asked about the calls that it got, side by side."""
    if "status" not in trial.runtime.built:
        return
    ledger = trial.ledger
    async with tool_stubs("one", "two") as (one, two):
        two.tools = [tool("other")]
        async with staged(trial, [one, two]) as stage:
            calls = [await stage.one(one) for _ in range(4)]
            held = await stage.one(two, "other")
            await two.settle(held, "Watching.", subscription=True)
            await stage.result(held.body["group_id"], held.body["id"])
            one.script[STATUS] = [Script(0), *[Script(200, ALIVE)] * 20]
            two.script[STATUS] = [Script(200, DEAD)] * 20
            await stage.running.restart()
            came = await one.until(lambda: len(one.at(STATUS)) >= len(calls), trial.pace.within)
            came = await two.until(lambda: two.at(STATUS), trial.pace.within) and came
            ledger.judge("RT-106", came, f"{len(one.at(STATUS))} of 4 calls were asked about", held.exchange)
            _judge_asked(stage, one, calls)
            _judge_asked(stage, two, [held])
            times = [sent.at for sent in one.at(STATUS)[: len(calls)]]
            side = len(times) == len(calls) and times[-1] - times[0] < trial.pace.at_once
            ledger.judge("RT-115", side, "one question that hung kept back the others")
            began = time.monotonic()
            await stage.running.say(calls[0].body["group_id"], "are you there?")
            answered = await stage.brain.saw("are you there?")
            quick = answered is not None and time.monotonic() - began < trial.pace.at_once
            ledger.judge("RT-116", quick, "a person waited for a question that hung")
            lost = await stage.brain.until(lambda shown: any(_lost(line, held) for line in shown.lines))
            for row in ("RT-69", "RT-112"):
                ledger.judge(
                    row, lost is not None, "a lost subscription was not told to the model", held.exchange
                )


def _lost(line: Any, held: Request) -> bool:
    return bool(line.kind == "event" and line.call == held.body["id"])


def _judge_asked(stage: Stage, stub: ToolStub, calls: list[Request]) -> None:
    known = [{"thread_id": call.body["group_id"], "tool_call_id": call.body["id"]} for call in calls]
    for sent in stub.at(STATUS):
        foreign = f"{stub.name!r} was asked about {sent.body}"
        stage.ledger.judge("RT-107", sent.body in known, foreign, sent.exchange)
        right = sent.method == "POST" and sent.headers.get("content-type", "").startswith("application/json")
        stage.ledger.judge("RT-105", right, "it is no POST of JSON", sent.exchange)


async def told_apart(trial: Trial) -> None:
    """What a server does not work on fails; what nobody knows stays open; late results do no harm."""
    if "status" not in trial.runtime.built:
        return
    await asyncio.gather(
        *(_told(trial, told, True) for told in DEATHS), *(_told(trial, told, False) for told in DOUBTS)
    )


async def _told(trial: Trial, told: Script, dead: bool) -> None:
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call = await stage.one(one)
        one.script[STATUS] = [told] * 50
        await stage.running.restart()
        if not await one.until(lambda: one.at(STATUS), trial.pace.within):
            raise TimeoutError("a runtime that started again asked about nothing")
        within = 0 if dead else trial.pace.quiet
        settled = await stage.result(call.body["group_id"], call.body["id"], within)
        answer = f"after {told.status} {told.body.decode()}"
        if not dead:
            ledger.judge("RT-111", settled is None, f"a call was given up {answer}", call.exchange)
            return
        row = "RT-109" if told.body == DEAD else "RT-110"
        failed = settled is not None and settled.is_error
        ledger.judge(row, failed, f"a call stayed open {answer}", call.exchange)
        ledger.judge("RT-112", failed, f"no failed result {answer}", call.exchange)
        status = await one.post(call.body["callback_url"], result(call, LATE))
        lines = await stage.running.history(call.body["group_id"])
        fine = status < 500 and not any(LATE in line.text for line in lines)
        ledger.judge("RT-113", fine, f"a late result was answered {status}, or counted", call.exchange)


async def threaded(trial: Trial) -> None:
    """An event that is not associative gets a child thread, whose calls name their ancestors."""
    if "children" not in trial.runtime.built:
        return
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        held = await stage.one(one)
        parent = held.body["group_id"]
        await one.settle(held, "Watching.", subscription=True)
        await stage.result(parent, held.body["id"])
        threads = set()
        for number in range(2):
            before = len(one.calls)
            words = f'CALL [["echo", {{"n": {number}}}]]'
            await one.post(held.body["callback_url"], event(held, words))
            came = await one.until(lambda before=before: len(one.calls) > before, trial.pace.within)  # type: ignore[misc]
            ledger.judge("RT-63", came, "an event that is not associative was not worked on", held.exchange)
            if not came:
                return
            call = one.calls[-1]
            threads.add(call.body["group_id"])
            named = call.body.get("thread_ancestors") == [parent]
            ledger.judge("RT-23", named, "a child's call does not name its parent alone", call.exchange)
            await one.settle(call, "fine")
        apart = len(threads) == 2 and parent not in threads
        ledger.judge("RT-63", apart, "two events did not get a thread each beside their own", held.exchange)


CHECKS = (
    (asked_again, "69 105 106 107 112 115 116"),
    (told_apart, "109 110 111 112 113"),
    (threaded, "23 63"),
)
