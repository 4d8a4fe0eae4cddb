"""Pydantic AI: an agent run with the history that was stored, which is stored again after each turn."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from working import ARGUMENTS, Histories, Work, main, waves


async def run(work: Work) -> dict[str, Any]:
    """The work."""
    kept = Histories(work.folder / "histories.db")

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:  # noqa: ARG001
        for piece in work.pieces():
            yield piece
        last = messages[-1]
        if not (isinstance(last, ModelRequest) and isinstance(last.parts[-1], ToolReturnPart)):
            yield {0: DeltaToolCall(name="run_command", json_args=ARGUMENTS, tool_call_id=work.call_id())}

    agent = Agent(FunctionModel(stream_function=stream))

    @agent.tool_plain
    async def run_command(command: str) -> str:  # noqa: ARG001
        """Run a command and give what it prints."""
        return work.output()

    async def seen(_: Any, events: Any) -> None:
        async for _event in events:
            pass

    async def turn(number: int, place: int) -> None:
        body = kept.get(f"agent-{number}")
        history = ModelMessagesTypeAdapter.validate_json(body) if body else None
        done = await agent.run(work.said(number, place), message_history=history, event_stream_handler=seen)
        kept.put(f"agent-{number}", done.all_messages_json())

    return await waves(work, turn)


if __name__ == "__main__":
    main(run)
