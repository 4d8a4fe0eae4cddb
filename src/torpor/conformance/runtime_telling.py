"""Notices of a runtime: every server is told, once, side by side, and nobody waits for it."""

import time

from torpor.conformance.stage import Stage, Trial, staged
from torpor.conformance.tool_stub import CANCEL, CLOSE, Request, Script, ToolStub, tool, tool_stubs

CANCELLATIONS = ("RT-96", "RT-100", "RT-99", "RT-97", "RT-95")
CLOSURES = ("RT-89", "RT-93", "RT-92", "RT-90", "RT-89")
"""The rows of a kind of notice: to every server, whoever failed, once, side by side, in the right form."""
LATE = "MUST-NOT-BE-A-RESULT"


async def interrupting(trial: Trial) -> None:
    """A call that is interrupted is settled at once; all servers are told, once."""
    ledger = trial.ledger
    async with tool_stubs("hanging", "failing", "fine", "gone") as stubs:
        _prepare(stubs)
        async with staged(trial, stubs) as stage:
            call = await _begin(stage, stubs)
            thread, id = call.body["group_id"], call.body["id"]
            began = time.monotonic()
            await stage.running.interrupt(thread, "do something else")
            result = await stage.result(thread, id)
            quick = result is not None and time.monotonic() - began < stage.pace.at_once
            ledger.judge("RT-98", quick, "an interrupted call waited for its servers", call.exchange)
            await _told(stage, stubs, CANCEL, {"thread_id": thread, "tool_call_id": id}, began)
            await _late(stage, stubs[0], call)


async def _begin(stage: Stage, stubs: tuple[ToolStub, ...]) -> Request:
    """A call is under way; then one server hangs, one fails, and one is gone."""
    hanging, failing, _, gone = stubs
    call = await stage.one(hanging, "hanging")
    for path in (CANCEL, CLOSE):
        hanging.script[path] = [Script(0)]
        failing.script[path] = [Script(500)]
    await gone.leave()
    return call


async def _told(
    stage: Stage, stubs: tuple[ToolStub, ...], path: str, body: dict[str, str], began: float
) -> None:
    """Hold the notices against the rows of their kind."""
    ledger = stage.ledger
    every, alone, repeated, side, kind = CANCELLATIONS if path == CANCEL else CLOSURES
    hanging, failing, fine, _ = stubs
    stubs = (hanging, failing, fine)
    for stub, sent in zip(stubs, await stage.told(stubs, path), strict=True):
        ledger.judge(every, sent, f"server {stub.name!r} got no {path}")
        ledger.judge(alone, sent, f"server {stub.name!r} got no {path} because another one failed")
        if sent:
            notice = stub.at(path)[0]
            right = notice.method == "POST" and notice.body == body
            ledger.judge(kind, right, f"the notice is not {body}", notice.exchange)
            late = notice.at - began
            ledger.judge(side, late < stage.pace.at_once, f"server {stub.name!r} was told after {late:.1f} s")
    again = await failing.until(lambda: len(failing.at(path)) > 1, stage.pace.quiet)
    ledger.judge(repeated, not again, f"{path} was repeated after a failure")


async def _late(stage: Stage, stub: ToolStub, call: Request) -> None:
    """A result after the cancellation does no harm."""
    ledger, thread, id = stage.ledger, call.body["group_id"], call.body["id"]
    status = await stub.settle(call, LATE)
    why = f"a result after the cancellation was answered {status}"
    ledger.judge("RT-102", 200 <= status < 500, why, call.exchange)
    await stage.line(thread, lambda line: LATE in line.text and line.kind == "result", stage.pace.quiet)
    results = await stage.results(thread, id)
    fine = len(results) == 1 and LATE not in results[0].text
    ledger.judge("RT-103", fine, "a late result replaced or followed the runtime's own", call.exchange)


async def closing(trial: Trial) -> None:
    """A thread that is closed is closed at once; all servers are told, once."""
    ledger = trial.ledger
    async with tool_stubs("hanging", "failing", "fine", "gone") as stubs:
        _prepare(stubs)
        async with staged(trial, stubs) as stage:
            call = await _begin(stage, stubs)
            thread = call.body["group_id"]
            began = time.monotonic()
            await stage.running.close(thread)
            result = await stage.result(thread, call.body["id"])
            quick = result is not None and time.monotonic() - began < stage.pace.at_once
            ledger.judge("RT-91", quick, "closing a thread waited for its servers", call.exchange)
            await _told(stage, stubs, CLOSE, {"thread_id": thread}, began)


def _prepare(stubs: tuple[ToolStub, ...]) -> None:
    for stub in stubs:
        stub.tools = [tool(stub.name)]


CHECKS = (
    (interrupting, "95 96 97 98 99 100 102 103"),
    (closing, "89 90 91 92 93"),
)
