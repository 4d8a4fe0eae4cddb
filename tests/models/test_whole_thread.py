"""Whole threads with the two providers: what their streams say is done, and what is sent back is valid."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.models.events import anthropic_events, openai_events
from tests.models.replay import Reply, replaying
from torpor import Agent, Limits, Refused, Runtime, tool
from torpor.core.chunks import AnyChunk, ReasoningDelta, ReasoningDone, Stop, TextDelta
from torpor.core.messages import Turn, Usage
from torpor.models import Anthropic, OpenAI
from torpor.testing.model_contract import asking
from torpor.testing.pairing import check_anthropic, check_openai

pytestmark = pytest.mark.usefixtures("no_keys")

STEPS = 50
USED = Usage(input=5, cache_read=20, output=3)


@tool(repeat="safe")
async def step(n: int) -> str:
    """Take a step."""
    return f"step {n} taken"


def stream(provider: str, chunks: Sequence[AnyChunk], stop: Stop) -> Reply:
    return Reply((openai_events if provider == "openai" else anthropic_events)(chunks, stop))


def model_of(provider: str, url: str) -> OpenAI | Anthropic:
    if provider == "openai":
        return OpenAI("gpt-5-mini", base_url=f"{url}/v1")
    return Anthropic("claude-opus-4-5", base_url=url, thinking=2048)


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_one_id_for_every_call_of_fifty_turns(provider: str) -> None:
    """Case WIR-04, and thinking that is sent back with its signature."""
    thought = (ReasoningDelta("Next."), ReasoningDone("c2ln", ""))
    calls = [
        stream(provider, (*thought, *asking(0, "step", f'{{"n": {n}}}', id="call_0")), Stop("calls", USED))
        for n in range(STEPS)
    ]
    last = stream(provider, (TextDelta("All taken."),), Stop("end", USED))
    async with replaying(*calls, last) as replay:
        model = model_of(provider, replay.url)
        agent = Agent("walker", model=model, tools=[step], limits=Limits(completions=STEPS + 1))
        async with Runtime("memory:", agents=[agent], listen=None) as runtime:
            thread = await runtime.start("walker", "Walk.")
            reply = await thread.reply(timeout=60)
            turns = [message for message in await thread.history() if isinstance(message, Turn)]
        await model.close()
    assert reply.text == "All taken."
    assert len(replay.seen) == len(turns) == STEPS + 1
    assert {turn.usage for turn in turns} == {USED}
    check_sent(provider, [json.loads(seen.body) for seen in replay.seen])


def check_sent(provider: str, bodies: list[dict[str, Any]]) -> None:
    """Each request is valid and the one before is its beginning; the last one holds all results."""
    for before, after in pairwise(bodies):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    messages = bodies[-1]["messages"]
    if provider == "openai":
        check_openai(messages, asking=True)
        results = [message["content"] for message in messages if message["role"] == "tool"]
    else:
        check_anthropic(messages, thinking=True, asking=True)
        assert all("thinking" in body for body in bodies)
        blocks = [block for message in messages for block in message["content"]]
        results = [b["content"][0]["text"] for b in blocks if b["type"] == "tool_result"]
    assert results == [f"step {n} taken" for n in range(STEPS)]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_used_up_money_parks_after_one_request(provider: str) -> None:
    """Case RET-01."""
    error = {"error": {"type": "insufficient_quota", "code": "credit_balance_exhausted", "message": "pay"}}
    async with replaying(Reply([json.dumps(error).encode()], 429)) as replay:
        model = model_of(provider, replay.url)
        async with Runtime("memory:", agents=[Agent("a", model=model)], listen=None) as runtime:
            thread = await runtime.start("a", "Hi")
            with pytest.raises(Refused, match="money or limits"):
                await thread.reply(timeout=30)
        await model.close()
    assert len(replay.seen) == 1


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_stream_that_died_is_asked_again(provider: str) -> None:
    """Cases CRS-05 and CRS-07: nothing of the dead stream is kept or sent."""
    events = openai_events if provider == "openai" else anthropic_events
    half = Reply(events((TextDelta("half"), *asking(0, "step"))), then="cut")
    whole = stream(provider, (TextDelta("whole"),), Stop("end"))
    async with replaying(half, whole) as replay:
        model = model_of(provider, replay.url)
        agent = Agent("a", model=model, tools=[step])
        async with Runtime("memory:", agents=[agent], listen=None) as runtime:
            thread = await runtime.start("a", "Hi")
            assert (await thread.reply(timeout=30)).text == "whole"
            turns = [message for message in await thread.history() if isinstance(message, Turn)]
        await model.close()
    assert len(turns) == 1
    first, second = (json.loads(seen.body)["messages"] for seen in replay.seen)
    assert len(second) == len(first)
    assert b"half" not in replay.seen[1].body
