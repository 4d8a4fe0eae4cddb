"""Providers that stream without end, or count beyond all numbers."""

import json
from typing import Any

import pytest

from tests.models.events import openai_events
from tests.models.replay import Reply, replaying
from torpor import Agent, Runtime
from torpor.core.chunks import Stop, TextDelta
from torpor.core.errors import TorporError
from torpor.core.messages import Turn
from torpor.models import OpenAI, sdk


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "test")


async def run(reply: Reply, *more: Reply) -> tuple[str, Turn | None, int]:
    """What became of one exchange: its text or why it was set aside, its last turn, requests made."""
    async with replaying(reply, *more) as replay:
        model = OpenAI("gpt-5-mini", base_url=f"{replay.url}/v1")
        async with Runtime("memory:", agents=[Agent("a", model=model)], listen=None) as runtime:
            thread = await runtime.start("a", "Go.")
            try:
                text = (await thread.reply(timeout=30)).text
            except TorporError as error:
                text = str(error)
            turns = [message for message in await thread.history() if isinstance(message, Turn)]
        await model.close()
        return text, turns[-1] if turns else None, len(replay.seen)


@pytest.mark.parametrize("count", [10**30, -5, 2**63, "1", None, 1.5, [1]])
async def test_counts_that_are_none_do_no_harm(count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}
    told = b"data: " + json.dumps({"id": "x", "choices": [], "usage": usage}).encode() + b"\n\n"
    pieces = list(openai_events([TextDelta("fine")], Stop("end")))
    text, turn, asked = await run(Reply([*pieces[:-1], told, pieces[-1]]))
    assert (text, asked) == ("fine", 1)
    assert turn is not None
    assert turn.usage is None


async def test_an_answer_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "MOST_STREAMED", 100_000)
    pieces = list(openai_events([TextDelta("y" * 10_000)] * 20, Stop("end")))
    text, turn, asked = await run(Reply(pieces))
    assert "does not end" in text
    assert (turn, asked) == (None, 2)
