"""An agent without a process of its own: a platform calls a function, and schedules what it answers."""

import asyncio
import heapq
import json
import time
from typing import Any

from torpor import Agent, Runtime, said, tool
from torpor.core.messages import Turn, text_of
from torpor.models import ScriptedModel, call, say

STORE = "sqlite:///serverless.db"


@tool(repeat="safe")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = ScriptedModel(
    [call("add", a=1, b=2), say("1 + 2 is 3."), call("sleep", seconds=1), say("A second has passed.")]
)
clerk = Agent("clerk", model=model, tools=[add])


class Platform:
    """Stands for a queue service: it delivers messages in batches, each at least once, some of them later."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, str]] = []

    def send(self, body: dict[str, str], at: float = 0.0) -> None:
        heapq.heappush(self.waiting, (at, json.dumps(body)))

    def batch(self) -> list[dict[str, str]]:
        due = []
        while self.waiting and self.waiting[0][0] <= time.time():
            at, body = heapq.heappop(self.waiting)
            due.append({"messageId": f"m{hash((at, body))}", "body": body})
        return due


platform = Platform()


async def on_batch(event: dict[str, Any]) -> dict[str, Any]:
    """What the platform calls. It keeps nothing: a warm process could keep the runtime open, and no more."""
    records = event["Records"]
    async with Runtime(STORE, agents=[clerk], listen=None, workers=0) as runtime:
        result = await runtime.step(*(news(record) for record in records), deadline=20.0)
    for one in (*result.items, *result.others):
        if one.again_at and one.outcome != "failed":
            platform.send({"thread": one.thread}, at=one.again_at)
    failed = [
        {"itemIdentifier": record["messageId"]}
        for record, one in zip(records, result.items, strict=True)
        if one.outcome == "failed"
    ]
    return {"batchItemFailures": failed}


def news(record: dict[str, str]) -> Any:
    """Words for a thread, under the message's own id; or only the id of a thread that has a timer."""
    body = json.loads(record["body"])
    if "text" in body:
        return said(body["thread"], body["text"], id=record["messageId"])
    return body["thread"]


async def main() -> None:
    async with Runtime(STORE, agents=[clerk], listen=None, workers=0) as runtime:
        thread = (await runtime.start("clerk")).id
    platform.send({"thread": thread, "text": "What is 1 + 2?"})
    first = platform.batch()
    print(await on_batch({"Records": first}))
    print(await on_batch({"Records": first}))  # delivered again: the words count once
    platform.send({"thread": thread, "text": "Wait a second."})
    while platform.waiting:
        await asyncio.sleep(max(0.0, platform.waiting[0][0] - time.time()))
        await on_batch({"Records": platform.batch()})
    async with Runtime(STORE, agents=[clerk], listen=None, workers=0) as runtime:
        last = (await runtime.thread(thread).history())[-1]
        print(text_of(last.parts) if isinstance(last, Turn) else last)


if __name__ == "__main__":
    asyncio.run(main())
