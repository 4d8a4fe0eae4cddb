"""AutoGen: an assistant rebuilt from its saved state for each turn."""

import json
from collections.abc import AsyncIterator
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
)
from working import ARGUMENTS, Histories, Work, main, waves

NOTHING = RequestUsage(prompt_tokens=0, completion_tokens=0)


class Scripted(ChatCompletionClient):
    """The scripted model."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def create_stream(self, messages: Any, **_: Any) -> AsyncIterator[str | CreateResult]:
        """The pieces of one completion, then all of it."""
        pieces = self._work.pieces()
        for piece in pieces:
            yield piece
        text = "".join(pieces)
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            yield CreateResult(finish_reason="stop", content=text, usage=NOTHING, cached=False)
            return
        call = FunctionCall(id=self._work.call_id(), arguments=ARGUMENTS, name="run_command")
        yield CreateResult(
            finish_reason="function_calls", content=[call], usage=NOTHING, cached=False, thought=text
        )

    async def create(self, *_: Any, **__: Any) -> CreateResult:
        """It is asked to stream."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is held."""

    def actual_usage(self) -> RequestUsage:
        """None."""
        return NOTHING

    total_usage = actual_usage

    def count_tokens(self, *_: Any, **__: Any) -> int:
        """None."""
        return 0

    remaining_tokens = count_tokens

    @property
    def capabilities(self) -> Any:
        """What it can do."""
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        """What it can do."""
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
        )


async def run(work: Work) -> dict[str, Any]:
    """The work."""
    kept, model = Histories(work.folder / "states.db"), Scripted(work)

    async def run_command(command: str) -> str:  # noqa: ARG001
        """Run a command and give what it prints."""
        return work.output()

    async def turn(agent: int, number: int) -> None:
        assistant = AssistantAgent(
            "bencher", model, tools=[run_command], model_client_stream=True, reflect_on_tool_use=True
        )
        state = kept.get(f"agent-{agent}")
        if state:
            await assistant.load_state(json.loads(state))
        async for _ in assistant.run_stream(task=work.said(agent, number)):
            pass
        kept.put(f"agent-{agent}", json.dumps(await assistant.save_state()))

    return await waves(work, turn)


if __name__ == "__main__":
    main(run)
