"""What a runtime does where a tool needs a person: choices, authorizations, approvals; and views."""

import json
from typing import Any

from torpor.conformance.harness import Question
from torpor.conformance.stage import Stage, Trial, staged
from torpor.conformance.tool_stub import Request, ToolStub, tool, tool_stubs

CHOSEN = "/chosen"
PROMPT = "Which of the three?"
CHOICES = ("the first", "the second", "none of them")
AUTH_URL = "https://provider.test/authorize?state=SECRET-STATE"
ODD = {"deep": [[[{"x": None}]]], "text": "ü \u2028 <b>", "number": 12345678901234567890, "half": 0.5}


def _ids(call: Request) -> dict[str, Any]:
    return {"group_id": call.body["group_id"], "id": call.body["id"]}


def _choice(one: ToolStub, call: Request) -> dict[str, Any]:
    asked = {"prompt": PROMPT, "choices": CHOICES, "default": 1, "response_url": one.url + CHOSEN}
    return {"type": "user_choice", **_ids(call), **asked}


async def choices(trial: Trial) -> None:
    """A choice is shown, answered once, and not remembered; the call stays open until its result."""
    if "choices" not in trial.runtime.built:
        return
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call = await stage.one(one)
        thread = call.body["group_id"]
        for number, answer in enumerate((CHOICES[0], None)):
            if number:
                call = await stage.one(one, thread=thread)
            await _chosen(stage, one, call, answer)
        count = len(one.calls)
        stage.ledger.judge("RT-82", count == 2, f"two calls arrived {count} times", call.exchange)


async def _chosen(stage: Stage, one: ToolStub, call: Request, answer: str | None) -> None:
    """One choice from its prompt to the result; ``answer`` None: a person dismisses it."""
    ledger, before = stage.ledger, len(one.at(CHOSEN))
    await one.post(call.body["callback_url"], _choice(one, call))
    asked = await _asked(stage, call, "choice")
    fine = asked is not None and asked.text == PROMPT and asked.choices == CHOICES
    ledger.judge("RT-77", fine, f"a person was shown {asked}", call.exchange)
    again = "an equal prompt was not shown again" if answer is None else "its prompt was not shown"
    ledger.judge("RT-83", asked is not None and len(one.at(CHOSEN)) == before, again, call.exchange)
    if asked is None:
        return
    await _still_open(stage, call, ("RT-76", "RT-78"))
    await stage.running.answer(asked.thread, asked.id, answer)
    came = await one.until(lambda: len(one.at(CHOSEN)) > before, stage.pace.within)
    sent = one.at(CHOSEN)[before:]
    ledger.judge("RT-79", came, "response_url was not told of the answer", call.exchange)
    if not came:
        return
    told = sent[0].body
    ledger.judge("RT-81", told.get("id") == call.body["id"], f"it was told {told}", sent[0].exchange)
    row, place = ("RT-80", 1) if answer is None else ("RT-79", 0)
    ledger.judge(row, told.get("selected") == place, f"it was told {told}", sent[0].exchange)
    await _still_open(stage, call, ("RT-78",))
    await one.settle(call, "as was chosen")
    await stage.result(call.body["group_id"], call.body["id"])
    once = len(one.at(CHOSEN)) == before + 1
    ledger.judge("RT-79", once, "response_url was told more than once", *(one.exchange for one in sent))


async def authorizations(trial: Trial) -> None:
    """A person sees the URL as it came; the call stays open; afterwards the URL is gone."""
    if "oauth" not in trial.runtime.built:
        return
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call = await stage.one(one)
        thread = call.body["group_id"]
        await one.post(call.body["callback_url"], {"type": "oauth", **_ids(call), "auth_url": AUTH_URL})
        asked = await _asked(stage, call, "authorization")
        fine = asked is not None and asked.text == AUTH_URL
        ledger.judge("RT-71", fine, f"a person was shown {asked}", call.exchange)
        await _still_open(stage, call, ("RT-70", "RT-72"))
        await stage.running.say(thread, "how far is it?")
        shown = await stage.brain.saw("how far is it?")
        lines = " ".join(line.text for line in shown.lines) if shown else ""
        told = any(
            word in lines.lower() for word in ("authoriz", "permission", "for a person", "for the user")
        )
        ledger.judge("RT-73", told, f"the model was shown {lines[:300]!r}", call.exchange)
        await one.settle(call, "done after authorization")
        seen = await stage.brain.saw("done after authorization")
        ledger.judge("RT-72", seen is not None, "the result after authorization was lost", call.exchange)
        waits = await _no_questions(stage, thread)
        lines = " ".join(line.text for line in await stage.running.history(thread))
        gone = "SECRET-STATE" not in lines and not waits
        ledger.judge("RT-75", gone, "the URL is still there after the result", call.exchange)
        ledger.judge("RT-74", len(one.calls) == 1, "the tool was called again", call.exchange)


async def approvals(trial: Trial) -> None:
    """A destructive call waits, shown whole, until a person approves it."""
    if "approvals" not in trial.runtime.built:
        return
    ledger = trial.ledger
    async with tool_stubs("one") as (one,):
        one.tools = [tool("wipe", annotations={"destructive": True})]
        async with staged(trial, [one]) as stage:
            thread = await stage.running.start('CALL [["wipe", {"n": 7}]]')
            asked = await _question(stage, thread, "approval")
            ledger.judge("RT-15", asked is not None and not one.calls, "a destructive tool was not held")
            if asked is None:
                return
            whole = "wipe" in asked.text and '"n"' in asked.text and "7" in asked.text
            ledger.judge("RT-31", whole, f"a person was shown {asked}")
            await stage.running.answer(thread, asked.id, "approve")
            came = await one.until(lambda: len(one.calls) == 1, stage.pace.within)
            ledger.judge("RT-31", came, "an approved call was not sent")
            if came:
                await one.settle(one.calls[0], "fine")


async def views(trial: Trial) -> None:
    """The last content of each view counts, as it came, for threads that there are."""
    if "views" not in trial.runtime.built:
        return
    ledger = trial.ledger
    async with tool_stubs("one") as (one,), staged(trial, [one]) as stage:
        call = await stage.one(one)
        thread, url = call.body["group_id"], call.body["callback_url"]
        for kind, content in (("diff", {"n": 1}), ("diff", {"n": 2}), ("diff", ODD), ("x-other", {"n": 3})):
            await one.post(url, _update(thread, kind, content))
        found = await stage.running.views(thread)
        ledger.judge("RT-84", set(found) == {"diff", "x-other"}, f"it keeps {found}", call.exchange)
        same = json.loads(found.get("diff") or "{}") == ODD
        ledger.judge("RT-84", same, f"it keeps {found.get('diff')}", call.exchange)
        ledger.judge("RT-87", same, f"the content became {found.get('diff')}", call.exchange)
        status = await one.post(url, _update("never-was", "diff", {"n": 9}))
        kept = json.loads((await stage.running.views(thread)).get("diff") or "{}") == ODD
        fine = kept and 400 <= status < 500
        ledger.judge("RT-88", fine, f"a view of a thread that never was: {status}", call.exchange)
        await one.settle(call, "fine")


def _update(thread: str, kind: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "view_update", "group_id": thread, "view_type": kind, "content": content}


async def _asked(stage: Stage, call: Request, kind: str, within: float = 0) -> Question | None:
    """What people are asked for a call; None if nothing in time."""
    return await _question(stage, call.body["group_id"], kind, call.body["id"], within)


async def _question(
    stage: Stage, thread: str, kind: str, call: str = "", within: float = 0
) -> Question | None:
    for _ in range(round((within or stage.pace.within) / 0.05)):
        for question in await stage.running.waits(thread):
            if question.kind == kind and call in ("", question.call):
                return question
        await stage.line(thread, lambda _: False, 0.05)
    return None


async def _no_questions(stage: Stage, thread: str) -> list[Question]:
    """What people are still asked once that ought to be nothing."""
    for _ in range(round(stage.pace.within / 0.05)):
        if not await stage.running.waits(thread):
            break
        await stage.line(thread, lambda _: False, 0.05)
    return await stage.running.waits(thread)


async def _still_open(stage: Stage, call: Request, rows: tuple[str, ...]) -> None:
    results = await stage.results(call.body["group_id"], call.body["id"])
    stage.ledger.judge_all(rows, not results, "it was taken for the result of its call", call.exchange)


CHECKS = (
    (choices, "76 77 78 79 80 81 82 83"),
    (authorizations, "70 71 72 73 74 75"),
    (approvals, "15 31"),
    (views, "84 87 88"),
)
