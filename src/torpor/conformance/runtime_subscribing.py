"""Subscriptions of a runtime: recorded, shown as news, and over when they are over."""

from torpor.conformance.harness import Line
from torpor.conformance.stage import Stage, Trial, staged
from torpor.conformance.tool_stub import CANCEL, Request, Script, ToolStub, event, tool, tool_stubs

MARK = "MUST-NOT-BE-SEEN"


async def _subscribed(stage: Stage, one: ToolStub, thread: str = "") -> Request:
    call = await stage.one(one, thread=thread)
    status = await one.settle(call, f"watching {call.body['id']}", subscription=True)
    stage.ledger.judge("RT-53", status == 200, f"a confirmation was answered {status}", call.exchange)
    await stage.result(call.body["group_id"], call.body["id"])
    return call


async def events(trial: Trial) -> None:
    """Events reach the model as news of their subscription, until the final one."""
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call = await _subscribed(stage, one)
        url, thread, id = (call.body[name] for name in ("callback_url", "group_id", "id"))
        status = await one.post(url, event(call, "it happened", associative=True))
        ledger.judge("RT-33", status == 200, f"an event was answered {status}", call.exchange)
        shown = await stage.brain.saw("it happened")
        came = await stage.line(thread, lambda line: "it happened" in line.text)
        ledger.judge("RT-62", came is not None, "an associative event is not in its thread", call.exchange)
        _as_news(stage, shown.lines if shown else (), id)
        await _strangers(stage, one, call)
        await one.post(url, event(call, "it ends", associative=True, final=True))
        ended = await stage.brain.saw("it ends")
        ledger.judge("RT-64", ended is not None, "the final event did not reach the model", call.exchange)
        await _over(stage, one, call, "RT-64")


def _as_news(stage: Stage, lines: tuple[Line, ...], id: str) -> None:
    results = [line for line in lines if line.kind == "result" and line.call == id]
    why = f"the model saw {len(results)} results of the call that subscribed"
    stage.ledger.judge("RT-58", len(results) == 1, why)
    news = [line for line in lines if line.kind == "event" and line.call == id]
    why = f"the model saw the event as {[line.kind for line in lines if 'happened' in line.text]}"
    stage.ledger.judge("RT-59", len(news) == 1, why)


async def _strangers(stage: Stage, one: ToolStub, call: Request) -> None:
    """Events of what never subscribed, and of other threads, count for nothing."""
    other = await stage.one(one)
    await one.settle(other, "no subscription")
    await stage.result(other.body["group_id"], other.body["id"])
    bodies = (
        (other, event(other, MARK)),
        (call, {**event(call, MARK), "group_id": other.body["group_id"]}),
        (call, {**event(call, MARK), "tool_call_id": "never-asked"}),
    )
    for sender, body in bodies:
        await one.post(sender.body["callback_url"], body)
    seen = await stage.brain.saw(MARK, stage.pace.quiet)
    stage.ledger.judge("RT-65", seen is None, "an event of no active subscription reached the model")


async def _over(stage: Stage, one: ToolStub, call: Request, row: str) -> None:
    """What is over takes no event, and cannot be cancelled."""
    await one.post(call.body["callback_url"], event(call, f"{MARK} after the end"))
    seen = await stage.brain.saw(f"{MARK} after", stage.pace.quiet)
    stage.ledger.judge(row, seen is None, "an event came through after the end", call.exchange)
    refused = await _cancelled(stage, call.body["group_id"], call.body["id"])
    fails = refused is not None and refused.is_error
    stage.ledger.judge(row, fails, "a subscription that is over could be cancelled", call.exchange)


async def _cancelled(stage: Stage, thread: str, id: str) -> Line | None:
    """What the model reads when it cancels a subscription."""
    before = len(await stage.results(thread))
    words = f'CALL [["cancel_subscription", {{"tool_call_id": "{id}"}}]]'
    await stage.running.say(thread, words)
    await stage.line(thread, lambda _: False, 0.05)
    for _ in range(100):
        results = await stage.results(thread)
        if len(results) > before:
            return results[-1]
        await stage.line(thread, lambda _: False, 0.05)
    return None


async def cancelling(trial: Trial) -> None:
    """A cancellation is decided at once, every server is told, and nothing more comes through."""
    ledger = trial.ledger
    async with tool_stubs("one", "two", "three") as (one, two, three):
        two.tools, three.tools = [tool("second")], [tool("third")]
        async with staged(trial, [one, two, three]) as stage:
            call = await _subscribed(stage, one)
            elsewhere = await _subscribed(stage, one)
            thread, id = call.body["group_id"], call.body["id"]
            for foreign in (elsewhere.body["id"], "never-asked"):
                told = await _cancelled(stage, thread, foreign)
                fails = told is not None and told.is_error
                ledger.judge("RT-55", fails, f"cancelling {foreign!r} from another thread did not fail")
            ledger.judge("RT-55", not one.at(CANCEL), "a refused cancellation was sent")
            one.script[CANCEL] = [Script(0)]
            told = await _cancelled(stage, thread, id)
            fine = told is not None and not told.is_error
            ledger.judge("RT-57", fine, "a cancellation was not answered while a server hung", call.exchange)
            stubs = (one, two, three)
            for stub, sent in zip(stubs, await stage.told(stubs, CANCEL), strict=True):
                ledger.judge("RT-56", sent, f"server {stub.name!r} was not told of the cancellation")
            ids = [sent.body for sent in one.at(CANCEL)]
            right = ids == [{"thread_id": thread, "tool_call_id": id}]
            ledger.judge("RT-56", right, f"the cancellation said {ids}")
            await _over(stage, one, call, "RT-56")


async def closed(trial: Trial) -> None:
    """An event for a closed thread is dropped without harm."""
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call = await _subscribed(stage, one)
        await stage.running.close(call.body["group_id"])
        await one.until(lambda: one.at("/close_thread"), trial.pace.within)
        status = await one.post(call.body["callback_url"], event(call, MARK))
        seen = await stage.brain.saw(MARK, stage.pace.quiet)
        fine = seen is None and 200 <= status < 500
        ledger.judge("RT-67", fine, f"an event for a closed thread was answered {status}", call.exchange)


CHECKS = (
    (events, "33 53 58 59 62 64 65"),
    (cancelling, "53 55 56 57"),
    (closed, "67"),
)
