"""What comes while the model is writing: it is answered afterwards, and nothing that was there is lost."""

import asyncio

import pytest

from tests.runtime.paused import Paused, count
from tests.runtime.test_cuts import SOON, Cut
from torpor import tool
from torpor.core.messages import Noted, Result, Said, Stopped, Text, Turn, text_of
from torpor.models import call, say
from torpor.models.scripted import Reply

X: list[Reply] = [say("I did X."), say("And Y.")]


@pytest.mark.parametrize("mode", ["steer", "queue"])
async def test_words_during_a_completion_are_answered_by_the_next_one(mode: str) -> None:
    cut = Cut(Paused(X, 1))
    async with cut.running() as (parts, _):
        await asyncio.wait_for(cut.model.waits.wait(), SOON)
        await parts.threads.say("t", [Text("Also do Y.")], mode=mode)
        await cut.tick()
        cut.model.go.set()
        messages = await cut.settled(parts)
    told = [text_of(message.parts) for message in messages if isinstance(message, Said | Turn)]
    assert told == ["go", "I did X.", "Also do Y.", "And Y."]
    assert not any(message.cut for message in messages if isinstance(message, Turn))


async def test_words_during_a_completion_that_calls_do_not_stop_its_calls() -> None:
    script: list[Reply] = [[say("I look."), call("look", what="a")], say("Later."), say("I saw it.")]
    cut = Cut(Paused(script, 1))
    async with cut.running() as (parts, _):
        await asyncio.wait_for(cut.model.waits.wait(), SOON)
        await parts.threads.say("t", [Text("Hurry.")])
        cut.model.go.set()
        messages = await cut.settled(parts)
    results = [text_of(message.parts) for message in messages if isinstance(message, Result)]
    assert results == ["saw a"]
    assert "saw a" in str([request.items for request in cut.model.asked])


async def test_a_stop_while_the_model_reads_a_result_does_not_lose_the_result() -> None:
    runs: list[int] = []

    @tool
    async def once() -> str:
        """Do something that cannot be done again."""
        runs.append(1)
        return "precious"

    script: list[Reply] = [call("once"), say("I have read it."), say("Where was I? Ah.")]
    cut = Cut(Paused(script, await count([script[1]]) // 2, ordinal=1))
    cut.tools = [once]
    async with cut.running() as (parts, _):
        await asyncio.wait_for(cut.model.waits.wait(), SOON)
        await parts.threads.stop("t")
        await cut.tick()
        messages = await cut.settled(parts)
        last = messages[-1]
        assert isinstance(last, Noted)
        assert isinstance(last.note, Stopped)
        await parts.threads.nudge("t")
        messages = await cut.settled(parts)
    assert runs == [1]
    assert [text_of(message.parts) for message in messages if isinstance(message, Result)] == ["precious"]
    assert "precious" in str(cut.model.asked[-1].items)
    assert isinstance(messages[-1], Turn)
