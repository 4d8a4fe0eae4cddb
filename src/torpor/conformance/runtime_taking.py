"""What a runtime takes back: callbacks that fit, and none other; results as the model sees them."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from torpor.conformance.stage import Stage, Trial, staged
from torpor.conformance.tool_stub import Request, ToolStub, result, tool_stubs

MARK = "MUST-NOT-BE-SEEN"
LARGE = 400_000


def _malformed(call: Request) -> list[tuple[str, bytes]]:
    good = result(call, MARK)

    def but(**more: Any) -> bytes:
        return json.dumps({**good, **more}).encode()

    def without(name: str) -> bytes:
        return json.dumps({key: value for key, value in good.items() if key != name}).encode()

    return [
        ("no JSON", b"{" + MARK.encode()),
        ("no object", json.dumps([MARK]).encode()),
        ("no UTF-8", json.dumps(good).encode()[:-2] + b'\xff"}'),
        ("no type", without("type")),
        ("an unknown type", but(type="tool_gossip")),
        ("no thread", without("group_id")),
        ("no id", without("id")),
        ("an id that is a number", but(id=7)),
        ("neither text nor content", without("text")),
        ("a text that is a number", but(text=7)),
        ("a subscription that is a text", but(subscription="yes")),
        ("a member twice", json.dumps(good).encode()[:-1] + f', "text": "{MARK}"}}'.encode()),
    ]


async def malformed(trial: Trial) -> None:
    """A body that does not fit its type is refused, and nothing of it is remembered."""
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call = await stage.one(one)
        for number in range(len(_malformed(call))):
            told, body = _malformed(call)[number]
            status = await one.post(call.body["callback_url"], body)
            ledger.judge("RT-34", 400 <= status < 500, f"a callback with {told}: {status}", call.exchange)
            thread = call.body["group_id"]
            seen = any(MARK in line.text for line in await stage.running.history(thread))
            ledger.judge("RT-34", not seen, f"a callback with {told} got into the history")
            call = await stage.one(one)


async def matching(trial: Trial) -> None:
    """Only what names one pending call counts, and it counts once."""
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call, other = await stage.one(one), await stage.one(one)
        url, thread = call.body["callback_url"], call.body["group_id"]
        for told, body in (
            ("another thread", {**result(call, MARK), "group_id": other.body["group_id"]}),
            ("another call", {**result(call, MARK), "id": other.body["id"]}),
            ("a call that never was", {**result(call, MARK), "id": "never-asked"}),
            ("another thread and call", result(other, MARK)),
        ):
            status = await one.post(url, body)
            await _unseen(stage, (call, other), "RT-35", f"a result that names {told} ({status})")
            if told == "another thread and call":
                ledger.judge("RT-40", 400 <= status < 500, f"one call's URL took another's result: {status}")
        await _credentials(stage, one, call)
        first = await one.settle(call, "the one result")
        ledger.judge("RT-33", first == 200, f"a good result was answered {first}")
        settled = await stage.result(thread, call.body["id"])
        fine = settled is not None and settled.text == "the one result"
        ledger.judge("RT-35", fine, "a result that fits was not taken", call.exchange)
        await _repeated(stage, one, call)
        await one.settle(other, "fine")


async def _credentials(stage: Stage, one: ToolStub, call: Request) -> None:
    """A callback URL that was tampered with is worth nothing."""
    parts = urlsplit(call.body["callback_url"])
    flipped = "B" if parts.path[-2] == "A" else "A"
    forged = urlunsplit(parts._replace(path=parts.path[:-2] + flipped + parts.path[-1]))
    status = await one.post(forged, result(call, MARK))
    why = f"a callback to a forged URL was answered {status}"
    stage.ledger.judge("RT-39", status in (401, 403, 404), why)
    await _unseen(stage, (call,), "RT-39", "a callback to a forged URL")


async def _unseen(stage: Stage, calls: tuple[Request, ...], row: str, what: str) -> None:
    for call in calls:
        lines = await stage.running.history(call.body["group_id"])
        seen = any(MARK in line.text for line in lines)
        stage.ledger.judge(row, not seen, f"{what} got into a history", call.exchange)
        stage.ledger.judge("RT-36", not seen, f"{what} got into a history", call.exchange)


async def _repeated(stage: Stage, one: ToolStub, call: Request) -> None:
    status = await one.settle(call, "the one result")
    stage.ledger.judge("RT-37", status == 200, f"the same result again was answered {status}")
    await one.settle(call, f"{MARK} again")
    await stage.line(call.body["group_id"], lambda line: MARK in line.text, stage.pace.quiet)
    results = await stage.results(call.body["group_id"], call.body["id"])
    for row in ("RT-37", "RT-42"):
        why = f"a repeated callback left {len(results)} results"
        stage.ledger.judge(row, len(results) == 1, why, call.exchange)
    await _unseen(stage, (call,), "RT-42", "a second result of a settled call")


async def shown_to_the_model(trial: Trial) -> None:
    """Content wins over text, display changes nothing, plain text is fine, and too much is bounded."""
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        content = [{"type": "text", "text": "of the content"}]
        seen = await _seen(stage, one, "of the text", content=content)
        fine = "of the content" in seen and "of the text" not in seen
        ledger.judge("RT-46", fine, f"content and text reached the model as {seen[:200]!r}")
        seen = await _seen(stage, one, "of the text", content=[])
        ledger.judge("RT-46", seen == "of the text", f"empty content reached the model as {seen[:200]!r}")
        long = "all of it; " * 200
        display = [{"type": "text", "content": "in short"}]
        seen = await _seen(stage, one, long, display_as=display)
        ledger.judge("RT-47", long.strip() in seen, "the text was not given whole beside display_as")
        plain = await _seen(stage, one, long)
        ledger.judge("RT-48", seen == plain, "display_as changed what the model receives")
        for text in ('{"looks": like JSON', "NaN", "plain words ✓", ""):
            seen = await _seen(stage, one, text)
            ledger.judge("RT-49", text in seen, f"the text {text!r} reached the model as {seen[:200]!r}")
        seen = await _seen(stage, one, "x" * LARGE)
        why = f"a text of {LARGE} characters reached the model with {len(seen)}"
        ledger.judge("RT-38", 0 < len(seen) < LARGE, why)


async def _seen(stage: Stage, one: ToolStub, text: str, **more: Any) -> str:
    """What the model sees of a result."""
    call = await stage.one(one)
    await one.settle(call, text, **more)

    def line(shown: Any) -> Any:
        return [found for found in shown.fresh if found.call == call.body["id"]]

    shown = await stage.brain.until(line)
    return str(line(shown)[0].text) if shown else ""


async def in_order(trial: Trial) -> None:
    """Much at once stays one history; a person is answered while calls are pending."""
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        calls = await stage.call(one, *(("echo", {"n": number}) for number in range(4)))
        if len(calls) < 4:
            raise TimeoutError("four calls of one turn did not arrive")
        thread = calls[0].body["group_id"]
        await stage.running.say(thread, "are you there?")
        answered = await stage.brain.saw("are you there?")
        ledger.judge("RT-128", answered is not None, "a person was not answered while calls were pending")
        words = [f"word {number}" for number in range(4)]
        await asyncio.gather(
            *(one.settle(call, f"result {call.body['id']}") for call in calls),
            *(stage.running.say(thread, word) for word in words),
        )
        wanted = {*words, *(f"result {call.body['id']}" for call in calls)}
        for text in wanted:
            await stage.line(thread, lambda line, text=text: text in line.text)  # type: ignore[misc]
        lines = await stage.running.history(thread)
        texts = [line.text for line in lines if line.kind != "turn"]
        counts = {text: sum(text in one for one in texts) for text in wanted}
        ledger.judge("RT-123", set(counts.values()) == {1}, f"what came at once is there {counts} times")


async def failing_model(trial: Trial) -> None:
    """A person's words are kept although the model fails."""
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        thread = await stage.running.start("FAIL please")
        failed = await stage.brain.saw("FAIL please")
        kept = await stage.line(thread, lambda line: "FAIL please" in line.text)
        fine = failed is not None and kept is not None
        ledger.judge("RT-125", fine, "the words that the model failed on are gone")


CHECKS = (
    (malformed, "34"),
    (matching, "33 35 36 37 39 40 42"),
    (shown_to_the_model, "38 46 47 48 49"),
    (in_order, "123 128"),
    (failing_model, "125"),
)
