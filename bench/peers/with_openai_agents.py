"""OpenAI Agents SDK: streamed runs with its SQLite session, one for each turn."""

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)
from working import ARGUMENTS, Work, main, waves


class Scripted(Model):
    """The scripted model."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """It is asked to stream."""
        raise NotImplementedError

    async def stream_response(self, system: Any, input: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: A002, ARG002
        """The events of one completion."""
        pieces, id = self._work.pieces(), self._work.call_id()
        for number, piece in enumerate(pieces):
            yield ResponseTextDeltaEvent(
                content_index=0, delta=piece, item_id=id, logprobs=[], output_index=0,
                sequence_number=number, type="response.output_text.delta",
            )  # fmt: skip
        text = ResponseOutputText(annotations=[], text="".join(pieces), type="output_text")
        words = ResponseOutputMessage(
            id=id, content=[text], role="assistant", status="completed", type="message"
        )
        output: list[Any] = [words]
        told = not isinstance(input, str) and input[-1].get("type") == "function_call_output"
        if not told:
            call = ResponseFunctionToolCall(
                arguments=ARGUMENTS, call_id=id, name="run_command", type="function_call"
            )
            output.append(call)
        response = Response(
            id=id, created_at=0, model="scripted", object="response", output=output,
            parallel_tool_calls=False, tool_choice="auto", tools=[],
        )  # fmt: skip
        yield ResponseCompletedEvent(
            response=response, sequence_number=len(pieces), type="response.completed"
        )


async def run(work: Work) -> dict[str, Any]:
    """The work."""
    set_tracing_disabled(True)

    @function_tool
    async def run_command(command: str) -> str:  # noqa: ARG001
        """Run a command and give what it prints."""
        return work.output()

    bencher = Agent("bencher", model=Scripted(work), tools=[run_command])
    path = work.folder / "sessions.db"

    async def turn(agent: int, number: int) -> None:
        session = SQLiteSession(f"agent-{agent}", path)
        result = Runner.run_streamed(bencher, work.said(agent, number), session=session)
        async for _ in result.stream_events():
            pass
        session.close()

    return await waves(work, turn)


if __name__ == "__main__":
    main(run)
